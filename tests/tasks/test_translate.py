"""The task `translate`: its loss, its answers, its files."""

import dataclasses
import math

import pytest
import torch
from torch import nn

from regard.data.pairs import Pair, Splits
from regard.data.tokens import END, PAD
from regard.errors import BadData, RegardError
from regard.measure.alignment import AlignmentError, read_gold
from regard.models import rnnsearch
from regard.nn.stepwise import Step
from regard.tasks.judging import likelihood_of
from regard.tasks.translate import Options, Translate

PAIRS = [Pair("abc", "cba"), Pair("a", "a"), Pair("bdca", "acdb"), Pair("dd", "dd"), Pair("cabd", "dbac")]
SPLITS = Splits(PAIRS, PAIRS[:2], PAIRS[2:], "letters")


@pytest.fixture
def task():
    return Translate.of(SPLITS, Options())


def model(task):
    config = rnnsearch.Config(width=9, embedding=5, readout=4, alignment=6)
    return rnnsearch.RnnSearch(task.configured(config)).double().eval()


def test_the_loss_is_a_sum_over_real_tokens(task):
    """Each pair alone gives what they give together: padding has no part, END has."""
    net, examples = model(task), task.examples(PAIRS)
    together = task.loss(net, task.batch(examples, range(5)))
    alone = [task.loss(net, task.batch(examples, [place])) for place in range(5)]
    torch.testing.assert_close(together.objective, sum(loss.objective for loss in alone))
    assert int(together.tokens) == sum(int(loss.tokens) for loss in alone) == sum(len(p.target) + 1 for p in PAIRS)
    assert not together.likelihood.requires_grad
    assert torch.equal(together.objective.detach(), together.likelihood)


def test_smoothing_leaves_padding_out_and_the_likelihood_alone(task):
    net, batch = model(task), task.batch(task.examples(PAIRS), range(5))
    plain, smooth = task.loss(net, batch), task.loss(net, batch, smoothing=0.1)
    assert torch.equal(plain.likelihood, smooth.likelihood)
    logarithm = net(batch.source, batch.source_length, batch.target).detach().float().log_softmax(-1)
    expected = 0.0
    for row in range(5):
        for place in range(batch.target.shape[1]):
            token = int(batch.target[row, place])
            if token == PAD:
                continue
            others = [float(logarithm[row, place, v]) for v in range(task.target.size) if v != PAD]
            expected -= 0.9 * float(logarithm[row, place, token]) + 0.1 * sum(others) / len(others)
    assert float(smooth.objective.detach()) == pytest.approx(expected, rel=1e-5)


def test_what_a_uniform_model_costs(task):
    class Even(nn.Module):
        def forward(self, source, source_length, target):
            return torch.zeros(*target.shape, task.target.size)

    found = likelihood_of(task, Even(), PAIRS, tokens=64)
    assert found.perplexity == pytest.approx(task.target.size, rel=1e-6)
    assert found.loss == pytest.approx(math.log(task.target.size), rel=1e-6)


def test_the_batch_size_changes_no_measure(task):
    net = model(task)
    found = [task.validated(net, SPLITS, tokens=tokens) for tokens in (8, 64, 4096)]
    for other in found[1:]:
        assert other == pytest.approx(found[0], rel=1e-6)


class Parrot(nn.Module):
    """Says what it is told to, whatever it reads: a step's logits are 9 for the next token of its line."""

    def __init__(self, task, said):
        super().__init__()
        self.task, self.said = task, {tuple(task.encoded(source)): task.target.encode(text) for source, text in said}

    def begin(self, source, source_length):
        lines = [tuple(row[:length].tolist()) for row, length in zip(source, source_length, strict=True)]
        left = torch.full((len(lines), 12), END)
        for row, line in enumerate(lines):
            ids = self.said[line]
            left[row, : len(ids)] = torch.tensor(ids)
        return Left(left)

    def step(self, state, token):
        logits = torch.zeros(len(token), self.task.target.size).scatter(1, state.left[:, :1], 9.0)
        return Step(logits, Left(state.left.roll(-1, 1)), None)

    def forward(self, source, source_length, target):
        return torch.zeros(*target.shape, self.task.target.size)


class Left:
    def __init__(self, left):
        self.left = left

    def map(self, change):
        return Left(change(self.left))


def test_every_listed_answer_is_right(task):
    said = [("abc", "cba"), ("a", "b"), ("bdca", "acdd"), ("dd", ""), ("cabd", "dbac")]
    found = task.evaluated(Parrot(task, said), PAIRS, {"a": ["a", "b"]}, tokens=64, resamples=None)
    assert found.errors.exact_match == pytest.approx(3 / 5)
    assert found.errors.token_rate == pytest.approx((1 + 2) / (3 + 1 + 4 + 2 + 4))
    assert [(bucket.name, bucket.count) for bucket in found.lengths] == [
        ("0", 0),
        ("1", 1),
        ("2", 1),
        ("3", 1),
        ("4+", 2),
    ]


def test_a_word_is_a_token_of_its_error_rate():
    pairs = [Pair("cat", "K AE T"), Pair("dog", "D AO G")]
    task = Translate.of(Splits(pairs, pairs, pairs, "words"), Options(target_tokens="words"))
    assert (task.source.kind, task.target.kind) == ("characters", "words")
    found = task.evaluated(Parrot(task, [("cat", "K AO T"), ("dog", "D AO G")]), pairs, {}, tokens=64, resamples=None)
    assert (found.errors.edits, found.errors.tokens, found.errors.wrong, found.unit) == (1, 6, 1, "words")
    assert "16.67%" in found.as_text()
    assert found.as_json()["token_errors"] == pytest.approx(1 / 6)


def test_the_best_is_chosen_by_what_was_asked_for(task):
    measures = {"exact": 0.25, "loss": 2.0, "bleu": 31.0}
    for metric, goodness in (("exact", 0.25), ("loss", -2.0), ("bleu", 31.0)):
        assert task.with_options(metric=metric).goodness(measures) == (goodness, -2.0)
    assert task.with_options(metric="bleu").validated(model(task), SPLITS, tokens=64).keys() > {"bleu", "exact"}


class Looker(nn.Module):
    """Looks where it is told to: a matrix of weights for each source line, a row for each step."""

    def __init__(self, task, weights):
        super().__init__()
        self.task, self.weights = task, {tuple(task.encoded(source)): rows for source, rows in weights.items()}

    def begin(self, source, source_length):
        looked = torch.zeros(len(source), 40, source.shape[1])
        for row, (line, length) in enumerate(zip(source, source_length, strict=True)):
            told = self.weights[tuple(line[:length].tolist())]
            looked[row, : len(told), :length] = torch.tensor(told)
        return Left(looked)

    def step(self, state, token):
        logits = torch.zeros(len(token), self.task.target.size)
        return Step(logits, Left(state.left.roll(-1, 1)), state.left[:, 0])

    def forward(self, source, source_length, target):
        return torch.zeros(*target.shape, self.task.target.size)


@pytest.mark.parametrize("tokens", ["words", "characters", "subwords"])
def test_the_alignment_error_rate_of_known_weights(tokens):
    """Two pairs, with words of several tokens, and where each target word looks most: 0-0, 0-1, 1-2; 0-0, 1-1, END.

    So |A| = 5; of |S| = 4 sure links 0-0, 1-2 and 0-0 are found, and the possible one: |A∩S| = 3, |A∩P| = 4.
    """
    pairs = [Pair("don't go", "geh jetzt, nicht"), Pair("a, bb", "xx y z.")]
    given = Translate.of(Splits(pairs, pairs, pairs, "pairs"), Options(tokens=tokens, vocabulary=300))
    looked = [
        [[0.5, 0.3], [0.9, 0.1], [0.2, 0.7]],
        [[0.6, 0.4], [0.1, 0.8], [0.2, 0.3]],
    ]
    weights = {pair.source: _rows(given, pair, rows) for pair, rows in zip(pairs, looked, strict=True)}
    gold = [read_gold("0-0 1-2 1-1"), read_gold("0-0 1?1")]
    found = given.evaluated(Looker(given, weights), pairs, {}, tokens=64, resamples=None, gold=gold).alignment
    assert found == AlignmentError(links=5, sure=4, found_sure=3, found_possible=4)
    assert found.rate == pytest.approx(1 - 7 / 9, abs=1e-12)


def _rows(task, pair, looked):
    """Weights of tokens that make those of words: even over the tokens of a source word, the rest on END; the rows of
    the tokens of a target word differ, and have the given one as their mean."""
    source, target = task.source.words(pair.source), task.target.words(pair.target)
    rows, seen = [], dict.fromkeys(target, 0)
    for word in target:
        wanted = [0.0, 0.0] if word is None else looked[word]
        count, seen[word] = target.count(word), seen[word] + 1
        shift = 0.0 if word is None or count == 1 else 0.3 * (1 if seen[word] <= count // 2 else -1)
        shift = 0.0 if count % 2 and seen[word] == count else shift
        wanted = [wanted[0] + shift, wanted[1] - shift]
        row = [0.0 if place is None else wanted[place] / source.count(place) for place in source]
        rows.append([*row, 1 - sum(row)])
    return rows


def test_a_model_without_attention_has_no_alignments(task):
    said = [(pair.source, pair.target) for pair in PAIRS]
    with pytest.raises(RegardError, match="the model has no attention: there are no alignments to compare"):
        task.evaluated(Parrot(task, said), PAIRS, {}, tokens=64, resamples=None, gold=[read_gold("")] * 5)


def test_an_answer_may_be_as_long_as_in_training():
    """A letter becomes 60: no bound that is made of the source's length alone lets it through."""
    pairs = [Pair("a", "b" * 60), Pair("abcabcabc", "c")]
    given = Translate.of(Splits(pairs, pairs, pairs, "long"), Options())
    assert (given.options.longest_answer, given.options.ratio) == (61, 61 / 2)
    assert given.most_written(torch.tensor([2, 10])).tolist() == [97, 97]

    class Endless(Parrot):
        def step(self, state, token):
            ids = torch.full((len(token), 1), given.target.encode("b")[0])
            ended = state.left[:, :1] >= 60
            return Step(
                torch.zeros(len(token), given.target.size).scatter(1, torch.where(ended, END, ids), 9.0),
                Left(state.left + 1),
                None,
            )

        def begin(self, source, source_length):
            return Left(torch.zeros(len(source), 1, dtype=torch.long))

    found = given.evaluated(Endless(given, []), pairs[:1], {}, tokens=64, resamples=None)
    assert (found.errors.exact_match, found.unfinished) == (1.0, 0)
    short = given.with_options(longest_answer=5, ratio=2.0)
    assert short.most_written(torch.tensor([2, 10])).tolist() == [25, 45]
    found = short.evaluated(Endless(given, []), pairs[:1], {}, tokens=64, resamples=None)
    assert (found.errors.exact_match, found.unfinished, found.as_json()["unfinished"]) == (0.0, 1, 1)
    assert "unfinished       1  answers were cut before their end" in found.as_text()
    older = given.with_options(longest_answer=0, ratio=0.0)
    assert older.most_written(torch.tensor([2, 10])).tolist() == [24, 40]


def test_too_long_lines_do_not_say_how_much_is_written():
    pairs = [Pair("ab", "a"), Pair("a", "b" * 60)]
    given = Translate.of(Splits(pairs, pairs, pairs, "long"), Options(longest=9))
    assert (given.options.longest_answer, given.options.ratio) == (2, 2 / 3)


def test_what_is_too_long_is_counted():
    pairs = [Pair("abc", "cba"), Pair("abcabcabcabc", "c"), Pair("a", "abcabcabcabc"), Pair("ab", "ba")]
    given = Translate.of(Splits(pairs, pairs, pairs, "long"), Options(longest=6))
    found = given.evaluated(model(given), pairs, {}, tokens=64, resamples=None)
    assert (found.likelihood.skipped, found.as_json()["skipped"], found.as_json()["examples"]) == (2, 2, 4)
    assert "skipped          2  too long: they have no part in loss and perplexity" in found.as_text()
    with pytest.raises(BadData, match=r"each of the 2 pairs is longer than --task\.longest 6 tokens"):
        given.evaluated(model(given), pairs[1:3], {}, tokens=64, resamples=None)


@pytest.mark.parametrize("part", ["train", "valid"])
def test_nothing_left_to_learn_from_or_to_choose_by_is_said_at_once(part):
    long, parts = [Pair("abcabcabcabc", "c")] * 3, {"train": PAIRS, "valid": PAIRS, "test": PAIRS}
    splits = Splits(**{**parts, part: long}, name="pairs.tsv")
    expected = f"pairs.tsv, its {part} part: each of the 3 pairs is longer than --task.longest 9 tokens: raise it"
    with pytest.raises(BadData, match=expected):
        Translate.of(splits, Options(longest=9))
    with pytest.raises(BadData, match=expected):
        Translate.of(Splits(PAIRS, PAIRS, PAIRS, "p"), Options(longest=9)).check(splits)


WRONG = {
    "one text": (lambda task: task.answers(None, "ab"), "expected a list of lines, got one text: put it into a list"),
    "size": (lambda task: task.answers(None, ["ab"], size=0), "size=0: expected at least 1"),
    "a name": (lambda task: task.with_options(beem=3), "translate has no option 'beem': did you mean 'beam'?"),
    "a value": (lambda task: task.with_options(beam=0), "task.beam must be at least 1, got 0"),
    "nan": (lambda task: task.with_options(length_penalty=math.nan), "task.length_penalty must be a finite"),
    "ratio": (lambda task: task.with_options(ratio=math.inf), "task.ratio must be at least 0, got inf"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_explained(name, task, unchecked):
    call, message = WRONG[name]
    with pytest.raises(RegardError, match=message):
        call(task)


def test_drawn_answers_are_those_of_their_place(task):
    net = model(task)
    lines = ["dd", "abcabc", "a", "", "cabd"]
    together = task.searched(net, lines, task.sampling(seed=3, first=10), size=2)
    for place, line in enumerate(lines):
        alone = task.searched(net, [line], task.sampling(seed=3, first=10 + place))
        assert alone[0][0].tokens == together[place][0].tokens
    other = task.searched(net, lines, task.sampling(seed=4, first=10), size=2)
    assert [several[0].tokens for several in other] != [several[0].tokens for several in together]


def test_several_answers_best_first(task):
    found = task.with_options(beam=4).searched(model(task), ["abc", "d"], task.with_options(beam=4).beaming(3))
    for several in found:
        assert len(several) == 3
        assert [each.score for each in several] == sorted((each.score for each in several), reverse=True)


def test_answers_stand_in_the_order_of_the_lines(task):
    net = model(task)
    lines = ["dd", "", "abcabcabc", "a", "", "zzz", "cab" * 9]
    alone = [task.text(task.answers(net, [line])[0]) for line in lines]
    for size in (1, 2, 64):
        together = task.answers(net, lines, size=size)
        assert [task.text(answer) for answer in together] == alone
        for line, answer in zip(lines, together, strict=True):
            assert answer.weights.shape[1] == len(line) + 1
    assert task.answers(net, []) == []


def test_a_line_that_is_too_long_is_cut_at_its_end_and_keeps_its_own(task):
    short = dataclasses.replace(task, options=Options(longest=4))
    net = model(task)
    cut = short.answers(net, ["abcdabcd"])[0]
    assert cut.weights.shape[1] == 4
    assert cut.tokens == short.answers(net, ["abc"])[0].tokens


def test_files_and_back(task):
    again = Translate.load(dataclasses.asdict(task.options), task.files())
    assert again.options == task.options
    for line in ("abc", "", "dz"):
        assert again.source.encode(line) == task.source.encode(line)
        assert again.source.encode(line)[-1] == END
    assert again.files() == task.files()
    older = {
        name: value
        for name, value in dataclasses.asdict(task.options).items()
        if name not in ("longest_answer", "ratio")
    }
    assert Translate.load(older, task.files()).most_written(torch.tensor([7])).tolist() == [34]


def test_vocabularies_come_from_the_data(task):
    config = task.configured(rnnsearch.Config())
    assert (config.source_vocabulary, config.target_vocabulary) == (task.source.size, task.target.size)
    with pytest.raises(RegardError, match="is 8, from the data, and cannot be set to 9"):
        task.configured(rnnsearch.Config(source_vocabulary=9))


def test_it_learns_to_reverse(task):
    torch.manual_seed(0)
    net, examples = model(task).float().train(), task.examples(PAIRS)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-2)
    for _ in range(300):
        loss = task.loss(net, task.batch(examples, range(5)))
        optimizer.zero_grad()
        (loss.objective / loss.tokens).backward()
        optimizer.step()
    assert task.validated(net.eval(), Splits(PAIRS, PAIRS, PAIRS, "letters"), tokens=64)["exact"] == 1.0
