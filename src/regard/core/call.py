"""What one call of the operation combines, checked: the one thing that a kernel is given.

Axes: query (*batch, m, d_q), key (*batch, n, d_k), value (*batch, n, d_v).
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.core.cells import Cells
from regard.core.local import Factor
from regard.core.score import Prepared, Score, Share, is_seen, sound_rows
from regard.core.weigh import Weigh
from regard.core.where import Where


class Call(NamedTuple):
    """One call.

    Attributes:
        query: The queries.
        key: The keys, or what the score made of them.
        value: The values; None where only weights are asked for.
        score: How well a query matches a key.
        where: Which keys a query may see.
        weigh: How scores become weights.
        cells: Where queries and keys stand.
        after: What multiplies the weights.
        dropout: The share of weights set to 0.
        generator: Where dropout's random numbers come from.
    """

    query: Float[Tensor, "*_ m d_q"]
    key: Float[Tensor, "*_ n d_k"] | Prepared
    value: Float[Tensor, "*_ n d_v"] | None
    score: Score
    where: Where
    weigh: Weigh
    cells: Cells
    after: Tensor | Factor | None = None
    dropout: float = 0.0
    generator: torch.Generator | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """(*batch, m, n)."""
        return (*self.cells.batch, self.cells.rows, self.cells.columns)

    @property
    def is_seen(self) -> bool:
        """Whether numbers can be read from its tensors: not so inside of a compiler, an export or a transform."""
        key = self.query if isinstance(self.key, Prepared) else self.key
        return is_seen(self.query, key, self.query if self.value is None else self.value)

    def factor(self, cells: Cells) -> Float[Tensor, "*_ _ _"] | None:
        """What multiplies the weights of some cells."""
        if isinstance(self.after, Tensor):
            return cells.cut(self.after)
        return None if self.after is None else self.after.factor(cells)


class Doubt(Exception):  # noqa: N818
    """A score of vectors that were trusted is not finite: they must be looked at."""


class Ready(NamedTuple):
    """A call whose vectors are finite: one that was not is 0, and said to be not sound.

    Attributes:
        call: The call.
        query: Its queries, clean.
        share: What the score made of its clean keys.
        value: Its values, clean.
        cells: The cells that are computed: all of the call's, or some of its rows.
        sound_query: Which queries were finite; None where all were.
        sound_key: Which keys were finite; None where all were.
        sound_value: Which values were finite; None where all were.
        trusted: Whether nobody has looked at the vectors yet: a score that is not finite then says that one must.
    """

    call: Call
    query: Float[Tensor, "*_ m d_q"]
    share: Share
    value: Float[Tensor, "*_ n d_v"] | None
    cells: Cells
    sound_query: Bool[Tensor, "*_ m"] | None = None
    sound_key: Bool[Tensor, "*_ n"] | None = None
    sound_value: Bool[Tensor, "*_ n"] | None = None
    trusted: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """(*batch, m, n), of the cells that are computed."""
        return (*self.cells.batch, self.cells.rows, self.cells.columns)

    @property
    def sound(self) -> bool:
        """Whether every vector was finite."""
        return self.sound_query is None and self.sound_key is None and self.sound_value is None

    def broken_rows(self) -> Bool[Tensor, "*batch m"]:
        """Which rows may see a key or value that was not finite, or have a query that was not."""
        broken = torch.zeros(self.shape[:-1], dtype=torch.bool, device=self.query.device)
        for sound in (self.sound_key, self.sound_value):
            if sound is not None:
                broken = broken | (self.call.where.allowed(self.cells) & ~sound[..., None, :]).any(-1)
        return broken if self.sound_query is None else broken | ~self.sound_query

    def part(self, rows: slice) -> "Ready":
        """Some of the queries, which stand where they stood."""
        sound = self.sound_query
        return self._replace(
            query=self.query[..., rows, :],
            cells=self.cells.part(rows),
            sound_query=None if sound is None else sound[..., rows],
        )


def trusted(call: Call) -> Ready:
    """The call as it is, where it is known that its vectors are finite, or will be seen."""
    key = call.key
    share = key.share if isinstance(key, Prepared) else call.score.key_share(key)
    return Ready(call, call.query, share, call.value, call.cells, trusted=True)


def cleaned(call: Call) -> Ready:
    """The call with every vector that is not finite taken out, and marked."""
    sound_query, query = sound_rows(call.query)
    if isinstance(call.key, Prepared):
        sound_key, share = call.key.sound, call.key.share
    else:
        sound_key, key = sound_rows(call.key)
        share = call.score.key_share(key)
    sound_value, value = (None, None) if call.value is None else sound_rows(call.value)
    return Ready(call, query, share, value, call.cells, sound_query, sound_key, sound_value)
