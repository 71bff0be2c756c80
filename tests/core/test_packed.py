"""Sequences one behind the other, without padding: each as if it were alone."""

import pytest
import torch

import regard
from regard.core import dispatch

SIZES = (5, 1, 0, 7, 3)
CHOICES = {
    "alone": {},
    "causal": {"where": regard.causal},
    "window": {"where": regard.window(2, 1)},
    "bias": {"score": regard.dot + regard.RelativeBias(3, buckets=8, furthest=6), "where": regard.causal},
    "additive": {"score": regard.Additive(11, 11, hidden=5)},
    "sparsemax": {"weigh": regard.sparsemax},
}


def apart(query, key, value, **chosen):
    """Each sequence in a call of its own."""
    rows = zip(query.split(SIZES, -2), key.split(SIZES, -2), value.split(SIZES, -2), strict=True)
    return torch.cat([regard.attend(*row, **chosen) for row in rows], -2)


@pytest.mark.parametrize("name", list(CHOICES))
def test_each_sequence_is_alone(name):
    chosen = dict(CHOICES[name])
    if "score" in chosen:
        chosen["score"] = chosen["score"].double()
    leaves = [torch.randn(2, 3, sum(SIZES), 11, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    expected = apart(*leaves, **chosen)
    where = regard.packed(SIZES) & chosen.pop("where", regard.everywhere)
    found = regard.attend(*leaves, where=where, **chosen)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    for one, other in zip(
        torch.autograd.grad(found.square().sum(), leaves),
        torch.autograd.grad(expected.square().sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-12)


def test_no_time_goes_into_other_sequences(monkeypatch):
    """The kernel is asked for Σ n² cells, not (Σ n)²."""
    from regard.core import fused

    cells = []
    real = fused.forward

    def counted(query, key, *rest, **options):
        cells.append(query.shape[-2] * key.shape[-2])
        return real(query, key, *rest, **options)

    monkeypatch.setattr(fused, "forward", counted)
    x = torch.randn(2, 3, sum(SIZES), 8)
    regard.attend(x, x, x, where=regard.packed(SIZES))
    assert sum(cells) == sum(size * size for size in SIZES)


def test_nan_stays_in_its_sequence():
    x = torch.randn(1, sum(SIZES), 8)
    clean = regard.attend(x, x, x, where=regard.packed(SIZES) & regard.causal)
    x[0, 7] = torch.nan  # in the fourth sequence, which begins at 6
    found = regard.attend(x, x, x, where=regard.packed(SIZES) & regard.causal)
    assert found[0, 7:13].isnan().all()
    kept = [*range(7), *range(13, 16)]
    assert torch.equal(found[0, kept], clean[0, kept])


@pytest.mark.usefixtures("unchecked")
def test_lengths_that_do_not_add_up():
    x = torch.randn(2, 9, 8)
    with pytest.raises(
        ValueError, match=r"packed\(2 sequences\) holds 8 positions, but the call has 9 queries and 9 keys"
    ):
        regard.attend(x, x, x, where=regard.packed([3, 5]))
    with pytest.raises(ValueError, match=r"packed: a length must be at least 0, got -1"):
        regard.packed([3, -1])
    with pytest.raises(TypeError, match=r"packed: a length must be an int, got float: 2.0"):
        regard.packed([2.0])


def test_it_goes_to_the_kernel_that_cuts():
    x = torch.randn(2, 3, 16, 8)
    call = regard.core.operation.check_call(
        "attend", x, x, x, score=regard.scaled_dot, where=regard.packed(SIZES), weigh=regard.softmax, first=0
    )
    assert dispatch.choice(call) is dispatch.BIASED
