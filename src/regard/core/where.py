"""Where a query may look: predicates over positions, composed with `&`, `|` and `~`.

`True` means *may look*, everywhere, always. A predicate sees positions, not sizes: row `i` of a call stands
at `first + i`, column `j` at `j` (see `cells.py` for the axes). A predicate may carry tensors; a tensor with
batch axes has exactly as many as the call.

    causal & window(255)            the present and the 255 keys before it
    causal | prefix(7)              a visible prefix, the rest causal
    lengths(n) & ~given(forbidden)  keys within each example's length, without those listed
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, NoReturn, final

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.core.cells import Cells
from regard.core.errors import Misfit, integers, whole


class Band(NamedTuple):
    """Offsets j - i of a key from its query, from `-left` to `right`; None is no bound."""

    left: int | None
    right: int | None


class Where(ABC):
    """A predicate: which cells of a call are allowed. To write one's own, define `allowed`.

    A kernel may ask for some rows and columns of a call alone. A predicate that answers by
    `cells.row_position` and `cells.column_position`, and passes tensors of its own through `cells.cut`, can
    say so with `by_cell = True`; others are asked for all cells at once.
    """

    by_cell: bool = False

    @abstractmethod
    def allowed(self, cells: Cells) -> Bool[Tensor, "*_ _ _"]:
        """The allowed cells, in a shape that broadcasts to (*batch, m, n)."""

    def band(self) -> Band:
        """Offsets outside of which nothing is allowed; what lies inside need not be."""
        return Band(None, None)

    def is_band(self) -> bool:
        """Whether all of the band is allowed."""
        return False

    def per_head(self, batch_axes: int) -> "Where":
        """The same predicate for a call that has one more batch axis, heads, after `batch_axes` others.

        A predicate that carries tensors with batch axes inserts an axis of size 1; others return themselves.
        """
        del batch_axes
        return self

    @final
    def __and__(self, other: "Where") -> "Where":
        other = _predicate(other, "&")
        if self is everywhere:
            return other
        return self if other is everywhere else _And(self, other)

    @final
    def __or__(self, other: "Where") -> "Where":
        other = _predicate(other, "|")
        return everywhere if everywhere in (self, other) else _Or(self, other)

    @final
    def __invert__(self) -> "Where":
        return _Not(self)

    @final
    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self!r} has no truth value: compose predicates with &, | and ~, not with and, or and not")


def _predicate(other: object, sign: str) -> Where:
    if isinstance(other, Where):
        return other
    remedy = "wrap a mask in given(mask)" if isinstance(other, Tensor) else "both sides must be predicates"
    raise TypeError(f"a predicate {sign} a {type(other).__name__}: {remedy}")


class _Everywhere(Where):
    """Every key, for every query."""

    by_cell = True

    def is_band(self) -> bool:
        return True

    def allowed(self, cells: Cells) -> Bool[Tensor, "1 1"]:
        return torch.ones(1, 1, dtype=torch.bool, device=cells.device)

    def __repr__(self) -> str:
        return "everywhere"

    def __reduce__(self) -> str:
        return "everywhere"  # one object, also after copying or pickling: it is compared with `is`


class _Causal(Where):
    """The keys at or before the query's own position."""

    by_cell = True

    def band(self) -> Band:
        return Band(None, 0)

    def is_band(self) -> bool:
        return True

    def allowed(self, cells: Cells) -> Bool[Tensor, "*_ m n"]:
        return cells.column_position <= cells.row_position

    def __repr__(self) -> str:
        return "causal"


everywhere = _Everywhere()
causal = _Causal()


class _Window(Where):
    by_cell = True

    def __init__(self, left: int | None, right: int | None) -> None:
        self.left, self.right = left, right

    def band(self) -> Band:
        return Band(self.left, self.right)

    def is_band(self) -> bool:
        return True

    def allowed(self, cells: Cells) -> Bool[Tensor, "*_ m n"]:
        distance = cells.column_position - cells.row_position
        before = distance >= -self.left if self.left is not None else torch.ones_like(distance, dtype=torch.bool)
        return before & (distance <= self.right) if self.right is not None else before

    def __repr__(self) -> str:
        return f"window({self.left}, {self.right})"


class _Blocks(Where):
    by_cell = True

    def __init__(self, size: int) -> None:
        self.size = size

    def band(self) -> Band:
        return Band(self.size - 1, self.size - 1)

    def allowed(self, cells: Cells) -> Bool[Tensor, "*_ m n"]:
        return cells.row_position // self.size == cells.column_position // self.size

    def __repr__(self) -> str:
        return f"blocks({self.size})"


class _Prefix(Where):
    by_cell = True

    def __init__(self, size: int) -> None:
        self.size = size

    def allowed(self, cells: Cells) -> Bool[Tensor, "1 n"]:
        return cells.column_position < self.size

    def __repr__(self) -> str:
        return f"prefix({self.size})"


class _Lengths(Where):
    by_cell = True

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def allowed(self, cells: Cells) -> Bool[Tensor, "*_ 1 n"]:
        cells.fit(self.tensor.shape, (), "lengths")
        return cells.column_position < self.tensor[..., None, None]

    def per_head(self, batch_axes: int) -> Where:
        return _Lengths(_with_head_axis(self.tensor, batch_axes, 0, "lengths"))

    def __repr__(self) -> str:
        return f"lengths({tuple(self.tensor.shape)})"


class _Given(Where):
    by_cell = True

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def allowed(self, cells: Cells) -> Bool[Tensor, "*_ _ _"]:
        cells.fit(self.mask.shape, ("m", "n"), "the mask given")
        return cells.cut(self.mask)

    def per_head(self, batch_axes: int) -> Where:
        return _Given(_with_head_axis(self.mask, batch_axes, 2, "the mask given"))

    def __repr__(self) -> str:
        return f"given({tuple(self.mask.shape)})"


class _And(Where):
    def __init__(self, left: Where, right: Where) -> None:
        self.left, self.right = left, right
        self.by_cell = left.by_cell and right.by_cell

    def band(self) -> Band:
        one, other = self.left.band(), self.right.band()
        return Band(_narrower(one.left, other.left), _narrower(one.right, other.right))

    def is_band(self) -> bool:
        return self.left.is_band() and self.right.is_band()

    def allowed(self, cells: Cells) -> Bool[Tensor, "*_ _ _"]:
        return self.left.allowed(cells) & self.right.allowed(cells)

    def per_head(self, batch_axes: int) -> Where:
        return _And(self.left.per_head(batch_axes), self.right.per_head(batch_axes))

    def __repr__(self) -> str:
        return f"({self.left!r} & {self.right!r})"


class _Or(Where):
    def __init__(self, left: Where, right: Where) -> None:
        self.left, self.right = left, right
        self.by_cell = left.by_cell and right.by_cell

    def band(self) -> Band:
        one, other = self.left.band(), self.right.band()
        return Band(_wider(one.left, other.left), _wider(one.right, other.right))

    def allowed(self, cells: Cells) -> Bool[Tensor, "*_ _ _"]:
        return self.left.allowed(cells) | self.right.allowed(cells)

    def per_head(self, batch_axes: int) -> Where:
        return _Or(self.left.per_head(batch_axes), self.right.per_head(batch_axes))

    def __repr__(self) -> str:
        return f"({self.left!r} | {self.right!r})"


class _Not(Where):
    def __init__(self, inner: Where) -> None:
        self.inner = inner
        self.by_cell = inner.by_cell

    def allowed(self, cells: Cells) -> Bool[Tensor, "*_ _ _"]:
        return ~self.inner.allowed(cells)

    def per_head(self, batch_axes: int) -> Where:
        return _Not(self.inner.per_head(batch_axes))

    def __repr__(self) -> str:
        return f"~{self.inner!r}"


def _narrower(one: int | None, other: int | None) -> int | None:
    return min((bound for bound in (one, other) if bound is not None), default=None)


def _wider(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


def _with_head_axis(tensor: Tensor, batch_axes: int, after: int, name: str) -> Tensor:
    """Inserts the head axis into a tensor with `batch_axes` batch axes and `after` further ones."""
    axes = tensor.ndim - after
    if axes in (0, batch_axes + 1):
        return tensor
    if axes == batch_axes:
        return tensor.unsqueeze(-1 - after)
    raise Misfit(
        f"{name} has shape {tuple(tensor.shape)}, which is {axes} batch axes, "
        f"but the heads are called with {batch_axes}: give none of them, all {batch_axes} "
        f"(the same for every head), or {batch_axes + 1} with heads last"
    )


def window(left: int | None, right: int | None = 0) -> Where:
    """The keys from `left` before the query's own position to `right` after it, its own besides.

    `window(0)` is the own position alone; `window(2)` holds three keys, `window(2, 1)` four. None leaves a side
    without a bound: `window(None)` is `causal`.

    Raises:
        TypeError: if a bound is neither an int nor None.
        ValueError: if a bound is negative.

    >>> from regard.core import window, weights
    >>> import torch
    >>> weights(torch.zeros(4, 1), torch.zeros(4, 1), where=window(1))[3]
    tensor([0.0000, 0.0000, 0.5000, 0.5000])
    """
    for name, bound in (("left", left), ("right", right)):
        if bound is not None:
            whole(bound, f"window: {name}", least=0)
    return _Window(left, right)


def blocks(size: int) -> Where:
    """The keys in the query's own block, where positions are cut into blocks of `size` from 0.

    Raises:
        TypeError: if `size` is not an int.
        ValueError: if `size` is below 1.
    """
    return _Blocks(whole(size, "blocks: size", least=1))


def prefix(n: int) -> Where:
    """The keys at positions below `n`, for every query.

    `causal | prefix(n)` is the prefix language model.

    Raises:
        TypeError: if `n` is not an int (a length for each example is `lengths(tensor)`).
        ValueError: if `n` is negative.
    """
    if isinstance(n, Tensor):
        raise TypeError("prefix: n must be an int, got a Tensor: a length for each example is lengths(tensor)")
    return _Prefix(whole(n, "prefix: n", least=0))


def lengths(tensor: Tensor) -> Where:
    """The keys at positions below each example's length.

    Args:
        tensor: Integers with exactly the call's batch axes, or with none. In a call with heads, (batch,)
            becomes `lengths[:, None]`; `Heads` does that itself.

    Raises:
        TypeError: if it is not a tensor of integers.
    """
    return _Lengths(integers(tensor, "lengths: tensor"))


def given(mask: Tensor) -> Where:
    """A mask by row and column of this call, whatever their positions. True means *may look*.

    Args:
        mask: Booleans, (m, n) or (*batch, m, n); any axis may have size 1. One row for all queries of an
            example, as a padding mask is, has shape (batch, 1, n).

    Raises:
        TypeError: if it is not a tensor of booleans.
        ValueError: if it has fewer than two axes.
    """
    if not isinstance(mask, Tensor):
        raise TypeError(f"given: mask must be a tensor of booleans, got {type(mask).__name__}")
    if mask.dtype is not torch.bool:
        dtype = str(mask.dtype).removeprefix("torch.")
        remedy = (
            "an additive mask goes into the score: score + Bias(mask)" if mask.is_floating_point() else "use .bool()"
        )
        raise TypeError(f"given: mask must hold booleans, True where a query may look, got {dtype}: {remedy}")
    if mask.ndim < 2:
        raise ValueError(
            f"given: mask needs its last two axes to be (m, n), got shape {tuple(mask.shape)}: use mask[None, :]"
        )
    return _Given(mask)


def as_where(value: Any, name: str = "where") -> Where:
    """Checks that an argument is a predicate, and says what to do with a mask that is not."""
    if isinstance(value, Where):
        return value
    if isinstance(value, Tensor):
        raise TypeError(
            f"{name} must be a predicate, got a Tensor: wrap a mask in given(mask), lengths in lengths(tensor)"
        )
    hint = ": call it with its sizes" if value in (window, blocks, prefix, lengths, given) else ""
    raise TypeError(f"{name} must be a predicate such as everywhere, causal or window(3), got {value!r}{hint}")
