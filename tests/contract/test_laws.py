"""The laws of the operation, over every combination of score, predicate and normaliser, against plain loops."""

import math

import pytest
import torch
from torch import Tensor

import regard
from tests import reference
from tests.registry import SCORES, WEIGHS, WHERES, Call, ScoreCase, Sizes, WeighCase, WhereCase, call, shared_call

EXACT = 1e-12

every_combination = [
    pytest.mark.parametrize("weigh", WEIGHS, ids=str),
    pytest.mark.parametrize("where", WHERES, ids=str),
    pytest.mark.parametrize("score", SCORES, ids=str),
]


def over_everything(test):
    for mark in every_combination:
        test = mark(test)
    return test


def expected_weights(made: Call, weigh: WeighCase) -> Tensor:
    rows = [weigh.reference(row) for row in made.scores]
    shape = (*made.sizes.batch, made.sizes.m, made.sizes.n)
    return torch.tensor(rows, dtype=torch.float64).reshape(shape)


def allowed_cells(made: Call) -> Tensor:
    rows = [[s is not None for s in row] for row in made.scores]
    return torch.tensor(rows, dtype=torch.bool).reshape(*made.sizes.batch, made.sizes.m, made.sizes.n)


def expected_output(made: Call, weights: Tensor) -> Tensor:
    values, each = made.value.tolist(), weights.tolist()
    rows = [
        reference.combined(row, values[e][h], made.sizes.value_width)
        for e in range(made.sizes.examples)
        for h in range(made.sizes.heads)
        for row in each[e][h]
    ]
    return torch.tensor(rows, dtype=torch.float64).reshape(*made.sizes.batch, made.sizes.m, made.sizes.value_width)


def choices(made: Call, weigh: WeighCase) -> dict:
    return {"score": made.score, "where": made.where, "weigh": weigh.weigh, "first": made.sizes.first}


@over_everything
def test_meaning_and_weights(score: ScoreCase, where: WhereCase, weigh: WeighCase):
    """Laws 1 and 2: the weights are the equation's, the output their sum over the values."""
    made = shared_call(score, where)
    expected = expected_weights(made, weigh)
    allowed = allowed_cells(made)
    got = regard.weights(made.query, made.key, **choices(made, weigh))
    assert got.shape == expected.shape
    torch.testing.assert_close(got, expected, atol=EXACT, rtol=0)
    assert (got >= 0).all()
    assert (got[~allowed] == 0).all()
    seen = (expected.sum(-1) > 0).double()  # a score of -inf forbids too
    torch.testing.assert_close(got.sum(-1), seen, atol=EXACT, rtol=0)
    assert (got[seen == 0] == 0).all()

    output = regard.attend(made.query, made.key, made.value, **choices(made, weigh))
    torch.testing.assert_close(output, expected_output(made, expected), atol=EXACT, rtol=0)
    torch.testing.assert_close(output, got @ made.value, atol=EXACT, rtol=0)
    assert (output[seen == 0] == 0).all()

    logarithm = regard.log_weights(made.query, made.key, **choices(made, weigh))
    torch.testing.assert_close(logarithm.exp(), got, atol=EXACT, rtol=0)
    assert (logarithm[got == 0] == -math.inf).all()


@pytest.mark.parametrize("where", WHERES, ids=str)
@pytest.mark.parametrize("score", SCORES, ids=str)
def test_scores(score: ScoreCase, where: WhereCase):
    made = shared_call(score, where)
    got = regard.scores(made.query, made.key, score=made.score, where=made.where, first=made.sizes.first)
    rows = [[-math.inf if s is None else s for s in row] for row in made.scores]
    expected = torch.tensor(rows, dtype=torch.float64).reshape(got.shape)
    torch.testing.assert_close(got, expected, atol=EXACT, rtol=0)


EDGES = [
    Sizes(examples=1, heads=1, m=1, n=1, first=0),
    Sizes(examples=1, heads=3, m=0, n=7),
    Sizes(examples=2, heads=1, m=5, n=0),
    Sizes(examples=0, heads=3),
    Sizes(examples=2, heads=3, m=1, n=7, first=6),
    Sizes(examples=3, heads=5, m=7, n=1, first=0),
    Sizes(examples=1, heads=2, m=0, n=0, first=0),
    Sizes(examples=1, heads=2, m=5, n=5, first=2),
    Sizes(examples=1, heads=2, m=2, n=7, first=5),
    Sizes(examples=1, heads=2, m=3, n=5, first=0, width=1, value_width=1),
    Sizes(examples=1, heads=2, m=3, n=5, first=0, value_width=0),
]


@over_everything
def test_nothing_and_one(score: ScoreCase, where: WhereCase, weigh: WeighCase):
    """N7: lengths 0 and 1, batches of 0 and 1, widths 0 and 1, on every axis."""
    for sizes in EDGES:
        made = shared_call(score, where, sizes)
        expected = expected_weights(made, weigh)
        torch.testing.assert_close(
            regard.weights(made.query, made.key, **choices(made, weigh)), expected, atol=EXACT, rtol=0
        )
        output = regard.attend(made.query, made.key, made.value, **choices(made, weigh))
        torch.testing.assert_close(output, expected_output(made, expected), atol=EXACT, rtol=0)


def run(made: Call, weigh: WeighCase, key: Tensor, value: Tensor, chosen: Tensor | None = None) -> list[Tensor]:
    """The output, and the gradients of everything, of a loss over the chosen rows of the output."""
    leaves = [t.clone().requires_grad_() for t in (made.query, key, value)]
    parameters = list(made.score.parameters())
    output = regard.attend(*leaves, **choices(made, weigh))
    kept = output if chosen is None else output[chosen]
    slope = torch.linspace(-1, 2, kept.numel(), dtype=torch.float64).reshape(kept.shape)
    gradients = torch.autograd.grad((kept * slope).sum(), [*leaves, *parameters], allow_unused=True)
    return [output.detach(), *(g for g in gradients if g is not None)]


JUNK = (math.nan, math.inf, -math.inf)


@over_everything
def test_what_is_hidden_is_inert(score: ScoreCase, where: WhereCase, weigh: WeighCase):
    """Law 3, N5, N6: what no query may see changes no bit, of the output or of any gradient."""
    made = call(score, where)
    hidden = ~allowed_cells(made).any(-2)
    key, value = made.key.clone(), made.value.clone()
    for place, index in enumerate(hidden.nonzero().tolist()):
        key[tuple(index)][:: place + 1] = JUNK[place % 3]
        value[tuple(index)][:: place + 2] = JUNK[(place + 1) % 3]
    clean = run(made, weigh, made.key, made.value)
    for dirty_key, dirty_value in ((key, value), (key, made.value), (made.key, value)):
        dirty = run(made, weigh, dirty_key, dirty_value)
        for a, b in zip(clean, dirty, strict=True):
            assert a.isfinite().all()
            assert torch.equal(a, b)


@over_everything
def test_what_some_see_touches_only_them(score: ScoreCase, where: WhereCase, weigh: WeighCase):
    """Law 3, by row: NaN in a key or value marks the rows that may see it, and no other, in any gradient."""
    made = call(score, where)
    allowed = allowed_cells(made)
    column = made.sizes.n // 2
    sees = allowed[..., column]
    key, value = made.key.clone(), made.value.clone()
    key[..., column, 0] = math.nan
    value[..., column, -1] = math.inf
    clean = run(made, weigh, made.key, made.value, chosen=~sees)
    dirty = run(made, weigh, key, value, chosen=~sees)
    assert dirty[0][sees].isnan().all()
    assert torch.equal(dirty[0][~sees], clean[0][~sees])
    for a, b in zip(clean[1:], dirty[1:], strict=True):
        assert torch.equal(a, b)
    marked = regard.weights(made.query, key, **choices(made, weigh))
    assert (marked[~allowed] == 0).all()
    assert torch.equal(marked.isnan().any(-1), sees)


@over_everything
def test_no_gradient_comes_from_where_a_row_may_not_look(score: ScoreCase, where: WhereCase, weigh: WeighCase):
    """Law 4, N10: exactly 0.0, for every row and every key that it may not see."""
    made = shared_call(score, where)
    key, value = made.key.clone().requires_grad_(), made.value.clone().requires_grad_()
    output = regard.attend(made.query, key, value, **choices(made, weigh))
    allowed = allowed_cells(made)
    for row in range(made.sizes.m):
        gradients = torch.autograd.grad(output[..., row, :].sum(), (key, value), retain_graph=True, allow_unused=True)
        for gradient in gradients:
            if gradient is not None:
                assert (gradient[~allowed[..., row, :]] == 0.0).all()
                assert gradient.isfinite().all()
    if where.causal:
        positions = torch.arange(made.sizes.m)[:, None] + made.sizes.first
        assert not allowed[..., torch.arange(made.sizes.n) > positions].any()


@pytest.mark.parametrize("weigh", WEIGHS, ids=str)
@pytest.mark.parametrize("where", [w for w in WHERES if "given" not in w.public], ids=str)
@pytest.mark.parametrize("score", [s for s in SCORES if "Bias" not in s.public], ids=str)
def test_one_step_at_a_time_is_the_whole_pass(score: ScoreCase, where: WhereCase, weigh: WeighCase):
    """Law 4: a query alone, told where it stands, sees what it saw among the others.

    Masks and biases that are given by row and column of a call have no positions; they follow below.
    """
    made = shared_call(score, where)
    chosen = choices(made, weigh)
    whole = regard.attend(made.query, made.key, made.value, **chosen)
    for row in range(made.sizes.m):
        position = made.sizes.first + row
        kept = min(position + 1, made.sizes.n) if where.causal else made.sizes.n
        step = regard.attend(
            made.query[..., row : row + 1, :],
            made.key[..., :kept, :],
            made.value[..., :kept, :],
            **{**chosen, "first": position},
        )
        torch.testing.assert_close(step[..., 0, :], whole[..., row, :], atol=EXACT, rtol=0)


@pytest.mark.parametrize("weigh", WEIGHS, ids=str)
def test_one_step_at_a_time_with_rows_of_a_given_mask_and_bias(weigh: WeighCase):
    query, key, value = (torch.randn(2, 3, k, 11, dtype=torch.float64) for k in (5, 7, 7))
    mask, bias = torch.rand(2, 3, 5, 7) > 0.4, torch.randn(2, 1, 5, 7, dtype=torch.float64)

    def rows(a: int, b: int) -> dict:
        return {
            "where": regard.given(mask[..., a:b, :]) | regard.window(1),
            "score": regard.scaled_dot + regard.Bias(bias[..., a:b, :]),
            "first": a,
        }

    whole = regard.attend(query, key, value, **rows(0, 5), weigh=weigh.weigh)
    for row in range(5):
        step = regard.attend(query[..., row : row + 1, :], key, value, **rows(row, row + 1), weigh=weigh.weigh)
        torch.testing.assert_close(step, whole[..., row : row + 1, :], atol=EXACT, rtol=0)


@pytest.mark.parametrize("weigh", WEIGHS, ids=str)
@pytest.mark.parametrize("where", [w for w in WHERES if "given" not in w.public], ids=str)
@pytest.mark.parametrize("score", [s for s in SCORES if "Bias" not in s.public], ids=str)
def test_examples_may_start_at_different_positions(score: ScoreCase, where: WhereCase, weigh: WeighCase):
    made = shared_call(score, where)
    chosen = choices(made, weigh)
    first = torch.tensor([[4], [1]])
    together = regard.attend(made.query, made.key, made.value, **{**chosen, "first": first})
    for example, position in enumerate((4, 1)):
        alone = regard.attend(made.query, made.key, made.value, **{**chosen, "first": position})
        torch.testing.assert_close(together[example], alone[example], atol=EXACT, rtol=0)


@over_everything
def test_the_batch_changes_nothing(score: ScoreCase, where: WhereCase, weigh: WeighCase):
    """N9: an example's result does not depend on what stands beside it."""
    made = shared_call(score, where)
    together = regard.attend(made.query, made.key, made.value, **choices(made, weigh))
    others = [t.clone() for t in (made.query, made.key, made.value)]
    for tensor in others:
        tensor[0] = torch.randn_like(tensor[0]) * 1e3
    beside = regard.attend(*others, **choices(made, weigh))
    torch.testing.assert_close(together[1], beside[1], atol=EXACT, rtol=0)
