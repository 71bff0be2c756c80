"""A product with scores of position added to it, and softmax: the fused kernel with a mask that is never whole.

*By offset.* Where all that is added, and what is forbidden, depends on the offset j - i alone (`Alibi`, `RelativeBias`,
a band), the mask is a table with one entry for each of the m + n - 1 offsets. With the queries turned round, the
entry of a cell is the table's at row + column: the whole (m, n) mask is then a view of the table with strides
(1, 1), which costs nothing to make, to hold or to read.

*By cell.* Otherwise a tile of rows has its own mask, made when it is needed. Either way a tile is given only the keys
that some row of it may see, so that a causal or local bias costs what it sees.

PyTorch's kernel gives no gradient of its mask. Where the bias learns, the backward pass makes the weights again, a
tile at a time, and reduces the mask's gradient to what the scores of position learn.

Axes: `b` batch and `h` heads (any batch axes, made two), `m` queries, `n` keys, `k` = m + n - 1 offsets, `d` width.
"""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from regard.core import compiling, fused
from regard.core.bed import Bed
from regard.core.bias import Bias, Positional
from regard.core.call import Ready
from regard.core.compare import Product
from regard.core.offsets import has_offsets, summed
from regard.core.score import Score, Sum
from regard.core.twice import again

ROWS = 256
"""Rows of a tile, about."""


class Tile(NamedTuple):
    """The size of a tile in which the weights are made again."""

    heads: int
    rows: int
    columns: int


BACK = Tile(4, 256, 512)
"""Large enough for its products to be quick, small enough for a core's cache."""


class Parts(NamedTuple):
    """A score taken apart: one product, its place among the terms, and the scores of position added to it."""

    product: Product
    place: int | None
    others: tuple[Positional, ...]


def parts(score: Score) -> Parts | None:
    """The parts of a score that this kernel computes; None for any other score."""
    if isinstance(score, Product):
        return Parts(score, None, ())
    if not isinstance(score, Sum):
        return None
    products = [(term, place) for place, term in enumerate(score.terms) if isinstance(term, Product)]
    others = tuple(term for term in score.terms if isinstance(term, Positional))
    if len(products) != 1 or len(others) + 1 != len(score.terms):
        return None
    return Parts(*products[0], others)


def output(ready: Ready) -> Float[Tensor, "*batch m d_v"]:
    """The output of a call whose score has parts, with softmax and nothing after it."""
    taken, share, cells = parts(ready.call.score), ready.share, ready.cells
    if taken is None or ready.value is None:
        raise TypeError(f"the biased kernel does not compute {ready.call.score!r}")
    own: Any = share if taken.place is None else share[taken.place]
    sides = taken.product.sides(ready.query, own, cells)
    wide = ready.value.shape[-1]
    query, key, value = fused.alike(sides.query, sides.key, ready.value, cells.batch)
    where, places = fused.simplified(ready.call.where, cells), tuple(_learning(taken.others))
    turned = where.is_band() and has_offsets(cells) and all(term.by_offset for term in taken.others)
    bed = Bed(taken.others, where, cells, query, turned and query.device.type == "cpu", places)
    learned = [getattr(taken.others[number], name) for number, name in places]
    query = query.flip(-2) if bed.turned else query
    if query.device.type != "cpu":
        mask = bed.mask(slice(None), slice(None), None)
        found = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=sides.scale)
    elif fused.learns(query, key, value, *learned):
        found = _Biased.apply(query, key, value, bed, sides.scale, *learned)  # type: ignore[no-untyped-call]
    else:
        found = _forward(query, key, value, bed, sides.scale)[0]
    found = found.flip(-2) if bed.turned else found
    found = found.to(torch.float16) if ready.query.dtype is torch.float16 else found
    return found.reshape(*cells.batch, *found.shape[-2:])[..., :wide]


def _learning(terms: tuple[Positional, ...]) -> Iterator[tuple[int, str]]:
    for number, term in enumerate(terms):
        for name, tensor in (*term.named_parameters(), *term.named_buffers()):
            if tensor.requires_grad:
                yield number, name


def _forward(query: Tensor, key: Tensor, value: Tensor, bed: Bed, scale: float) -> tuple[Tensor, Tensor]:
    """The output, and the logarithm of each row's sum."""
    found = torch.zeros_like(query)
    total = query.new_zeros(query.shape[:3], dtype=torch.promote_types(query.dtype, torch.float32))
    with torch.no_grad():
        source = bed.source()
        for rows, columns in bed.tiles(ROWS):
            if columns.start == columns.stop:
                continue  # the kernel divides by the number of keys
            mask = bed.mask(rows, columns, source)
            q, k, v = query[:, :, rows], key[:, :, columns], value[:, :, columns]
            made = fused.forward(q, k, v, 0.0, False, attn_mask=mask, scale=scale)
            found[:, :, rows], total[:, :, rows] = made
    return found, total


class _Biased(torch.autograd.Function):
    """The tiles, with the gradients of both sides, the values and what the scores of position learn."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, bed: Bed, scale: float, *learned: Tensor
    ) -> Tensor:
        found, total = _forward(query, key, value, bed, scale)
        ctx.save_for_backward(query, key, value, found, total, *learned)
        ctx.bed, ctx.scale = bed, scale
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, found, total, *learned = ctx.saved_tensors
        needs = (*ctx.needs_input_grad[:3], *ctx.needs_input_grad[5:])
        if torch.is_grad_enabled():
            plain = partial(_as_table, ctx.bed, ctx.scale)
            each = list(again(plain, (query, key, value, *learned), needs, gradients[0]))
        elif learned:
            each = list(_learnt(query, key, value, found, total, gradients[0], ctx.bed, ctx.scale, learned))
        else:
            each = list(_backward(query, key, value, found, total, gradients[0], ctx.bed, ctx.scale))
        return *each[:3], None, None, *each[3:]


def _as_table(bed: Bed, scale: float, query: Tensor, key: Tensor, value: Tensor, *learned: Tensor) -> Tensor:
    everything = slice(0, query.shape[2]), slice(0, key.shape[2])
    return fused.as_table(query, key, value, bed.mask(*everything, bed.source(learned), learned), scale=scale)


def _backward(
    query: Tensor, key: Tensor, value: Tensor, found: Tensor, total: Tensor, slope: Tensor, bed: Bed, scale: float
) -> Iterator[Tensor]:
    """The gradients of query, key and value under a mask that learns nothing, by PyTorch's kernel."""
    sides = (torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value))
    source = bed.source()
    for rows, columns in bed.tiles(ROWS):
        if columns.start == columns.stop:
            continue
        here, there = (slice(None), slice(None), rows), (slice(None), slice(None), columns)
        made = fused.backward(
            *(slope[here], query[here], key[there], value[there], found[here], total[here], 0.0, False),
            attn_mask=bed.mask(rows, columns, source),
            scale=scale,
        )
        for side, place, part in zip(sides, (here, there, there), made, strict=True):
            side[place] += part
    yield from sides


def _learnt(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    found: Tensor,
    total: Tensor,
    slope: Tensor,
    bed: Bed,
    scale: float,
    learned: list[Tensor],
) -> Iterator[Tensor]:
    """The gradients of query, key, value and of what is learned, a tile of rows, columns and heads at a time."""
    b, h, _, _ = query.shape
    asked, each = query * scale, (slope * found).sum(-1, dtype=total.dtype)
    sides = (torch.zeros_like(asked), torch.zeros_like(key), torch.zeros_like(value))
    for_learned = [torch.zeros_like(tensor) for tensor in learned]
    with torch.enable_grad():
        source = bed.source(learned)
    for_source = None if source is None else torch.zeros_like(source)
    for rows, seen in bed.tiles(BACK.rows):
        for tile in _cut(rows, seen):
            with torch.enable_grad():
                mask = bed.mask(*tile, source, learned)
            own = _own_cells(bed, tile, mask, for_learned)
            steep_mask = mask.new_zeros(mask.shape) if own is None else own
            for example, head in itertools.product(range(b), range(0, h, BACK.heads)):
                some = slice(head, head + BACK.heads)
                here, there = (example, some, tile[0]), (example, some, tile[1])
                under = (min(example, mask.shape[0] - 1), some if mask.shape[1] > 1 else slice(0, 1))
                q, g, k, v = asked[here], slope[here], key[there], value[there]
                weights, steep = _weights(
                    torch.bmm(q, k.mT), torch.bmm(g, v.mT), mask.detach()[under], total[here], each[here]
                )
                sides[0][here].baddbmm_(steep, k)
                sides[1][there].baddbmm_(steep.mT, q)
                sides[2][there].baddbmm_(weights.mT, g)
                steep_mask[under] += steep if len(mask[under]) == len(steep) else steep.sum(0, keepdim=True)
            if own is not None:
                continue
            if for_source is None:
                _reduce(bed, mask, steep_mask, tile, learned, for_learned)
            else:
                found_here = summed(steep_mask[0])
                start = tile[0].start + tile[1].start
                for_source[:, start : start + found_here.shape[-1]] += found_here
    if source is not None:
        for_learned = list(torch.autograd.grad(source, learned, for_source))
    sides[0].mul_(scale)
    yield from sides
    yield from for_learned


def _cut(rows: slice, columns: slice) -> Iterator[tuple[slice, slice]]:
    """Tiles of at most `BACK`."""
    for top in range(rows.start, rows.stop, BACK.rows):
        for begin in range(columns.start, columns.stop, BACK.columns):
            bottom, end = min(top + BACK.rows, rows.stop), min(begin + BACK.columns, columns.stop)
            yield slice(top, bottom), slice(begin, end)


def _own_cells(bed: Bed, tile: tuple[slice, slice], mask: Tensor, into: list[Tensor]) -> Tensor | None:
    """The gradient's own cells, where all that learns is one tensor of the mask's shape: nothing is to be reduced."""
    if len(bed.places) != 1 or len(bed.cells.batch) != 2 or not isinstance(bed.terms[bed.places[0][0]], Bias):
        return None
    cells = bed.cells.part(*tile).cut(into[0])
    cells = cells[(None,) * (mask.ndim - cells.ndim)]
    return cells if cells.shape == mask.shape and cells.dtype == mask.dtype else None


def _reduce(
    bed: Bed, mask: Tensor, slope: Tensor, tile: tuple[slice, slice], learned: list[Tensor], into: list[Tensor]
) -> None:
    """Adds what a tile's cells teach. A tensor of the call's own cells gets it in place, others through their graph."""
    whole = [isinstance(bed.terms[number], Bias) for number, _ in bed.places]
    others = [number for number, is_whole in enumerate(whole) if not is_whole]
    if others:
        found = torch.autograd.grad(mask, [learned[number] for number in others], slope)
        for number, gradient in zip(others, found, strict=True):
            into[number] += gradient
    part, batch = bed.cells.part(*tile), bed.cells.batch
    axes = batch if len(batch) > 2 and slope.shape[:2] != (1, 1) else slope.shape[: min(len(batch), 2)]
    flat = slope.reshape(*axes, *slope.shape[-2:])
    for number, is_whole in enumerate(whole):
        if is_whole:
            cells = part.cut(into[number])
            cells += flat.reshape(*(1,) * (cells.ndim - flat.ndim), *flat.shape).sum_to_size(cells.shape)


def _weights(scores: Tensor, other: Tensor, mask: Tensor, total: Tensor, each: Tensor) -> tuple[Tensor, Tensor]:
    """The weights of a tile, and the gradient of its scores."""
    kernel = _STEEP if compiling.worthwhile(scores.numel(), scores.device) else _steep
    weights, steep = kernel(scores, other, mask, total, each)
    return weights, steep


def _steep(scores: Tensor, other: Tensor, mask: Tensor, total: Tensor, each: Tensor) -> tuple[Tensor, Tensor]:
    weights = torch.exp(scores + mask - total[..., None])
    return weights.to(scores.dtype), (weights * (other - each[..., None])).to(scores.dtype)


_STEEP = compiling.Compiled(_steep, (7, 257, 521), (7, 257, 521), (7, 257, 521), (7, 257), (7, 257))
