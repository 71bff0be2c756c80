"""Each vector divided by its length: what content addressing compares.

    y = x / |x|,   dx = (dy - y (y · dy)) / |x|

Axes: `*batch`, `d` width.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.core import compiling
from regard.core.score import at_least_single, is_seen
from regard.core.twice import again

Vectors = Float[Tensor, "*batch d"]


def direction(vectors: Vectors) -> Vectors:
    """Each vector divided by its length; a vector of zeros stays so, and passes no gradient.

    >>> import torch
    >>> direction(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    if vectors.shape[-1] == 0:
        return vectors
    if is_seen(vectors) and compiling.worthwhile(vectors.numel(), vectors.device):
        found: Tensor = _Direction.apply(vectors)  # type: ignore[no-untyped-call]
        return found
    return _plain(vectors)


def _plain(vectors: Vectors) -> Vectors:
    """The equation, with every derivative.

    The division by the largest entry keeps the squares from overflowing or vanishing; being a constant factor of
    numerator and denominator, it has no gradient.
    """
    largest = vectors.detach().abs().amax(-1, keepdim=True)
    vectors = vectors / torch.where(largest > 0, largest, 1)
    square = vectors.square().sum(-1, keepdim=True)
    return torch.where(largest > 0, vectors * torch.where(largest > 0, square, 1).rsqrt(), 0)


class _Direction(torch.autograd.Function):
    """The same in one pass over the vectors, and one over their gradients."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        flat = vectors.to(at_least_single(vectors.dtype)).reshape(-1, vectors.shape[-1])
        found, factor = _FORWARD(flat)
        found = found.reshape(vectors.shape).to(vectors.dtype)
        ctx.save_for_backward(vectors, found, factor)
        result: Tensor = found
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor | None:
        vectors, found, factor = ctx.saved_tensors
        slope = gradients[0]
        if torch.is_grad_enabled():
            return again(_plain, (vectors,), (True,), slope)[0]
        rows = [t.to(factor.dtype).reshape(-1, vectors.shape[-1]) for t in (slope, found)]
        steep: Tensor = _BACKWARD(*rows, factor)
        return steep.reshape(vectors.shape).to(vectors.dtype)


def _forward(vectors: Tensor) -> tuple[Tensor, Tensor]:
    largest = vectors.abs().amax(-1, keepdim=True)
    some = largest > 0
    scale = torch.where(some, largest, 1)
    short = vectors / scale
    shrink = torch.where(some, torch.where(some, short.square().sum(-1, keepdim=True), 1).rsqrt(), 0)
    return short * shrink, shrink / scale


def _backward(slope: Tensor, found: Tensor, factor: Tensor) -> Tensor:
    return factor * (slope - found * (slope * found).sum(-1, keepdim=True))


_FORWARD = compiling.Compiled(_forward, (4099, 67))
_BACKWARD = compiling.Compiled(_backward, (4099, 67), (4099, 67), (4099, 1))
