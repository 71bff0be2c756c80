"""The operation in its plain form: it makes the whole table of scores, and every law holds in it exactly.

A fast kernel is an implementation of this file, never a second meaning.

**What is not finite.** A vector with an entry that is NaN or infinite is replaced by 0 before anything is
computed from it, and so is a score that is not finite: arithmetic here only ever sees finite numbers, and
what was hidden can reach nothing, no gradient either. What was *visible* is told at the end: a row that may
see a broken key or value, or whose query is broken, is NaN throughout, and only that row.

Axes: `*batch` the call's, `m` queries, `n` keys, `d_v` the value's width.
"""

import dataclasses

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.core.call import Doubt, Ready
from regard.core.errors import Misfit
from regard.core.score import at_least_single, surely_finite
from regard.core.weigh import Weigh
from regard.core.where import everywhere


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """The scores of one call.

    Attributes:
        scores: (*batch, m, n), finite in every cell; in float32 at least, for what sums over them.
        open: The allowed cells, by the predicate and by a score of -inf, which forbids too; None where all are.
        broken: The allowed cells whose score is NaN or +inf, or comes from a vector that is not finite; None
            where there is none.
    """

    scores: Float[Tensor, "*batch m n"]
    open: Bool[Tensor, "*batch m n"] | None
    broken: Bool[Tensor, "*batch m n"] | None

    @property
    def allowed(self) -> Bool[Tensor, "*batch m n"]:
        """The allowed cells, as a tensor."""
        return torch.ones_like(self.scores, dtype=torch.bool) if self.open is None else self.open

    @property
    def broken_rows(self) -> Float[Tensor, "*batch m 1"] | None:
        """NaN for every row that sees something broken, 0 for the others, to be added; None where there is none."""
        return None if self.broken is None else nan_where(self.broken.any(-1, keepdim=True), self.scores)


def table(ready: Ready) -> Table:
    """Compares every query with every key."""
    shape, (score, where) = ready.shape, (ready.call.score, ready.call.where)
    allowed = None if where is everywhere else where.allowed(ready.cells)
    if allowed is not None:
        ready.cells.check(repr(where), allowed)
    raw: Tensor = score(ready.query, ready.share, ready.cells)
    if raw.shape != shape:
        ready.cells.check(repr(score), raw)
    single = at_least_single(raw.dtype)
    if ready.sound_query is None and ready.sound_key is None and surely_finite(raw):
        scores = raw if allowed is None else torch.where(allowed, raw, 0)
        return Table(scores.to(single).expand(shape), None if allowed is None else allowed.expand(shape), None)
    if ready.trusted:
        raise Doubt
    broken = ~(raw < torch.inf)
    if ready.sound_query is not None:
        broken = broken | ~ready.sound_query[..., :, None]
    if ready.sound_key is not None:
        broken = broken | ~ready.sound_key[..., None, :]
    finite, seen = raw.isfinite(), (raw > -torch.inf) | broken
    if allowed is not None:
        finite, seen, broken = finite & allowed, seen & allowed, broken & allowed
    return Table(torch.where(finite, raw, 0).to(single).expand(shape), seen.expand(shape), broken.expand(shape))


def scores(cells: Table) -> Float[Tensor, "*batch m n"]:
    """The scores as they are: -inf where forbidden, NaN where broken."""
    marked = cells.scores if cells.broken is None else cells.scores + nan_where(cells.broken, cells.scores)
    return marked if cells.open is None else torch.where(cells.open, marked, -torch.inf)


def weights(cells: Table, weigh: Weigh) -> Float[Tensor, "*batch m n"]:
    """The weights of the sound cells, as if the broken ones scored 0."""
    return weigh(cells.scores, cells.open)


def log_weights(cells: Table, weigh: Weigh) -> Float[Tensor, "*batch m n"]:
    """The logarithms of `weights`."""
    return weigh.log(cells.scores, cells.allowed)


def marked(computed: Float[Tensor, "*batch m n"], cells: Table) -> Float[Tensor, "*batch m n"]:
    """NaN in the allowed cells of every row that sees something broken; forbidden cells stay as they are."""
    if cells.broken is None:
        return computed
    return computed + nan_where(cells.allowed & cells.broken.any(-1, keepdim=True), computed)


def output(ready: Ready) -> Float[Tensor, "*batch m d_v"]:
    """The whole operation on clean vectors: what every kernel computes."""
    call, cells = ready.call, table(ready)
    applied = weights(cells, call.weigh).to(value_of(ready).dtype)
    factor = call.factor(ready.cells)
    if factor is not None:
        applied = applied * (factor if cells.open is None else torch.where(cells.open, factor, 0))
    if call.dropout:
        kept = torch.empty_like(applied).bernoulli_(1 - call.dropout, generator=call.generator)
        applied = applied * kept / (1 - call.dropout)
    return combine(applied, ready, cells)


def combine(applied: Float[Tensor, "*batch m n"], ready: Ready, cells: Table) -> Float[Tensor, "*batch m d_v"]:
    """The weighted sum of the values; NaN in every row that sees a score which is not a number."""
    value = value_of(ready)
    result, mark = applied @ value, cells.broken_rows
    return result if mark is None else result + mark.to(value.dtype)


def value_of(ready: Ready) -> Tensor:
    """The values of a call that has some."""
    if ready.value is None:
        raise Misfit("values are needed for an output")
    return ready.value


def nan_where(mark: Bool[Tensor, "*shape"], like: Tensor) -> Float[Tensor, "*shape"]:
    """NaN where marked, 0 elsewhere, in the type of another tensor."""
    return torch.zeros(mark.shape, dtype=like.dtype, device=mark.device).masked_fill(mark, torch.nan)
