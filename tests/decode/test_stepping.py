"""The best of many with equal ones among them, what may never be written, and what is refused."""

import pytest
import torch

from regard.decode.beam import beam
from regard.decode.forced import forced
from regard.decode.greedy import greedy
from regard.decode.sampling import sample
from regard.decode.stepping import best, log_probabilities
from regard.errors import RegardError
from tests.decode.models import Fixed, padded

DECODERS = {
    "greedy": greedy,
    "beam": lambda *given, **named: [found[0] for found in beam(*given, size=3, **named)],
    "sample": sample,
}


@pytest.mark.parametrize("levels", [2, 5, 1000])
@pytest.mark.parametrize("count", [1, 2, 6, 16, 17, 30])
def test_the_best_are_those_of_a_stable_sort(levels, count):
    values = torch.randint(levels, (53, 17)).double()
    values[values == 1] = -torch.inf
    value, token = best(values, count)
    ordered = values.sort(dim=-1, descending=True, stable=True)
    assert torch.equal(value, ordered.values[:, :count])
    assert torch.equal(token, ordered.indices[:, :count])


def test_half_precision_is_normalised_in_single():
    logits = torch.randn(3, 11, dtype=torch.bfloat16)
    logs = log_probabilities(logits, 0)
    assert logs.dtype is torch.float32
    torch.testing.assert_close(logs[:, 3:], torch.log_softmax(logits.float(), -1)[:, 3:])


@pytest.mark.parametrize("decode", DECODERS.values(), ids=DECODERS)
def test_padding_and_begin_are_never_written(decode):
    source, length = padded([[5, 3], [3]])
    for hypothesis in decode(Fixed(9.0, 0.0, 9.0, 1.0, 2.0), source, length, longest=7):
        assert not {0, 2, 3} & set(hypothesis.tokens)
        assert hypothesis.log_probability < -8.0  # the model's own probabilities, nothing renormalised


@pytest.mark.parametrize("decode", DECODERS.values(), ids=DECODERS)
@pytest.mark.parametrize("longest", [0, 1, torch.tensor([0, 1])], ids=str)
def test_short_limits(decode, longest):
    source, length = padded([[5, 3], [3]])
    wanted = [longest] * 2 if isinstance(longest, int) else longest.tolist()
    on = decode(Fixed(0.0, 0.0, 0.0, -50.0, 90.0), source, length, longest=longest)
    ending = decode(Fixed(0.0, 0.0, 0.0, 90.0, 0.0), source, length, longest=longest)
    for limit, cut, ended in zip(wanted, on, ending, strict=True):
        assert (cut.tokens, cut.finished, len(cut.token_log_probabilities)) == ([4] * limit, False, limit)
        assert (ended.tokens, ended.finished, len(ended.token_log_probabilities)) == ([], limit == 1, limit)


@pytest.mark.parametrize("decode", DECODERS.values(), ids=DECODERS)
@pytest.mark.parametrize(
    ("vocabulary", "tokens", "finished"), [(1, [], False), (2, [1, 1, 1], False), (3, [1, 1, 1], False)]
)
def test_small_vocabularies(decode, vocabulary, tokens, finished):
    source, length = padded([[5, 3]])
    (hypothesis,) = decode(Fixed(*[0.0] * vocabulary), source, length, longest=3)
    assert (hypothesis.tokens, hypothesis.finished) == (tokens, finished)


@pytest.mark.parametrize("decode", DECODERS.values(), ids=DECODERS)
def test_an_empty_batch_gives_nothing(decode):
    assert decode(Fixed(0.0), torch.zeros(0, 5, dtype=torch.long), torch.zeros(0, dtype=torch.long), longest=3) == []


@pytest.mark.parametrize("decode", DECODERS.values(), ids=DECODERS)
@pytest.mark.parametrize("wrong", [[float("nan"), 0.0], [float("inf"), 0.0], [float("-inf")] * 2], ids=str)
def test_logits_that_are_not_numbers_are_refused(decode, wrong):
    message = "the model's logits at step 0 hold NaN, .inf or nothing but -inf: .* load an earlier state"
    with pytest.raises(RegardError, match=message):
        decode(Fixed(*wrong), *padded([[5, 3]]), longest=3)


NOT_GOOD = {
    "axes": (
        lambda s, n: greedy(Fixed(0.0), s[0], n, longest=3),
        ValueError,
        r"greedy: source must be \(batch, n\) and source_length \(batch,\), got \(3,\) and \(2,\)",
    ),
    "count": (
        lambda s, n: beam(Fixed(0.0), s, n[:1], longest=3, size=2),
        ValueError,
        r"beam: source must be \(batch, n\) and source_length \(batch,\), got \(2, 3\) and \(1,\)",
    ),
    "length": (
        lambda s, n: greedy(Fixed(0.0), s, n + 1, longest=3),
        ValueError,
        "greedy: source_length must be between 0 and 3, the width of source, got 3 to 4",
    ),
    "longest below 0": (
        lambda s, n: greedy(Fixed(0.0), s, n, longest=-1),
        ValueError,
        "greedy: longest must be at least 0, got -1",
    ),
    "longest not whole": (
        lambda s, n: greedy(Fixed(0.0), s, n, longest=2.5),
        TypeError,
        "greedy: longest must be an int, got float: 2.5",
    ),
    "longest of floats": (
        lambda s, n: greedy(Fixed(0.0), s, n, longest=torch.ones(2)),
        TypeError,
        "greedy: longest must hold integers, got float32",
    ),
    "longest for others": (
        lambda s, n: greedy(Fixed(0.0), s, n, longest=torch.ones(5, dtype=torch.long)),
        ValueError,
        r"greedy: longest must be an int or a length for each of 2 sentences, got shape \(5,\)",
    ),
    "one longest below 0": (
        lambda s, n: greedy(Fixed(0.0), s, n, longest=torch.tensor([4, -3])),
        ValueError,
        "greedy: longest must be at least 0, got -3",
    ),
    "size": (
        lambda s, n: beam(Fixed(0.0), s, n, longest=3, size=0),
        ValueError,
        "beam: size must be at least 1, got 0",
    ),
    "n_best": (
        lambda s, n: beam(Fixed(0.0), s, n, longest=3, size=2, n_best=5),
        ValueError,
        "beam: n_best must be at most size, got n_best=5 and size=2",
    ),
    "length_penalty": (
        lambda s, n: beam(Fixed(0.0), s, n, longest=3, size=2, length_penalty=float("nan")),
        ValueError,
        "beam: length_penalty must be finite, got nan",
    ),
    "temperature": (
        lambda s, n: sample(Fixed(0.0), s, n, longest=3, temperature=0.0),
        ValueError,
        "sample: temperature must be above 0 and finite, got 0.0: its limit at 0 is greedy",
    ),
    "top_p": (
        lambda s, n: sample(Fixed(0.0), s, n, longest=3, top_p=1.5),
        ValueError,
        "sample: top_p must be above 0 and at most 1, got 1.5",
    ),
    "top_k": (
        lambda s, n: sample(Fixed(0.0), s, n, longest=3, top_k=-2),
        ValueError,
        "sample: top_k must be at least 0, got -2",
    ),
    "seed": (
        lambda s, n: sample(Fixed(0.0), s, n, longest=3, seed=2**63),
        ValueError,
        rf"sample: seed must be below 2\*\*63, got {2**63}",
    ),
    "numbers": (
        lambda s, n: sample(Fixed(0.0), s, n, longest=3, numbers=[0, -1]),
        ValueError,
        "sample: numbers must be at least 0, got -1",
    ),
    "a number for each": (
        lambda s, n: sample(Fixed(0.0), s, n, longest=3, numbers=[0]),
        ValueError,
        "sample: numbers must be one for each of 2 sentences, got 1",
    ),
    "target": (
        lambda s, n: forced(Fixed(0.0), s, n, s[:1], n),
        ValueError,
        r"forced: target must be \(2, m\) like source, got \(1, 3\)",
    ),
    "target_length": (
        lambda s, n: forced(Fixed(0.0), s, n, s[:, :2], n),
        ValueError,
        "forced: target_length must be at most 2, the width of target, got 3",
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", NOT_GOOD.values(), ids=NOT_GOOD)
def test_what_does_not_fit_is_refused(case):
    call, kind, message = case
    with pytest.raises(kind, match=message):
        call(*padded([[5, 4, 3], [4, 3]]))
