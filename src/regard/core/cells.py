"""The cells of one call: every pair of a query and a key, and where each stands.

Axes, here and in all of `core`: `*batch` the batch axes of the call (the last one is heads, where there
are heads), `m` queries, `n` keys. Row `i` of a call is its i-th query and stands at position `first + i`;
column `j` is its j-th key and stands at position `j`.
"""

import dataclasses
from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from regard.core.errors import Misfit, integers, whole


@dataclasses.dataclass(frozen=True, eq=False)
class Cells:
    """What a score, a predicate or a factor may know of a call besides its vectors.

    Attributes:
        batch: The call's batch axes, broadcast over query, key and value.
        rows: The number of queries, m.
        columns: The number of keys, n.
        first: The position of row 0: an int, or a tensor with exactly the call's batch axes. Below 0 a query
            stands before every key, and a causal one sees nothing.
        device: Where position tensors are made.
        row: The row of the call that is row 0 here: above 0 in a part of a call.
        column: The column of the call that is column 0 here.
        call: The rows and columns of the whole call; these cells are all of it unless given.
    """

    batch: tuple[int, ...]
    rows: int
    columns: int
    first: int | Tensor
    device: torch.device
    row: int = 0
    column: int = 0
    call: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.call is not None:
            return
        if isinstance(self.first, Tensor):
            self.fit(integers(self.first, "first").shape, (), "first")
        else:
            whole(self.first, "first")

    @property
    def row_position(self) -> Int[Tensor, "*#batch m 1"]:
        """The position of each query, as a column; with batch axes when `first` has them."""
        steps = torch.arange(self.row, self.row + self.rows, device=self.device)
        if isinstance(self.first, Tensor):
            return (self.first[..., None] + steps)[..., None]
        return (steps + self.first)[:, None]

    @property
    def column_position(self) -> Int[Tensor, "1 n"]:
        """The position of each key, as a row."""
        return torch.arange(self.column, self.column + self.columns, device=self.device)[None, :]

    def part(self, rows: slice, columns: slice = slice(None)) -> "Cells":
        """Some rows and columns of these cells, by their numbers here. They stand where they stood."""
        top, bottom, _ = rows.indices(self.rows)
        left, right, _ = columns.indices(self.columns)
        return dataclasses.replace(
            self,
            rows=max(bottom - top, 0),
            columns=max(right - left, 0),
            row=self.row + top,
            column=self.column + left,
            call=self.call or (self.rows, self.columns),
        )

    def cut(self, tensor: Tensor) -> Tensor:
        """What these cells see of a tensor of the whole call, (…, m, n); an axis of size 1 stays."""
        if self.call is None:
            return tensor
        return _narrowed(_narrowed(tensor, -2, self.row, self.rows), -1, self.column, self.columns)

    def cut_rows(self, tensor: Tensor) -> Tensor:
        """What these cells see of a tensor with an entry for each query of the call, (…, m)."""
        return tensor if self.call is None else _narrowed(tensor, -1, self.row, self.rows)

    def check(self, name: str, given: Tensor) -> None:
        """Raises `Misfit` unless what a score or predicate gave broadcasts to these cells."""
        shape = (*self.batch, self.rows, self.columns)
        fits = given.ndim <= len(shape) and all(
            have in (1, want) for have, want in zip(reversed(given.shape), reversed(shape), strict=False)
        )
        if not fits:
            raise Misfit(
                f"{name} gave shape {tuple(given.shape)} for cells of shape {shape}, to which it does not broadcast"
            )

    def fit(self, shape: Sequence[int], after: Sequence[str], name: str) -> None:
        """Checks a tensor that comes with a call: `after` names the axes that follow its batch axes.

        A tensor has either none of the call's batch axes or exactly all of them, each of size 1 or equal:
        a length per example must never line up with heads by accident. The axes that follow may be of
        size 1, or of the call's: "m" rows, "n" columns.

        Raises:
            Misfit: with the shapes, and the remedy.
        """
        axes = len(shape) - len(after)
        rows, columns = self.call or (self.rows, self.columns)
        sizes = {"m": rows, "n": columns}
        wanted = (*self.batch, *(sizes[a] for a in after))
        if axes not in (0, len(self.batch)) or len(shape) < len(after):
            heads = len(self.batch) - 1  # the axis over which such a tensor seldom varies
            example = tuple(1 if place == heads > 0 else size for place, size in enumerate(wanted))
            raise Misfit(
                f"{name} has shape {tuple(shape)}, which is {max(axes, 0)} batch axes{_followed(after)}, "
                f"but the call has {len(self.batch)} batch axes {self.batch}: give none of them or all of them, "
                f"with size 1 where it does not vary, for example {example}"
            )
        for have, want in zip(reversed(shape), reversed(wanted), strict=False):
            if have not in (1, want):
                raise Misfit(f"{name} has shape {tuple(shape)}, but the call needs {wanted} (or size 1 on any axis)")


def _followed(after: Sequence[str]) -> str:
    return f" and ({', '.join(after)})" if after else ""


def _narrowed(tensor: Tensor, axis: int, start: int, size: int) -> Tensor:
    return tensor if tensor.shape[axis] == 1 else tensor.narrow(axis, start, size)
