"""Greedy decoding against a loop over one sentence, and the attention that comes with it."""

import torch

from regard.data.tokens import BEGIN, END
from regard.decode.forced import forced
from regard.decode.greedy import greedy
from tests.decode.models import NEVER, Fixed, Recurrent, Table, Witness, padded, sentences

SOURCES = sentences(23, 11, 5, 9)


def by_hand(model: Table, source: list, longest: int) -> tuple:
    tokens, logs = [], []
    for _ in range(longest):
        each = torch.log_softmax(model.logits(tuple(source), (BEGIN, *tokens)), -1).tolist()
        token = max((t for t in range(model.vocabulary) if t not in NEVER), key=lambda t: each[t])
        logs.append(each[token])
        if token == END:
            return tokens, True, logs
        tokens.append(token)
    return tokens, False, logs


def test_it_is_a_loop_over_the_most_probable_tokens():
    model = Table(7)
    finished = 0
    for longest in (0, 1, 5, 13):
        for source, found in zip(SOURCES, greedy(model, *padded(SOURCES), longest=longest), strict=True):
            tokens, ended, logs = by_hand(model, source, longest)
            assert (found.tokens, found.finished) == (tokens, ended)
            torch.testing.assert_close(found.token_log_probabilities, logs, rtol=1e-12, atol=1e-12)
            assert found.score == found.log_probability == sum(found.token_log_probabilities)
            finished += ended
    assert 20 < finished < 69  # of 92: both kinds are there


def test_each_sentence_has_its_own_limit():
    model = Table(7)
    longest = [i % 5 for i in range(23)]
    together = greedy(model, *padded(SOURCES), longest=torch.tensor(longest))
    for source, limit, found in zip(SOURCES, longest, together, strict=True):
        assert [found] == greedy(model, *padded([source]), longest=limit)
        assert len(found.token_log_probabilities) <= limit


def test_finished_sentences_leave_the_computation():
    model = Table(7)
    found = greedy(model, *padded(SOURCES), longest=13)
    steps = [len(hypothesis.token_log_probabilities) for hypothesis in found]
    assert model.rows == [sum(n > step for n in steps) for step in range(max(steps))]


def test_equal_tokens_go_by_their_number():
    (found,) = greedy(Fixed(0.0, -1.0, 0.0, -9.0, 0.5, 0.5, 0.5), *padded([[5, 3]]), longest=3)
    assert found.tokens == [4, 4, 4]


def test_each_step_comes_with_its_own_weights():
    model = Witness(7)
    sources = [[5 + i, *source] for i, source in enumerate(SOURCES)]
    for source, found in zip(sources, greedy(model, *padded(sources), longest=13), strict=True):
        written = [*found.tokens, END][: len(found.token_log_probabilities)]
        assert found.weights.shape == (len(written), len(source))
        for step, row in enumerate(found.weights):
            prefix = torch.tensor([BEGIN, *written[:step]])
            assert torch.equal(row, model.seen(torch.tensor(source), prefix))


def test_told_what_it_wrote_it_says_the_same():
    model = Witness(7)
    source, length = padded(SOURCES)
    written = greedy(model, source, length, longest=9)
    target, target_length = padded([[*h.tokens, END][: len(h.token_log_probabilities)] for h in written])
    for told, found in zip(forced(model, source, length, target, target_length), written, strict=True):
        assert told == found
        assert torch.equal(told.weights, found.weights)


def test_forced_gives_the_probability_of_any_target():
    model = Table(7)
    source, length = padded([[5, 6, 3], [4, 3]])
    first, second = forced(model, source, length, torch.tensor([[4, 1, 3], [3, 0, 0]]), torch.tensor([3, 1]))
    logs = {tokens: logs for tokens, finished, logs in model.all_outputs((5, 6, 3), 3) if finished}
    assert (first.tokens, first.finished, second.tokens, second.finished) == ([4, 1], True, [], True)
    torch.testing.assert_close(first.token_log_probabilities, list(logs[4, 1]), rtol=1e-12, atol=1e-12)


def test_forced_stops_before_what_cannot_be_written():
    (found,) = forced(Fixed(0.0, 0.0, 0.0, 0.0, 0.0), *padded([[4, 3]]), torch.tensor([[4, 2, 4]]), torch.tensor([3]))
    assert (found.tokens, found.finished) == ([4], False)


def test_no_gradient_is_kept():
    found = greedy(Recurrent(11, 5), *padded(SOURCES), longest=3)
    assert not any(hypothesis.weights.requires_grad for hypothesis in found)
