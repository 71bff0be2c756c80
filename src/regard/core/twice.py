"""First derivatives that have derivatives: what a kernel's backward pass does when it is itself differentiated."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def again(
    function: Callable[..., Tensor], inputs: Sequence[Tensor | None], needed: Sequence[bool], slope: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients of a function that has every derivative, with theirs; None where none is needed.

    Each input is taken anew. One of them may have been made from another, as queries are from keys in self-attention:
    the way from one to the other is the caller's, and would be counted twice.
    """
    anew = [None if tensor is None else tensor.view_as(tensor) for tensor in inputs]
    wanted = [tensor for tensor, need in zip(anew, needed, strict=True) if need and tensor is not None]
    found = iter(torch.autograd.grad(function(*anew), wanted, slope, create_graph=True, allow_unused=True))
    return tuple(next(found) if need else None for need in needed)
