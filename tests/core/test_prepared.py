"""Prepared keys: the same answers as the keys they were made of, wherever a key is accepted."""

import copy

import pytest
import torch

import regard
from regard import Sample
from regard.core import Prepared
from tests.registry import SCORES, WHERES, call


@pytest.mark.parametrize("score", SCORES, ids=str)
def test_prepared_keys_answer_as_the_keys_do(score):

    made = call(score, WHERES[1])
    prepared = made.score.prepare(made.key)
    assert isinstance(prepared, Prepared)
    assert prepared.shape == tuple(made.key.shape)
    chosen = {"score": made.score, "where": made.where, "first": made.sizes.first}
    for function in (regard.weights, regard.log_weights, regard.scores):
        assert torch.equal(function(made.query, prepared, **chosen), function(made.query, made.key, **chosen))
    direct = regard.attend(made.query, made.key, made.value, **chosen)
    assert torch.equal(regard.attend(made.query, prepared, made.value, **chosen), direct)
    drawn = [
        regard.choose(made.query, key, made.value, by=Sample(), generator=torch.Generator().manual_seed(1), **chosen)
        for key in (prepared, made.key)
    ]
    assert torch.equal(drawn[0].output, drawn[1].output)


@pytest.mark.parametrize("score", SCORES, ids=str)
def test_gradients_through_prepared_keys_are_the_same(score):

    made = call(score, WHERES[0])
    gradients = []
    for prepare in (True, False):
        key = made.key.clone().requires_grad_()
        given = made.score.prepare(key) if prepare else key
        output = regard.attend(made.query, given, made.value, score=made.score, first=made.sizes.first)
        wanted = [key, *made.score.parameters()]
        gradients.append(torch.autograd.grad(output.square().sum(), wanted, allow_unused=True))
    for a, b in zip(*gradients, strict=True):
        assert (a is None and b is None) or torch.equal(a, b)


@pytest.mark.parametrize("score", [s for s in SCORES if s.name != "bias"], ids=str)  # a table of two examples
def test_examples_can_be_chosen_and_repeated(score):

    made = call(score, WHERES[0])
    order = torch.tensor([1, 1, 0])
    prepared = made.score.prepare(made.key).map(lambda t: t[order])
    got = regard.weights(made.query[order], prepared, score=made.score, first=made.sizes.first)
    whole = regard.weights(made.query, made.key, score=made.score, first=made.sizes.first)
    torch.testing.assert_close(got, whole[order])


def test_a_key_that_is_not_finite_is_remembered():
    """Prepared before it is known who sees it; the score's weights still get a clean gradient."""
    score = regard.Additive(3, 5, 7)
    key = torch.randn(2, 11, 5)
    key[0, 4, 1] = torch.nan
    prepared = score.prepare(key)
    query, value = torch.randn(2, 2, 3), torch.randn(2, 11, 3)
    hidden = regard.attend(query, prepared, value, score=score, where=regard.prefix(4))
    assert hidden.isfinite().all()
    hidden.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in score.parameters())
    seen = regard.attend(query, prepared, value, score=score)
    assert seen[0].isnan().all()
    assert seen[1].isfinite().all()


def test_prepared_keys_are_for_the_score_that_made_them():
    score, other = regard.General(3, 5), regard.General(3, 5)
    prepared = score.prepare(torch.randn(2, 7, 5))
    with pytest.raises(ValueError, match=r"the keys were prepared by General\(query_width=3, key_width=5\)"):
        regard.weights(torch.randn(2, 1, 3), prepared, score=other)
    assert repr(prepared) == "Prepared(2, 7, 5) by General(query_width=3, key_width=5)"


def test_keys_of_another_width_are_refused_at_once():
    with pytest.raises(ValueError, match="made for keys of width 5, got keys of width 4"):
        regard.General(3, 5).prepare(torch.randn(2, 7, 4))


def test_scores_copy_pickle_and_save():
    score = regard.softcap(regard.Additive(3, 5, 7) + regard.RelativeBias(2), 4.0)
    twin = copy.deepcopy(score)
    assert {name for name, _ in score.named_parameters()} == set(score.state_dict())
    query, key = torch.randn(1, 2, 2, 3), torch.randn(1, 2, 4, 5)
    assert torch.equal(regard.weights(query, key, score=score), regard.weights(query, key, score=twin))
