"""The Neural Turing Machine's addressing: by content, then by location (Graves et al. 2014, arXiv:1410.5401).

It reads the weights of the step before, so it is a part of its own beside the operation; nothing is stored.

    w_c = softmax_i(β cos(k, M_i))          content           (eq. 5, 6)
    w_g = g w_c + (1 - g) w_before          interpolation     (eq. 7)
    w_s(i) = Σ_j w_g(j) s(i - j mod N)      shift             (eq. 8)
    w = w_s^γ / Σ w_s^γ                     sharpening        (eq. 9)

Axes: `*batch` (with heads last, where several heads share a memory of shape (batch, 1, slots, width)),
`slots` N, `width` of a slot.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.compare import Cosine
from regard.core.errors import Misfit, explained
from regard.core.operation import scores
from regard.core.weigh import softmax

_cosine = Cosine()


class Address(NamedTuple):
    """The weights of each stage, (*batch, slots), every one a distribution."""

    content: Float[Tensor, "*batch slots"]
    gated: Float[Tensor, "*batch slots"]
    shifted: Float[Tensor, "*batch slots"]
    weights: Float[Tensor, "*batch slots"]


class Addressing(nn.Module):
    """(key, strength, gate, shift, sharpness, memory, previous weights) → weights.

    It takes quantities that are already in their ranges: strength β ≥ 0 (softplus), gate g in (0, 1)
    (sigmoid), shift a distribution over the offsets -r … r (softmax), sharpness γ ≥ 1 (1 + softplus).
    The shift s(+1) moves the focus from slot j to slot j + 1, as `torch.roll(w, 1)` does.

    A memory of equal rows and uniform first weights is a symmetry that no gradient breaks: start from
    one-hot or random weights, or random rows.
    """

    def forward(
        self,
        key: Tensor,
        strength: Tensor,
        gate: Tensor,
        shift: Tensor,
        sharpness: Tensor,
        memory: Tensor,
        previous: Tensor,
    ) -> Float[Tensor, "*batch slots"]:
        """The weights, (*batch, slots). Arguments as in `stages`."""
        return self.stages(key, strength, gate, shift, sharpness, memory, previous).weights

    def stages(
        self,
        key: Tensor,
        strength: Tensor,
        gate: Tensor,
        shift: Tensor,
        sharpness: Tensor,
        memory: Tensor,
        previous: Tensor,
    ) -> Address:
        """The weights after each of the four stages.

        Args:
            key: k, (*batch, width).
            strength: β, (*batch).
            gate: g, (*batch): 1 takes the content's weights, 0 those of the step before.
            shift: s, (*batch, 2r + 1), for the offsets -r … r.
            sharpness: γ, (*batch).
            memory: M, (*batch, slots, width).
            previous: The weights of the step before, (*batch, slots).

        Raises:
            ValueError: if the shapes do not fit; the message names all of them.
        """
        with explained(
            "Addressing",
            key=key,
            strength=strength,
            gate=gate,
            shift=shift,
            sharpness=sharpness,
            memory=memory,
            previous=previous,
        ):
            _check(key, strength, gate, shift, sharpness, memory, previous)
        matched = scores(key[..., None, :], memory, score=_cosine).squeeze(-2)
        content = _normalised(strength[..., None] * matched)
        gated = gate[..., None] * content + (1 - gate[..., None]) * previous
        shifted = _shifted(gated, shift)
        return Address(content, gated, shifted, _sharpened(shifted, sharpness))


def _shifted(
    weights: Float[Tensor, "*batch slots"], shift: Float[Tensor, "*batch offsets"]
) -> Float[Tensor, "*batch slots"]:
    furthest = shift.shape[-1] // 2
    moved = [weights.roll(offset, -1) for offset in range(-furthest, furthest + 1)]
    return (torch.stack(moved, -1) * shift[..., None, :]).sum(-1)


def _sharpened(
    weights: Float[Tensor, "*batch slots"], sharpness: Float[Tensor, "*batch"]
) -> Float[Tensor, "*batch slots"]:
    """`w^γ / Σ w^γ` as a softmax of γ log w: no power of a tiny number, and no gradient of 0^γ."""
    positive = weights > 0
    logarithm = torch.where(positive, weights, 1).log()
    return softmax((sharpness[..., None] * logarithm)[..., None, :], positive[..., None, :]).squeeze(-2)


def _normalised(values: Float[Tensor, "*batch slots"]) -> Float[Tensor, "*batch slots"]:
    return softmax(values[..., None, :], torch.ones_like(values, dtype=torch.bool)[..., None, :]).squeeze(-2)


def _check(
    key: Tensor,
    strength: Tensor,
    gate: Tensor,
    shift: Tensor,
    sharpness: Tensor,
    memory: Tensor,
    previous: Tensor,
) -> None:
    if memory.ndim < 2 or key.ndim < 1 or key.shape[-1] != memory.shape[-1]:
        raise Misfit("the key must be as wide as a slot of the memory, (*batch, width) and (*batch, slots, width)")
    if previous.ndim < 1 or previous.shape[-1] != memory.shape[-2]:
        raise Misfit("the previous weights must have one entry a slot, (*batch, slots)")
    if shift.ndim < 1 or shift.shape[-1] % 2 == 0:
        raise Misfit("the shift must have an odd number of entries, for the offsets -r … r")
    batch = key.shape[:-1]
    for name, tensor, own in (
        ("strength", strength, 0),
        ("gate", gate, 0),
        ("sharpness", sharpness, 0),
        ("shift", shift, 1),
        ("previous weights", previous, 1),
    ):
        if tensor.shape[: tensor.ndim - own] != batch:
            raise Misfit(f"the {name} must have the key's batch axes {tuple(batch)}")
    if memory.ndim - 2 != len(batch):
        raise Misfit(
            f"the memory must have as many batch axes as the key, {len(batch)}: "
            f"where heads share it, give memory[:, None]"
        )
