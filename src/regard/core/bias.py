"""Scores of position alone, added to another with `+`: given, ALiBi, T5's buckets, CoAtNet's grid.

They are added after the scale: `scaled_dot + Alibi(8)` is `q·k / √d - m·|i - j|`.
`heads` is the last batch axis of the call.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cells import Cells
from regard.core.errors import Misfit, whole
from regard.core.offsets import has_offsets, laid_out, offsets
from regard.core.score import Score, Share, at_least_single


class Positional(Score):
    """What the scores of position alone share: they need nothing from the keys, and of the query only its type."""

    by_cell = True
    by_offset: bool = False
    """Whether the score depends on the offset j - i alone; `table` then gives it."""

    def key_share(self, key: Float[Tensor, "*batch n _"]) -> Share:
        del key
        return ()

    def table(self, query: Float[Tensor, "*_ m _"], cells: Cells) -> Float[Tensor, "*heads k"]:
        """The score of each of the call's offsets (see `offsets.py`)."""
        raise Misfit(f"{self!r} has no table by offset")


class Bias(Positional):
    """A tensor added to the scores, by row and column of the call. A parameter is learned.

    An entry of -inf makes a weight 0, but hides nothing: a key that is not finite still marks the row. Where a
    tensor is a mask, take it apart: `where=given(tensor > -inf)`, and the rest as the bias.

    Args:
        tensor: (m, n) or (*batch, m, n); any axis may have size 1.
    """

    def __init__(self, tensor: Tensor) -> None:
        super().__init__()
        if not isinstance(tensor, Tensor):
            raise TypeError(f"Bias: tensor must be a tensor of numbers, got {type(tensor).__name__}: {tensor!r}")
        if not tensor.is_floating_point():
            dtype = str(tensor.dtype).removeprefix("torch.")
            remedy = "a mask goes in as where=given(mask)" if tensor.dtype is torch.bool else "convert it with .float()"
            raise TypeError(f"Bias: tensor must hold real numbers, got {dtype}: {remedy}")
        if tensor.ndim < 2:
            raise ValueError(f"Bias: tensor needs its last two axes to be (m, n), got shape {tuple(tensor.shape)}")
        self.tensor: Tensor
        if isinstance(tensor, nn.Parameter):
            self.tensor = tensor
        else:
            self.register_buffer("tensor", tensor, persistent=False)

    def forward(self, query: Float[Tensor, "*_ m _"], key: tuple[()], cells: Cells) -> Float[Tensor, "*_ _ _"]:
        del query, key
        return cells.cut(self.tensor)

    def check(self, query_width: int, key_width: int, cells: Cells) -> None:
        cells.fit(self.tensor.shape, ("m", "n"), "the bias")

    def __repr__(self) -> str:
        return f"Bias({tuple(self.tensor.shape)})"


class Alibi(Positional):
    """`-m_h · |i - j|`, linear in the distance, with a slope a head (Press et al. 2022, arXiv:2108.12409).

    The paper is causal and defines keys at or before the query; the distance is taken both ways here, so
    that a model that looks ahead is not drawn to the far future. Slopes are 2^(-8h/H) for H a power of two;
    otherwise those of the power of two below, then every other one of twice that.
    """

    by_offset = True
    exponent: Tensor

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = whole(heads, "Alibi: heads", least=1)
        # Exponents, not slopes: they are exact in every type that the module may be moved to.
        self.register_buffer("exponent", torch.tensor(_alibi_exponents(heads)), persistent=False)

    def forward(self, query: Float[Tensor, "*_ m _"], key: tuple[()], cells: Cells) -> Float[Tensor, "*_ heads m n"]:
        del key
        if has_offsets(cells):
            return laid_out(self.table(query, cells), cells.rows)
        return -self._slope(query)[:, None, None] * (cells.row_position - cells.column_position).abs()

    def table(self, query: Float[Tensor, "*_ m _"], cells: Cells) -> Float[Tensor, "heads k"]:
        return -self._slope(query)[:, None] * offsets(cells).abs()

    def _slope(self, query: Tensor) -> Float[Tensor, " heads"]:
        return torch.exp2(self.exponent.to(at_least_single(query.dtype)))

    def check(self, query_width: int, key_width: int, cells: Cells) -> None:
        fit_heads(self, self.heads, cells)


def _alibi_exponents(heads: int) -> list[float]:
    power = 2 ** math.floor(math.log2(heads))
    exponents = [-8 * h / power for h in range(1, power + 1)]
    extra = [-8 * h / (2 * power) for h in range(1, 2 * power + 1, 2)]
    return exponents + extra[: heads - power]


class RelativeBias(Positional):
    """A learned number for each head and bucket of the offset j - i (Raffel et al. 2020, arXiv:1910.10683).

    Half of a side's buckets are single offsets, the others grow logarithmically up to `furthest`, beyond
    which all share the last. T5 adds it to `dot` (no scale), from one table for a whole stack: give the same
    object to each layer.

    Args:
        heads: The number of heads.
        buckets: The number of buckets, even when both ways are told apart.
        furthest: The offset at which the last bucket starts.
        both_ways: Whether keys before and after the query have buckets of their own, as in an encoder;
            otherwise every later key counts as offset 0, as in a decoder.

    Attributes:
        weight: (buckets, heads), zeros at first.
    """

    by_offset = True

    def __init__(self, heads: int, *, buckets: int = 32, furthest: int = 128, both_ways: bool = True) -> None:
        super().__init__()
        self.heads = whole(heads, "RelativeBias: heads", least=1)
        self.buckets = whole(buckets, "RelativeBias: buckets", least=4 if both_ways else 2)
        self.furthest = whole(furthest, "RelativeBias: furthest", least=1)
        self.both_ways = both_ways
        single = buckets // (4 if both_ways else 2)
        if buckets % (2 if both_ways else 1):
            raise ValueError(f"RelativeBias: buckets must be even to tell both ways apart, got {buckets}")
        if furthest <= single:
            raise ValueError(f"RelativeBias: furthest must be above the {single} single offsets, got {furthest}")
        self.weight = nn.Parameter(torch.zeros(buckets, heads))

    def forward(self, query: Float[Tensor, "*_ m _"], key: tuple[()], cells: Cells) -> Float[Tensor, "*_ heads m n"]:
        del key
        if has_offsets(cells):
            return laid_out(self.table(query, cells), cells.rows)
        head = torch.arange(self.heads, device=self.weight.device)[:, None, None]
        return self.weight.mT[head, self.bucket(cells.column_position - cells.row_position)]

    def table(self, query: Float[Tensor, "*_ m _"], cells: Cells) -> Float[Tensor, "heads k"]:
        del query
        return self.weight.mT[:, self.bucket(offsets(cells))]

    def bucket(self, offset: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """The bucket of each offset j - i."""
        side = self.buckets
        start: Tensor | int = 0
        if self.both_ways:
            side //= 2
            start = (offset > 0) * side
            distance = offset.abs()
        else:
            distance = (-offset).clamp_min(0)
        single = side // 2
        ratio = torch.log(distance.clamp_min(single).float() / single) / math.log(self.furthest / single)
        grown = single + (ratio * (side - single)).long()
        return start + torch.where(distance < single, distance, grown.clamp_max(side - 1))

    def check(self, query_width: int, key_width: int, cells: Cells) -> None:
        fit_heads(self, self.heads, cells)


class GridBias(Positional):
    """A learned number for each head and offset i - j on a grid, before the softmax (CoAtNet, arXiv:2106.04803).

    Position p of a sequence is the cell (p // width, p % width) of the grid.

    Attributes:
        weight: (heads, 2·height - 1, 2·width - 1), zeros at first; offset (0, 0) is in the middle.
    """

    def __init__(self, heads: int, height: int, width: int) -> None:
        super().__init__()
        self.heads = whole(heads, "GridBias: heads", least=1)
        self.height = whole(height, "GridBias: height", least=1)
        self.width = whole(width, "GridBias: width", least=1)
        self.weight = nn.Parameter(torch.zeros(heads, 2 * height - 1, 2 * width - 1))

    def forward(self, query: Float[Tensor, "*_ m _"], key: tuple[()], cells: Cells) -> Float[Tensor, "*_ heads m n"]:
        del query, key
        i, j = cells.row_position, cells.column_position
        down = i // self.width - j // self.width + self.height - 1
        right = i % self.width - j % self.width + self.width - 1
        head = torch.arange(self.heads, device=self.weight.device)[:, None, None]
        return self.weight[head, down, right]

    def check(self, query_width: int, key_width: int, cells: Cells) -> None:
        fit_heads(self, self.heads, cells)
        furthest = cells.columns if isinstance(cells.first, Tensor) else max(cells.columns, cells.first + cells.rows)
        if furthest > self.height * self.width:
            raise Misfit(
                f"{self!r} has {self.height * self.width} cells, but the call reaches position {furthest - 1}: "
                f"make it for a larger grid"
            )


def fit_heads(score: Score, heads: int, cells: Cells) -> None:
    """Raises `Misfit` unless the call's last batch axis is that many heads."""
    if not cells.batch or cells.batch[-1] != heads:
        raise Misfit(
            f"{score!r} needs the last batch axis to be its {heads} heads, "
            f"but the call's batch axes are {cells.batch}: put heads before the last two axes of query, key and value"
        )
