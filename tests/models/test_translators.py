"""What every model that writes a target from a source must do, and the silent bugs of each."""

import dataclasses

import pytest
import torch
from torch.nn import functional

from regard.errors import RegardError
from regard.models import rnnsearch, seq2seq
from regard.models.catalogue import MODELS, entry
from regard.nn.stepwise import BEGIN

SMALL = {"source_vocabulary": 13, "target_vocabulary": 11}
CONFIGS = {
    "seq2seq": seq2seq.Config(**SMALL, width=7, embedding=5),
    "seq2seq forward": seq2seq.Config(**SMALL, width=7, embedding=5, layers=1, reverse=False, uniform=0.08),
    "rnnsearch": rnnsearch.Config(**SMALL, width=7, embedding=5, readout=3, alignment=6),
    "rnnsearch of the paper": rnnsearch.Config(
        **SMALL, width=7, embedding=5, readout=3, alignment=6, reads="before", reset="before"
    ),
    "rnnsearch general": rnnsearch.Config(**SMALL, width=7, embedding=5, readout=3, score="general"),
    "rnnsearch dot": rnnsearch.Config(**SMALL, width=7, embedding=5, readout=3, score="dot"),
    "rnnsearch scaled dot": rnnsearch.Config(**SMALL, width=7, embedding=5, readout=3, score="scaled_dot"),
}
SOURCE_LENGTH = torch.tensor([6, 2, 4])


def make(name: str) -> torch.nn.Module:
    return entry(name.split()[0]).make(CONFIGS[name]).double().eval()


def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randint(3, 13, (3, 6)), SOURCE_LENGTH, torch.randint(3, 11, (3, 5))


every_model = pytest.mark.parametrize("name", CONFIGS)


def test_every_model_of_the_catalogue_is_tried():
    assert {name.split()[0] for name in CONFIGS} == {model.name for model in MODELS if "translate" in model.tasks}


@every_model
def test_steps_give_the_logits_of_the_whole_pass(name):
    model, (source, length, target) = make(name), batch()
    whole = model(source, length, target)
    assert whole.shape == (3, 5, 11)
    state, token = model.begin(source, length), torch.full((3,), BEGIN)
    for place in range(5):
        step = model.step(state, token)
        torch.testing.assert_close(step.logits, whole[:, place], atol=1e-12, rtol=0)
        state, token = step.state, target[:, place]


@every_model
def test_nothing_comes_from_later_targets(name):
    """N10: exactly, by changing what follows."""
    model, (source, length, target) = make(name), batch()
    whole = model(source, length, target)
    for place in range(5):
        other = target.clone()
        other[:, place:] = torch.randint(3, 11, (3, 5 - place))
        assert torch.equal(model(source, length, other)[:, : place + 1], whole[:, : place + 1])
    changed = target.clone()
    changed[:, 0] = (target[:, 0] - 2) % 8 + 3
    assert (model(source, length, changed)[:, 1] != whole[:, 1]).any(-1).all()


@every_model
def test_padding_and_neighbours_change_nothing(name):
    """N8 and N9: longer padding, other tokens in it, alone or beside others."""
    model, (source, length, target) = make(name), batch()
    whole = model(source, length, target)
    padded = torch.cat([source, torch.randint(0, 13, (3, 9))], 1)
    for row, size in enumerate(length.tolist()):
        padded[row, size:] = torch.randint(0, 13, (15 - size,))
        alone = model(source[row : row + 1, :size], length[row : row + 1], target[row : row + 1])
        torch.testing.assert_close(alone[0], whole[row], atol=1e-12, rtol=0)
    torch.testing.assert_close(model(padded, length, target), whole, atol=1e-12, rtol=0)


@every_model
def test_every_source_token_matters(name):
    model, (source, length, target) = make(name), batch()
    whole = model(source, length, target)
    for row, size in enumerate(length.tolist()):
        for place in range(size):
            other = source.clone()
            other[row, place] = (source[row, place] - 2) % 10 + 3
            assert not torch.allclose(model(other, length, target)[row], whole[row], atol=1e-13)


@every_model
def test_states_follow_a_change_of_the_batch(name):
    model, (source, length, target) = make(name), batch()
    order = torch.tensor([2, 2, 0, 1])
    state = model.step(model.begin(source, length), target[:, 0]).state
    moved = model.step(state.map(lambda t: t[order]), target[order, 1])
    there = model.step(state, target[:, 1])
    torch.testing.assert_close(moved.logits, there.logits[order])
    if there.weights is not None:
        torch.testing.assert_close(moved.weights, there.weights[order])


@every_model
def test_eight_examples_are_learned_by_heart(name):
    torch.manual_seed(0)
    model = make(name).float().train()
    source, length = torch.randint(3, 13, (8, 6)), torch.randint(2, 7, (8,))
    target = torch.randint(3, 11, (8, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    for _ in range(400):
        loss = functional.cross_entropy(model(source, length, target).flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss < 0.05:
            break
    assert loss < 0.2


@every_model
def test_no_target_gives_no_logits(name):
    model, (source, length, _) = make(name), batch()
    assert model(source, length, torch.zeros(3, 0, dtype=torch.long)).shape == (3, 0, 11)


@every_model
def test_weights_are_where_it_looked(name):
    model, (source, length, target) = make(name), batch()
    looked = model.step(model.begin(source, length), target[:, 0]).weights
    if name.startswith("seq2seq"):
        assert looked is None
        return
    torch.testing.assert_close(looked.sum(-1), torch.ones(3).double())
    assert (looked[torch.arange(6) >= length[:, None]] == 0).all()
    assert (looked > 0).sum(-1).tolist() == length.tolist()


def test_rnnsearch_asks_with_the_state_before_the_step():
    """The context of step i is that of s_{i-1}: at the first step it knows nothing of any target."""
    model, (source, length, target) = make("rnnsearch"), batch()
    state = model.begin(source, length)
    a, b = (model.step(state, token) for token in (target[:, 0], target[:, 1]))
    assert torch.equal(a.weights, b.weights)
    assert not torch.allclose(model.step(a.state, target[:, 2]).weights, model.step(b.state, target[:, 2]).weights)


def test_rnnsearch_is_its_equations():
    """The first step, from the paper's equations and the encoder's notes; readout of s_{i-1}, reset before."""
    model, (source, length, _) = make("rnnsearch of the paper"), batch()
    state = model.begin(source[:1], length[:1])
    notes, word = state.notes[0], model.target(torch.tensor([BEGIN]))[0]
    s = torch.tanh(model.first.weight @ notes[0, 7:] + model.first.bias)
    e = torch.stack(
        [
            model.look.score.vector @ torch.tanh(model.look.score.query.weight @ s + model.look.score.key.weight @ h)
            for h in notes
        ]
    )
    context = sum(w * h for w, h in zip(torch.softmax(e, 0), notes, strict=True))
    mixed = model.mix.weight @ torch.cat([s, word, context]) + model.mix.bias
    pairs = torch.stack([torch.maximum(mixed[2 * i], mixed[2 * i + 1]) for i in range(3)])
    logits = model.word.weight @ pairs + model.word.bias
    step = model.step(state, torch.tensor([BEGIN]))
    torch.testing.assert_close(step.logits[0], logits, atol=1e-12, rtol=0)
    torch.testing.assert_close(step.weights[0], torch.softmax(e, 0), atol=1e-12, rtol=0)
    share = model.unit.project(torch.cat([word, context]))
    torch.testing.assert_close(step.state.state[0], model.unit(share[None], s[None])[0], atol=1e-12, rtol=0)


def test_seq2seq_hands_over_every_layers_state():
    model, (source, length, target) = make("seq2seq"), batch()
    state = model.begin(source, length)
    assert state.hidden.shape == (3, 2, 7)
    for layer in range(2):
        without = dataclasses.replace(state, hidden=state.hidden.clone())
        without.hidden[:, layer] = 0
        assert not torch.allclose(model.step(without, target[:, 0]).logits, model.step(state, target[:, 0]).logits)


def test_seq2seq_hands_over_what_its_encoder_says_of_each_line_alone():
    """Both layers' states, each its own, at the line's end and not at that of the padding."""
    model, (source, length, _) = make("seq2seq"), batch()
    state = model.begin(source, length)
    for row, size in enumerate(length.tolist()):
        _, (hidden, cell) = model.encoder(model.source(source[row, :size].flip(0)))
        torch.testing.assert_close(state.hidden[row], hidden, atol=1e-12, rtol=0)
        torch.testing.assert_close(state.cell[row], cell, atol=1e-12, rtol=0)
        assert not torch.allclose(hidden[0], hidden[1])


def test_seq2seq_reads_from_the_end():
    """The first source word is the last that it reads, so that its gradient is the shortest."""
    model, (source, length, _) = make("seq2seq"), batch()
    turned = make("seq2seq forward")
    model = seq2seq.Seq2Seq(dataclasses.replace(turned.config, reverse=True)).double().eval()
    model.load_state_dict(turned.state_dict())
    backwards = source.clone()
    for row, size in enumerate(length.tolist()):
        backwards[row, :size] = source[row, :size].flip(0)
    assert torch.equal(model.begin(source, length).hidden, turned.begin(backwards, length).hidden)


def test_papers_sizes():
    """Counted without memory: the papers' own vocabularies, 30,000 words and 160,000 to 80,000."""
    with torch.device("meta"):
        search = rnnsearch.RnnSearch(
            dataclasses.replace(
                rnnsearch.PRESETS["paper"], start="scaled", source_vocabulary=30_000, target_vocabulary=30_000
            )
        )
        whole = seq2seq.Seq2Seq(
            dataclasses.replace(
                seq2seq.PRESETS["paper"], uniform=0.0, source_vocabulary=160_000, target_vocabulary=80_000
            )
        )
    assert sum(p.numel() for p in whole.parameters()) == pytest.approx(384e6, rel=0.01)
    assert search.mix.out_features == 1000
    assert search.look.score.vector.numel() == 1000


def test_the_papers_first_weights():
    config = dataclasses.replace(CONFIGS["rnnsearch of the paper"], start="paper", width=16)
    model = rnnsearch.RnnSearch(config)
    assert (model.look.score.vector == 0).all()
    assert model.look.score.query.weight.std() < 0.002
    square = model.unit.state.weight
    torch.testing.assert_close(square @ square.T, torch.eye(16), atol=1e-5, rtol=0)
    for gate in model.unit.gates.weight.split(16):
        torch.testing.assert_close(gate @ gate.T, torch.eye(16), atol=1e-5, rtol=0)
    assert 0.008 < model.mix.weight.std() < 0.012


def test_an_unknown_model_suggests_the_nearest():
    with pytest.raises(RegardError, match="there is no model 'rnsearch': did you mean 'rnnsearch'\\?"):
        entry("rnsearch")


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
def test_catalogue(model):
    assert model.config().__module__ == model.place[0]
    assert {"small", "paper"} <= set(model.presets())
    assert all(isinstance(preset, model.config()) for preset in model.presets().values())
    assert model.cite.startswith("@")
    assert "arXiv" in model.paper
