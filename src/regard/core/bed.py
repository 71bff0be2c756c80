"""Where the mask of a fused kernel comes from: scores of position and what is forbidden, by tile or as a view.

Axes: `b` batch and `h` heads (any batch axes, made two), `r` rows of a tile, `k` = m + n - 1 offsets.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import functional_call

from regard.core import fused
from regard.core.bias import Positional
from regard.core.cells import Cells
from regard.core.offsets import offsets
from regard.core.where import Where, everywhere


class Bed(NamedTuple):
    """Where the mask of a tile comes from.

    Attributes:
        terms: The scores of position.
        where: Which keys a query may see.
        cells: Where queries and keys stand.
        like: The queries, for their type.
        turned: Whether the queries are turned round, so that the mask is a view of a table by offset.
        places: The tensors that learn: the number of their term, and their name in it.
    """

    terms: tuple[Positional, ...]
    where: Where
    cells: Cells
    like: Tensor
    turned: bool
    places: tuple[tuple[int, str], ...]

    def source(self, learned: Sequence[Tensor] = ()) -> Tensor | None:
        """The table by offset, (heads or 1, k); None where there is none. `learned` stands in for the terms' own."""
        if not self.turned:
            return None
        offset = offsets(self.cells)
        total = self.like.new_zeros(1, len(offset)) + sum(self._each("table", (self.like, self.cells), learned))
        left, right = self.where.band()
        if left is not None:
            total = torch.where(offset >= -left, total, -torch.inf)
        return total if right is None else torch.where(offset <= right, total, -torch.inf)

    def mask(
        self, rows: slice, columns: slice, source: Tensor | None, learned: Sequence[Tensor] = ()
    ) -> Float[Tensor, "#b #h r _"]:
        """The mask of a tile, from the table if there is one."""
        if source is not None:
            size = (1, len(source), rows.stop - rows.start, columns.stop - columns.start)
            strides = (0, source.stride(0), source.stride(1), source.stride(1))
            return source.as_strided(size, strides, source.storage_offset() + rows.start + columns.start)
        part = self.cells.part(rows, columns)
        total: Tensor = sum(
            self._each("forward", (self.like[:, :, rows], (), part), learned), self.like.new_zeros(1, 1)
        )
        if self.where is not everywhere:
            total = torch.where(fused.allowed(self.where, part), total, -torch.inf)
        total = total.to(self.like.dtype).expand(*total.shape[:-2], part.rows, part.columns)
        return fused.mask_of_four(total, self.cells.batch)

    def _each(self, name: str, arguments: tuple[Any, ...], learned: Sequence[Tensor]) -> Iterator[Tensor]:
        """A method of each term; from lent tensors, if there are any."""
        lent: list[dict[str, Tensor]] = [{} for _ in self.terms]
        for (number, place), tensor in zip(self.places if learned else (), learned, strict=True):
            lent[number][f"term.{place}"] = tensor
        for term, own in zip(self.terms, lent, strict=True):
            run = _Called(term, name)
            yield functional_call(run, own, arguments) if own else run(*arguments)

    def tiles(self, rows: int) -> Iterator[tuple[slice, slice]]:
        """Rows, and the columns that some of them may see; all rows at once where nothing would be left out."""
        m, n, (left, right) = self.cells.rows, self.cells.columns, self.where.band()
        first = self.cells.first if isinstance(self.cells.first, int) else None
        whole = self.turned and left is None and right is None
        for part, seen in self.where.parts() or [(slice(0, m), slice(0, n))]:
            for start in range(part.start, part.stop, m if whole else rows):
                stop, begin, end = min(start + (m if whole else rows), part.stop), seen.start, seen.stop
                top, bottom = (m - stop, m - start) if self.turned else (start, stop)
                if first is not None and left is not None:
                    begin = min(max(first + top - left, begin), end)
                if first is not None and right is not None:
                    end = max(min(first + bottom + right, end), begin)
                yield slice(start, stop), slice(begin, end)


class _Called(torch.nn.Module):
    """A method of a term as a module of its own, to which tensors can be lent."""

    def __init__(self, term: Positional, name: str) -> None:
        super().__init__()
        self.term, self.name = term, name

    def forward(self, *arguments: Any) -> Tensor:
        found: Tensor = getattr(self.term, self.name)(*arguments)
        return found
