"""Scores that compare vectors: dot, scaled dot, cosine, general, additive; and one from the query alone.

Widths: d_q of a query, d_k of a key, `hidden` inside a learned score. Which to choose: `scaled_dot` unless
you have a reason; `General` or `Additive` where query and key have different widths or come from different
networks; `Cosine` for content addressing, where only direction matters; `Location` to repeat the paper.
"""

import math
from abc import abstractmethod
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.core import additive
from regard.core.cells import Cells
from regard.core.direction import direction
from regard.core.errors import Misfit, whole
from regard.core.score import Score, Share, by_cell, check_width, keep_factor


class Sides(NamedTuple):
    """The two sides of a score that is a product: `scale · query @ key.mT`."""

    query: Float[Tensor, "*_ m d"]
    key: Float[Tensor, "*_ n d"]
    scale: float


class Product(Score):
    """A score that is a dot product of what it makes of query and key: what fused kernels are made for."""

    by_cell = True

    @abstractmethod
    def sides(self, query: Float[Tensor, "*_ m _"], key: Any, cells: Cells) -> Sides:
        """The two sides, whose product is the score."""

    def forward(self, query: Float[Tensor, "*_ m _"], key: Any, cells: Cells) -> Float[Tensor, "*_ m n"]:
        asked, share, scale = self.sides(query, key, cells)
        return (asked if scale == 1 else asked * scale) @ share.mT


class Dot(Product):
    """`scale · q·k`. Ready to use: `dot`, with scale 1 (Luong et al. 2015, arXiv:1508.04025).

    Args:
        scale: A number or a tensor: a scalar, or one value for each cell of the call's batch axes. A parameter
            is learned.
    """

    shows = True

    def __init__(self, scale: float | Tensor = 1.0) -> None:
        super().__init__()
        self.scale: float | Tensor
        keep_factor(self, "scale", scale)

    def sides(self, query: Float[Tensor, "*_ m d"], key: Float[Tensor, "*_ n d"], cells: Cells) -> Sides:
        del cells
        if isinstance(self.scale, Tensor):
            return Sides(query * by_cell(self.scale), key, 1.0)
        return Sides(query, key, self.scale)

    def check(self, query_width: int, key_width: int, cells: Cells) -> None:
        _same_width(self, query_width, key_width)
        if isinstance(self.scale, Tensor):
            cells.fit(self.scale.shape, (), "Dot's scale")

    def __repr__(self) -> str:
        return "dot" if isinstance(self.scale, float) and self.scale == 1 else super().__repr__()


class ScaledDot(Product):
    """`q·k / √d_k`. Ready to use: `scaled_dot` (Vaswani et al. 2017, arXiv:1706.03762).

    d_k is the width of one key, so the width of one head: neither the model's width nor the sequence's length.
    """

    shows = True

    def sides(self, query: Float[Tensor, "*_ m d"], key: Float[Tensor, "*_ n d"], cells: Cells) -> Sides:
        del cells
        return Sides(query, key, max(query.shape[-1], 1) ** -0.5)

    def check(self, query_width: int, key_width: int, cells: Cells) -> None:
        _same_width(self, query_width, key_width)

    def __repr__(self) -> str:
        return "scaled_dot"


dot = Dot()
scaled_dot = ScaledDot()


class Cosine(Product):
    """`β · q·k / (|q| |k|)`: content-based addressing (Graves et al. 2014, arXiv:1410.5401, eq. 6).

    A vector of zeros has no direction: its cosine is 0 with everything, and so is its gradient.

    Args:
        strength: β, a number or a tensor: a scalar, or one value for each cell of the call's batch axes.
            A parameter is learned.
    """

    def __init__(self, strength: float | Tensor = 1.0) -> None:
        super().__init__()
        self.strength: float | Tensor
        keep_factor(self, "strength", strength)

    def sides(self, query: Float[Tensor, "*_ m d"], key: Float[Tensor, "*_ n d"], cells: Cells) -> Sides:
        del cells
        if isinstance(self.strength, Tensor):
            return Sides(direction(query) * by_cell(self.strength), key, 1.0)
        return Sides(direction(query), key, self.strength)

    def key_share(self, key: Float[Tensor, "*batch n d"]) -> Share:
        return direction(key)

    def check(self, query_width: int, key_width: int, cells: Cells) -> None:
        _same_width(self, query_width, key_width)
        if isinstance(self.strength, Tensor):
            cells.fit(self.strength.shape, (), "Cosine's strength")


class General(Product):
    """`qᵀ W k` (Luong et al. 2015, arXiv:1508.04025).

    Attributes:
        weight: W, (query_width, key_width). Drawn from U(±1/√key_width).
    """

    shows = True

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__()
        self.query_width = whole(query_width, "General: query_width", least=1)
        self.key_width = whole(key_width, "General: key_width", least=1)
        self.weight = nn.Parameter(torch.empty(query_width, key_width).uniform_(-1, 1) / math.sqrt(key_width))

    def sides(self, query: Float[Tensor, "*_ m d_q"], key: Float[Tensor, "*_ n _"], cells: Cells) -> Sides:
        del cells
        return Sides(query, key, 1.0)

    def key_share(self, key: Float[Tensor, "*batch n d_k"]) -> Share:
        return key @ self.weight.mT

    def check(self, query_width: int, key_width: int, cells: Cells) -> None:
        check_width(repr(self), "queries", query_width, self.query_width)
        self.check_key_width(key_width)

    def check_key_width(self, key_width: int) -> None:
        check_width(repr(self), "keys", key_width, self.key_width)


class Additive(Score):
    """`vᵀ tanh(W q + U k)` (Bahdanau et al. 2015, arXiv:1409.0473; Luong's "concat" is the same, W and U one).

    Attributes:
        query: W, (hidden, query_width).
        key: U, (hidden, key_width).
        vector: v, (hidden,). Drawn from U(±1/√hidden).
    """

    by_cell = True

    def __init__(self, query_width: int, key_width: int, hidden: int) -> None:
        super().__init__()
        self.query_width = whole(query_width, "Additive: query_width", least=1)
        self.key_width = whole(key_width, "Additive: key_width", least=1)
        self.hidden = whole(hidden, "Additive: hidden", least=1)
        self.query = nn.Linear(query_width, hidden, bias=False)
        self.key = nn.Linear(key_width, hidden, bias=False)
        self.vector = nn.Parameter(torch.empty(hidden).uniform_(-1, 1) / math.sqrt(hidden))

    def forward(self, query: Float[Tensor, "*_ m d_q"], key: additive.KeySide, cells: Cells) -> Float[Tensor, "*_ m n"]:
        del cells
        return additive.scores(self.query(query), key, self.vector)

    def key_share(self, key: Float[Tensor, "*batch n d_k"]) -> additive.KeySide:
        return additive.key_side(self.key(key))

    def check(self, query_width: int, key_width: int, cells: Cells) -> None:
        check_width(repr(self), "queries", query_width, self.query_width)
        self.check_key_width(key_width)

    def check_key_width(self, key_width: int) -> None:
        check_width(repr(self), "keys", key_width, self.key_width)


class Location(Product):
    """`W q`, a score for each position from the query alone (Luong et al. 2015, arXiv:1508.04025).

    It fixes a longest sequence: a call with more keys is refused. Shorter ones use the first rows of W.

    Attributes:
        weight: W, (longest, query_width). Drawn from U(±1/√query_width).
    """

    def __init__(self, query_width: int, longest: int) -> None:
        super().__init__()
        self.query_width = whole(query_width, "Location: query_width", least=1)
        self.longest = whole(longest, "Location: longest", least=1)
        self.weight = nn.Parameter(torch.empty(longest, query_width).uniform_(-1, 1) / math.sqrt(query_width))

    def sides(self, query: Float[Tensor, "*_ m d_q"], key: tuple[()], cells: Cells) -> Sides:
        del key
        return Sides(query, self.weight[cells.column : cells.column + cells.columns], 1.0)

    def key_share(self, key: Float[Tensor, "*batch n _"]) -> Share:
        del key
        return ()

    def check(self, query_width: int, key_width: int, cells: Cells) -> None:
        check_width(repr(self), "queries", query_width, self.query_width)
        if cells.columns > self.longest:
            raise Misfit(
                f"{self!r} scores at most {self.longest} keys, got {cells.columns}: "
                f"make it with longest={cells.columns}"
            )


def _same_width(score: Score, query_width: int, key_width: int) -> None:
    if query_width != key_width:
        raise Misfit(
            f"{score!r} compares vectors of one width, got queries of width {query_width} "
            f"and keys of width {key_width}: use General({query_width}, {key_width}) "
            f"or Additive({query_width}, {key_width}, hidden=…)"
        )
