"""One step of a Neural Turing Machine: address, erase, add, read (Graves et al. 2014, arXiv:1410.5401).

A hand-made program shows the addressing at work: content finds the slot that was written, a shift of +1
moves on to the next one, and so a list is read back in order without knowing its items.

    python examples/turing_step.py
"""

from typing import NamedTuple

import torch
from torch import Tensor

from regard import Addressing

SLOTS, WIDTH = 8, 5
address = Addressing()


class Head(NamedTuple):
    """What a controller says to one head, already in its ranges."""

    key: Tensor
    strength: Tensor
    gate: Tensor
    shift: Tensor
    sharpness: Tensor


def say(key: Tensor, *, gate: float, shift: int = 0) -> Head:
    """A head for a batch of one: gate 1 looks by content, gate 0 stays with the weights before."""
    offsets = torch.zeros(1, 3)
    offsets[0, shift + 1] = 1.0
    return Head(key[None], torch.tensor([50.0]), torch.tensor([gate]), offsets, torch.tensor([1.0]))


def write(memory: Tensor, weights: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    """M(i) ← M(i) · (1 - w(i) e) + w(i) a: the add is not gated by the erase."""
    return memory * (1 - weights[..., None] * erase) + weights[..., None] * add


def read(memory: Tensor, weights: Tensor) -> Tensor:
    """Σ_i w(i) M(i), of the memory after the step's write."""
    return (weights[..., None, :] @ memory).squeeze(-2)


def stored_and_recalled(items: Tensor) -> tuple[Tensor, Tensor]:
    """Writes each item to the next slot; then finds the first by content and follows the list.

    Returns:
        What was read, (items, width), and the weights of the reading head, (items, slots).
    """
    memory = torch.full((1, SLOTS, WIDTH), 1e-6)
    weights = torch.nn.functional.one_hot(torch.tensor([SLOTS - 1]), SLOTS).float()
    for item in items:
        weights = address(*say(item, gate=0.0, shift=1), memory=memory, previous=weights)
        memory = write(memory, weights, erase=torch.ones(WIDTH), add=item)
    recalled, looked = [], []
    for place in range(len(items)):
        head = say(items[0], gate=1.0) if place == 0 else say(items[0], gate=0.0, shift=1)
        weights = address(*head, memory=memory, previous=weights)
        recalled.append(read(memory, weights)[0])
        looked.append(weights[0])
    return torch.stack(recalled), torch.stack(looked)


if __name__ == "__main__":
    written = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(0))
    recalled, looked = stored_and_recalled(written)
    print(f"largest error of a recalled item: {(recalled - written).abs().max():.1e}")
    for row in looked.tolist():
        print(" ".join(f"{w:4.2f}" for w in row))
