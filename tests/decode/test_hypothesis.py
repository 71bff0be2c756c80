"""The length penalty, against the numbers of its equation."""

import math

import pytest

from regard.decode.hypothesis import Hypothesis, length_penalty


@pytest.mark.parametrize(
    ("length", "alpha", "penalty"),
    [(1, 0.6, 1.0), (7, 0.6, 2**0.6), (13, 1.0, 3.0), (13, -1.0, 1 / 3), (0, 1.0, 5 / 6)],
)
def test_the_penalty_is_that_of_the_paper(length, alpha, penalty):
    assert math.isclose(length_penalty(length, alpha), penalty, rel_tol=1e-15)


def test_a_hypothesis_does_not_change():
    with pytest.raises(AttributeError):
        Hypothesis([5], True, -1.0, -1.0, [-0.5, -0.5]).score = 0.0
