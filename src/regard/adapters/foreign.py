"""The record of a call that was made elsewhere: scaled dot products, softmax, a mask, a bias.

Axes: `b` examples, `h` heads, `m` queries, `n` keys, `d` of one head, of the part that is asked for.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.core import Bias, Dot, Score, Where, everywhere, given, scores, weights
from regard.core.held import Held
from regard.core.record import Pick, Picks, Selection, axis_names, selection


class Part(NamedTuple):
    """The part of a call that is asked for, in the words of the operation.

    Attributes:
        query: Its queries.
        key: Its keys, for the same heads as the queries.
        scale: What multiplies the dot products.
        open: Which cells are allowed, by a mask of booleans or by being causal.
        bias: What is added to the scores; -inf, or the lowest number of its type, forbids.
    """

    query: Float[Tensor, "b h m d"]
    key: Float[Tensor, "b h n d"]
    scale: float
    open: Bool[Tensor, "#b #h #m n"] | None
    bias: Float[Tensor, "#b #h #m n"] | None


Cut = Callable[[Mapping[str, Any], Selection], Part]


class Foreign:
    """One call of an attention of another library.

    Args:
        name: What to call it in an error.
        shape: (*batch, heads, m, n).
        tensors: What the call was made with, by name; tensors are kept as references.
        cut: Makes the part that is asked for out of them.
    """

    def __init__(self, name: str, shape: tuple[int, ...], tensors: Mapping[str, Tensor | None], cut: Cut) -> None:
        self._shape, self._cut = shape, cut
        device = next(tensor.device.type for tensor in tensors.values() if tensor is not None)
        self._held = Held(name, device)
        self._kept = {name: self._held.keep(name, tensor) for name, tensor in tensors.items()}

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes of what it gives."""
        return axis_names(len(self._shape) - 2, heads=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of those axes."""
        return self._shape

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Every reference that is kept, by its name."""
        return dict(self._held.tensors)

    def weights(self, *, example: Picks = None, head: Pick = None, rows: Pick = None) -> Tensor:
        """The weights as applied, before dropout; 0 in a row that may see nothing."""

        def applied(part: Part) -> Tensor:
            return weights(part.query, part.key, score=_score(part), where=_where(part))

        return self._asked(applied, example, head, rows)

    def scores(self, *, example: Picks = None, head: Pick = None, rows: Pick = None) -> Tensor:
        """The scores with their bias; -inf in a forbidden cell."""

        def compared(part: Part) -> Tensor:
            table = scores(part.query, part.key, score=_score(part), where=_where(part))
            return torch.where(_allowed(part), table, -torch.inf)

        return self._asked(compared, example, head, rows)

    def allowed(self, *, example: Picks = None, head: Pick = None, rows: Pick = None) -> Tensor:
        """Which cells were allowed, by a mask of booleans or by one of numbers that are the lowest there are."""
        return self._asked(_allowed, example, head, rows)

    def _asked(self, answer: Callable[[Part], Tensor], example: Picks, head: Pick, rows: Pick) -> Tensor:
        chosen = selection(self, example, head, rows)
        with self._held.again():
            table = answer(self._cut(self._kept, chosen))
            # A call without examples was cut with one.
            return chosen.shown(table if len(chosen.batch) > 1 else table.squeeze(0))

    def __repr__(self) -> str:
        return f"Foreign({', '.join(f'{axis} {size}' for axis, size in zip(self.axes, self.shape, strict=True))})"


def _score(part: Part) -> Score:
    return Dot(part.scale) if part.bias is None else Dot(part.scale) + Bias(part.bias)


def _where(part: Part) -> Where:
    return everywhere if part.open is None else given(part.open)


def _allowed(part: Part) -> Tensor:
    shape = (*part.query.shape[:-1], part.key.shape[-2])
    allowed = torch.ones(shape, dtype=torch.bool, device=part.query.device)
    if part.open is not None:
        allowed = allowed & part.open
    if part.bias is not None:
        allowed = allowed & (part.bias > torch.finfo(part.bias.dtype).min / 2)
    return allowed


def causal_cells(rows: slice, columns: int, device: torch.device) -> Bool[Tensor, "1 1 m n"]:
    """The cells at or before each query, of some rows of a call whose first query stands at 0."""
    row = torch.arange(rows.start, rows.stop, device=device)
    return (torch.arange(columns, device=device) <= row[:, None])[None, None]


def narrowed(tensor: Tensor, *parts: slice) -> Tensor:
    """From where to where on the first axes; an axis of size 1 stays."""
    for axis, part in enumerate(parts):
        if tensor.shape[axis] != 1:
            tensor = tensor.narrow(axis, part.start, part.stop - part.start)
    return tensor
