"""From scores to weights: softmax, sparsemax, entmax, hardmax.

A normaliser receives the scores and which cells are allowed, and returns weights that are at least 0, exactly
0 where not allowed, and sum to 1 in every row that may see anything. A row that may see nothing is 0, with
zero gradients. A score of -inf is the same as a forbidden cell. The mask comes to the normaliser: a large
negative score would only be a mask for softmax.

Which to choose: softmax unless you have a reason. `sparsemax` and `Entmax(1.5)` give exact zeros, which a
person can read and a long row can ignore; `hardmax` looks at one key and passes no gradient to the scores
(to train through a choice, see `choose`).
"""

import math
from abc import ABC, abstractmethod
from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Scores = Float[Tensor, "*batch m n"]
Open = Bool[Tensor, "*batch m n"]


class Weigh(ABC):
    """A normaliser. To write one's own, define `over`, for rows of which at least one cell is open."""

    @abstractmethod
    def over(self, scores: Scores, open_cells: Open) -> Scores:
        """The weights. Scores are finite where open and 0 elsewhere; what is returned elsewhere is dropped.

        Rows with no open cell are dropped too, but must come out finite.
        """

    def over_all(self, scores: Scores) -> Scores:
        """The weights where every cell is open."""
        return self.over(scores, torch.ones_like(scores, dtype=torch.bool))

    @final
    def __call__(self, scores: Scores, open_cells: Open | None) -> Scores:
        """The weights, exactly 0 in every cell that is not open. None says that all are."""
        if 0 in scores.shape:
            return torch.zeros_like(scores)
        if open_cells is None:
            return self.over_all(scores)
        return torch.where(open_cells, self.over(scores, open_cells), 0)

    def log(self, scores: Scores, open_cells: Open) -> Scores:
        """The logarithm of the weights: -inf, with zero gradient, where a weight is 0."""
        weights = self(scores, open_cells)
        positive = weights > 0
        return torch.where(positive, torch.where(positive, weights, 1).log(), -torch.inf)


class Softmax(Weigh):
    """`w_j = e^{s_j} / Σ e^{s_i}` over the allowed keys."""

    def over(self, scores: Scores, open_cells: Open) -> Scores:
        return self._closed(scores, open_cells).softmax(-1)

    def over_all(self, scores: Scores) -> Scores:
        return scores.softmax(-1)

    def log(self, scores: Scores, open_cells: Open) -> Scores:
        if 0 in scores.shape:
            return torch.zeros_like(scores)
        return torch.where(open_cells, self._closed(scores, open_cells).log_softmax(-1), -torch.inf)

    def _closed(self, scores: Scores, open_cells: Open) -> Scores:
        """-inf outside; a row with nothing open is all 0, since softmax of nothing but -inf is NaN."""
        return scores.masked_fill(~open_cells & open_cells.any(-1, keepdim=True), -torch.inf)

    def __repr__(self) -> str:
        return "softmax"


class Entmax(Weigh):
    """`w = [(α-1) s - τ]₊^{1/(α-1)}` with τ such that it sums to 1 (Peters et al. 2019, arXiv:1905.05702).

    Exact for α = 1.5 and α = 2 (sparsemax, Martins and Astudillo 2016, arXiv:1602.02068); by bisection and two
    Newton steps otherwise. The steps are part of the graph: since each doubles the order to which it is right,
    derivatives up to the third are exact.

    Args:
        alpha: Above 1. Near 1 it is dense as softmax, the more above the sparser.
    """

    def __init__(self, alpha: float) -> None:
        if isinstance(alpha, bool) or not isinstance(alpha, (int, float)):
            raise TypeError(f"Entmax: alpha must be a number, got {type(alpha).__name__}: {alpha!r}")
        if not 1 < alpha < math.inf:
            remedy = ": use softmax, which is its limit" if alpha == 1 else ""
            raise ValueError(f"Entmax: alpha must be finite and above 1, got {alpha}{remedy}")
        self.alpha = float(alpha)

    def over(self, scores: Scores, open_cells: Open) -> Scores:
        solve = {1.5: _entmax_1_5, 2.0: _sparsemax}.get(self.alpha)
        inside = torch.where(open_cells, scores, -torch.inf)
        top = inside.detach().amax(-1, keepdim=True)
        shifted = scores - torch.where(top.isfinite(), top, 0)
        # The support lies within 1/(α-1) of the top: outside it a cell changes nothing.
        shifted = torch.where(open_cells, (self.alpha - 1) * shifted, -2)
        return solve(shifted) if solve else _entmax(shifted, self.alpha)

    def __repr__(self) -> str:
        return f"Entmax({self.alpha})" if self.alpha != 2 else "sparsemax"


def _sparsemax(z: Scores) -> Scores:
    """The support without gradient; then τ, which is linear in the supported scores, with it."""
    order, count = _sorted(z)
    support = z > _at_last(1 + count * order > order.cumsum(-1), (order.cumsum(-1) - 1) / count)
    size = support.sum(-1, keepdim=True).clamp_min(1)
    threshold = (torch.where(support, z, 0).sum(-1, keepdim=True) - 1) / size
    return torch.where(support, z - threshold, 0).clamp_min(0)


def _entmax_1_5(z: Scores) -> Scores:
    """τ = mean - √((1 - size · variance) / size) over the support; z holds half the scores."""
    order, count = _sorted(z)
    mean = order.cumsum(-1) / count
    spread = order.square().cumsum(-1) - count * mean.square()
    threshold = mean - ((1 - spread) / count).clamp_min(0).sqrt()
    support = z > _at_last(threshold <= order, threshold)
    size = support.sum(-1, keepdim=True).clamp_min(1)
    mean = torch.where(support, z, 0).sum(-1, keepdim=True) / size
    spread = torch.where(support, (z - mean).square(), 0).sum(-1, keepdim=True)
    threshold = mean - ((1 - spread) / size).sqrt()
    return torch.where(support, z - threshold, 0).clamp_min(0).square()


def _sorted(z: Scores) -> tuple[Scores, Float[Tensor, " n"]]:
    order = z.detach().sort(-1, descending=True).values
    return order, torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)


def _at_last(holds: Open, values: Scores) -> Float[Tensor, "*batch m 1"]:
    """The value at the last sorted place where a condition holds: it holds for a leading run, from the first."""
    last = holds.sum(-1, keepdim=True).clamp_min(1) - 1
    return values.gather(-1, last)


def _entmax(z: Scores, alpha: float) -> Scores:
    exponent = 1 / (alpha - 1)
    with torch.no_grad():
        low = torch.full_like(z[..., :1], -1.0)  # the largest z is 0: one weight alone reaches 1
        high = torch.full_like(low, -(z.shape[-1] ** (1 - alpha)))  # n equal weights
        for _ in range(64 if z.dtype is torch.float64 else 32):
            middle = (low + high) / 2
            enough = (z - middle).clamp_min(0).pow(exponent).sum(-1, keepdim=True) >= 1
            low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
        support = z > low
    threshold = low
    for _ in range(2):
        base = torch.where(support, z - threshold, 1).clamp_min(torch.finfo(z.dtype).tiny)
        excess = torch.where(support, base.pow(exponent), 0).sum(-1, keepdim=True) - 1
        slope = exponent * torch.where(support, base.pow(exponent - 1), 0).sum(-1, keepdim=True)
        threshold = threshold + excess / torch.where(slope > 0, slope, 1)
    base = torch.where(support, z - threshold, 1).clamp_min(torch.finfo(z.dtype).tiny)
    return torch.where(support, base.pow(exponent), 0)


class Hardmax(Weigh):
    """1 at the highest score, 0 elsewhere; at the first of several equal ones.

    It is constant almost everywhere: the scores get a gradient of exactly 0.
    """

    def over(self, scores: Scores, open_cells: Open) -> Scores:
        best = torch.where(open_cells, scores, -torch.inf).argmax(-1, keepdim=True)
        return torch.zeros_like(scores).scatter(-1, best, 1) + 0 * scores

    def __repr__(self) -> str:
        return "hardmax"


softmax = Softmax()
sparsemax = Entmax(2)
hardmax = Hardmax()


def as_weigh(value: object) -> Weigh:
    """Checks that an argument is a normaliser, and says what to do with one that is not."""
    if isinstance(value, Weigh):
        return value
    if isinstance(value, type) and issubclass(value, Weigh):
        raise TypeError(f"weigh must be a normaliser, got the class {value.__name__}: make one, {value.__name__}(1.5)")
    raise TypeError(f"weigh must be one of softmax, sparsemax, Entmax(alpha) and hardmax, got {value!r}")
