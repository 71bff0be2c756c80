"""What was seen of a model: for each attention in it, its calls, in order."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, overload

import torch
from torch import Tensor

from regard.core.errors import nearest
from regard.core.record import Pick, Picks, Record, span

Asked = Literal["weights", "scores", "allowed"]


class UnknownSite(KeyError):  # noqa: N818
    """No attention of that name was seen. It is a `KeyError` whose text is shown as it is."""

    def __str__(self) -> str:
        return str(self.args[0])


class Site(Sequence[Record]):
    """The calls of one attention, in order: a recurrent decoder makes one for each step.

    Attributes:
        name: Where it is in the model.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._calls: list[Record] = []

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        if isinstance(index, slice):
            return self._calls[index]
        if not -len(self) <= index < len(self):
            raise IndexError(f"{self.name} has {_calls(len(self))}, numbered from 0: there is no call {index}")
        return self._calls[index]

    def __len__(self) -> int:
        return len(self._calls)

    def weights(
        self, *, call: int | None = None, example: Picks = None, head: Pick = None, rows: Pick = None
    ) -> Tensor:
        """The weights as applied: what `weigh` gave, times `after`; before dropout.

        An int takes one entry of an axis and drops the axis, a slice takes some, None all.

        Args:
            call: Which call. Unless it is given, the rows of all calls are laid one below the other, as the steps
                of a recurrent decoder are; all else of the calls must then be of one size.
            example: Which examples; a tuple where several batch axes come before the heads.
            head: Which heads.
            rows: Which queries.

        Returns:
            (*batch, queries, keys) of what is asked for; nothing else is computed, where scores go by cell.

        Raises:
            ValueError: if an axis is not there, or the calls cannot be laid as one.
            IndexError: if there is no such call or entry.
            RuntimeError: if something that the call refers to has been changed in place since.
        """
        return self._asked("weights", call, example, head, rows)

    def scores(self, *, call: int | None = None, example: Picks = None, head: Pick = None, rows: Pick = None) -> Tensor:
        """The scores; -inf in a forbidden cell. Arguments as for `weights`."""
        return self._asked("scores", call, example, head, rows)

    def allowed(
        self, *, call: int | None = None, example: Picks = None, head: Pick = None, rows: Pick = None
    ) -> Tensor:
        """Which cells were allowed. Arguments as for `weights`."""
        return self._asked("allowed", call, example, head, rows)

    def _asked(self, what: Asked, call: int | None, example: Picks, head: Pick, rows: Pick) -> Tensor:
        if call is not None or len(self) == 1:
            return _answer(self[call or 0], what, example, head, rows)
        self._check_alike()
        sizes = [record.shape[-2] for record in self]
        wanted = span(rows, sum(sizes), "query")
        parts: list[Tensor] = []
        start = 0
        for record, size in zip(self, sizes, strict=True):
            part = slice(max(wanted.start - start, 0), max(min(wanted.stop - start, size), 0))
            if part.start < part.stop or (not parts and record is self[-1]):
                parts.append(_answer(record, what, example, head, part))
            start += size
        table = torch.cat(parts, -2)
        return table if rows is None or isinstance(rows, slice) else table.squeeze(-2)

    def _check_alike(self) -> None:
        first = self[0]
        for number, record in enumerate(self):
            if record.axes != first.axes or _without_rows(record) != _without_rows(first):
                raise ValueError(
                    f"{self.name}: call 0 has shape {tuple(first.shape)}, call {number} {tuple(record.shape)}, "
                    f"which cannot be laid as one: ask for one of them, call=0 to call={len(self) - 1}"
                )

    def __repr__(self) -> str:
        return f"Site({self.name!r}, {_calls(len(self))})"


class Seen(Mapping[str, Site]):
    """Every attention that was seen, by its name in the model, in the order of their first calls."""

    def __init__(self) -> None:
        self._sites: dict[str, Site] = {}
        self._remarks: list[str] = []

    @property
    def names(self) -> tuple[str, ...]:
        """The name of every attention that was seen."""
        return tuple(self._sites)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What could not be seen, and why."""
        return tuple(self._remarks)

    def __getitem__(self, name: str) -> Site:
        if name in self._sites:
            return self._sites[name]
        known = nearest(str(name), self._sites) if self._sites else "no attention of the model was called"
        raise UnknownSite("; ".join([f"no attention {name!r} was seen: {known}", *self._remarks]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._sites)

    def __len__(self) -> int:
        return len(self._sites)

    def __repr__(self) -> str:
        sites = ", ".join(f"{name}: {_calls(len(site))}" for name, site in self._sites.items())
        return f"Seen({sites or 'nothing'})"

    def _add(self, name: str, record: Record) -> None:
        self._sites.setdefault(name, Site(name))._calls.append(record)

    def _remark(self, text: str) -> None:
        if text not in self._remarks:
            self._remarks.append(text)


def _answer(record: Record, what: Asked, example: Picks, head: Pick, rows: Pick) -> Tensor:
    ask = {"weights": record.weights, "scores": record.scores, "allowed": record.allowed}[what]
    return ask(example=example, head=head, rows=rows)


def _without_rows(record: Record) -> tuple[int, ...]:
    return (*record.shape[:-2], record.shape[-1])


def _calls(count: int) -> str:
    return f"{count} call{'' if count == 1 else 's'}"
