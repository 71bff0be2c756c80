"""Precision, symmetry, padding and repetition: TRUST's N2 to N4, N6, N8, N11 and N13 for the operation."""

import math
import os

import pytest
import torch
from hypothesis import given as random_cases
from hypothesis import settings
from hypothesis import strategies as st

import regard
from tests.contract.test_laws import EXACT, choices, expected_output, expected_weights
from tests.registry import SCORES, WEIGHS, WHERES, Sizes, call, shared_call

# A long run sets REGARD_LONG=1: sizes up to 131 and 200 cases; every push takes 20 cases up to 17.
LONG = bool(os.environ.get("REGARD_LONG"))


@settings(max_examples=200 if LONG else 20, deadline=None, derandomize=True)
@random_cases(data=st.data())
@pytest.mark.parametrize("score", SCORES, ids=str)
def test_any_sizes(score, data):
    """N2: shapes drawn at random, against the loops."""
    longest = 131 if LONG else 17
    sizes = Sizes(
        examples=data.draw(st.integers(0, 3)),
        heads=data.draw(st.integers(1, 8)),
        m=data.draw(st.integers(0, longest)),
        n=data.draw(st.integers(0, longest)),
        first=data.draw(st.integers(0, 5)),
        width=data.draw(st.integers(1, 111 if LONG else 17)),
        value_width=data.draw(st.integers(0, 17)),
    )
    if score.name == "location" and sizes.n > 17:
        sizes = Sizes(**{**vars(sizes), "n": 17})
    if score.name == "grid" and max(sizes.n, sizes.first + sizes.m) > 20:
        sizes = Sizes(**{**vars(sizes), "n": min(sizes.n, 20), "m": min(sizes.m, 20 - sizes.first)})
    where = data.draw(st.sampled_from(WHERES))
    weigh = data.draw(st.sampled_from([w for w in WEIGHS if w.differentiable]))
    made = call(score, where, sizes)
    expected = expected_weights(made, weigh)
    torch.testing.assert_close(
        regard.weights(made.query, made.key, **choices(made, weigh)), expected, atol=EXACT, rtol=0
    )
    output = regard.attend(made.query, made.key, made.value, **choices(made, weigh))
    torch.testing.assert_close(output, expected_output(made, expected), atol=EXACT, rtol=0)


def _written_plainly(query, key, value, allowed):
    """Attention as most would write it, in the type it is given: the measure of how much error is ordinary."""
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    return scores.masked_fill(~allowed, -math.inf).softmax(-1) @ value


@pytest.mark.parametrize(
    ("dtype", "output_factor", "gradient_factor", "floor"),
    [(torch.float32, 3, 6, 1e-6), (torch.bfloat16, 2, 3, 1e-6)],
)
@pytest.mark.parametrize("causal", [True, False])
def test_the_error_of_a_type_is_ordinary(dtype, output_factor, gradient_factor, floor, causal):
    """N3, N4: against float64, within a factor of what the same type gives written plainly."""
    exact = [torch.randn(2, 3, 61, 64, dtype=torch.float64) for _ in range(3)]
    allowed = torch.ones(61, 61).bool().tril() if causal else torch.ones(61, 61).bool()
    where = regard.causal if causal else regard.everywhere

    def run(function, dtype):
        leaves = [t.to(dtype).requires_grad_() for t in exact]
        output = function(*leaves)
        slope = torch.linspace(-1, 1, output.numel()).reshape(output.shape).to(dtype)
        return [t.double() for t in (output, *torch.autograd.grad(output, leaves, slope))]

    truth = run(lambda *t: _written_plainly(*t, allowed), torch.float64)
    plain = run(lambda *t: _written_plainly(*t, allowed), dtype)
    ours = run(lambda *t: regard.attend(*t, where=where), dtype)
    for place, (true, other, mine) in enumerate(zip(truth, plain, ours, strict=True)):
        factor = gradient_factor if place else output_factor
        assert (mine - true).abs().max() <= factor * (other - true).abs().max() + floor
        if dtype is torch.float32:
            assert (mine - true).abs().max() <= (2e-5 if place else 5e-6)


@pytest.mark.parametrize("weigh", WEIGHS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_every_normaliser_in_every_type(weigh, dtype):
    query, key, value = (torch.randn(2, 3, k, 11, dtype=dtype) for k in (5, 7, 7))
    got = regard.weights(query, key, weigh=weigh.weigh, where=regard.window(2, 2))
    assert got.dtype is dtype
    step = torch.finfo(dtype).eps
    torch.testing.assert_close(got.double().sum(-1), torch.ones(2, 3, 5).double(), atol=7 * step + 1e-6, rtol=0)
    assert regard.attend(query, key, value, weigh=weigh.weigh).dtype is dtype
    assert regard.log_weights(query, key, weigh=weigh.weigh).dtype is dtype
    assert regard.scores(query, key).dtype is dtype
    with_bias = regard.dot + regard.Alibi(3)
    assert regard.weights(query, key, score=with_bias, weigh=weigh.weigh).dtype is dtype


@pytest.mark.parametrize("weigh", WEIGHS, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_normalised_in_single_precision(weigh, dtype):
    """The weights of half-precision scores are the exact ones, rounded once."""
    table = torch.randn(1, 5, 97).to(dtype) * 2
    query, key = torch.zeros(1, 5, 2, dtype=dtype), torch.zeros(1, 97, 2, dtype=dtype)
    got = regard.weights(query, key, score=regard.dot + regard.Bias(table), weigh=weigh.weigh)
    exact = weigh.weigh(table.double(), torch.ones_like(table, dtype=torch.bool))
    assert ((got.double() - exact).abs() <= torch.finfo(dtype).eps / 2 * exact + 3e-7).all()


@pytest.mark.parametrize("weigh", WEIGHS, ids=str)
@pytest.mark.parametrize("size", [1e4, 3e38, -3e38])
def test_huge_scores(weigh, size):
    """N6: scores at the end of float32 still give a distribution."""
    table = torch.zeros(1, 3, 5)
    table[0, 0, 2], table[0, 1] = size, size
    table[0, 2] = torch.tensor([size, -size, 0, size, -size])
    query, key = torch.zeros(1, 3, 2), torch.zeros(1, 5, 2)
    got = regard.weights(query, key, score=regard.dot + regard.Bias(table), weigh=weigh.weigh)
    assert got.isfinite().all()
    torch.testing.assert_close(got.sum(-1), torch.ones(1, 3))
    if size > 0:
        torch.testing.assert_close(got[0, 0], torch.tensor([0.0, 0, 1, 0, 0]))


def test_huge_and_tiny_vectors_have_a_direction():
    vectors = torch.tensor([[[3.0, 4.0]]])
    for size in (1e-30, 1e-44, 1e30, 1e38 / 2):
        cosine = regard.scores(vectors * size, vectors, score=regard.Cosine())
        torch.testing.assert_close(cosine, torch.ones(1, 1, 1), atol=1e-1 if size < 1e-40 else 1e-6, rtol=0)


@pytest.mark.parametrize("weigh", WEIGHS, ids=str)
@pytest.mark.parametrize("score", SCORES, ids=str)
def test_what_is_not_finite_and_seen_stays_in_its_example(score, weigh):
    for junk in (math.nan, math.inf, -math.inf):
        made = call(score, WHERES[0])
        clean = regard.attend(made.query, made.key, made.value, **choices(made, weigh))
        for name in ("query", "key", "value"):
            dirty = {n: getattr(made, n).clone() for n in ("query", "key", "value")}
            dirty[name][0, 1, 2, 0] = junk
            got = regard.attend(*dirty.values(), **choices(made, weigh))
            beside = torch.ones(2, 3, dtype=torch.bool)
            beside[0, 1] = False
            assert torch.equal(got[beside], clean[beside])
            marked = got[0, 1].isnan().all(-1)
            if name == "query":
                assert marked.tolist() == [False, False, True, False, False]
            elif "forbidding" not in score.name:
                assert marked.all()


@pytest.mark.parametrize("weigh", WEIGHS, ids=str)
@pytest.mark.parametrize("score", [s for s in SCORES if "Bias" not in s.public], ids=str)
def test_padding_changes_nothing(score, weigh):
    """N8: junk to the right of the keys, hidden by a length, in any amount."""
    made = shared_call(score, WHERES[0])
    alone = regard.attend(made.query, made.key, made.value, **choices(made, weigh))
    length = torch.full((2, 1), made.sizes.n)
    for more in (1, 3, 8):
        key, value = (
            torch.cat([t, torch.full((2, 3, more, t.shape[-1]), junk, dtype=torch.float64)], -2)
            for t, junk in ((made.key, 1e9), (made.value, math.nan))
        )
        padded = regard.attend(made.query, key, value, **{**choices(made, weigh), "where": regard.lengths(length)})
        torch.testing.assert_close(padded, alone, atol=EXACT, rtol=0)


@pytest.mark.parametrize("weigh", WEIGHS, ids=str)
def test_padding_on_the_left_changes_nothing(weigh):
    """N8, for batches that are padded on the left: a mask by column, and a first position an example."""
    query, key, value = (torch.randn(1, 5, 11, dtype=torch.float64) for _ in range(3))
    alone = regard.attend(query, key, value, where=regard.causal, weigh=weigh.weigh)
    for more in (1, 4, 64):
        junk = torch.full((1, more, 11), math.inf, dtype=torch.float64)
        padded = [torch.cat([junk, t], 1) for t in (query, key, value)]
        seen = regard.given(torch.arange(5 + more)[None, None] >= more)
        got = regard.attend(*padded, where=regard.causal & seen, weigh=weigh.weigh)
        torch.testing.assert_close(got[:, more:], alone, atol=EXACT, rtol=0)


POSITIONLESS = [s for s in SCORES if s.name in ("dot", "scaled_dot", "cosine", "general", "additive")]


@pytest.mark.parametrize("weigh", WEIGHS, ids=str)
@pytest.mark.parametrize("score", POSITIONLESS, ids=str)
def test_without_positions_order_means_nothing(score, weigh):
    """N11: keys and values may be permuted together; permuted queries give permuted outputs."""
    made = shared_call(score, WHERES[0])
    output = regard.attend(made.query, made.key, made.value, **choices(made, weigh))
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        keys, rows = (
            torch.randperm(made.sizes.n, generator=generator),
            torch.randperm(made.sizes.m, generator=generator),
        )
        permuted = regard.attend(
            made.query[..., rows, :], made.key[..., keys, :], made.value[..., keys, :], **choices(made, weigh)
        )
        torch.testing.assert_close(permuted, output[..., rows, :], atol=EXACT, rtol=0)


@pytest.mark.parametrize("weigh", WEIGHS, ids=str)
@pytest.mark.parametrize("score", SCORES, ids=str)
def test_a_hundred_repeats_are_one_result(score, weigh):
    """N13: bit for bit, forward and backward."""
    made = call(score, WHERES[3])
    seen = set()
    for _ in range(100 if LONG else 20):
        query = made.query.clone().requires_grad_()
        output = regard.attend(query, made.key, made.value, **choices(made, weigh))
        (gradient,) = torch.autograd.grad(output.square().sum(), query, allow_unused=True)
        parts = [output] if gradient is None else [output, gradient]
        seen.add(b"".join(part.detach().numpy().tobytes() for part in parts))
    assert len(seen) == 1


def test_known_values_of_the_sparse_normalisers():
    """The worked vector of the sparse papers' code, (-2, 0, 0.5)."""
    query, key = torch.ones(1, 1, 1), torch.tensor([[[-2.0], [0.0], [0.5]]])
    for weigh, expected in (
        (regard.softmax, [0.0486, 0.3592, 0.5922]),
        (regard.Entmax(1.5), [0.0, 0.3260, 0.6740]),
        (regard.sparsemax, [0.0, 0.25, 0.75]),
        (regard.hardmax, [0.0, 0.0, 1.0]),
    ):
        got = regard.weights(query, key, score=regard.dot, weigh=weigh)[0, 0]
        torch.testing.assert_close(got, torch.tensor(expected), atol=5e-5, rtol=0)


@pytest.mark.parametrize("alpha", [1.05, 1.2, 1.5, 1.7, 2.0, 2.4, 3.0, 5.0])
def test_entmax_on_long_rows(alpha):
    """Many keys, large scores, ties, in float32 and float64."""
    for dtype, close in ((torch.float64, 1e-12), (torch.float32, 2e-6)):
        scores = torch.randn(4, 3, 501, dtype=dtype, generator=torch.Generator().manual_seed(1)) * 20
        scores[..., 7] = scores[..., 11]
        got = regard.Entmax(alpha)(scores, torch.ones_like(scores, dtype=torch.bool))
        torch.testing.assert_close(got.sum(-1), torch.ones(4, 3, dtype=dtype), atol=close, rtol=0)
        torch.testing.assert_close(got[..., 7], got[..., 11])
        assert (got >= 0).all()
    assert (regard.Entmax(2.0)(scores, torch.ones_like(scores, dtype=torch.bool)) == 0).any()
