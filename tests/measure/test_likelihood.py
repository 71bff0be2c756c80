"""Perplexity: sums and counts, whatever the batches; padding has no part."""

import math

import pytest
import torch

from regard.measure.likelihood import Likelihood, likelihood

LENGTHS = torch.randint(1, 8, (53,), generator=torch.Generator().manual_seed(2))


def data(dtype=torch.float64) -> tuple:
    generator = torch.Generator().manual_seed(3)
    logits = 3 * torch.randn(53, 7, 11, generator=generator, dtype=torch.float64)
    return logits.to(dtype), torch.randint(0, 11, (53, 7), generator=generator), LENGTHS


def by_hand(logits, target, length) -> tuple:
    logs = [
        math.log(math.exp(logits[i, t, target[i, t]]) / sum(math.exp(x) for x in logits[i, t].tolist()))
        for i in range(len(target))
        for t in range(length[i])
    ]
    return -math.fsum(logs), len(logs)


def test_it_is_the_mean_over_real_tokens():
    total, tokens = by_hand(*data())
    found = likelihood(*data())
    assert found.tokens == tokens == int(LENGTHS.sum())
    assert math.isclose(found.total, total, rel_tol=1e-12)
    assert math.isclose(found.perplexity, math.exp(total / tokens), rel_tol=1e-12)
    assert math.isclose(found.bits, total / tokens / math.log(2), rel_tol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 7, 32, 53])
def test_batches_make_no_difference(size):
    logits, target, length = data()
    order = torch.randperm(53)
    total = Likelihood()
    for start in range(0, 53, size):
        rows = order[start : start + size]
        width = int(length[rows].max())
        total += likelihood(logits[rows, :width], target[rows, :width], length[rows])
    whole = likelihood(*data())
    assert total.tokens == whole.tokens
    assert math.isclose(total.perplexity, whole.perplexity, rel_tol=1e-12)


def test_what_stands_behind_a_target_does_not_count():
    logits, target, length = data()
    behind = torch.arange(7) >= length[:, None]
    assert behind.any()
    spoiled = logits.masked_fill(behind[..., None], math.nan)
    assert likelihood(spoiled, target.masked_fill(behind, 0), length) == likelihood(logits, target, length)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 1e-2)])
def test_low_precision_is_summed_in_double(dtype, tolerance):
    assert math.isclose(likelihood(*data(dtype)).loss, likelihood(*data()).loss, rel_tol=tolerance)
    many = torch.zeros(1, 1, 3, dtype=dtype).expand(100_001, 1, 3)
    found = likelihood(many, torch.ones(100_001, 1, dtype=torch.long), torch.ones(100_001, dtype=torch.long))
    one = torch.log_softmax(torch.zeros(3), -1)[0].item()
    assert math.isclose(found.loss, -one, rel_tol=1e-12)


def test_extremes():
    assert Likelihood(1e6, 1).perplexity == math.inf
    assert math.isnan(Likelihood(math.nan, 1).perplexity)
    assert Likelihood(math.inf, 1).perplexity == math.inf
    empty = likelihood(torch.zeros(0, 3, 5), torch.zeros(0, 3, dtype=torch.long), torch.zeros(0, dtype=torch.long))
    assert empty == Likelihood()
    with pytest.raises(ValueError, match="the likelihood of no tokens has no mean: the data set is empty"):
        _ = empty.perplexity


@pytest.mark.usefixtures("unchecked")
def test_shapes_are_checked():
    logits, target, length = data()
    message = (
        r"likelihood: logits must be \(batch, m, vocabulary\), target \(batch, m\) and target_length \(batch,\)\n"
        r"  called with logits \(53, 7, 11\) float64, target \(53, 6\) int64, target_length \(53,\) int64"
    )
    with pytest.raises(ValueError, match=message):
        likelihood(logits, target[:, :6], length)
    with pytest.raises(ValueError, match=r"target_length \(52,\) int64"):
        likelihood(logits, target, length[1:])
