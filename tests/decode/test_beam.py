"""The beam against exhaustive search and a plain loop; its back-pointers, its stop, its ties."""

import math

import pytest
import torch

from regard.data.tokens import BEGIN, END
from regard.decode.beam import beam
from regard.decode.greedy import greedy
from regard.nn.stepwise import Step
from tests.decode.models import NEVER, Fixed, Memory, Recurrent, Table, Witness, padded, sentences

SOURCES = sentences(13, 11, 5, 9)
PENALTIES = [0.0, 0.6, 1.0, 2.0, -0.7]


def score(logs: tuple, alpha: float) -> float:
    return sum(logs) / ((5 + len(logs)) / 6) ** alpha


def exhaustive(model: Table, source: list, longest: int, alpha: float) -> list:
    """Every output, the best score first."""
    return sorted(model.all_outputs(tuple(source), longest), key=lambda e: -score(e[2], alpha))


def by_hand(model: Table, source: list, size: int, longest: int, alpha: float, n_best: int) -> list:
    """Beam search as in the module's text, to the very end: nothing stops before `longest`."""
    done, live = [], [((), ())]
    for _ in range(longest):
        offers = []
        for tokens, logs in live:
            each = torch.log_softmax(model.logits(tuple(source), (BEGIN, *tokens)), -1).tolist()
            offers += [((*tokens, t), (*logs, each[t])) for t in range(model.vocabulary) if t not in NEVER]
        offers.sort(key=lambda offer: -sum(offer[1]))
        done += [(tokens[:-1], True, logs) for tokens, logs in offers[:size] if tokens[-1] == END]
        live = [offer for offer in offers if offer[0][-1] != END][:size]
    done += [(tokens, False, logs) for tokens, logs in live]
    return sorted(done, key=lambda e: -score(e[2], alpha))[:n_best]


def agree(found: list, wanted: list, alpha: float) -> None:
    assert [(tuple(h.tokens), h.finished) for h in found] == [w[:2] for w in wanted]
    for hypothesis, (_, _, logs) in zip(found, wanted, strict=True):
        torch.testing.assert_close(hypothesis.token_log_probabilities, list(logs), rtol=1e-12, atol=1e-12)
        assert math.isclose(hypothesis.log_probability, sum(logs), rel_tol=1e-12)
        assert math.isclose(hypothesis.score, score(logs, alpha), rel_tol=1e-12)


@pytest.mark.parametrize("alpha", PENALTIES)
def test_a_beam_of_everything_is_exhaustive_search(alpha):
    """Vocabulary 6, of which 3 tokens and END can be written: 121 outputs of at most 4 tokens."""
    model = Table(6)
    every = beam(model, *padded(SOURCES), size=130, longest=4, length_penalty=alpha, n_best=130)
    first = beam(model, *padded(SOURCES), size=130, longest=4, length_penalty=alpha)
    for source, all_found, found in zip(SOURCES, every, first, strict=True):
        wanted = exhaustive(model, source, 4, alpha)
        assert len(wanted) == 121
        agree(all_found, wanted, alpha)
        agree(found, wanted[:1], alpha)


@pytest.mark.parametrize("alpha", PENALTIES)
@pytest.mark.parametrize(("size", "n_best"), [(1, 1), (2, 1), (3, 2), (5, 5), (7, 3)])
def test_a_narrow_beam_is_the_plain_loop_and_its_early_stop_changes_nothing(size, n_best, alpha):
    for spread in (0.5, 3.0):
        model = Table(7, spread=spread)
        all_found = beam(model, *padded(SOURCES), size=size, longest=7, length_penalty=alpha, n_best=n_best)
        for source, found in zip(SOURCES, all_found, strict=True):
            agree(found, by_hand(model, source, size, 7, alpha, n_best), alpha)


def test_it_stops_early_where_nothing_can_be_better():
    model = Table(7, spread=3.0)
    beam(model, *padded(SOURCES), size=3, longest=40)
    assert len(model.rows) < 20
    assert sorted(model.rows[1:], reverse=True) == model.rows[1:]  # sentences leave one by one


def test_the_first_end_is_not_the_last_word():
    """END at once has 0.5; four times token 4 and then END 0.45, which is better by any length penalty."""

    class Patient(Fixed):
        def begin(self, source, source_length):
            return Memory((torch.zeros(len(source), dtype=torch.long),))

        def step(self, state, token):
            (written,) = state.tensors
            share = torch.zeros(len(token), 5, dtype=torch.float64)
            share[:, END] = torch.where(written == 0, 0.5, torch.where((written == 4) & (token == 4), 0.99, 0.0))
            share[:, 4] = torch.where(written == 0, 0.46, 1 - share[:, END])
            share[:, 1] = 1 - share.sum(-1)
            return Step(share.log(), Memory((written + 1,)), None)

    for size in (2, 3, 5):
        (found,) = beam(Patient(), *padded([[4, 3]]), size=size, longest=9, length_penalty=1.0)
        assert (found[0].tokens, found[0].finished) == ([4] * 4, True)
        (found,) = beam(Patient(), *padded([[4, 3]]), size=size, longest=9)
        assert (found[0].tokens, found[0].finished) == ([], True)


@pytest.mark.parametrize("make", [lambda: Table(7), lambda: Witness(9, seed=5), lambda: Recurrent(13, 5)])
def test_a_beam_of_one_is_greedy(make):
    sources = sentences(101, 11, 5, 9)
    for longest in (1, 6, 11):
        narrow = beam(make(), *padded(sources), size=1, longest=longest)
        for found, wanted in zip(narrow, greedy(make(), *padded(sources), longest=longest), strict=True):
            assert found == [wanted]
            assert (found[0].weights is None) == (wanted.weights is None)
            if wanted.weights is not None:
                assert torch.equal(found[0].weights, wanted.weights)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_the_weights_follow_each_hypothesis_back(alpha):
    """Every row says for which sentence, after which token, at which step and after which prefix it was made."""
    model = Witness(7, spread=0.7)
    sources = [[20 + i, *source] for i, source in enumerate(SOURCES)]
    crossed = 0
    all_found = beam(model, *padded(sources), size=5, longest=7, length_penalty=alpha, n_best=5)
    for source, found in zip(sources, all_found, strict=True):
        assert len(found) == 5
        for hypothesis in found:
            written = [*hypothesis.tokens, END][: len(hypothesis.token_log_probabilities)]
            wanted = [
                model.seen(torch.tensor(source), torch.tensor([BEGIN, *written[:t]])) for t in range(len(written))
            ]
            assert torch.equal(hypothesis.weights, torch.stack(wanted))
        crossed += len({tuple(h.tokens[:1]) for h in found}) > 1
    assert crossed > 5  # hypotheses of one sentence took different ways from the first token on


def test_the_state_follows_too():
    """The log-probabilities of what was found are those of a forward computation of the same tokens."""
    model = Recurrent(13, 5)
    for source, found in zip(SOURCES, beam(model, *padded(SOURCES), size=5, longest=9, n_best=5), strict=True):
        for hypothesis in found:
            one, length = padded([source])
            state, before = model.begin(one, length), BEGIN
            for step, log in enumerate(hypothesis.token_log_probabilities):
                token = hypothesis.tokens[step] if step < len(hypothesis.tokens) else END
                logits, state, weights = model.step(state, torch.tensor([before]))
                assert math.isclose(torch.log_softmax(logits, -1)[0, token].item(), log, rel_tol=1e-9)
                torch.testing.assert_close(hypothesis.weights[step], weights[0])
                before = token


def test_equal_hypotheses_go_by_token_number():
    (found,) = beam(Fixed(*[0.0] * 7), *padded([[4, 3]]), size=3, longest=2, n_best=3)
    assert [(h.tokens, h.finished) for h in found] == [([], True), ([1], True), ([1, 1], False)]
    (found,) = beam(Fixed(0.0, 0.0, 0.0, -90.0, 0.0, 0.0, 0.0), *padded([[4, 3]]), size=5, longest=2, n_best=5)
    assert [h.tokens for h in found] == [[1, 1], [1, 4], [1, 5], [1, 6], [4, 1]]


def test_a_beam_wider_than_all_there_is():
    """One token and END: three finished outputs, and the unfinished one, which has no END to pay for."""
    model = Fixed(0.0, -math.inf, 0.0, 0.0, 0.5)
    (found,) = beam(model, *padded([[4, 3]]), size=31, longest=3, n_best=31)
    assert sorted((len(h.tokens), h.finished) for h in found) == [(0, True), (1, True), (2, True), (3, False)]
    (found,) = beam(model, *padded([[4, 3]]), size=31, longest=3, n_best=31, length_penalty=9.0)
    assert [len(h.tokens) for h in found] == [3, 2, 1, 0]


def test_an_improbable_end_does_not_replace_what_was_cut_short():
    (found,) = beam(Fixed(0.0, 0.0, 0.0, -20.0, 9.0), *padded([[4, 3]]), size=3, longest=5)
    assert (found[0].tokens, found[0].finished) == ([4] * 5, False)


def test_where_nothing_can_follow_what_was_written_is_returned():
    """From the second step on only padding is possible."""

    class Silent(Fixed):
        def step(self, state, token):
            row = [0.0, *[-math.inf] * 3, 2.0 if token[0] == BEGIN else -math.inf]
            return Step(torch.tensor(row).expand(len(token), -1), state, None)

    (found,) = beam(Silent(), *padded([[4, 3]]), size=3, longest=9, n_best=2)
    assert [(h.tokens, h.finished) for h in found] == [([4], False)]
    assert found == greedy(Silent(), *padded([[4, 3]]), longest=9)


def test_what_has_ended_is_not_returned_as_unfinished_too():
    class Sure(Fixed):
        def step(self, state, token):
            row = [-math.inf, -math.inf, -math.inf, *([0.0, -math.inf] if token[0] == 4 else [-math.inf, 0.0])]
            return Step(torch.tensor(row).expand(len(token), -1), state, None)

    (found,) = beam(Sure(), *padded([[4, 3]]), size=3, longest=9, n_best=3)
    assert [(h.tokens, h.finished, h.score) for h in found] == [([4], True, 0.0)]


def test_scores_fall_along_the_list():
    for found in beam(Recurrent(13, 5, ending=3.0), *padded(SOURCES), size=7, longest=9, n_best=7, length_penalty=0.6):
        scores = [h.score for h in found]
        assert len(scores) == 7
        assert scores == sorted(scores, reverse=True)


def test_a_model_may_be_sure_of_what_it_does_not_write():
    """A hypothesis that cannot go on stands for nothing: its place must not be asked for numbers."""

    class Touchy(Fixed):
        def step(self, state, token):
            row = [-math.inf, -math.inf, -math.inf, 0.0, 1.0]
            logits = torch.tensor(row).expand(len(token), -1)
            refused = ~torch.isin(token, torch.tensor([BEGIN, 4]))[:, None]
            return Step(logits.masked_fill(refused, math.nan), state, None)

    (found,) = beam(Touchy(), *padded([[4, 3]]), size=5, longest=4, n_best=5)
    assert sorted((len(h.tokens), h.finished) for h in found) == [
        (0, True),
        (1, True),
        (2, True),
        (3, True),
        (4, False),
    ]
