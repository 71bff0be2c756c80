"""N1: first and second derivatives of every mechanism, against finite differences in float64."""

import pytest
import torch

import regard
from tests.registry import SCORES, WEIGHS, WHERES, ScoreCase, Sizes, WeighCase, WhereCase, call

SMALL = Sizes(examples=1, heads=2, m=2, n=3, first=1, width=2, value_width=2)


def _function(score: ScoreCase, where: WhereCase, weigh: WeighCase):
    made = call(score, where, SMALL)
    leaves = [t.clone().requires_grad_() for t in (made.query, made.key, made.value)]
    parameters = [p.detach().clone().requires_grad_() for p in made.score.parameters()]
    names = [name for name, _ in made.score.named_parameters()]

    def output(query, key, value, *values):
        attention = _Attention(made.score, made.where, weigh.weigh)
        replaced = {f"score.{name}": value for name, value in zip(names, values, strict=True)}
        return torch.func.functional_call(attention, replaced, (query, key, value))

    return output, [*leaves, *parameters]


class _Attention(torch.nn.Module):
    def __init__(self, score, where, weigh):
        super().__init__()
        self.score, self.where, self.weigh = score, where, weigh

    def forward(self, query, key, value):
        return regard.attend(query, key, value, score=self.score, where=self.where, weigh=self.weigh, first=SMALL.first)


SOFTMAX, CAUSAL = WEIGHS[0], WHERES[1]
SCALED = next(s for s in SCORES if s.name == "scaled_dot")
SMOOTH = [w for w in WEIGHS if w.differentiable]


@pytest.mark.parametrize("weigh", WEIGHS, ids=str)
@pytest.mark.parametrize("score", SCORES, ids=str)
def test_gradients_of_scores_and_normalisers(score, weigh):
    output, inputs = _function(score, CAUSAL, weigh)
    assert torch.autograd.gradcheck(output, inputs, nondet_tol=0.0)


@pytest.mark.parametrize("weigh", WEIGHS, ids=str)
@pytest.mark.parametrize("where", WHERES, ids=str)
def test_gradients_of_predicates(where, weigh):
    output, inputs = _function(SCALED, where, weigh)
    assert torch.autograd.gradcheck(output, inputs, nondet_tol=0.0)


@pytest.mark.parametrize("score", SCORES, ids=str)
def test_second_derivatives_of_scores(score):
    output, inputs = _function(score, CAUSAL, SOFTMAX)
    assert torch.autograd.gradgradcheck(output, inputs, nondet_tol=0.0)


@pytest.mark.parametrize("weigh", SMOOTH, ids=str)
def test_second_derivatives_of_normalisers(weigh):
    output, inputs = _function(SCALED, CAUSAL, weigh)
    assert torch.autograd.gradgradcheck(output, inputs, nondet_tol=0.0)


@pytest.mark.parametrize("where", WHERES, ids=str)
def test_second_derivatives_of_predicates(where):
    output, inputs = _function(SCALED, where, SOFTMAX)
    assert torch.autograd.gradgradcheck(output, inputs, nondet_tol=0.0)


@pytest.mark.parametrize("weigh", SMOOTH, ids=str)
def test_gradients_of_log_weights(weigh):
    query = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    key = torch.randn(2, 5, 2, dtype=torch.float64, requires_grad=True)

    def finite(query, key):
        logarithm = regard.log_weights(query, key, weigh=weigh.weigh, where=regard.window(3, 1))
        return torch.where(logarithm.isfinite(), logarithm, 0)

    assert torch.autograd.gradcheck(finite, (query, key))
    assert torch.autograd.gradgradcheck(finite, (query, key))


def test_hardmax_passes_exactly_nothing_to_the_scores():
    query = torch.randn(2, 3, 5, requires_grad=True)
    key = torch.randn(2, 7, 5, requires_grad=True)
    regard.attend(query, key, torch.randn(2, 7, 11), weigh=regard.hardmax).sum().backward()
    assert (query.grad == 0).all()
    assert (key.grad == 0).all()


def test_gradients_of_after():
    query, key, value = (torch.randn(2, k, 3, dtype=torch.float64, requires_grad=True) for k in (2, 5, 5))
    after = torch.rand(2, 2, 5, dtype=torch.float64, requires_grad=True)

    def output(query, key, value, after):
        return regard.attend(query, key, value, after=after, where=regard.window(2, 2))

    assert torch.autograd.gradcheck(output, (query, key, value, after))
    assert torch.autograd.gradgradcheck(output, (query, key, value, after))


FAST = [s for s in SCORES if s.key_width is None]


@pytest.mark.parametrize("score", FAST, ids=str)
def test_vectors_made_from_each_other(score):
    """With create_graph, a path from one input to another is the caller's, and counts once."""
    made = call(score, CAUSAL, Sizes(examples=1, heads=2, m=3, n=3, first=0, width=2, value_width=2))
    x = made.key.clone().requires_grad_()

    def loss() -> torch.Tensor:
        query, value = 2 * x.tanh(), x.square()
        return regard.attend(query, x, value, score=made.score, where=made.where).square().sum()

    once = torch.autograd.grad(loss(), [x, *made.score.parameters()], allow_unused=True)
    twice = torch.autograd.grad(loss(), [x, *made.score.parameters()], create_graph=True, allow_unused=True)
    for one, other in zip(once, twice, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-12)


def test_keys_made_from_queries_of_an_additive_score():
    score, x = regard.Additive(3, 3, hidden=2).double(), torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    each = [
        torch.autograd.grad(
            regard.attend(x.tanh(), x, x, score=score).square().sum(), [x, *score.parameters()], create_graph=graph
        )
        for graph in (False, True)
    ]
    for one, other in zip(*each, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("where", WHERES, ids=str)
@pytest.mark.parametrize("score", [s for s in SCORES if s.name in ("scaled_dot", "alibi", "bias", "additive")], ids=str)
def test_a_gradient_with_a_graph_is_the_gradient(score, where):
    """Second derivatives are those of the first: a check of them alone would not see that both are wrong."""
    made = call(score, where)
    leaves = [t.clone().requires_grad_() for t in (made.query, made.key, made.value)]
    leaves += list(made.score.parameters())

    def gradients(create_graph: bool) -> tuple[torch.Tensor, ...]:
        output = regard.attend(*leaves[:3], score=made.score, where=made.where, first=made.sizes.first)
        slope = torch.linspace(-1, 2, output.numel(), dtype=torch.float64).reshape(output.shape)
        return torch.autograd.grad(output, leaves, slope, create_graph=create_graph, materialize_grads=True)

    for one, other in zip(gradients(False), gradients(True), strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-12)
