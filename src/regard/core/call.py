"""What one call of the operation combines, checked: the one thing that a kernel is given.

Axes: query (*batch, m, d_q), key (*batch, n, d_k), value (*batch, n, d_v).
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.core.cells import Cells
from regard.core.local import Factor
from regard.core.score import Score, Share, sound_rows, surely_finite
from regard.core.weigh import Weigh
from regard.core.where import Where


class Call(NamedTuple):
    """One call. Every vector in it is finite: one that was not is 0, and marked as not sound.

    Attributes:
        query: The queries, cleaned.
        share: What the score made of the cleaned keys.
        value: The values, cleaned; None where only weights are asked for.
        score: How well a query matches a key.
        where: Which keys a query may see.
        weigh: How scores become weights.
        cells: Where queries and keys stand.
        after: What multiplies the weights.
        dropout: The share of weights set to 0.
        generator: Where dropout's random numbers come from.
        sound_query: Which queries were finite; None where all were.
        sound_key: Which keys were finite; None where all were.
        sound_value: Which values were finite; None where all were.
    """

    query: Float[Tensor, "*_ m d_q"]
    share: Share
    value: Float[Tensor, "*_ n d_v"] | None
    score: Score
    where: Where
    weigh: Weigh
    cells: Cells
    after: Tensor | Factor | None
    dropout: float
    generator: torch.Generator | None
    sound_query: Bool[Tensor, "*_ m"] | None
    sound_key: Bool[Tensor, "*_ n"] | None
    sound_value: Bool[Tensor, "*_ n"] | None

    @property
    def sound(self) -> bool:
        """Whether every vector was finite."""
        return self.sound_query is None and self.sound_key is None and self.sound_value is None

    @property
    def shape(self) -> tuple[int, ...]:
        """(*batch, m, n)."""
        return (*self.cells.batch, self.cells.rows, self.cells.columns)

    def factor(self, cells: Cells) -> Float[Tensor, "*_ _ _"] | None:
        """What multiplies the weights of some cells."""
        if isinstance(self.after, Tensor):
            return cells.cut(self.after)
        return None if self.after is None else self.after.factor(cells)

    def part(self, rows: slice) -> "Call":
        """The call of some of its queries, which stand where they stood."""
        sound = self.sound_query
        return self._replace(
            query=self.query[..., rows, :],
            cells=self.cells.part(rows),
            sound_query=None if sound is None else sound[..., rows],
        )


Rows = tuple[Tensor | None, Tensor]
"""Which rows of a tensor are finite (None: all), and the tensor with every other row set to 0."""


def cleaned(query: Tensor, key: Tensor, value: Tensor | None) -> tuple[Rows, Rows, Rows | None]:
    """`sound_rows` of each, after one look at all of them together, which nearly always is enough."""
    if surely_finite(query, key, *(() if value is None else (value,))):
        return (None, query), (None, key), None if value is None else (None, value)
    return sound_rows(query), sound_rows(key), None if value is None else sound_rows(value)
