"""The written-out training loops, against the loops that say what they mean."""

import dataclasses
import itertools

import pytest
import torch
from torch import nn

import regard
from regard.models import rnnsearch
from regard.models.rnnsearch import Config, RnnSearch
from regard.nn import lines, unrolled
from regard.nn.recurrent import Reader

SCORES, RESETS = ("additive", "general", "dot", "scaled_dot"), ("before", "after")
SHAPES = {"ragged": (3, 7, 5), "one line": (1, 7, 5), "one note": (3, 1, 5), "one step": (3, 7, 1)}


def made(**choices):
    sizes = {"width": 7, "embedding": 5, "readout": 3, "alignment": 11}
    return RnnSearch(Config(**{"source_vocabulary": 17, "target_vocabulary": 13, **sizes, **choices})).train()


def batch(examples=3, n=7, m=5):
    length = torch.randint(1, n + 1, (examples,))
    return torch.randint(3, 17, (examples, n)), length, torch.randint(3, 13, (examples, m))


def learned(model, given):
    """The logits, and the gradient of every parameter."""
    torch.manual_seed(7)  # of dropout
    logits = model(*given)
    model.zero_grad()
    torch.manual_seed(8)
    (logits * torch.randn(logits.shape, dtype=torch.float64).to(logits.dtype)).sum().backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.requires_grad}
    assert None not in gradients.values()
    return {"logits": logits.detach(), **{name: gradient.clone() for name, gradient in gradients.items()}}


@pytest.fixture
def readable(monkeypatch):
    """The same by the readable loops: the decoder's step by step, the reader's by PyTorch's unit or step by step."""

    def run(model, given):
        with monkeypatch.context() as patch:
            patch.setattr(RnnSearch, "_unrolled", lambda *_: None)
            model.reader.eval()
            found = learned(model, given)
            model.reader.train()
        return found

    return run


@pytest.fixture
def taken(monkeypatch):
    """How often the decoder's loop and the reader's were the written-out ones."""
    counts = {"unrolled": 0, "along": 0}

    def counted(name, function):
        def call(*given, **named):
            counts[name] += 1
            return function(*given, **named)

        return call

    monkeypatch.setattr(rnnsearch, "unrolled", counted("unrolled", unrolled.unrolled))
    monkeypatch.setattr(regard.nn.recurrent, "along", counted("along", lines.along))
    return counts


def same(found, expected, tolerance):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(
            found[name], value, atol=tolerance, rtol=0, msg=lambda text, at=name: f"{at}: {text}"
        )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reads", ["before", "after"])
@pytest.mark.parametrize(("score", "reset"), list(itertools.product(SCORES, RESETS)))
def test_it_is_the_readable_loop(score, reset, reads, shape, readable, taken):
    """Every output and every gradient, with dropout."""
    model = made(score=score, reset=reset, reads=reads, dropout=0.3).double()
    given = batch(*SHAPES[shape])
    found = learned(model, given)
    assert taken == {"unrolled": 1, "along": 2}
    same(found, readable(model, given), 1e-10)
    assert taken == {"unrolled": 1, "along": 2}


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("reset", RESETS)
def test_single_precision_is_as_exact_as_the_readable_loop(score, reset, readable):
    model, given = made(score=score, reset=reset, width=37, embedding=23, readout=19, alignment=31), batch(5, 17, 13)
    found = learned(model, given)
    exact = readable(model.double(), given)
    for name, value in exact.items():
        scale = max(1.0, value.abs().max().item())
        torch.testing.assert_close(found[name].double(), value, atol=1e-5 * scale, rtol=0)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("reset", RESETS)
def test_under_autocast_it_is_no_less_exact_than_the_readable_loop(score, reset, readable, taken):
    """The relative error of every gradient, over several models."""
    ours = loops = 0.0
    for seed in range(6):
        torch.manual_seed(seed)
        model, given = (
            made(score=score, reset=reset, width=37, embedding=23, readout=19, alignment=31),
            batch(5, 17, 13),
        )
        with torch.autocast("cpu", torch.bfloat16):
            found, loop = learned(model, given), readable(model, given)
        assert found["logits"].dtype == torch.bfloat16
        for name, exact in readable(model.double(), given).items():
            ours += ((found[name].double() - exact).norm() / exact.norm()).item()
            loops += ((loop[name].double() - exact).norm() / exact.norm()).item()
    assert taken["unrolled"] == 6
    assert ours < 1.1 * loops


def test_a_model_in_half_precision_learns():
    found = learned(made().bfloat16(), batch())
    assert {value.dtype for value in found.values()} == {torch.bfloat16}
    assert all(value.isfinite().all() for value in found.values())


@pytest.mark.parametrize("frozen", ["reader", "look", "unit", "target", "first"])
def test_what_is_frozen_changes_nothing_else(frozen):
    model, given = made().double(), batch()
    whole = learned(model, given)
    for parameter in getattr(model, frozen).parameters():
        parameter.requires_grad_(False)
    found = learned(model, given)
    assert len(found) < len(whole)
    same(found, {name: whole[name] for name in found}, 1e-12)


@pytest.mark.parametrize("score", ["additive", "general", "scaled_dot"])
@pytest.mark.parametrize("reset", RESETS)
def test_second_derivatives_of_a_whole_model(score, reset, monkeypatch):
    """The gradient of a gradient's norm, as a penalty on it asks for; against the equations recorded as they stand."""
    model, given = made(score=score, reset=reset).double(), batch()

    def penalised():
        firsts = torch.autograd.grad(model(*given).sin().sum(), list(model.parameters()), create_graph=True)
        penalty = sum(first.square().sum() for first in firsts)
        return torch.autograd.grad(penalty, list(model.parameters()))

    found = penalised()
    monkeypatch.setattr(RnnSearch, "_unrolled", lambda *_: None)
    monkeypatch.setattr(Reader, "_read_to_learn", stepped)
    plain = regard.core.additive.plain_scores
    monkeypatch.setattr(regard.core.additive, "scores", lambda q, key, v: plain(q, key.projected, v))
    for one, other in zip(found, penalised(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)


def stepped(reader, source, length):
    """The reader as in evaluation."""
    reader.eval()
    read = reader(source, length)
    reader.train()
    return read


def test_second_derivatives_where_only_some_outputs_are_used():
    """The states alone, and the last states alone."""
    pack, width = lines.packing(torch.tensor([3, 1]), 3), 2
    shares = torch.randn(4, 3 * width, dtype=torch.float64, requires_grad=True)
    weights = lines.Weights(
        torch.randn(3 * width, width, dtype=torch.float64, requires_grad=True),
        None,
        torch.randn(width, dtype=torch.float64, requires_grad=True),
    )
    for backward, output in itertools.product((False, True), (0, 1)):

        def function(*given, backward=backward, output=output):
            return lines.along(pack, given[0], lines.Weights(given[1], None, given[2]), backward=backward)[output]

        inputs = (shares, weights.recurrent, weights.bias)
        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(function, inputs)


def test_what_is_hidden_and_broken_reaches_nothing(monkeypatch, taken):
    """Law 3: NaN in the padding of the notes, against notes that end there."""
    model, (source, _, target) = made().double(), batch()
    length = torch.tensor([7, 2, 4])
    clean = learned(model, (source, length, target))
    begin = RnnSearch.begin

    def broken(self, *given):
        progress = begin(self, *given)
        hidden = torch.arange(7) >= length[:, None]
        notes = progress.notes.masked_fill(hidden[..., None], torch.nan)
        return dataclasses.replace(progress, notes=notes, keys=self.look.prepare(notes))

    monkeypatch.setattr(RnnSearch, "begin", broken)
    same(learned(model, (source, length, target)), clean, 1e-10)
    assert taken["unrolled"] == 1


@pytest.mark.parametrize("part", ["query", "key"])
def test_projections_too_large_for_their_exponentials(part, readable):
    model, given = made().double(), batch()
    with torch.no_grad():
        getattr(model.look.score, part).weight.mul_(1e3)
    found = learned(model, given)
    assert all(value.isfinite().all() for value in found.values())
    same(found, readable(model, given), 1e-9)


def test_a_query_whose_exponential_is_infinite_still_has_a_slope():
    """45 - 40 is no large number, though e^90 is none at all in single precision."""
    keys = torch.tensor([[[-40.0], [-39.5]]], requires_grad=True)
    inputs = unrolled.Inputs(
        shares=torch.zeros(1, 1, 3),
        state=torch.ones(1, 1),
        notes=torch.tensor([[[1.0], [2.0]]]),
        keys=keys,
        vector=torch.ones(1),
        context=torch.zeros(3, 1),
        recurrent=torch.tensor([[0.0], [0.0], [0.0], [45.0]]),
        inner=None,
        bias=torch.zeros(1),
    )
    _, contexts = unrolled.unrolled(unrolled.Plan(None, (2 * keys.detach()).exp(), 1.0), inputs)
    (found,) = torch.autograd.grad(contexts.sum(), keys)
    scores = torch.tanh(45 + keys.double()[..., 0])
    (expected,) = torch.autograd.grad((scores.softmax(-1) @ inputs.notes[0].double()).sum(), keys)
    assert (expected != 0).all()
    torch.testing.assert_close(found, expected, atol=0, rtol=1e-3)


def test_what_is_not_a_number_is_told_as_by_the_readable_loop(readable):
    """A broken note that is seen breaks its line, and no other."""
    model, (source, length, target) = made().double(), batch()
    source[1], source[[0, 2]] = 16, source[[0, 2]] % 13 + 3
    with torch.no_grad():
        model.source.weight[16] = torch.nan
    logits = model(source, length, target)
    assert logits[1].isnan().all()
    assert logits[[0, 2]].isfinite().all()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("score", SCORES)
def test_watched_it_gives_the_same_bits(training, score):
    model, given = made(score=score).train(training), batch()
    with regard.watch(model) as seen:
        watched = model(*given)
    assert torch.equal(watched, model(*given))
    assert seen.names == ("look",)
    shown = seen["look"].weights().detach()
    with regard.watch(model.eval()) as again:
        model(*given)
    torch.testing.assert_close(shown, again["look"].weights().detach(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("score", SCORES)
def test_a_step_watched_gives_the_same_bits_and_its_own_weights(score):
    model, (source, length, target) = made(score=score).eval(), batch()
    with torch.no_grad():
        state = model.begin(source, length)
        step = model.step(state, target[:, 0])
        with regard.watch(model) as seen:
            watched = model.step(state, target[:, 0])
    assert torch.equal(step.logits, watched.logits)
    assert torch.equal(seen["look"].weights()[:, 0], step.weights)


def test_a_step_cleans_notes_that_are_not_finite():
    model, (source, _, target) = made().eval(), batch()
    length = torch.tensor([7, 2, 4])
    state = model.begin(source, length)
    notes = state.notes.masked_fill((torch.arange(7) >= length[:, None])[..., None], torch.nan)
    broken = dataclasses.replace(state, notes=notes, keys=model.look.prepare(notes))
    torch.testing.assert_close(model.step(broken, target[:, 0]).logits, model.step(state, target[:, 0]).logits)


def test_transformed_it_goes_the_readable_way(taken):
    """`torch.func` cannot look into what is written out."""
    model, given = made(reset="before").double(), batch()
    expected = learned(model, given)
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    torch.manual_seed(8)
    slope = torch.randn(expected["logits"].shape, dtype=torch.float64)
    before = dict(taken)
    found = torch.func.grad(lambda p: (torch.func.functional_call(model, p, given) * slope).sum())(parameters)
    assert taken == before
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name], atol=1e-10, rtol=0)


def test_twice_it_gives_the_same_bits():
    model, given = made(), batch()
    one, other = learned(model, given), learned(model, given)
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("reset", RESETS)
def test_a_reader_learns_as_it_reads(reset):
    """Notes, last states and every gradient: in training as by PyTorch's unit, or step by step."""
    reader, length = Reader(3, 5, reset=reset).double(), torch.tensor([7, 1, 4, 7, 2])
    source = torch.randn(5, 8, 3, dtype=torch.float64, requires_grad=True)  # longer than the longest line
    slopes = torch.randn(5, 8, 10).double(), torch.randn(5, 5).double(), torch.randn(5, 5).double()
    found = []
    for training in (True, False):
        read = reader.train(training)(source, length)
        assert (read.notes[torch.arange(8) >= length[:, None]] == 0).all()
        learned = torch.autograd.grad(read, [source, *reader.parameters()], slopes)
        found.append((*read, *learned))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


def test_a_reader_still_refuses_a_line_without_a_token():
    reader = Reader(3, 5)
    assert isinstance(reader.fused, nn.GRU)
    with pytest.raises(RuntimeError, match="greater than 0"):
        reader(torch.randn(2, 4, 3), torch.tensor([4, 0]))


def test_packing():
    """By hand: lines of 1, 3 and 2, padded to 4."""
    packed = lines.packing(torch.tensor([1, 3, 2]), 4)
    assert packed.order.tolist() == [1, 2, 0]
    assert packed.sizes == (3, 2, 1)
    assert packed.places.tolist() == [4, 8, 0, 5, 9, 6]
    assert [(rows.start, rows.stop) for rows in packed.rows(backward=True)] == [(5, 6), (3, 5), (0, 3)]
