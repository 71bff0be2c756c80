"""Product scores within a band: windows and blocks cost what they see.

The queries are cut into blocks, and each block is given the keys of its own band only, so that the cost grows with
the length times the width of the band and not with the length squared. The keys are not copied: the blocks' keys
overlap in memory, and their gradients are added up.

    queries     [ block 0 ][ block 1 ][ block 2 ] …
    keys   [ before ][ block 0 ]                        `left` before, `right` after
                [ before ][ block 1 ]

Axes: `b` batch and heads as one, `blocks`, `r` rows of a block, `w` keys of a block's band, `d` width.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from regard.core import fused
from regard.core.call import Ready
from regard.core.cells import Cells
from regard.core.compare import Product
from regard.core.where import Where

ROWS = 128
"""Queries of a block, about."""


class Band(NamedTuple):
    """How a call is cut: the rows of a block, and how far keys reach before its first and after its last row."""

    rows: int
    left: int
    right: int

    @property
    def width(self) -> int:
        """The keys of a block."""
        return self.rows + self.left + self.right


def band(where: Where, cells: Cells) -> Band | None:
    """How a call with this predicate is cut; None where that would not pay, or is not known."""
    if not isinstance(cells.first, int) or not where.by_cell or cells.rows < 2 * ROWS:
        return None
    left, right = where.band()
    size = where.block()
    if size is not None and cells.first % size == 0:
        found = Band(size * max(ROWS // size, 1), -cells.first, cells.first)
    elif left is not None and right is not None:
        found = Band(ROWS, left - cells.first, right + cells.first)
    else:
        return None
    return found if 2 * found.width <= cells.columns else None


def output(ready: Ready) -> Float[Tensor, "*batch m d_v"]:
    """The output of a call whose score is one product, with softmax, within a band."""
    call, cells = ready.call, ready.cells
    product, cut = call.score, band(call.where, cells)
    if not isinstance(product, Product) or cut is None or ready.value is None:
        raise TypeError(f"the banded kernel does not compute {product!r} within {call.where!r}")
    sides = product.sides(ready.query, ready.share, cells)
    blocks = math.ceil(cells.rows / cut.rows)
    query = functional.pad(_three(sides.query, cells.batch), (0, 0, 0, blocks * cut.rows - cells.rows))
    query = query.reshape(-1, blocks, cut.rows, query.shape[-1])
    key, value = (_windows(_three(tensor, cells.batch), cut, blocks) for tensor in (sides.key, ready.value))
    found = []
    for some, mask in _groups(call.where, cells, cut, blocks, query.dtype):
        q, k, v = query[:, some], key[:, some], value[:, some]
        found.append(fused.computed(q, k, v, tuple(q.shape[:2]), sides.scale, mask=mask))
    whole = torch.cat(found, 1).flatten(1, 2)[:, : cells.rows]
    return whole.reshape(*cells.batch, cells.rows, whole.shape[-1])


def _three(tensor: Tensor, batch: tuple[int, ...]) -> Tensor:
    return tensor.expand(*batch, *tensor.shape[-2:]).reshape(math.prod(batch), *tensor.shape[-2:])


def _windows(vectors: Float[Tensor, "b n d"], cut: Band, blocks: int) -> Float[Tensor, "b blocks w d"]:
    """The keys of each block: views that overlap."""
    length = (blocks - 1) * cut.rows + cut.width
    padded = functional.pad(vectors, (0, 0, cut.left, length - cut.left - vectors.shape[1]))  # below 0 it cuts off
    found: Tensor = _Overlapping.apply(padded.contiguous(), cut.rows, blocks, cut.width)  # type: ignore[no-untyped-call]
    return found


class _Overlapping(torch.autograd.Function):
    """Windows of `width` that begin every `rows`; backward adds up what overlaps."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, rows: int, blocks: int, width: int) -> Tensor:
        ctx.rows, ctx.length = rows, vectors.shape[1]
        b, _, d = vectors.shape
        return vectors.as_strided((b, blocks, width, d), (vectors.stride(0), rows * d, d, 1))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        slope, rows = gradients[0], ctx.rows
        b, blocks, width, d = slope.shape
        pieces = math.ceil(width / rows)
        total = slope.new_zeros(b, blocks + pieces, rows, d)
        for number in range(pieces):
            piece = slope[:, :, number * rows : (number + 1) * rows]
            total[:, number : number + blocks, : piece.shape[2]] += piece
        return total.flatten(1, 2)[:, : ctx.length], None, None, None


def _groups(
    where: Where, cells: Cells, cut: Band, blocks: int, dtype: torch.dtype
) -> Iterator[tuple[slice, Float[Tensor, "..."]]]:
    """Blocks that can be computed together, with their mask: those inside share one where the predicate repeats."""
    period = where.period()
    if period is None or cut.rows % period:
        each = [_allowed(where, cells, cut, number) for number in range(blocks)]
        most = max(mask.shape[0] for mask in each)
        yield slice(None), fused.additive_mask(torch.stack([mask.expand(most, -1, -1) for mask in each], -3), dtype)
        return
    first = min(math.ceil(max(cut.left, 0) / cut.rows), blocks)
    last = (min(cells.columns + cut.left - cut.width, cells.rows - cut.rows) // cut.rows) + 1
    inside = slice(first, max(first, min(last, blocks)))
    for number in range(inside.start):
        yield (
            slice(number, number + 1),
            fused.additive_mask(_allowed(where, cells, cut, number)[..., None, :, :], dtype),
        )
    if inside.stop > inside.start:
        yield inside, fused.additive_mask(_allowed(where, cells, cut, inside.start)[..., None, :, :], dtype)
    for number in range(inside.stop, blocks):
        yield (
            slice(number, number + 1),
            fused.additive_mask(_allowed(where, cells, cut, number)[..., None, :, :], dtype),
        )


def _allowed(where: Where, cells: Cells, cut: Band, number: int) -> Bool[Tensor, "#b r w"]:
    """What the rows of a block may see of its keys; nothing where there is no row or no key."""
    top, begin = number * cut.rows, number * cut.rows - cut.left
    rows = slice(top, min(top + cut.rows, cells.rows))
    columns = slice(min(max(begin, 0), cells.columns), max(min(begin + cut.width, cells.columns), 0))
    part = cells.part(rows, columns)
    if not part.columns:  # past the last key, or before the first
        return torch.zeros(1, cut.rows, cut.width, dtype=torch.bool, device=cells.device)
    found = fused.allowed(where, part)
    if found.ndim > 2:
        found = _three(found.expand(*found.shape[:-2], part.rows, part.columns), cells.batch)
    else:
        found = found.expand(part.rows, part.columns)[None]
    before = columns.start - begin
    padding = (before, cut.width - before - part.columns, 0, cut.rows - part.rows)
    return functional.pad(found, padding)
