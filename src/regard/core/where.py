"""Where a query may look: predicates over positions, composed with `&`, `|` and `~`.

`True` means *may look*, everywhere, always. A predicate sees positions, not sizes: row `i` of a call stands
at `first + i`, column `j` at `j` (see `cells.py` for the axes). A predicate may carry tensors; a tensor with
batch axes has exactly as many as the call.

    causal & window(255)            the present and the 255 keys before it
    causal | prefix(7)              a visible prefix, the rest causal
    lengths(n) & ~given(forbidden)  keys within each example's length, without those listed
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn, final

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.core.cells import Cells


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

    def block(self) -> int | None:
        """The size of the blocks, counted from position 0, outside of which nothing is allowed; None without them."""
        return None

    def period(self) -> int | None:
        """By how much query and key may move together and change nothing, as by any number in a band; or None."""
        return 1 if self.is_band() else None

    def parts(self) -> Sequence[tuple[slice, slice]] | None:
        """Rows and columns of a call outside of which nothing is allowed, one part behind the other; or None."""
        return None

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


class _And(Where):
    def __init__(self, left: Where, right: Where) -> None:
        self.left, self.right = left, right
        self.by_cell = left.by_cell and right.by_cell

    def band(self) -> Band:
        one, other = self.left.band(), self.right.band()
        return Band(_narrower(one.left, other.left), _narrower(one.right, other.right))

    def is_band(self) -> bool:
        return self.left.is_band() and self.right.is_band()

    def block(self) -> int | None:
        return _narrower(self.left.block(), self.right.block())

    def parts(self) -> Sequence[tuple[slice, slice]] | None:
        return self.left.parts() or self.right.parts()

    def period(self) -> int | None:
        return _common(self.left.period(), self.right.period())

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

    def period(self) -> int | None:
        return _common(self.left.period(), self.right.period())

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

    def period(self) -> int | None:
        return self.inner.period()

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


def _common(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else math.lcm(one, other)


def as_where(value: Any, name: str = "where") -> Where:
    """Checks that an argument is a predicate, and says what to do with a mask that is not."""
    if isinstance(value, Where):
        return value
    if isinstance(value, Tensor):
        raise TypeError(
            f"{name} must be a predicate, got a Tensor: wrap a mask in given(mask), lengths in lengths(tensor)"
        )
    hint = ": call it with its sizes" if callable(value) else ""
    raise TypeError(f"{name} must be a predicate such as everywhere, causal or window(3), got {value!r}{hint}")
