"""Luong's local attention, against its equations as loops."""

import pytest
import torch

from regard import LocalMonotonic, LocalPredictive, attend, lengths, weights, window
from regard.core import Gaussian
from tests import reference

EXAMPLES, M, N, WIDTH, HIDDEN, D = 2, 5, 17, 7, 3, 4
LENGTH = torch.tensor([17, 11])


def made():
    local = LocalPredictive(WIDTH, HIDDEN, distance=D).double()
    with torch.no_grad():
        local.vector.weight.mul_(5)
    query = torch.randn(EXAMPLES, M, WIDTH, dtype=torch.float64)
    key = torch.randn(EXAMPLES, N, WIDTH, dtype=torch.float64)
    return local, query, key


def test_the_weights_of_local_p():
    """The window around the floor of the centre, softmax inside, then the Gaussian, not normalised again."""
    local, query, key = made()
    focus = local(query, LENGTH)
    within = focus.where & lengths(LENGTH)
    identity = torch.eye(N, dtype=torch.float64).expand(EXAMPLES, N, N)
    applied = attend(query, key, identity, where=within, after=focus.after)
    w, v = local.hidden.weight.tolist(), local.vector.weight.tolist()[0]
    for example in range(EXAMPLES):
        size = int(LENGTH[example])
        for row in range(M):
            h = query[example, row].tolist()
            centre = reference.predicted_centre(h, w, v, size)
            assert abs(focus.centre[example, row].item() - centre) < 1e-12
            near = [abs(j - int(centre)) <= D and j < size for j in range(N)]
            scores = [reference.scaled_dot(h, key[example, j].tolist()) if near[j] else None for j in range(N)]
            normalised = reference.softmax(scores)
            expected = [normalised[j] * reference.gaussian(j, centre, D) for j in range(N)]
            torch.testing.assert_close(
                applied[example, row], torch.tensor(expected, dtype=torch.float64), atol=1e-12, rtol=0
            )


def test_a_window_holds_two_d_and_one_keys():
    local, query, _ = made()
    far = torch.tensor([1000, 1000])
    focus = local(query, far)
    seen = weights(query, torch.zeros(EXAMPLES, 1000, WIDTH, dtype=torch.float64), where=focus.where) > 0
    inside = (focus.centre >= D) & (focus.centre < 1000 - D)
    assert inside.any()
    assert (seen.sum(-1)[inside] == 2 * D + 1).all()


def test_the_factor_is_not_normalised_again():
    """Uniform scores, D = 10: 21 equal weights times the Gaussian sum to well below 1."""
    centre = torch.full((1, 1), 50.0, dtype=torch.float64)
    key, ones = torch.zeros(1, 101, 3, dtype=torch.float64), torch.ones(1, 101, 1, dtype=torch.float64)
    total = attend(key[:, :1], key, ones, where=window(10, 10), first=50, after=Gaussian(centre, 5.0))
    expected = sum(reference.gaussian(j, 50.0, 10) / 21 for j in range(40, 61))
    assert abs(expected - 0.5757) < 1e-4
    assert abs(total.item() - expected) < 1e-12


def test_only_the_gaussian_teaches_the_centre():
    local, query, key = made()
    focus = local(query, LENGTH)
    with_factor = attend(query, key, key, where=focus.where, after=focus.after).sum()
    gradients = torch.autograd.grad(with_factor, list(local.parameters()), retain_graph=True)
    assert all(gradient.abs().max() > 1e-6 for gradient in gradients)
    without = attend(query.requires_grad_(), key, key, where=focus.where).sum()
    assert torch.autograd.grad(without, list(local.parameters()), allow_unused=True) == (None, None)


def test_gradients():
    local, query, key = made()
    query, key = query[:1, :2].clone().requires_grad_(), key[:1, :7].clone().requires_grad_()

    def output(query, key, *_):
        focus = local(query, 7)
        return attend(query, key, key, where=focus.where, after=focus.after)

    inputs = (query, key, *local.parameters())
    assert torch.autograd.gradcheck(output, inputs)
    assert torch.autograd.gradgradcheck(output, inputs)


def test_the_centre_depends_on_each_examples_own_length():
    local, query, _ = made()
    query = query[:1].expand(2, -1, -1)
    centre = local(query, LENGTH).centre
    torch.testing.assert_close(centre[0] / 17, centre[1] / 11)
    assert (centre >= 0).all()
    assert (centre[1] <= 11).all()


def test_local_m_is_a_window_around_the_same_position():
    local = LocalMonotonic(distance=2)
    query, key = torch.randn(2, 3, M, WIDTH), torch.randn(2, 3, N, WIDTH)
    focus = local(query, N, first=6)
    assert focus.after is None
    torch.testing.assert_close(focus.centre, torch.arange(6.0, 11).expand(2, 3, M))
    seen = weights(query, key, where=focus.where, first=6) > 0
    for row in range(M):
        assert seen[0, 0, row].nonzero().flatten().tolist() == list(range(4 + row, 9 + row))


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda: LocalPredictive(7, distance=0), "LocalPredictive: distance must be at least 1, got 0"),
        (lambda: LocalPredictive(7)(torch.zeros(2, 3, 5), 9), "LocalPredictive: queries have width 5, made for 7"),
        (
            lambda: LocalPredictive(5)(torch.zeros(2, 3, 5), torch.tensor([3, 4, 5])),
            "length has shape (3,), but the queries have batch axes (2,): give the length of each example's source",
        ),
        (lambda: Gaussian(torch.zeros(2, 3), 0), "Gaussian: deviation must be above 0, got 0"),
        (
            lambda: attend(
                torch.zeros(2, 3, 5), torch.zeros(2, 7, 5), torch.zeros(2, 7, 5), after=Gaussian(torch.zeros(2, 4), 1)
            ),
            "the Gaussian's centre has shape (2, 4), but the call needs (2, 3) (or size 1 on any axis)",
        ),
    ],
)
def test_errors(unchecked, act, text):
    with pytest.raises(ValueError) as caught:
        act()
    assert text in str(caught.value)
