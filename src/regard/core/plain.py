"""The operation in its plain form: every law holds here exactly, and every kernel is held to it.

It forms the whole (m, n) table, and is made of differentiable steps only, so that second derivatives are
right. What is not finite is taken out of the inputs before any arithmetic and put back, as NaN, at the end:
only in the rows that may see it. So nothing that is hidden can reach an output or a gradient, not even
multiplied by 0.

Axes: see `cells.py`. `*_` stands for batch axes before broadcasting.
"""

import dataclasses

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.core.cells import Cells
from regard.core.errors import Misfit
from regard.core.score import Prepared, Score, at_least_single, sound_rows
from regard.core.weigh import Weigh
from regard.core.where import Where


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """The scores of one call.

    Attributes:
        scores: (*batch, m, n), finite in every cell; in float32 at least, for what sums over them.
        allowed: The allowed cells, by the predicate and by a score of -inf, which forbids too.
        broken: The allowed cells whose score is NaN or +inf, or comes from a vector that is not finite.
    """

    scores: Float[Tensor, "*batch m n"]
    allowed: Bool[Tensor, "*batch m n"]
    broken: Bool[Tensor, "*batch m n"]


def table(query: Float[Tensor, "*_ m _"], key: Prepared, *, score: Score, where: Where, cells: Cells) -> Table:
    """Compares every query with every key."""
    shape = (*cells.batch, cells.rows, cells.columns)
    allowed = where.allowed(cells)
    sound_query, query = sound_rows(query)
    raw: Tensor = score(query, key.share, cells)
    _check_shape(repr(where), allowed, shape)
    _check_shape(repr(score), raw, shape)
    finite = raw.isfinite()
    broken = ~(raw < torch.inf) | ~sound_query[..., :, None] | ~key.sound[..., None, :]
    return Table(
        scores=torch.where(finite & allowed, raw, 0).to(at_least_single(raw.dtype)).expand(shape),
        allowed=(allowed & ((raw > -torch.inf) | broken)).expand(shape),
        broken=(broken & allowed).expand(shape),
    )


def _check_shape(name: str, given: Tensor, shape: tuple[int, ...]) -> None:
    fits = given.ndim <= len(shape) and all(
        have in (1, want) for have, want in zip(reversed(given.shape), reversed(shape), strict=False)
    )
    if not fits:
        raise Misfit(
            f"{name} gave shape {tuple(given.shape)} for cells of shape {shape}, to which it does not broadcast"
        )


def scores(cells: Table) -> Float[Tensor, "*batch m n"]:
    """The scores as they are: -inf where forbidden, NaN where broken."""
    return torch.where(cells.allowed, cells.scores + nan_where(cells.broken, cells.scores), -torch.inf)


def weights(cells: Table, weigh: Weigh) -> Float[Tensor, "*batch m n"]:
    """The weights of the sound cells, as if the broken ones scored 0."""
    return weigh(cells.scores, cells.allowed)


def log_weights(cells: Table, weigh: Weigh) -> Float[Tensor, "*batch m n"]:
    """The logarithms of `weights`."""
    return weigh.log(cells.scores, cells.allowed)


def broken_rows(cells: Table) -> Float[Tensor, "*batch m 1"]:
    """NaN for every row that sees something broken, 0 for the others: added to what was computed without it."""
    return nan_where(cells.broken.any(-1, keepdim=True), cells.scores)


def combine(
    applied: Float[Tensor, "*batch m n"], value: Float[Tensor, "*_ n d_v"], cells: Table
) -> Float[Tensor, "*batch m d_v"]:
    """The weighted sum of the values; NaN in every row that may see a key or value that is not finite."""
    sound, value = sound_rows(value)
    unsound = (cells.allowed & ~sound[..., None, :]).any(-1, keepdim=True)
    return applied @ value + (broken_rows(cells) + nan_where(unsound, cells.scores)).to(value.dtype)


def nan_where(mark: Bool[Tensor, "*shape"], like: Tensor) -> Float[Tensor, "*shape"]:
    """NaN where marked, 0 elsewhere, in the type of another tensor."""
    return torch.zeros(mark.shape, dtype=like.dtype, device=mark.device).masked_fill(mark, torch.nan)
