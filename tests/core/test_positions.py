"""Positions, against their equations as loops."""

import math

import pytest
import torch

from regard import Heads, Learned, Rotary, Sinusoid, causal
from tests import reference

M, WIDTH = 5, 14
PAIRS = {"halves": lambda i, turned: (i, i + turned // 2), "interleaved": lambda i, turned: (2 * i, 2 * i + 1)}


@pytest.mark.parametrize("first", [0, 3, 1000])
def test_sinusoid_in_both_layouts(first):
    zeros = torch.zeros(2, M, WIDTH, dtype=torch.float64)
    expected = torch.tensor([reference.sinusoid(first + row, WIDTH) for row in range(M)], dtype=torch.float64)
    interleaved = Sinusoid(WIDTH)(zeros, first=first)
    torch.testing.assert_close(interleaved, expected.expand(2, M, WIDTH), atol=1e-12, rtol=0)
    halves = Sinusoid(WIDTH, layout="halves")(zeros, first=first)
    torch.testing.assert_close(halves, torch.cat([expected[:, 0::2], expected[:, 1::2]], -1).expand(2, M, WIDTH))


def test_learned_adds_the_row_of_each_position():
    position = Learned(17, WIDTH)
    x = torch.randn(2, M, WIDTH)
    torch.testing.assert_close(position(x, first=11) - x, position.weight[11:16].expand(2, -1, -1))


@pytest.mark.parametrize("turned", [None, 6])
@pytest.mark.parametrize("pairing", ["halves", "interleaved"])
def test_rotary_against_complex_numbers(pairing, turned):
    x = torch.randn(3, M, WIDTH, dtype=torch.float64)
    got = Rotary(WIDTH, pairing=pairing, base=500.0, turned=turned)(x, first=7)
    count = turned or WIDTH
    expected = [
        [
            reference.rotated(x[e, row].tolist(), 7 + row, 500.0, lambda i: PAIRS[pairing](i, count), count)
            for row in range(M)
        ]
        for e in range(3)
    ]
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64), atol=1e-12, rtol=0)


@pytest.mark.parametrize("make", [lambda: Sinusoid(WIDTH), lambda: Learned(40, WIDTH), lambda: Rotary(WIDTH)])
def test_examples_may_start_at_different_positions(make):
    position, x = make(), torch.randn(2, 3, M, WIDTH)
    together = position(x, first=torch.tensor([[4], [20]]))
    torch.testing.assert_close(together[0], position(x[0], first=4))
    torch.testing.assert_close(together[1], position(x[1], first=20))


def test_rotary_scores_depend_on_the_distance_only():
    q, k = torch.randn(1, WIDTH, dtype=torch.float64), torch.randn(1, WIDTH, dtype=torch.float64)
    turn = Rotary(WIDTH)
    near = turn(q, first=9) @ turn(k, first=4).mT
    far = turn(q, first=100_009) @ turn(k, first=100_004).mT
    torch.testing.assert_close(near, far, atol=1e-9, rtol=0)


def test_rotary_keeps_its_precision_far_out():
    """In float32 a position of a million times a frequency of 1 has no digits left after the point."""
    x = torch.randn(1, WIDTH)
    for first in (10, 1_000_003):
        exact = Rotary(WIDTH)(x.double(), first=first)
        torch.testing.assert_close(Rotary(WIDTH)(x, first=first).double(), exact, atol=2e-6, rtol=0)


@pytest.mark.parametrize("turned", [None, 4])
@pytest.mark.parametrize(("pairing", "other"), [("halves", "interleaved"), ("interleaved", "halves")])
def test_weights_move_between_the_pairings(pairing, other, turned):
    """The permuted weights, under the other pairing, give the same output."""
    heads, width = 3, 8
    here = Heads(24, heads, where=causal, position=Rotary(width, pairing=pairing, turned=turned)).double()
    there = Heads(24, heads, where=causal, position=Rotary(width, pairing=other, turned=turned)).double()
    moved = dict(here.state_dict())
    for name in ("query", "key"):
        for kind in ("weight", "bias"):
            full = f"projections.{name}.{kind}"
            moved[full] = here.position.reorder(moved[full], into=other)
    there.load_state_dict(moved)
    x = torch.randn(2, M, 24, dtype=torch.float64)
    torch.testing.assert_close(there(x), here(x), atol=1e-12, rtol=0)
    back = there.position.reorder(moved["projections.query.weight"], into=pairing)
    torch.testing.assert_close(back, here.projections.query.weight)


@pytest.mark.parametrize("make", [lambda: Sinusoid(4), lambda: Learned(40, 4), lambda: Rotary(4)])
def test_gradients(make):
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(make().double(), (x,))
    assert torch.autograd.gradgradcheck(make().double(), (x,))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_keep_their_type(dtype):
    x = torch.randn(2, M, WIDTH, dtype=dtype)
    for position in (Sinusoid(WIDTH), Learned(9, WIDTH), Rotary(WIDTH)):
        assert position(x).dtype is dtype


def test_nothing_in_nothing_out():
    x = torch.zeros(2, 0, WIDTH)
    for position in (Sinusoid(WIDTH), Learned(9, WIDTH), Rotary(WIDTH)):
        assert position(x, first=3).shape == x.shape


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda: Sinusoid(7), "Sinusoid: width must be even, for it is taken in pairs, got 7"),
        (lambda: Rotary(8, turned=10), "Rotary: turned must be at most the width 8, got 10"),
        (lambda: Rotary(8, base=0), "Rotary: base must be above 0, got 0"),
        (lambda: Rotary(8, pairing="half"), "Rotary: pairing='half' is not known: did you mean 'halves'?"),
        (lambda: Rotary(8)(torch.zeros(2, 3, 6)), "Rotary was made for vectors of width 8, got shape (2, 3, 6)"),
        (
            lambda: Learned(5, 4)(torch.zeros(3, 4), first=4),
            "Learned: holds positions 0 to 4, but the vectors stand at 4 to 6: make it with longest=7",
        ),
        (
            lambda: Rotary(8)(torch.zeros(2, 3, 5, 8), first=torch.zeros(2, dtype=torch.long)),
            "first has shape (2,), but the vectors have batch axes (2, 3): give none of them or all of them",
        ),
        (lambda: Rotary(8).reorder(torch.zeros(12, 3), into="halves"), "12 rows are not whole heads of width 8"),
    ],
)
def test_errors(unchecked, act, text):
    with pytest.raises(ValueError) as caught:
        act()
    assert text in str(caught.value)


def test_the_first_sinusoid_is_the_known_one():
    got = Sinusoid(4)(torch.zeros(2, 4, dtype=torch.float64))
    expected = torch.tensor([[0, 1, 0, 1], [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)]])
    torch.testing.assert_close(got, expected.double())
