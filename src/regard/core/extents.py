"""Predicates that are made with sizes or tensors: windows, blocks, prefixes, lengths, masks, packed sequences.

See `where.py` for what a predicate is, and how they are composed.
"""

import itertools
from collections.abc import Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.core.cells import Cells
from regard.core.errors import Misfit, integers, whole
from regard.core.where import Band, Where


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

    def block(self) -> int | None:
        return self.size

    def period(self) -> int | None:
        return self.size

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


class _Packed(Where):
    by_cell = True

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes

    def parts(self) -> Sequence[tuple[slice, slice]]:
        ends = list(itertools.accumulate(self.sizes))
        pieces = [slice(end - size, end) for size, end in zip(self.sizes, ends, strict=True) if size]
        return [(piece, piece) for piece in pieces]

    def allowed(self, cells: Cells) -> Bool[Tensor, "m n"]:
        rows, columns = cells.call or (cells.rows, cells.columns)
        total = sum(self.sizes)
        if not rows == columns == total:
            raise Misfit(f"{self!r} holds {total} positions, but the call has {rows} queries and {columns} keys")
        number = torch.repeat_interleave(torch.tensor(self.sizes, device=cells.device))
        row, column = number[cells.row :][: cells.rows], number[cells.column :][: cells.columns]
        return row[:, None] == column[None, :]

    def __repr__(self) -> str:
        return f"packed({len(self.sizes)} sequences)"


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


def packed(lengths: Sequence[int]) -> Where:
    """The keys of the query's own sequence, where several lie one behind the other, without padding.

    Each sequence is computed alone, so that no time goes into the others. `packed(sizes) & causal` is a batch of
    language modelling: within a sequence, later stays later.

    Args:
        lengths: The length of each sequence; together they are the queries, and the keys, of the call.

    >>> from regard.core import packed, weights
    >>> import torch
    >>> weights(torch.zeros(3, 1), torch.zeros(3, 1), where=packed([1, 2]))
    tensor([[1.0000, 0.0000, 0.0000],
            [0.0000, 0.5000, 0.5000],
            [0.0000, 0.5000, 0.5000]])
    """
    return _Packed(tuple(whole(size, "packed: a length", least=0) for size in lengths))


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
