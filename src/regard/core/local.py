"""Local attention: a window whose centre is given or predicted (Luong et al. 2015, arXiv:1508.04025).

    focus = local(query, length)
    attend(query, key, value, where=focus.where & lengths(length), after=focus.after)

- local-m, monotonic: the centre is the query's own position. It is no more than `window(D, D)`.
- local-p, predictive: `p = S · sigmoid(vᵀ tanh(W h))` for a source of S positions; a window of 2D + 1 keys
  around ⌊p⌋, and a Gaussian around the real p with σ = D/2 that multiplies the weights once they are
  normalised, and is not normalised again. Only the Gaussian passes a gradient to p: without it v and W
  learn nothing.

Which paper's query: Luong's is the decoder's current state h_t; Bahdanau's is the one before.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.core.cells import Cells
from regard.core.errors import integers, whole
from regard.core.extents import window
from regard.core.where import Where


class Factor(ABC):
    """What multiplies the weights once they are normalised, cell by cell."""

    @abstractmethod
    def factor(self, cells: Cells) -> Float[Tensor, "*_ _ _"]:
        """The factors, in a shape that broadcasts to (*batch, m, n)."""


class Gaussian(Factor):
    """`exp(-(j - p)² / 2σ²)` for the key at position j and a query whose centre is p.

    Args:
        centre: p, (*batch, m).
        deviation: σ.
    """

    def __init__(self, centre: Tensor, deviation: float) -> None:
        if not deviation > 0:
            raise ValueError(f"Gaussian: deviation must be above 0, got {deviation}")
        self.centre, self.deviation = centre, float(deviation)

    def factor(self, cells: Cells) -> Float[Tensor, "*_ m n"]:
        cells.fit(self.centre.shape, ("m",), "the Gaussian's centre")
        centre = cells.cut_rows(self.centre)
        distance = (cells.column_position - centre[..., None]) / self.deviation
        return torch.exp(-distance.square() / 2)

    def __repr__(self) -> str:
        return f"Gaussian({tuple(self.centre.shape)}, {self.deviation})"


class _Near(Where):
    """The keys at most `distance` from ⌊centre⌋: 2 · distance + 1 of them, fewer at the ends."""

    by_cell = True

    def __init__(self, centre: Tensor, distance: int) -> None:
        self.centre, self.distance = centre, distance

    def allowed(self, cells: Cells) -> Bool[Tensor, "*_ m n"]:
        cells.fit(self.centre.shape, ("m",), "the centre")
        centre = cells.cut_rows(self.centre.detach()).floor()
        return (cells.column_position - centre[..., None]).abs() <= self.distance

    def __repr__(self) -> str:
        return f"near({tuple(self.centre.shape)}, {self.distance})"


class Focus(NamedTuple):
    """Where a query looks, in the operation's own words.

    Attributes:
        where: The window, a predicate.
        after: What multiplies the weights, or None.
        centre: (*batch, m), the real centre of each query's window.
    """

    where: Where
    after: Factor | None
    centre: Float[Tensor, "*batch m"]


class LocalMonotonic(nn.Module):
    """local-m: source and target are aligned position by position. It predicts nothing.

    Args:
        distance: D, the keys on either side of the centre.
    """

    def __init__(self, *, distance: int = 10) -> None:
        super().__init__()
        self.distance = whole(distance, "LocalMonotonic: distance", least=0)

    def forward(self, query: Float[Tensor, "*batch m d_q"], length: int | Tensor, *, first: int = 0) -> Focus:
        """The focus of queries that stand at `first` and after; `length` does not change it."""
        del length
        position = torch.arange(first, first + query.shape[-2], device=query.device, dtype=query.dtype)
        return Focus(window(self.distance, self.distance), None, position.expand(query.shape[:-1]))


class LocalPredictive(nn.Module):
    """local-p: each query predicts the position that it looks at.

    Args:
        query_width: The width of a query.
        hidden: The width of the predicting layer; that of the query unless given.
        distance: D, the keys on either side of the centre; the Gaussian has σ = D/2.
    """

    def __init__(self, query_width: int, hidden: int | None = None, *, distance: int = 10) -> None:
        super().__init__()
        self.query_width = whole(query_width, "LocalPredictive: query_width", least=1)
        self.distance = whole(distance, "LocalPredictive: distance", least=1)
        width = query_width if hidden is None else whole(hidden, "LocalPredictive: hidden", least=1)
        self.hidden = nn.Linear(query_width, width, bias=False)
        self.vector = nn.Linear(width, 1, bias=False)

    def forward(
        self, query: Float[Tensor, "*batch m d_q"], length: int | Int[Tensor, "*batch"], *, first: int = 0
    ) -> Focus:
        """The focus of each query.

        Args:
            query: (*batch, m, query_width), the decoder's current states.
            length: S, the length of each example's own source, not of the padded one: an int or (*batch).
            first: Not used: the centre is predicted, wherever the query stands.

        Raises:
            ValueError: if the widths or the batch axes do not fit.
        """
        del first
        if query.shape[-1] != self.query_width:
            raise ValueError(f"LocalPredictive: queries have width {query.shape[-1]}, made for {self.query_width}")
        if isinstance(length, Tensor):
            if integers(length, "LocalPredictive: length").shape != query.shape[:-2]:
                raise ValueError(
                    f"LocalPredictive: length has shape {tuple(length.shape)}, but the queries have batch axes "
                    f"{tuple(query.shape[:-2])}: give the length of each example's source"
                )
            length = length[..., None]
        share: Tensor = torch.sigmoid(self.vector(torch.tanh(self.hidden(query)))).squeeze(-1)
        centre = length * share
        return Focus(_Near(centre, self.distance), Gaussian(centre, self.distance / 2), centre)
