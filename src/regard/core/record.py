"""What can be asked of anything that attends, once it has: the protocol, and how a part is chosen.

Axes of every answer: `*batch` of the call, `query`, `key`. A batch axis is called "example" (with a number, where
there are several), and "head" where the call has heads.
"""

import operator
from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor

Pick = int | slice | None
"""One entry of an axis, which is dropped then; some entries; or all."""
Picks = Pick | tuple[Pick, ...]


@runtime_checkable
class Record(Protocol):
    """One call of something that attends. What it gives is computed when it is asked for, for what is asked.

    Attributes:
        axes: The names of the axes of what it gives, such as ("example", "head", "query", "key").
        shape: Their sizes.
    """

    @property
    def axes(self) -> tuple[str, ...]: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    def weights(self, *, example: Picks = None, head: Pick = None, rows: Pick = None) -> Tensor:
        """The weights as they were applied, before dropout."""

    def scores(self, *, example: Picks = None, head: Pick = None, rows: Pick = None) -> Tensor:
        """The scores that the weights were made of; -inf in a forbidden cell."""

    def allowed(self, *, example: Picks = None, head: Pick = None, rows: Pick = None) -> Tensor:
        """Which cells were allowed, as booleans: a forbidden cell is not the same as a small weight."""


class Selection(NamedTuple):
    """A part of a table of weights.

    Attributes:
        batch: From where to where on each batch axis.
        rows: From where to where among the queries.
        dropped: The axes of which one entry was asked for.
    """

    batch: tuple[slice, ...]
    rows: slice
    dropped: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The size of each batch axis of the part."""
        return tuple(part.stop - part.start for part in self.batch)

    def of(self, tensor: Tensor, axes: int) -> Tensor:
        """The part of a tensor that has `axes` of the call's batch axes in front; an axis of size 1 stays."""
        skipped = len(self.batch) - axes
        for axis in range(max(-skipped, 0), axes):
            if tensor.shape[axis] != 1:
                part = self.batch[skipped + axis]
                tensor = tensor.narrow(axis, part.start, part.stop - part.start)
        return tensor

    def shown(self, table: Tensor) -> Tensor:
        """The part as it was asked for, without the axes of which it has one entry."""
        for axis in reversed(self.dropped):
            table = table.select(axis, 0)
        return table


def axis_names(batch_axes: int, *, heads: bool) -> tuple[str, ...]:
    """The names of the axes of a call.

    >>> axis_names(2, heads=True)
    ('example', 'head', 'query', 'key')
    """
    examples = batch_axes - heads
    names = ["example"] if examples == 1 else [f"example {number}" for number in range(1, examples + 1)]
    return (*names, *(["head"] if heads else []), "query", "key")


def selection(record: Record, example: Picks, head: Pick, rows: Pick) -> Selection:
    """Checks what is asked for against what there is.

    Raises:
        ValueError: if an axis is asked for that is not there.
        IndexError: if an axis has no such entry.
    """
    axes = record.axes
    examples = [axis for axis in axes if axis.startswith("example")]
    each = example if isinstance(example, tuple) else (example,)
    if len(each) > max(len(examples), 1) or (not examples and example is not None):
        raise ValueError(f"example={example!r} does not fit: the axes are {_listed(record)}")
    if head is not None and "head" not in axes:
        raise ValueError(f"head={head!r} does not fit, there are no heads: the axes are {_listed(record)}")
    asked: dict[str, Pick] = {**dict(zip(examples, each, strict=False)), "head": head, "query": rows}
    parts = [span(asked.get(axis), size, axis) for axis, size in zip(axes[:-1], record.shape, strict=False)]
    dropped = tuple(number for number, axis in enumerate(axes[:-1]) if _is_one(asked.get(axis)))
    return Selection(tuple(parts[:-1]), parts[-1], dropped)


def span(pick: Pick, size: int, axis: str) -> slice:
    """From where to where a pick goes on an axis."""
    if pick is None:
        return slice(0, size)
    if isinstance(pick, slice):
        start, stop, step = pick.indices(size)
        if step != 1:
            raise ValueError(f"{axis}: a slice must have step 1, got {pick!r}")
        return slice(start, max(start, stop))
    place = operator.index(pick)
    if not -size <= place < size:
        raise IndexError(f"there is no {axis} {place}: there are {size}, numbered from 0")
    return slice(place % size, place % size + 1)


def _is_one(pick: Pick) -> bool:
    return pick is not None and not isinstance(pick, slice)


def _listed(record: Record) -> str:
    return ", ".join(f"{name} ({size})" for name, size in zip(record.axes, record.shape, strict=True))
