"""The score of a decoder's steps: each step's alone, and what can wait until all queries are there.

Axes: `batch`, `m` steps, `n` keys, `q` the width that is compared.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.core import additive
from regard.core.score import at_least_single

Query = Float[Tensor, "batch q"]
Keys = Float[Tensor, "batch n q"]
Row = Float[Tensor, "batch n"]


class Sums:
    """An additive score.

    Args:
        keys: The projected keys.
        vector: v.
        exponential: e^{2b} of the keys; None where something could overflow.

    Attributes:
        kind: The type that queries are compared in.
    """

    def __init__(self, keys: Tensor, vector: Tensor, exponential: Tensor | None) -> None:
        self.kind = at_least_single(keys.dtype)
        self.keys, self.vector, self.exponential = keys.to(self.kind), vector.to(self.kind), exponential
        self.values = torch.zeros_like(self.vector)

    def scores(self, query: Query) -> Row:
        """The scores of one step."""
        kernels, queries, keys = self._kernels(query[:, None])
        found: Tensor = kernels.scores(queries, keys, self.vector)
        return found[:, 0]

    def query_slope(self, query: Query, slope: Row) -> Query:
        """The query's gradient, from that of the scores; the vector's is added up."""
        kernels, queries, keys = self._kernels(query[:, None])
        steep, values = kernels.query_side(queries, keys, slope[:, None])
        self.values += values.sum((0, 1))
        for_query: Tensor = self.vector * steep[:, 0]
        return for_query

    def finish(self, queries: Float[Tensor, "batch m q"], slopes: Float[Tensor, "batch m n"]) -> tuple[Keys, Tensor]:
        """The gradients of the keys and of the vector, once all steps are known."""
        kernels, asked, keys = self._kernels(queries.contiguous())
        return self.vector * kernels.key_side(asked, keys, slopes), self.values

    def _kernels(self, queries: Tensor) -> tuple[Any, Tensor, Tensor]:
        return additive.chosen(queries, self.keys, self.exponential, learns=True)


class Products:
    """A score that is a scaled product.

    Args:
        keys: The keys.
        scale: The factor.
        kind: The type of the product.
    """

    def __init__(self, keys: Tensor, scale: float, kind: torch.dtype) -> None:
        self.keys, self.scale, self.kind = keys.to(kind), scale, kind

    def scores(self, query: Query) -> Row:
        """The scores of one step."""
        found = torch.bmm(query[:, None], self.keys.mT)[:, 0]
        return found.to(at_least_single(self.kind)).mul_(self.scale)

    def query_slope(self, query: Query, slope: Row) -> Query:
        """The query's gradient, from that of the scores."""
        del query
        return torch.bmm((slope * self.scale).to(self.kind)[:, None], self.keys)[:, 0]

    def finish(self, queries: Float[Tensor, "batch m q"], slopes: Float[Tensor, "batch m n"]) -> tuple[Keys, None]:
        """The gradient of the keys, once all steps are known."""
        return (slopes * self.scale).to(self.kind).mT @ queries, None
