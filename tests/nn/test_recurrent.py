"""Recurrent parts, against PyTorch's and against loops."""

import pytest
import torch
from torch import nn

from regard.nn.recurrent import GatedUnit, Maxout, Reader, reversed_lines

BATCH, N, INPUT, WIDTH = 5, 7, 3, 4
LENGTH = torch.tensor([7, 1, 4, 6, 2])


def as_torch(unit: GatedUnit) -> nn.GRUCell:
    """The same unit as PyTorch's cell: its update gate is one minus ours, so that gate's weights change sign."""
    cell = nn.GRUCell(INPUT, WIDTH).double()
    sign = torch.ones(3 * WIDTH, 1).double()
    sign[WIDTH : 2 * WIDTH] = -1
    with torch.no_grad():
        cell.weight_ih.copy_(unit.project.weight * sign)
        cell.bias_ih.copy_(unit.project.bias * sign[:, 0])
        cell.weight_hh.copy_(torch.cat([unit.gates.weight, unit.state.weight]) * sign)
        cell.bias_hh.copy_(torch.cat([torch.zeros(2 * WIDTH), unit.state.bias]))
    return cell


def test_reset_after_is_pytorchs_unit():
    unit = GatedUnit(INPUT, WIDTH, reset="after").double()
    x, state = torch.randn(BATCH, INPUT).double(), torch.randn(BATCH, WIDTH).double()
    torch.testing.assert_close(unit(unit.project(x), state), as_torch(unit)(x, state), atol=1e-12, rtol=0)


def test_reset_before_is_the_papers_unit():
    """The appendix's equations, written out for one line."""
    unit = GatedUnit(INPUT, WIDTH, reset="before").double()
    x, state = torch.randn(1, INPUT).double(), torch.randn(1, WIDTH).double()
    w_r, w_z, w_s = unit.project.weight.chunk(3)
    b_r, b_z, b_s = unit.project.bias.chunk(3)
    u_r, u_z = unit.gates.weight.chunk(2)
    r = torch.sigmoid(w_r @ x[0] + b_r + u_r @ state[0])
    z = torch.sigmoid(w_z @ x[0] + b_z + u_z @ state[0])
    proposed = torch.tanh(w_s @ x[0] + b_s + unit.state.weight @ (r * state[0]))
    expected = (1 - z) * state[0] + z * proposed
    torch.testing.assert_close(unit(unit.project(x), state)[0], expected, atol=1e-12, rtol=0)
    after = GatedUnit(INPUT, WIDTH, reset="after").double()
    after.load_state_dict({**unit.state_dict(), "state.bias": torch.zeros(WIDTH)})
    assert not torch.allclose(after(after.project(x), state)[0], expected, atol=1e-3)


@pytest.mark.parametrize("reset", ["before", "after"])
def test_a_line_is_read_as_if_alone(reset):
    """Padding is not read: not by the notes, not by the last states, whatever it holds."""
    reader = Reader(INPUT, WIDTH, reset=reset).double()
    lines = torch.randn(BATCH, N, INPUT).double()
    together = reader(lines, LENGTH)
    dirty = lines.clone()
    for row, size in enumerate(LENGTH.tolist()):
        dirty[row, size:] = 1e6
        alone = reader(lines[row : row + 1, :size], LENGTH[row : row + 1])
        torch.testing.assert_close(together.notes[row, :size], alone.notes[0], atol=1e-12, rtol=0)
        torch.testing.assert_close(together.forward[row], alone.forward[0], atol=1e-12, rtol=0)
        torch.testing.assert_close(together.backward[row], alone.backward[0], atol=1e-12, rtol=0)
        assert (together.notes[row, size:] == 0).all()
    for a, b in zip(together, reader(dirty, LENGTH), strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


@pytest.mark.parametrize("reset", ["before", "after"])
def test_the_two_directions(reset):
    """→h at the last position and ←h at the first are the last states; ←h_1 has read the whole line."""
    reader = Reader(INPUT, WIDTH, reset=reset)
    lines = torch.randn(BATCH, N, INPUT, requires_grad=True)
    read = reader(lines, LENGTH)
    last = read.notes[torch.arange(BATCH), LENGTH - 1]
    torch.testing.assert_close(last[:, :WIDTH], read.forward)
    torch.testing.assert_close(read.notes[:, 0, WIDTH:], read.backward)
    (gradient,) = torch.autograd.grad(read.notes[0, 3, :WIDTH].sum(), lines, retain_graph=True)
    assert (gradient[0, 4:] == 0).all()
    assert (gradient[0, :4] != 0).any(-1).all()
    (gradient,) = torch.autograd.grad(read.backward[0].sum(), lines)
    assert (gradient[0] != 0).any(-1).all()


def test_reversed_within_each_lines_length():
    lines = torch.arange(BATCH * N).reshape(BATCH, N)
    turned = reversed_lines(lines, LENGTH)
    for row, size in enumerate(LENGTH.tolist()):
        line = lines[row].tolist()
        assert turned[row].tolist() == line[:size][::-1] + line[size:]
    deep = torch.randn(BATCH, N, INPUT)
    torch.testing.assert_close(reversed_lines(reversed_lines(deep, LENGTH), LENGTH), deep)


def test_maxout_takes_the_larger_of_neighbours():
    assert Maxout()(torch.tensor([[1.0, 5.0, -2.0, -3.0]])).tolist() == [[5.0, -2.0]]
