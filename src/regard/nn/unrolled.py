"""The training loop of a decoder that looks at every step, with its back-propagation through time written out.

    product_t = R s_{t-1} + b                          the unit's share and the query, one matrix
    c_t = Σ_j softmax_j(score(query_t, key_j)) note_j
    s_t = unit(share_t + C c_t, product_t, s_{t-1})

It computes what the same steps would, recorded one by one. Going back, only the state's gradient needs the steps in
turn; each matrix, the notes, the keys and the vector get theirs in one product over all steps afterwards. Products
are in the type of autocast, the state, the softmax and what is elementwise in float32 at least.

Axes: `m` steps, `batch`, `n` notes of width `d`, `w` the width of a state, `q` of a query.
"""

import dataclasses
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from regard.core import additive
from regard.core.score import at_least_single
from regard.nn.asked import Products, Sums
from regard.nn.gated import advance, kept_widths, plain_step, retreat


@dataclasses.dataclass(frozen=True)
class Plan:
    """What the loop is told beside the tensors that learn.

    Attributes:
        hidden: True for a note that may not be seen; None where all may.
        exponential: e^{2b} of an additive score's keys, if nothing in it can overflow.
        scale: The factor of a score that is a product.
    """

    hidden: Bool[Tensor, "batch n"] | None
    exponential: Float[Tensor, "batch n q"] | None
    scale: float


class Inputs(NamedTuple):
    """The tensors that learn.

    Attributes:
        shares: The words' share of the unit, in the order s̃, r, z.
        state: The state before the first step.
        notes: What is looked at.
        keys: What is compared: projected for an additive score.
        vector: v of an additive score; None for a product.
        context: C, in the order s̃, r, z.
        recurrent: R: the unit's gates, its state's matrix if the reset gate acts after it, and the query's matrix,
            if any; without one the query is the state.
        inner: The state's matrix, if the reset gate acts before it.
        bias: The bias of the state's matrix, if the reset gate acts after it.
    """

    shares: Float[Tensor, "m batch three_widths"]
    state: Float[Tensor, "batch w"]
    notes: Float[Tensor, "batch n d"]
    keys: Float[Tensor, "batch n q"]
    vector: Float[Tensor, " q"] | None
    context: Float[Tensor, "three_widths d"]
    recurrent: Float[Tensor, "_ w"]
    inner: Float[Tensor, "w w"] | None
    bias: Float[Tensor, " w"] | None

    @property
    def split(self) -> int:
        """How many rows of R are the unit's; the others are the query's."""
        return self.state.shape[-1] * (2 if self.bias is None else 3)

    def to(self, kind: torch.dtype) -> "Inputs":
        """All of one type."""
        return Inputs(*(None if tensor is None else tensor.to(kind) for tensor in self))  # type: ignore[arg-type]

    def full_bias(self, kind: torch.dtype) -> Tensor:
        """The bias of R s: 0 but for the state's matrix."""
        if self.bias is None:
            return self.recurrent.new_zeros(len(self.recurrent), dtype=kind)
        return functional.pad(self.bias.to(kind), (self.split - len(self.bias), len(self.recurrent) - self.split))


def unrolled(plan: Plan, inputs: Inputs) -> tuple[Float[Tensor, "m batch w"], Float[Tensor, "m batch d"]]:
    """The state after each step, and its context."""
    states, contexts = _Unrolled.apply(plan, *inputs)  # type: ignore[no-untyped-call]
    return states, contexts


class _Kept(NamedTuple):
    """What the way back needs of the way there.

    Attributes:
        states: Before the first step and after each, as they are carried.
        low: The same in the type of products.
        contexts: In the type of products.
        queries: In the type that they are compared in.
        weights: After the softmax.
        kept: See `gated`.
        notes: In the type of products.
    """

    states: Float[Tensor, "more batch w"]
    low: Float[Tensor, "more batch w"]
    contexts: Float[Tensor, "m batch d"]
    queries: Float[Tensor, "m batch q"]
    weights: Float[Tensor, "m batch n"]
    kept: Float[Tensor, "m batch _"]
    notes: Float[Tensor, "batch n d"]


class _Unrolled(torch.autograd.Function):
    """The loop; a second derivative goes the plain way."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, *tensors: Tensor | None) -> tuple[Tensor, Tensor]:
        inputs = Inputs(*tensors)  # type: ignore[arg-type]
        with torch.autocast(inputs.state.device.type, enabled=False):
            kept = _forth(plan, inputs)
            if plan.exponential is not None and not additive.is_safe(kept.queries):
                plan = dataclasses.replace(plan, exponential=None)
                kept = _forth(plan, inputs)
        ctx.plan = plan
        ctx.save_for_backward(*tensors, *kept)
        ctx.set_materialize_grads(False)
        return kept.low[1:], kept.contexts

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor | None) -> tuple[Tensor | None, ...]:
        count = len(Inputs._fields)
        inputs, kept = Inputs(*ctx.saved_tensors[:count]), _Kept(*ctx.saved_tensors[count:])
        with torch.autocast(inputs.state.device.type, enabled=False):
            if torch.is_grad_enabled():
                return None, *_again(ctx.plan, inputs, ctx.needs_input_grad[1:], slopes)
            for_states = torch.zeros_like(kept.low[1:]) if slopes[0] is None else slopes[0]
            for_contexts = torch.zeros_like(kept.contexts) if slopes[1] is None else slopes[1]
            return None, *_back(ctx.plan, inputs, kept, for_states, for_contexts)


def _forth(plan: Plan, inputs: Inputs) -> _Kept:
    kind = inputs.shares.dtype
    wide = at_least_single(kind)
    (steps, batch, _), width = inputs.shares.shape, inputs.state.shape[-1]
    notes, context, recurrent = inputs.notes.to(kind), inputs.context.to(kind), inputs.recurrent.to(kind)
    inner = None if inputs.inner is None else inputs.inner.to(kind)
    look, bias, asks = _look(plan, inputs), inputs.full_bias(kind), inputs.split < len(inputs.recurrent)
    new = inputs.state.new_empty
    states = new(steps + 1, batch, width, dtype=wide)
    low = states if kind == wide else new(steps + 1, batch, width, dtype=kind)
    contexts = new(steps, batch, notes.shape[-1], dtype=kind)
    queries = new(steps, batch, inputs.keys.shape[-1], dtype=look.kind)
    weights = new(steps, batch, notes.shape[1], dtype=wide)
    kept = new(steps, batch, kept_widths(inputs.inner) * width, dtype=wide)
    product, share = new(batch, len(recurrent), dtype=kind), new(batch, 3 * width, dtype=kind)
    states[0] = low[0] = inputs.state
    for t in range(steps):
        torch.addmm(bias, low[t], recurrent.mT, out=product)
        queries[t] = product[:, inputs.split :] if asks else low[t]
        scores = look.scores(queries[t])
        if plan.hidden is not None:
            scores.masked_fill_(plan.hidden, -torch.inf)
        torch.softmax(scores, -1, out=weights[t])
        torch.bmm(weights[t, :, None].to(kind), notes, out=contexts[t, :, None])
        torch.addmm(inputs.shares[t], contexts[t], context.mT, out=share)
        advance(share, product, states[t], inner, kept[t], states[t + 1])
        if low is not states:
            low[t + 1] = states[t + 1]
    return _Kept(states, low, contexts, queries, weights, kept, notes)


def _back(plan: Plan, inputs: Inputs, kept: _Kept, for_states: Tensor, for_contexts: Tensor) -> list[Tensor | None]:
    kind, wide = inputs.shares.dtype, kept.states.dtype
    steps, batch, width = for_states.shape
    context, recurrent = inputs.context.to(kind), inputs.recurrent.to(kind)
    inner = None if inputs.inner is None else inputs.inner.to(kind)
    look, asks, own = _look(plan, inputs), inputs.split < len(recurrent), kept_widths(inner) * width
    # The gradients of a step's products in one row: of the share in [:3w], of R s in [w:].
    rows = for_states.new_empty(steps, batch, width + len(recurrent), dtype=kind)
    slopes = torch.empty_like(kept.contexts)
    scored = torch.empty_like(kept.weights)
    state = torch.zeros_like(inputs.state, dtype=wide)
    product = state.new_empty(batch, width, dtype=kind)
    for t in reversed(range(steps)):
        direct = retreat(state.add_(for_states[t]), kept.states[t], inner, kept.kept[t], rows[t])
        torch.addmm(for_contexts[t], rows[t, :, : 3 * width], context, out=slopes[t])
        weighed = torch.bmm(slopes[t, :, None], kept.notes.mT)[:, 0]
        _softmax_slope(weighed, kept.weights[t], into=scored[t])
        asked = look.query_slope(kept.queries[t], scored[t])
        if asks:
            rows[t, :, own:] = asked
        else:
            direct += asked
        torch.mm(rows[t, :, width:], recurrent, out=product)
        torch.add(direct, product, out=state)
    flat = rows.flatten(0, 1)
    before = kept.low[:-1].flatten(0, 1)
    for_inner = for_bias = None
    if inner is not None:
        for_inner = flat[:, :width].mT @ (kept.kept[..., width : 2 * width] * kept.states[:-1]).flatten(0, 1).to(kind)
    if inputs.bias is not None:
        for_bias = flat[:, 3 * width : own].sum(0, dtype=wide)
    for_keys, for_vector = look.finish(kept.queries.transpose(0, 1), scored.transpose(0, 1))
    for_notes = kept.weights.permute(1, 2, 0).to(kind) @ slopes.transpose(0, 1)
    for_context = flat[:, : 3 * width].mT @ kept.contexts.flatten(0, 1)
    for_recurrent = flat[:, width:].mT @ before
    shares = rows[..., : 3 * width]
    return [shares, state, for_notes, for_keys, for_vector, for_context, for_recurrent, for_inner, for_bias]


def _softmax_slope(slope: Tensor, weights: Tensor, *, into: Tensor) -> None:
    """The gradient of the scores, from that of the weights."""
    torch.mul(slope, weights, out=into)
    into.addcmul_(weights, into.sum(-1, keepdim=True), value=-1)


def _look(plan: Plan, inputs: Inputs) -> Sums | Products:
    if inputs.vector is None:
        return Products(inputs.keys, plan.scale, inputs.shares.dtype)
    return Sums(inputs.keys, inputs.vector, plan.exponential)


def _again(
    plan: Plan, inputs: Inputs, needed: tuple[bool, ...], slopes: tuple[Tensor | None, ...]
) -> list[Tensor | None]:
    """The gradients with theirs. Each input is taken anew, since one may have been made from another."""
    anew = Inputs(*(None if tensor is None else tensor.view_as(tensor) for tensor in inputs))  # type: ignore[arg-type]
    made = zip(_plain(plan, anew), slopes, strict=True)
    outputs, given = zip(*((output, slope) for output, slope in made if slope is not None), strict=True)
    wanted = [tensor for tensor, need in zip(anew, needed, strict=True) if need and tensor is not None]
    found = iter(torch.autograd.grad(outputs, wanted, given, create_graph=True, allow_unused=True))
    return [next(found) if need else None for need in needed]


def _plain(plan: Plan, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """The same steps, recorded one by one."""
    kind = inputs.shares.dtype
    inputs = inputs.to(at_least_single(kind))
    state, states, contexts = inputs.state, [], []
    bias = inputs.full_bias(state.dtype)
    for share in inputs.shares:
        product = state @ inputs.recurrent.mT + bias
        query = (product[:, inputs.split :] if inputs.split < len(inputs.recurrent) else state)[:, None]
        if inputs.vector is None:
            scores = plan.scale * query @ inputs.keys.mT
        else:
            scores = additive.plain_scores(query, inputs.keys, inputs.vector)
        if plan.hidden is not None:
            scores = scores.masked_fill(plan.hidden[:, None], -torch.inf)
        context = (scores.softmax(-1) @ inputs.notes)[:, 0]
        state = plain_step(share + context @ inputs.context.mT, product, state, inputs.inner)
        states.append(state)
        contexts.append(context)
    return torch.stack(states).to(kind), torch.stack(contexts).to(kind)
