"""Recurrent parts: a gated unit in its two conventions, and a bidirectional reader of padded lines.

Axes: `batch`, `n` positions, `width` of a state.
"""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from regard.core.score import is_seen
from regard.nn.lines import Weights, along, packing

Reset = Literal["before", "after"]
"""Where the reset gate acts: on the state before its matrix (Cho et al. 2014), or on the product (PyTorch)."""


class GatedUnit(nn.Module):
    """One step of a gated recurrent unit (Cho et al. 2014, arXiv:1406.1078), without its input's share.

        r, z = σ(x_r + U_r s), σ(x_z + U_z s)
        s̃ = tanh(x_s + U (r ∘ s))           reset="before", as in the papers
        s̃ = tanh(x_s + r ∘ (U s + b))       reset="after", as in PyTorch
        s' = (1 - z) ∘ s + z ∘ s̃            the papers' sense of z; PyTorch's is 1 - z, which is no other model

    The input's share x = W u + b for the three is computed outside, for all steps at once: `project`.

    Args:
        input_width: The width of u.
        width: The width of s.
        reset: Where the reset gate acts.
    """

    def __init__(self, input_width: int, width: int, *, reset: Reset = "after") -> None:
        super().__init__()
        self.width, self.reset = width, reset
        self.project = nn.Linear(input_width, 3 * width)
        self.gates = nn.Linear(width, 2 * width, bias=False)
        self.state = nn.Linear(width, width, bias=reset == "after")

    def forward(
        self, share: Float[Tensor, "batch three_widths"], state: Float[Tensor, "batch width"]
    ) -> Float[Tensor, "batch width"]:
        """The next state, from the input's share `project(u)` and the state before."""
        for_reset, for_update, for_state = share.chunk(3, -1)
        reset, update = (torch.cat([for_reset, for_update], -1) + self.gates(state)).sigmoid().chunk(2, -1)
        recalled = self.state(reset * state) if self.reset == "before" else reset * self.state(state)
        return torch.lerp(state, torch.tanh(for_state + recalled), update)

    def parts(self) -> tuple[Tensor, Tensor, Weights]:
        """What the written-out loops take: the share's matrix and bias in the order s̃, r, z, and the rest."""
        weight, bias = (part.roll(self.width, 0) for part in (self.project.weight, self.project.bias))
        if self.reset == "before":
            return weight, bias, Weights(self.gates.weight, self.state.weight, None)
        return weight, bias, Weights(torch.cat([self.gates.weight, self.state.weight]), None, self.state.bias)


class Read(NamedTuple):
    """What a reader leaves: notes (batch, n, 2 width), zero in padding, and the last state of each direction."""

    notes: Float[Tensor, "batch n two_widths"]
    forward: Float[Tensor, "batch width"]
    backward: Float[Tensor, "batch width"]


class Reader(nn.Module):
    """Reads each line in both directions; padding is never read.

    The backward direction starts at each line's own last position, so that its last state is the one at
    position 1. With reset="after" it is PyTorch's fused unit, with "before" the papers', step by step. In training
    both go the way of `lines`.
    """

    def __init__(self, input_width: int, width: int, *, reset: Reset = "after") -> None:
        super().__init__()
        self.reset = reset
        if reset == "after":
            self.fused = nn.GRU(input_width, width, batch_first=True, bidirectional=True)
        else:
            self.onward = GatedUnit(input_width, width, reset=reset)
            self.backward = GatedUnit(input_width, width, reset=reset)

    def forward(self, lines: Float[Tensor, "batch n width"], length: Int[Tensor, " batch"]) -> Read:
        """Reads (batch, n, input width) lines of the given lengths, each at least 1."""
        if self.training and torch.is_grad_enabled() and is_seen(lines, length) and len(length) and length.min() > 0:
            return self._read_to_learn(lines, length)
        if self.reset == "after":
            packed = nn.utils.rnn.pack_padded_sequence(lines, length.cpu(), batch_first=True, enforce_sorted=False)
            states, last = self.fused(packed)
            notes, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=lines.shape[1])
            return Read(notes, last[0], last[1])
        onward, last_onward = _run(self.onward, lines, length)
        back, last_back = _run(self.backward, reversed_lines(lines, length), length)
        inside = (torch.arange(lines.shape[1], device=lines.device) < length[:, None])[..., None]
        notes = torch.cat([onward, reversed_lines(back, length)], -1)
        return Read(torch.where(inside, notes, 0), last_onward, last_back)

    def _read_to_learn(self, lines: Tensor, length: Tensor) -> Read:
        """The same with one record in the graph for each direction, not one for each step."""
        batch, longest, width = lines.shape
        packed = packing(length, longest)
        inputs = lines.reshape(batch * longest, width).index_select(0, packed.places)
        read = []
        for backward, (weight, bias, weights) in enumerate(self._parts()):
            shares = functional.linear(inputs, weight, bias)
            read.append(along(packed, shares, weights, backward=bool(backward)))
        (onward, last_onward), (back, last_back) = read
        states = torch.cat([onward, back], -1).to(lines.dtype)
        notes = states.new_zeros(batch * longest, states.shape[-1]).index_copy(0, packed.places, states)
        place = packed.order.argsort()
        last_onward, last_back = (last.to(lines.dtype).index_select(0, place) for last in (last_onward, last_back))
        return Read(notes.reshape(batch, longest, -1), last_onward, last_back)

    def _parts(self) -> tuple[tuple[Tensor, Tensor, Weights], ...]:
        if self.reset == "after":
            return _parts_of(self.fused, ""), _parts_of(self.fused, "_reverse")
        return self.onward.parts(), self.backward.parts()


def _parts_of(fused: nn.GRU, direction: str) -> tuple[Tensor, Tensor, Weights]:
    """The parts of PyTorch's unit, whose update gate is one minus ours: its share and its product change sign."""
    names = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
    weight, bias, recurrent, recalled = (getattr(fused, f"{name}_l0{direction}").chunk(3) for name in names)
    return (
        torch.cat([weight[2], weight[0], -weight[1]]),
        torch.cat([bias[2], bias[0] + recalled[0], -bias[1] - recalled[1]]),
        Weights(torch.cat([recurrent[0], -recurrent[1], recurrent[2]]), None, recalled[2]),
    )


def _run(unit: GatedUnit, lines: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """The states of one direction, and the one at each line's end: past it a line keeps its state."""
    shares = unit.project(lines)
    state = shares.new_zeros(len(lines), unit.width)
    states = []
    for place in range(lines.shape[1]):
        state = torch.where((place < length)[:, None], unit(shares[:, place], state), state)
        states.append(state)
    return torch.stack(states, 1), state


def reversed_lines(lines: Tensor, length: Int[Tensor, " batch"]) -> Tensor:
    """Each line turned round within its own length; its padding stays behind it.

    Turning the padded tensor round would put the padding first.

    >>> import torch
    >>> reversed_lines(torch.tensor([[1, 2, 3], [1, 2, 0]]), torch.tensor([3, 2]))
    tensor([[3, 2, 1],
            [2, 1, 0]])
    """
    place = torch.arange(lines.shape[1], device=lines.device)
    source = torch.where(place < length[:, None], length[:, None] - 1 - place, place)
    if lines.ndim == 2:
        return lines.gather(1, source)
    return lines.gather(1, source[..., None].expand_as(lines))


class Maxout(nn.Module):
    """The larger of each pair of entries (Goodfellow et al. 2013, arXiv:1302.4389): 2 width → width."""

    def forward(self, vectors: Float[Tensor, "*batch two_widths"]) -> Float[Tensor, "*batch width"]:
        """(…, 2 width) → (…, width)."""
        return vectors.reshape(*vectors.shape[:-1], -1, 2).amax(-1)
