"""A call of the operation, to be looked at again: its scores, weights and allowed cells, when somebody asks.

Nothing is kept but references. What is asked for is computed from them in the plain form, within rounding of the
kernel that the call went through; where the score and the predicate go by cell, only for the examples, heads and
rows that are asked for.
"""

import dataclasses

import torch
from torch import Tensor

from regard.core import plain
from regard.core.call import Call, Ready, cleaned
from regard.core.cells import Cells
from regard.core.held import Held
from regard.core.local import Gaussian
from regard.core.record import Pick, Picks, Selection, axis_names, selection
from regard.core.score import Prepared, Score, Share
from regard.core.where import Where, everywhere


class Looked:
    """The record of one call of the operation.

    Args:
        name: What to call it in an error.
        call: The call.
        heads: Whether the last batch axis is heads.
    """

    def __init__(self, name: str, call: Call, *, heads: bool) -> None:
        self._held = Held(name, call.query.device.type)
        self._call = _kept(call._replace(dropout=0.0, generator=None), self._held)
        self._axes = axis_names(len(call.cells.batch), heads=heads)

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes of what it gives."""
        return self._axes

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of those axes."""
        return self._call.shape

    @property
    def call(self) -> Call:
        """The call: its queries, keys and values, and its choices.

        Raises:
            RuntimeError: if one of them has been changed since.
        """
        self._held.check()
        return self._call

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Every reference that is kept, by its name."""
        return dict(self._held.tensors)

    def weights(self, *, example: Picks = None, head: Pick = None, rows: Pick = None) -> Tensor:
        """The weights as applied: what `weigh` gave, times `after`; before dropout."""
        chosen = selection(self, example, head, rows)
        with self._held.again():
            table, factor = self._table(chosen)
            found = plain.marked(plain.weights(table, self._call.weigh), table)
            if factor is not None:
                found = found * (factor if table.open is None else torch.where(table.open, factor, 0))
            return chosen.shown(found.to(self._dtype))

    def scores(self, *, example: Picks = None, head: Pick = None, rows: Pick = None) -> Tensor:
        """The scores; -inf in a forbidden cell."""
        chosen = selection(self, example, head, rows)
        with self._held.again():
            return chosen.shown(plain.scores(self._table(chosen)[0]).to(self._dtype))

    def allowed(self, *, example: Picks = None, head: Pick = None, rows: Pick = None) -> Tensor:
        """Which cells were allowed, by the predicate and by a score of -inf."""
        chosen = selection(self, example, head, rows)
        with self._held.again():
            return chosen.shown(self._table(chosen)[0].allowed)

    @property
    def _dtype(self) -> torch.dtype:
        return self._call.query.dtype if self._call.value is None else self._call.value.dtype

    def _table(self, chosen: Selection) -> tuple[plain.Table, Tensor | None]:
        part, factor = _part(self._call, chosen)
        return plain.table(part), factor

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {size}" for name, size in zip(self.axes, self.shape, strict=True))
        return f"Looked({sizes}; score={self._call.score!r}, where={self._call.where!r}, weigh={self._call.weigh!r})"


def _kept(call: Call, held: Held) -> Call:
    """The call with references for its tensors, and copies of its choices."""
    fields = {name: held.keep(name, value) for name, value in call._asdict().items()}
    if isinstance(call.key, Prepared):
        share, sound = held.keep("key", call.key.share), held.keep("key.sound", call.key.sound)
        fields["key"] = dataclasses.replace(call.key, score=fields["score"], share=share, sound=sound)
    fields["cells"] = dataclasses.replace(call.cells, first=held.keep("first", call.cells.first))
    return Call(**fields)


def _part(call: Call, chosen: Selection) -> tuple[Ready, Tensor | None]:
    """The part of a call that is asked for, with its scores and its mask there already; and its factor."""
    factored_by_cell = call.after is None or isinstance(call.after, Tensor | Gaussian)
    by_cell = call.score.by_cell and call.where.by_cell and factored_by_cell
    rows, cells = chosen.rows, call.cells
    query, key = call.query, call.key
    if by_cell:
        cells = cells.part(rows)
        query, key = chosen.of(query[..., rows, :], query.ndim - 2), _key(key, chosen)
    ready = cleaned(call._replace(query=query, key=key, value=None))

    def part(table: Tensor) -> Tensor:
        if not by_cell and table.shape[-2] != 1:
            table = table.narrow(-2, rows.start, rows.stop - rows.start)
        return chosen.of(table, table.ndim - 2)

    def sound(mark: Tensor | None, own: slice) -> Tensor | None:
        return None if mark is None else chosen.of(mark if by_cell else mark[..., own], mark.ndim - 1)

    allowed = None if call.where is everywhere else part(call.where.allowed(cells))
    factor = call.factor(cells)
    scores = part(call.score(ready.query, ready.share, cells))
    fixed = ready._replace(
        call=call._replace(score=_Fixed(scores), where=everywhere if allowed is None else _Allowed(allowed)),
        cells=dataclasses.replace(call.cells.part(rows), batch=chosen.sizes, first=0),
        sound_query=sound(ready.sound_query, rows),
        sound_key=sound(ready.sound_key, slice(None)),
    )
    return fixed, None if factor is None else part(factor)


def _key(key: Tensor | Prepared, chosen: Selection) -> Tensor | Prepared:
    axes = len(key.shape) - 2
    if isinstance(key, Tensor):
        return chosen.of(key, axes)
    return key.map(lambda tensor: chosen.of(tensor, axes))


class _Fixed(Score):
    """Scores that are there already."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = table

    def forward(self, query: Tensor, key: Share, cells: Cells) -> Tensor:
        del query, key, cells
        return self.table


class _Allowed(Where):
    """Allowed cells that are there already."""

    def __init__(self, table: Tensor) -> None:
        self.table = table

    def allowed(self, cells: Cells) -> Tensor:
        del cells
        return self.table
