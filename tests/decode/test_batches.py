"""What is written for a sentence does not depend on the batch: 1000 sentences, mixed lengths, in any order."""

import pytest
import torch

from regard.decode.beam import beam
from regard.decode.greedy import greedy
from regard.decode.sampling import sample
from tests.decode.models import Recurrent, padded, sentences

SOURCES = sentences(1000, 31, 1, 17)
LONGEST = 8


def outputs(decode, model, order: list, size: int) -> dict:
    found = {}
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        for number, hypothesis in zip(chosen, decode(model, chosen), strict=True):
            found[number] = (hypothesis.tokens, hypothesis.finished)
    return found


def by_greedy(model, chosen):
    return greedy(model, *padded([SOURCES[i] for i in chosen]), longest=LONGEST)


def by_beam(model, chosen):
    limit = torch.tensor([3 + i % 6 for i in chosen])
    found = beam(model, *padded([SOURCES[i] for i in chosen]), size=5, longest=limit, length_penalty=0.6)
    return [best for best, *_ in found]


def by_sampling(model, chosen):
    """Each sentence keeps its number, whatever stands beside it."""
    return sample(model, *padded([SOURCES[i] for i in chosen]), longest=LONGEST, seed=3, numbers=chosen)


@pytest.mark.usefixtures("unchecked")  # for speed: the shapes are checked elsewhere
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("decode", [by_greedy, by_beam, by_sampling])
def test_the_same_tokens_whatever_the_batch(decode, dtype):
    model = Recurrent(31, 13, dtype, ending=3.0)
    straight = list(range(1000))
    shuffled = torch.randperm(1000, generator=torch.Generator().manual_seed(4)).tolist()
    order = straight if decode is by_sampling else shuffled
    alone = outputs(decode, model, straight, 1)
    assert len({tuple(tokens) for tokens, _ in alone.values()}) > 300  # the sentences do differ
    assert 100 < sum(finished for _, finished in alone.values()) < 1000
    for size in (7, 32):
        other = outputs(decode, model, order, size)
        same = sum(other[i] == alone[i] for i in straight)
        # In float32 a sum depends on the size of its matrix by a rounding, which may turn a near tie.
        assert same == 1000 if dtype is torch.float64 else same >= 998
