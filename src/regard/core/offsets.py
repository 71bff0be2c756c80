"""A table of numbers by offset j - i, laid out as the cells of a call; and its gradient, the sums along diagonals.

Indexing a table with an (m, n) tensor of offsets reads and writes cell by cell; this copies and adds whole rows.

Axes: `*heads` of the table, `k` offsets, `m` rows, `n` columns, k = m + n - 1.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from regard.core.cells import Cells
from regard.core.score import is_seen


def offsets(cells: Cells) -> Int[Tensor, " k"]:
    """The offsets j - i of a call whose `first` is an int: from its last row's first column to the contrary."""
    least = cells.column - cells.row - cells.rows + 1
    return torch.arange(least, least + cells.rows + cells.columns - 1, device=cells.device) - cells.first


def has_offsets(cells: Cells) -> bool:
    """Whether the cells of a call have offsets of their own: one position for all examples, and a cell at least."""
    return isinstance(cells.first, int) and cells.rows > 0 and cells.columns > 0


def laid_out(table: Float[Tensor, "*heads k"], rows: int) -> Float[Tensor, "*heads m n"]:
    """The table's entry of each cell.

    >>> import torch
    >>> laid_out(torch.tensor([-1.0, 0.0, 1.0, 2.0]), rows=2)
    tensor([[ 0.,  1.,  2.],
            [-1.,  0.,  1.]])
    """
    if not is_seen(table):
        return _rows(table, rows)
    found: Tensor = _LaidOut.apply(table, rows)  # type: ignore[no-untyped-call]
    return found


def _rows(table: Tensor, rows: int) -> Tensor:
    return table.unfold(-1, table.shape[-1] - rows + 1, 1).flip(-2)


class _LaidOut(torch.autograd.Function):
    """Backward shifts row by row until what belongs to one offset stands in one column."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: int) -> Tensor:
        return _rows(table, rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return summed(gradients[0].flip(-2)), None


def summed(cells: Float[Tensor, "*heads m n"]) -> Float[Tensor, "*heads k"]:
    """The sum of the cells at each row + column, rows counted from the last: shifted row by row into columns."""
    rows, columns = cells.shape[-2:]
    shifted = functional.pad(cells, (0, rows)).flatten(-2)[..., : rows * (rows + columns - 1)]
    return shifted.reshape(*cells.shape[:-2], rows, rows + columns - 1).sum(-2)
