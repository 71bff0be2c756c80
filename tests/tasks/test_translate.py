"""The task `translate`: its loss, its answers, its files."""

import dataclasses
import math

import pytest
import torch
from torch import nn

from regard.data.pairs import Pair, Splits
from regard.data.tokens import END, PAD
from regard.errors import RegardError
from regard.models import rnnsearch
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
    assert float(smooth.objective) == pytest.approx(expected, rel=1e-5)


def test_what_a_uniform_model_costs(task):
    class Even(nn.Module):
        def forward(self, source, source_length, target):
            return torch.zeros(*target.shape, task.target.size)

    found = task.validated_likelihood(Even(), PAIRS, tokens=64)
    assert found["perplexity"] == pytest.approx(task.target.size, rel=1e-6)
    assert found["likelihood"] == pytest.approx(math.log(task.target.size), rel=1e-6)


def test_the_batch_size_changes_no_measure(task):
    net = model(task)
    found = [task.validated(net, PAIRS, tokens=tokens) for tokens in (8, 64, 4096)]
    for other in found[1:]:
        assert other == pytest.approx(found[0], rel=1e-6)


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
    assert task.validated(net.eval(), PAIRS, tokens=64)["exact"] == 1.0
