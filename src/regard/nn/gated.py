"""The elementwise part of a gated unit's step and of its derivative, written into buffers.

It is `GatedUnit` once more, for loops that go through the steps by hand. What a step keeps for its derivative is one
row of `kept`: s̃, r, z and, where the reset gate acts after the matrix, U s + b. The shares and their gradients are
in the order s̃, r, z, so that beside r, z, r ∘ s̃' they make two overlapping runs of one buffer.

Axes: `batch`, `w` the width of a state.
"""

import torch
from jaxtyping import Float
from torch import Tensor

States = Float[Tensor, "batch w"]
Rows = Float[Tensor, "batch _"]

_of_tanh = torch.ops.aten.tanh_backward.grad_input
_of_sigmoid = torch.ops.aten.sigmoid_backward.grad_input


def kept_widths(inner: Tensor | None) -> int:
    """How many widths a step keeps: one less where the reset gate acts before the matrix."""
    return 4 if inner is None else 3


def advance(share: Rows, product: Rows, state: States, inner: Tensor | None, kept: Rows, into: States) -> None:
    """One step.

    Args:
        share: The input's share of s̃, r and z.
        product: The state's share of r and z, and of s̃ where the reset gate acts after the matrix.
        state: The state before.
        inner: The matrix U of s̃ where the reset gate acts before it, else None.
        kept: Takes what `retreat` needs.
        into: Takes the next state.
    """
    width = state.shape[-1]
    proposed, gates = kept[:, :width], kept[:, width : 3 * width]
    torch.add(share[:, width:], product[:, : 2 * width], out=gates).sigmoid_()
    reset, update = gates.chunk(2, -1)
    if inner is None:
        recalled = kept[:, 3 * width :].copy_(product[:, 2 * width : 3 * width])
        torch.mul(reset, recalled, out=proposed)
    else:
        proposed.copy_((reset * state).to(inner.dtype) @ inner.mT)
    proposed.add_(share[:, :width]).tanh_()
    torch.lerp(state, proposed, update, out=into)


def retreat(slope: States, state: States, inner: Tensor | None, kept: Rows, into: Rows) -> States:
    """The derivative of a step.

    Args:
        slope: The gradient of the next state.
        state: The state before.
        inner: As in `advance`.
        kept: What `advance` kept.
        into: Takes the gradients of the share's s̃, r and z, and of U s + b where that was kept.

    Returns:
        The gradient of the state before, without what comes through `product`.
    """
    width = state.shape[-1]
    proposed, reset, update = (kept[:, width * i : width * (i + 1)] for i in range(3))
    for_proposed, for_reset, for_update = (into[:, width * i : width * (i + 1)] for i in range(3))
    part = slope * update
    _of_tanh(part, proposed, grad_input=for_proposed)
    direct = slope - part
    _of_sigmoid(torch.sub(proposed, state, out=part).mul_(slope), update, grad_input=for_update)
    if inner is None:
        _of_sigmoid(torch.mul(for_proposed, kept[:, 3 * width :], out=part), reset, grad_input=for_reset)
        torch.mul(for_proposed, reset, out=into[:, 3 * width : 4 * width])
    else:
        through = (for_proposed @ inner).to(slope.dtype)
        _of_sigmoid(torch.mul(through, state, out=part), reset, grad_input=for_reset)
        direct.addcmul_(through, reset)
    return direct


def plain_step(share: Rows, product: Rows, state: States, inner: Tensor | None) -> States:
    """`advance` with every derivative."""
    width = state.shape[-1]
    proposed, gates = share[:, :width], share[:, width:]
    reset, update = (gates + product[:, : 2 * width]).sigmoid().chunk(2, -1)
    recalled = reset * product[:, 2 * width : 3 * width] if inner is None else (reset * state) @ inner.mT
    return torch.lerp(state, torch.tanh(proposed + recalled), update)
