"""Sampling: its distribution, its cuts, and streams that belong to a sentence."""

import pytest
import torch

from regard.decode.greedy import greedy
from regard.decode.sampling import distribution, draw, sample
from tests.decode.models import Fixed, Table, padded, sentences

LOGITS = (9.0, 0.3, 9.0, -0.5, 1.0, 0.0)
MANY = padded([[5, 3]] * 4000)


def shares(**options) -> torch.Tensor:
    found = sample(Fixed(*LOGITS), *MANY, longest=1, **options)
    tokens = torch.tensor([3 if h.finished else h.tokens[0] for h in found])
    return torch.bincount(tokens, minlength=6) / len(tokens)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_come_as_often_as_they_should(temperature):
    """Within four standard errors of the softmax over what may be written."""
    logits = torch.tensor(LOGITS) / temperature
    logits[[0, 2]] = -torch.inf
    wanted = torch.softmax(logits, -1)
    error = 4 * (wanted * (1 - wanted) / 4000).sqrt()
    assert ((shares(temperature=temperature, seed=3) - wanted).abs() <= error).all()


def test_steps_draw_independently():
    found = sample(Fixed(0.0, 0.0, 0.0, -90.0, 0.0), *MANY, longest=2, seed=3)
    pairs = torch.tensor([h.tokens for h in found])
    for first in (1, 4):
        again = (pairs[pairs[:, 0] == first, 1] == 4).double().mean()
        assert abs(again - 0.5) < 0.05


def test_the_cuts():
    logs = torch.tensor([[0.1, 0.4, 0.2, 0.3]], dtype=torch.float64).log()
    cut = {
        (0, 1.0): [0.1, 0.4, 0.2, 0.3],
        (2, 1.0): [0, 4 / 7, 0, 3 / 7],
        (9, 1.0): [0.1, 0.4, 0.2, 0.3],
        (0, 0.65): [0, 4 / 7, 0, 3 / 7],
        (0, 0.75): [0, 4 / 9, 2 / 9, 3 / 9],
        (0, 0.001): [0, 1, 0, 0],
        (3, 0.75): [0, 4 / 7, 0, 3 / 7],  # 4/9 + 3/9 reaches 0.75 of what top_k left
    }
    for (top_k, top_p), wanted in cut.items():
        got = distribution(logs, 1.0, top_k, top_p)
        torch.testing.assert_close(got, torch.tensor([wanted], dtype=torch.float64), rtol=1e-12, atol=1e-15)
    squared = distribution(logs, 0.5, 0, 1.0)
    torch.testing.assert_close(squared[0], torch.tensor([0.01, 0.16, 0.04, 0.09], dtype=torch.float64) / 0.3)


def test_equal_tokens_are_cut_by_their_number():
    assert distribution(torch.zeros(1, 5), 1.0, 2, 1.0).tolist() == [[0.5, 0.5, 0, 0, 0]]


def test_a_temperature_near_zero_is_greedy():
    sources = sentences(31, 11, 5, 9)
    model = Table(9)
    cold = sample(model, *padded(sources), longest=7, temperature=1e-300)
    assert cold == greedy(model, *padded(sources), longest=7)
    assert sample(model, *padded(sources), longest=7, top_k=1) == cold


def test_the_ends_of_the_interval():
    probability = torch.tensor([[0.0, 0.25, 0.0, 0.75, 0.0]], dtype=torch.float64)
    for uniform, token in ((0.0, 1), (0.2499, 1), (0.25, 3), (1 - 2**-53, 3)):
        assert draw(probability, torch.tensor([uniform], dtype=torch.float64)).tolist() == [token]
    thirds = torch.full((1, 3), 1 / 3, dtype=torch.float64)
    assert draw(torch.cat([thirds / 7, torch.zeros(1, 2)], 1), torch.tensor([1 - 2**-53])).tolist() == [2]


def test_a_sentence_owns_its_random_numbers():
    sources = sentences(41, 11, 5, 9)
    model = Table(9, spread=0.5)
    numbers = [100 + place for place in range(len(sources))]
    together = sample(model, *padded(sources), longest=7, seed=5, numbers=numbers)
    for number, source in enumerate(sources):
        assert (
            sample(model, *padded([source]), longest=7, seed=5, numbers=[100 + number]) == together[number : number + 1]
        )
    others = sample(model, *padded(sources), longest=7, seed=6, numbers=numbers)
    assert sum(a.tokens != b.tokens for a, b in zip(together, others, strict=True)) > 30
    same = sample(model, *padded([sources[0]] * 41), longest=7, seed=5)
    assert len({tuple(h.tokens) for h in same}) > 20


def test_what_was_drawn_is_pinned():
    """The stream is Philox's by specification: the same tokens on any machine and release."""
    found = sample(Fixed(*[0.0] * 3, -90.0, *[0.0] * 97), *padded([[5, 3]] * 2), longest=5, seed=1, numbers=[7, 8])
    assert [h.tokens for h in found] == PINNED


PINNED = [[93, 6, 4, 30, 12], [83, 49, 54, 24, 37]]


def test_log_probabilities_are_the_models_own():
    model = Table(9)
    for found in sample(model, *padded([[5, 3]] * 7), longest=4, temperature=0.3, top_k=3, top_p=0.9):
        logs = {(t, f): logs for t, f, logs in model.all_outputs((5, 3), 4)}
        wanted = logs[tuple(found.tokens), found.finished]
        torch.testing.assert_close(found.token_log_probabilities, list(wanted), rtol=1e-12, atol=1e-12)
