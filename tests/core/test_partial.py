"""Attention over some of the keys at a time, merged."""

import math

import pytest
import torch

import regard
from regard.core import merge, partial, tiled

SCORES = {
    "scaled_dot": regard.scaled_dot,
    "additive": regard.Additive(11, 11, hidden=5).double(),
    "capped": regard.softcap(regard.dot, 3.0),
}


@pytest.mark.parametrize("name", list(SCORES))
@pytest.mark.parametrize("cells", [1, 2**20])
def test_parts_merge_into_the_whole(name, cells, monkeypatch):
    """In value and in gradient, whatever the cut; in tiles of one row too."""
    monkeypatch.setattr(tiled, "TILE", cells)
    query, key, value = (
        torch.randn(2, 3, n, d, dtype=torch.float64, requires_grad=True) for n, d in ((5, 11), (7, 11), (7, 13))
    )
    score = SCORES[name]
    expected = regard.attend(query, key, value, score=score)
    parts = [
        partial(query, k, v, score=score)
        for k, v in zip(key.split([3, 1, 3], -2), value.split([3, 1, 3], -2), strict=True)
    ]
    found = merge(*parts)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    leaves = (query, key, value)
    for one, other in zip(
        torch.autograd.grad(found.square().sum(), leaves),
        torch.autograd.grad(expected.square().sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-12)


def test_the_total_is_the_logarithm_of_the_sum():
    query, key = torch.randn(2, 5, 11, dtype=torch.float64), torch.randn(2, 7, 11, dtype=torch.float64)
    found = partial(query, key, key, where=regard.causal)
    scores = regard.scores(query, key, where=regard.causal)
    torch.testing.assert_close(found.total, scores.logsumexp(-1), atol=1e-12, rtol=0)
    torch.testing.assert_close(found.output, regard.attend(query, key, key, where=regard.causal), atol=1e-12, rtol=0)


def test_rows_and_parts_that_see_nothing():
    query, key = torch.randn(2, 5, 11, requires_grad=True), torch.randn(2, 7, 11)
    nothing = partial(query, key, key, where=~regard.everywhere)
    assert (nothing.total == -math.inf).all()
    assert (nothing.output == 0).all()
    none = partial(query, key[:, :0], key[:, :0])
    assert (none.total == -math.inf).all()
    whole = partial(query, key, key)
    torch.testing.assert_close(merge(nothing, whole, none), whole.output)
    assert (merge(nothing, none) == 0).all()
    gradient = torch.autograd.grad(merge(nothing, none, whole).sum(), query)[0]
    assert gradient.isfinite().all()


def test_a_nan_marks_its_rows():
    query, key = torch.randn(5, 11), torch.randn(5, 11)
    key[3, 0] = torch.nan
    found = partial(query, key, key, where=regard.causal)
    assert found.output[3:].isnan().all()
    assert found.output[:3].isfinite().all()
    assert found.total[:3].isfinite().all()
