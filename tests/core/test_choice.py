"""Sampled attention: estimators are held to exact enumeration of every choice."""

import math

import pytest
import torch

from regard import Gumbel, Sample, StraightThrough, causal, choose, given, weights

M, N, WIDTH = 3, 5, 7


def generator(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def made(repeats: int = 1):
    """One example, repeated along a batch axis so that one call draws many times."""
    torch.manual_seed(11)
    query = torch.randn(M, WIDTH, dtype=torch.float64) * 0.8
    key, value = (torch.randn(N, WIDTH, dtype=torch.float64) for _ in range(2))
    return query.expand(repeats, M, WIDTH), key.expand(repeats, N, WIDTH), value.expand(repeats, N, WIDTH)


def reward(output: torch.Tensor) -> torch.Tensor:
    """A function of the output that is not linear, so that a relaxed choice is biased."""
    return (output.square().sum(-1) / 8 - output[..., 0] * output[..., 1]).sin()


def enumerated_gradient(query, key, value, of=reward):
    """d/dq of the exact expectation, Σ_j p_j · reward(v_j), for each query."""
    query = query.clone().requires_grad_()
    p = weights(query, key, where=causal, first=N - M)
    expected = (p * of(value)[..., None, :]).sum(-1)
    return torch.autograd.grad(expected.sum(), query)[0]


WAYS = [Sample(), Gumbel(0.5), StraightThrough(Sample()), StraightThrough(Gumbel(0.5))]


@pytest.mark.parametrize("by", WAYS, ids=repr)
def test_a_choice(by):
    query, key, value = made(4)
    choice = choose(query, key, value, by=by, where=causal, first=N - M, generator=generator())
    p = weights(query, key, where=causal, first=N - M)
    torch.testing.assert_close(choice.weights.sum(-1), torch.ones(4, M, dtype=torch.float64))
    assert (choice.weights[p == 0] == 0).all()
    torch.testing.assert_close(choice.output, choice.weights @ value)
    index = choice.weights.argmax(-1, keepdim=True)
    torch.testing.assert_close(choice.log_probability, p.gather(-1, index).squeeze(-1).log())
    entropy = -torch.where(p > 0, p * torch.where(p > 0, p, 1).log(), 0).sum(-1)
    torch.testing.assert_close(choice.entropy, entropy)
    if not isinstance(by, Gumbel):
        assert set(choice.weights.unique().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("by", WAYS, ids=repr)
def test_keys_are_chosen_as_often_as_they_should_be(by):
    repeats = 20_000
    query, key, value = made(repeats)
    choice = choose(query, key, value, by=by, where=causal, first=N - M, generator=generator())
    p = weights(query[0], key[0], where=causal, first=N - M)
    counted = torch.nn.functional.one_hot(choice.weights.argmax(-1), N).double().mean(0)
    error = (p * (1 - p) / repeats).sqrt()
    assert ((counted - p).abs() <= 4.5 * error).all()


def estimated_gradient(by, repeats, loss):
    """The mean and the standard error of the estimates of d/dq, one estimate each repetition."""
    query, key, value = made(repeats)
    query = query.clone().requires_grad_()
    choice = choose(query, key, value, by=by, where=causal, first=N - M, generator=generator())
    each = torch.autograd.grad(loss(choice).sum(), query)[0]
    return each.mean(0), each.std(0) / math.sqrt(repeats)


def test_the_score_function_estimator_is_unbiased():
    exact = enumerated_gradient(*made())[0]
    plain, error = estimated_gradient(Sample(), 40_000, lambda c: reward(c.output).detach() * c.log_probability)
    assert ((plain - exact).abs() <= 4.5 * error).all()
    assert exact.abs().max() > 0.05
    # A baseline changes the variance and not the mean; here it lowers it.
    mean = reward(made()[2]).mean()
    based, smaller = estimated_gradient(
        Sample(), 40_000, lambda c: (reward(c.output).detach() - mean) * c.log_probability
    )
    assert ((based - exact).abs() <= 4.5 * smaller).all()
    assert smaller.mean() < error.mean()


def test_the_exact_mean_of_the_score_function_estimator():
    """Without sampling: Σ_j p_j · reward_j · d log p_j is the gradient of the expectation, to the last digit."""
    query, key, value = made()
    exact = enumerated_gradient(query, key, value)
    query = query.clone().requires_grad_()
    choice = choose(query, key, value, by=Sample(), where=causal, first=N - M, generator=generator())
    p = weights(query, key, where=causal, first=N - M)
    positive = p > 0
    log_p = torch.where(positive, torch.where(positive, p, 1).log(), 0)
    surrogate = (p.detach() * reward(value)[..., None, :] * log_p).sum()
    torch.testing.assert_close(torch.autograd.grad(surrogate, query, retain_graph=True)[0], exact)
    index = choice.weights.argmax(-1, keepdim=True)
    a = torch.autograd.grad(choice.log_probability.sum(), query, retain_graph=True)[0]
    b = torch.autograd.grad(log_p.gather(-1, index).sum(), query)[0]
    torch.testing.assert_close(a, b)


def linear(output: torch.Tensor) -> torch.Tensor:
    return output @ torch.linspace(-1, 2, WIDTH, dtype=torch.float64)


def test_straight_through_a_sample_is_unbiased_for_what_is_linear_and_only_for_that():
    by = StraightThrough(Sample())
    exact = enumerated_gradient(*made(), of=linear)[0]
    got, error = estimated_gradient(by, 1_000, lambda c: linear(c.output))
    assert ((got - exact).abs() <= 4.5 * error + 1e-12).all()
    exact = enumerated_gradient(*made())[0]
    got, error = estimated_gradient(by, 40_000, lambda c: reward(c.output))
    assert ((got - exact).abs() > 4.5 * error).any()


def test_a_relaxed_choice_is_the_less_biased_the_colder():
    exact = enumerated_gradient(*made())[0]
    distance = {}
    for temperature in (2.0, 0.2):
        got, _ = estimated_gradient(Gumbel(temperature), 60_000, lambda c: reward(c.output))
        distance[temperature] = (got - exact).abs().mean().item()
    assert distance[0.2] < distance[2.0] / 2


def test_the_entropys_gradient():
    query, key, value = (t.clone().requires_grad_() for t in made())

    def entropy(query, key):
        return choose(query, key, value, by=Sample(), where=causal, first=1, generator=generator()).entropy

    assert torch.autograd.gradcheck(entropy, (query, key))


@pytest.mark.parametrize("by", WAYS, ids=repr)
def test_a_row_that_may_see_nothing_chooses_nothing(by):
    query, key, value = (t.clone().requires_grad_() for t in made(2))
    mask = torch.ones(2, M, N, dtype=torch.bool)
    mask[0, 1] = False
    choice = choose(query, key, value, by=by, where=given(mask), generator=generator())
    for field in choice:
        assert (field[0, 1] == 0).all()
    total = sum(field.sum() for field in choice)
    assert all(g.isfinite().all() for g in torch.autograd.grad(total, (query, key, value)))
    nothing = choose(query, key[:, :0], value[:, :0], by=by, generator=generator())
    assert nothing.output.shape == (2, M, WIDTH)
    assert all((field == 0).all() for field in nothing)


@pytest.mark.parametrize("by", WAYS, ids=repr)
def test_what_is_hidden_is_inert(by):
    query, key, value = made(2)
    mask = torch.ones(N, dtype=torch.bool)
    mask[2] = False
    dirty_key, dirty_value = key.clone(), value.clone()
    dirty_key[:, 2], dirty_value[:, 2] = torch.nan, torch.inf
    clean, dirty = (
        choose(query, k, v, by=by, where=given(mask[None]), generator=generator())
        for k, v in ((key, value), (dirty_key, dirty_value))
    )
    assert all(torch.equal(a, b) for a, b in zip(clean, dirty, strict=True))


def test_the_same_seed_draws_the_same():
    query, key, value = made(7)
    draws = {choose(query, key, value, by=Sample(), generator=generator(s)).output.sum().item() for s in (1, 1, 1, 2)}
    assert len(draws) == 2


@pytest.mark.parametrize(
    ("act", "kind", "text"),
    [
        (lambda x: choose(x, x, x, by="sample"), TypeError, "by must be Sample(), Gumbel(temperature) or"),
        (lambda x: choose(x, x, x, by=Sample), TypeError, "make one, Sample(…)"),
        (lambda x: choose(x, x, x, by=Sample(), generator=3), TypeError, "must be a torch.Generator, got int"),
        (lambda x: Gumbel(0), ValueError, "temperature must be above 0, got 0: to choose one key use Sample()"),
        (lambda x: Gumbel("1"), TypeError, "temperature must be a number, got str: '1'"),
        (lambda x: StraightThrough(0.5), TypeError, "give it Sample() or Gumbel(temperature), got 0.5"),
        (lambda x: choose(x, x[:, :2], x, by=Sample()), ValueError, "choose: there are 2 keys but 3 values"),
    ],
)
def test_errors(unchecked, act, kind, text):
    with pytest.raises(kind) as caught:
        act(torch.zeros(2, 3, 5))
    assert text in str(caught.value)
