"""A gated unit along lines of different lengths, with its back-propagation through time written out.

The lines lie one position after the other, each position's rows in the order of the lines' lengths, longest first,
so that a step is the first rows of a state. As in `unrolled`, only the state goes through the steps; the matrices
get their gradients in one product afterwards.

Axes: `total` positions of all lines, `batch`, `w` the width of a state.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from regard.core.score import at_least_single
from regard.nn.gated import advance, kept_widths, plain_step, retreat


class Packing(NamedTuple):
    """Where the positions of padded lines go.

    Attributes:
        places: Of each packed row, its place in the padded lines laid one after the other.
        sizes: How many lines reach each position.
        order: The lines, longest first.
    """

    places: Int[Tensor, " total"]
    sizes: tuple[int, ...]
    order: Int[Tensor, " batch"]

    def rows(self, *, backward: bool) -> Iterator[slice]:
        """Each position's rows, from the first position or from the last."""
        ends = [sum(self.sizes[: t + 1]) for t in range(len(self.sizes))]
        spans = [slice(end - size, end) for end, size in zip(ends, self.sizes, strict=True)]
        return reversed(spans) if backward else iter(spans)


def packing(length: Int[Tensor, " batch"], longest: int) -> Packing:
    """The packing of lines that are padded to the same length; each is at least 1 long."""
    order = length.argsort(descending=True, stable=True)
    reached = torch.arange(longest, device=length.device)[:, None] < length[order]
    places = order * longest + torch.arange(longest, device=length.device)[:, None]
    return Packing(places[reached], tuple(size for size in reached.sum(1).tolist() if size), order)


class Weights(NamedTuple):
    """What a unit learns, beside its share of the input.

    Attributes:
        recurrent: The matrix of r and z, and of s̃ where the reset gate acts after it.
        inner: The matrix of s̃ where the reset gate acts before it.
        bias: The bias of s̃'s matrix where the reset gate acts after it.
    """

    recurrent: Float[Tensor, "_ w"]
    inner: Float[Tensor, "w w"] | None
    bias: Float[Tensor, " w"] | None


def along(
    packing: Packing, shares: Float[Tensor, "total three_widths"], weights: Weights, *, backward: bool
) -> tuple[Float[Tensor, "total w"], Float[Tensor, "batch w"]]:
    """The states of one direction, packed, and each line's last, in the packing's order. They start at 0.

    Args:
        packing: Where the lines are.
        shares: The input's share of the unit, packed, in the order s̃, r, z.
        weights: The unit's.
        backward: Whether it goes from each line's end to its beginning.
    """
    states, last = _Along.apply(packing, backward, shares, *weights)  # type: ignore[no-untyped-call]
    return states, last


class _Along(torch.autograd.Function):
    """The loop; a second derivative goes the plain way.

    Products are in the type of the shares, the rest is in float32 at least.
    """

    @staticmethod
    def forward(
        ctx: Any,
        packing: Packing,
        backward: bool,
        shares: Tensor,
        recurrent: Tensor,
        inner: Tensor | None,
        bias: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        kind, wide, width = shares.dtype, at_least_single(shares.dtype), recurrent.shape[-1]
        ctx.packing, ctx.backward_direction = packing, backward
        with torch.autocast(shares.device.type, enabled=False):
            low, low_inner = recurrent.to(kind), None if inner is None else inner.to(kind)
            full = _full(bias, low)
            before, states = shares.new_empty(2, len(shares), width, dtype=wide)
            kept = before.new_empty(len(shares), kept_widths(inner) * width)
            last = before.new_zeros(packing.sizes[0], width)
            product = low.new_empty(len(last), len(low))
            for rows in packing.rows(backward=backward):
                size = rows.stop - rows.start
                before[rows] = last[:size]
                torch.addmm(full, before[rows].to(kind), low.mT, out=product[:size])
                advance(shares[rows], product[:size], before[rows], low_inner, kept[rows], last[:size])
                states[rows] = last[:size]
        ctx.save_for_backward(shares, recurrent, inner, bias, before, kept)
        ctx.set_materialize_grads(False)
        return states, last

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor | None) -> tuple[Tensor | None, ...]:
        shares, recurrent, inner, bias, before, kept = ctx.saved_tensors
        with torch.autocast(shares.device.type, enabled=False):
            if torch.is_grad_enabled():
                return None, None, *_again(ctx, slopes)
            kind, width = shares.dtype, recurrent.shape[-1]
            low, low_inner = recurrent.to(kind), None if inner is None else inner.to(kind)
            row = before.new_empty(len(shares), width + len(low), dtype=kind)
            carried = before.new_zeros(ctx.packing.sizes[0], width)
            if slopes[1] is not None:
                carried += slopes[1]
            product = carried.new_empty(len(carried), width, dtype=kind)
            for rows in ctx.packing.rows(backward=not ctx.backward_direction):
                size = rows.stop - rows.start
                state = carried[:size]
                if slopes[0] is not None:
                    state += slopes[0][rows]
                direct = retreat(state, before[rows], low_inner, kept[rows], row[rows])
                torch.mm(row[rows, width:], low, out=product[:size])
                torch.add(direct, product[:size], out=state)
            for_inner = for_bias = None
            if inner is not None:
                for_inner = row[:, :width].mT @ (kept[:, width : 2 * width] * before).to(kind)
            if bias is not None:
                for_bias = row[:, 3 * width :].sum(0, dtype=before.dtype)
            return None, None, row[:, : 3 * width], row[:, width:].mT @ before.to(kind), for_inner, for_bias


def _full(bias: Tensor | None, recurrent: Tensor) -> Tensor:
    """The bias of the product with the state: 0 but for s̃'s."""
    if bias is None:
        return recurrent.new_zeros(len(recurrent))
    return functional.pad(bias.to(recurrent.dtype), (len(recurrent) - len(bias), 0))


def _again(ctx: Any, slopes: tuple[Tensor | None, ...]) -> list[Tensor | None]:
    """The gradients with theirs. Each input is taken anew, since one may have been made from another."""
    anew: list[Any] = [None if tensor is None else tensor.view_as(tensor) for tensor in ctx.saved_tensors[:4]]
    needed = ctx.needs_input_grad[2:]
    made = zip(_plain(ctx.packing, ctx.backward_direction, *anew), slopes, strict=True)
    outputs, given = zip(*((output, slope) for output, slope in made if slope is not None), strict=True)
    wanted = [tensor for tensor, need in zip(anew, needed, strict=True) if need and tensor is not None]
    found = iter(torch.autograd.grad(outputs, wanted, given, create_graph=True, allow_unused=True))
    return [next(found) if need else None for need in needed]


def _plain(
    packing: Packing, backward: bool, shares: Tensor, recurrent: Tensor, inner: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The same steps, recorded one by one."""
    wide = at_least_single(shares.dtype)
    recurrent, inner = recurrent.to(wide), None if inner is None else inner.to(wide)
    last = shares.new_zeros(packing.sizes[0], recurrent.shape[-1], dtype=wide)
    full, states = _full(bias, recurrent), {}
    for rows in packing.rows(backward=backward):
        size = rows.stop - rows.start
        state = plain_step(shares[rows], last[:size] @ recurrent.mT + full, last[:size], inner)
        states[rows.start] = state
        last = torch.cat([state, last[size:]])
    return torch.cat([states[start] for start in sorted(states)]), last
