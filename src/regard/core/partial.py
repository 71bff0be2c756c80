"""Attention over some of the keys, with the logarithm of its sum, so that several such results merge into one.

    one, other = partial(query, near, near_values), partial(query, far, far_values)
    merge(one, other) == attend(query, all keys, all values)

A row's total is log Σ_j e^{s_j} over the keys that it may see: -inf where there is none. Keys that stand elsewhere, on
another device or in another cache, need only be asked apart.

Axes: query (*batch, m, d_q), key (*batch, n, d_k), value (*batch, n, d_v).
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.core import dispatch, plain, tiled
from regard.core.call import Call, Ready, cleaned
from regard.core.compare import scaled_dot
from regard.core.operation import check_call, computed
from regard.core.score import Prepared, Score
from regard.core.weigh import softmax
from regard.core.where import Where, everywhere


class Partial(NamedTuple):
    """What some of the keys give.

    Attributes:
        output: (*batch, m, d_v), the values weighted among these keys.
        total: (*batch, m), the logarithm of the sum that the weights were divided by; -inf in a row without keys.
    """

    output: Float[Tensor, "*batch m d_v"]
    total: Float[Tensor, "*batch m"]


def partial(
    query: Tensor,
    key: Tensor | Prepared,
    value: Tensor,
    *,
    score: Score = scaled_dot,
    where: Where = everywhere,
    first: int | Tensor = 0,
) -> Partial:
    """`attend` with softmax, and each row's total. Arguments and errors are those of `attend`.

    >>> import torch
    >>> from regard.core import attend, merge, partial
    >>> query, key = torch.randn(2, 3, 8), torch.randn(2, 7, 8)
    >>> parts = [partial(query, k, k) for k in key.split(4, dim=-2)]
    >>> torch.allclose(merge(*parts), attend(query, key, key), atol=1e-6)
    True
    """
    call = check_call("partial", query, key, value, score=score, where=where, weigh=softmax, first=first)
    both = computed("partial", _both, call)
    return Partial(both[..., :-1].to(value.dtype), both[..., -1])


def merge(*partials: Partial) -> Float[Tensor, "*batch m d_v"]:
    """One output from those over separate keys, each weighted by its total."""
    totals = torch.stack([each.total for each in partials])
    seen = (totals > -torch.inf).any(0)
    shares = torch.where(seen, torch.where(seen, totals, 0).softmax(0), 0)
    each = [share[..., None] * part.output for share, part in zip(shares, partials, strict=True)]
    return torch.stack(each).sum(0).to(partials[0].output.dtype)


def _both(call: Call) -> Tensor:
    ready = cleaned(call)
    by_cell = call.score.by_cell and call.where.by_cell
    found = tiled.in_tiles(_with_total, ready) if by_cell and 0 not in ready.shape else _with_total(ready)
    return dispatch.marked(found, ready)


def _with_total(ready: Ready) -> Float[Tensor, "*batch m d_and_1"]:
    """The output, and the total as one more column."""
    cells = plain.table(ready)
    applied = plain.weights(cells, softmax)
    some = cells.allowed.any(-1, keepdim=True)
    closed = torch.where(cells.allowed, cells.scores, -torch.inf)
    total = torch.where(some, torch.where(some, closed, 0).logsumexp(-1, keepdim=True), -torch.inf)
    if not cells.scores.shape[-1]:
        total = cells.scores.new_full((*cells.scores.shape[:-1], 1), -torch.inf)
    value = plain.combine(applied.to(plain.value_of(ready).dtype), ready, cells).to(total.dtype)
    return torch.cat([value, total], -1)
