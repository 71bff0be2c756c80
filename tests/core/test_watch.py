"""Watching: what is seen, what it costs, and what is refused."""

import asyncio
import contextvars
import copy
import gc
import pickle
import subprocess
import sys
import threading

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import regard
from regard import (
    Additive,
    Alibi,
    Bias,
    Cosine,
    General,
    Heads,
    LocalPredictive,
    Rotary,
    attend,
    causal,
    everywhere,
    given,
    lengths,
    scaled_dot,
    softmax,
    sparsemax,
    weights,
    window,
)
from regard.core import Dot, Look, Record, Score
from regard.core.seen import UnknownSite
from regard.core.watch import OPEN, _running
from regard.models.rnnsearch import Config, RnnSearch

BATCH, M, N, WIDTH, HEADS = 2, 5, 7, 24, 4


class Block(nn.Module):
    """Attention to itself, then across, then a look of its own: three sites."""

    def __init__(self, **parts):
        super().__init__()
        self.own = Heads(WIDTH, HEADS, **parts)
        self.cross = Heads(WIDTH, 6, key_heads=3)

    def forward(self, x, source, length):
        x = x + self.own(x, where=causal)
        return x + self.cross(x, source, where=lengths(length))


class Stack(nn.Module):
    def __init__(self, **parts):
        super().__init__()
        self.layers = nn.ModuleList(Block(**parts) for _ in range(2))
        self.pool = Additive(WIDTH, WIDTH, 5)

    def forward(self, x, source, length):
        for layer in self.layers:
            x = layer(x, source, length)
        return attend(x[:, -1:], x, x, score=self.pool)


def inputs():
    return torch.randn(BATCH, M, WIDTH), torch.randn(BATCH, N, WIDTH), torch.tensor([7, 3])


def hooks(model):
    return [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]


SCORES = {
    "scaled_dot": lambda: scaled_dot,
    "cosine": lambda: Cosine(3.0),
    "general": lambda: General(6, 6),
    "additive": lambda: Additive(6, 6, 5),
    "alibi": lambda: scaled_dot + Alibi(HEADS),
}


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("weigh", [softmax, sparsemax], ids=repr)
def test_outputs_and_gradients_are_the_same_bits_when_watched(name, weigh):
    model, given_to = Stack(score=SCORES[name](), weigh=weigh), inputs()
    found = []
    for watched in (False, True):
        model.zero_grad()
        if watched:
            with regard.watch(model) as seen:
                output = model(*given_to)
            assert seen.names == ("layers.0.own", "layers.0.cross", "layers.1.own", "layers.1.cross", "attention")
        else:
            output = model(*given_to)
        output.sum().backward()
        found.append([output, *(p.grad for p in model.parameters())])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("gradient", [True, False])
def test_weights_are_those_of_the_operation(name, gradient):
    layer = Heads(WIDTH, HEADS, score=SCORES[name](), where=causal, position=Rotary(6)).double()
    x = torch.randn(BATCH, M, WIDTH).double()
    with torch.set_grad_enabled(gradient), regard.watch(layer) as seen:
        layer(x, where=lengths(torch.tensor([5, 2])))
    (record,) = seen["attention"]
    assert isinstance(record, Record)
    assert record.axes == ("example", "head", "query", "key")
    assert record.shape == (BATCH, HEADS, M, M)
    wanted = layer.weights(x, where=lengths(torch.tensor([5, 2])))
    found = record.weights()
    assert not found.requires_grad
    torch.testing.assert_close(found, wanted, atol=1e-13, rtol=0)
    assert torch.equal(record.allowed(), (wanted > 0).expand_as(found))
    shown = record.scores()
    assert torch.equal(shown > -torch.inf, record.allowed())
    torch.testing.assert_close(shown.softmax(-1), wanted, atol=1e-13, rtol=0)


CHOICES = {
    "by cell": {},
    "without a batch": {"where": given(torch.ones(M, N).tril().bool())},
    "whole": {"score": scaled_dot + Alibi(HEADS)},
    "biased": {"score": scaled_dot + Bias(torch.randn(BATCH, 1, M, N).double())},
    "by head": {"score": Dot(torch.rand(BATCH, HEADS).double())},
    "placed": {"first": torch.tensor([[2], [0]]), "where": causal & window(3)},
    "lengths": {"where": lengths(torch.tensor([[7], [3]]))},
    "given": {"where": given(torch.arange(BATCH * M * N).reshape(BATCH, 1, M, N) % 3 > 0)},
    "after": {"after": torch.rand(BATCH, 1, M, N).double()},
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_part_is_that_part_of_the_whole(name):
    choices = dict(CHOICES[name])
    look = Look(choices.pop("score", scaled_dot))
    query, key = torch.randn(BATCH, HEADS, M, 6).double(), torch.randn(BATCH, HEADS, N, 6).double()
    with regard.watch(look) as seen:
        look(query, key, key, **choices)
    site = seen["attention"]
    factor = choices.pop("after", torch.ones(()))
    whole = look.weights(query, key, **choices) * factor
    for ask in ({}, {"example": 1}, {"head": 2}, {"rows": 3}, {"example": slice(1), "head": -1, "rows": slice(1, 4)}):
        index = tuple(ask.get(axis, slice(None)) for axis in ("example", "head", "rows"))
        torch.testing.assert_close(site.weights(**ask), whole[index], atol=1e-13, rtol=0)
        assert site.allowed(**ask).shape == site.scores(**ask).shape == whole[index].shape
        assert torch.equal(site.allowed(**ask), site.scores(**ask) > -torch.inf)
        assert torch.equal(site.scores(**ask), site.scores()[index])


def test_only_what_is_asked_for_is_computed():
    """Through the score's own eyes: the queries, keys and cells that it is given."""
    met = []

    class Curious(Score):
        by_cell = True

        def forward(self, query, key, cells):
            met.append((tuple(query.shape), tuple(key.shape), cells.rows))
            return query @ key.mT

    look = Look(Curious())
    query, key = torch.randn(BATCH, HEADS, M, 6), torch.randn(BATCH, 1, N, 6)
    with regard.watch(look) as seen:
        look(query, key, key)
    met.clear()
    assert seen["attention"].weights(example=1, head=2, rows=slice(1, 3)).shape == (2, N)
    assert met == [((1, 1, 2, 6), (1, 1, N, 6), 2)]


def test_only_references_are_kept():
    """The storage is the caller's, no graph is alive, and nothing of the size of the table is held."""
    m, n = 211, 307
    look = Look(General(6, 4))
    query = torch.randn(m, 6, requires_grad=True)
    key, value = torch.randn(n, 4), torch.randn(n, 3)
    gc.collect()
    before = {id(t) for t in gc.get_objects() if issubclass(type(t), torch.Tensor)}
    with regard.watch(look) as seen:
        look(query * 1.0, key, value, where=lengths(torch.tensor(300)))
    (record,) = seen["attention"]
    kept = record.tensors
    assert kept["key"].data_ptr() == key.data_ptr()
    assert kept["value"].data_ptr() == value.data_ptr()
    assert kept["score.weight"].data_ptr() == look.score.weight.data_ptr()
    assert not any(t.requires_grad for t in kept.values())
    gc.collect()
    new = [t for t in gc.get_objects() if issubclass(type(t), torch.Tensor) and id(t) not in before]
    assert new
    assert max(t.numel() for t in new) < m * n / 10


def test_a_graph_inside_of_a_choice_is_let_go():
    """The centre of a predicted window has a graph, and stands in the predicate and in the factor."""
    predict, look = LocalPredictive(6, 5, distance=2), Look()
    query, key = torch.randn(BATCH, M, 6), torch.randn(BATCH, N, 6)
    with regard.watch(look) as seen:
        focus = predict(query, N)
        look(query, key, key, where=focus.where, after=focus.after)
    (record,) = seen["attention"]
    kept = record.tensors
    assert kept["after.centre"].data_ptr() == focus.centre.data_ptr() == kept["where.centre"].data_ptr()
    assert not any(t.requires_grad for t in kept.values())
    applied = weights(query, key, where=focus.where)
    distance = torch.arange(N) - focus.centre[..., None]
    torch.testing.assert_close(record.weights(), applied * torch.exp(-distance.square() / 2))


@pytest.mark.parametrize("what", ["query", "key", "value", "score.vector", "score.key.weight", "where.tensor", "after"])
def test_what_has_been_changed_in_place_is_refused(what):
    look = Look(Additive(6, 4, 5))
    query, key, value = torch.randn(M, 6), torch.randn(N, 4), torch.randn(N, 3)
    length, after = torch.tensor(6), torch.rand(M, N)
    with regard.watch(look) as seen:
        look(query, key, value, where=lengths(length), after=after)
        look(query.clone(), key.clone(), value.clone())
    places = {"query": query, "key": key, "value": value, "after": after, "where.tensor": length}
    places |= {"score.vector": look.score.vector, "score.key.weight": look.score.key.weight}
    seen["attention"].weights(call=0)
    with torch.no_grad():
        places[what] += 1
    for ask in (seen["attention"].weights, seen["attention"].scores, seen["attention"].allowed):
        with pytest.raises(RuntimeError) as caught:
            ask(call=0)
        assert str(caught.value) == (
            f"attention, call 0: {what!r} has been changed in place since, and what it was is gone: ask before it "
            f"is changed (by an optimiser's step, or a cache that is written in place), or look again"
        )
    if not what.startswith("score"):
        seen["attention"].weights(call=1)


@pytest.mark.parametrize("options", [{}, {"fused": True}, {"foreach": True}], ids=str)
def test_a_step_of_any_optimiser_is_noticed(options):
    """Fused ones raise no counter."""
    look = Look(Additive(6, 4, 5))
    with regard.watch(look) as seen:
        look(torch.randn(M, 6), torch.randn(N, 4), torch.randn(N, 3)).sum().backward()
    torch.optim.Adam(look.parameters(), **options).step()
    with pytest.raises(RuntimeError, match="changed in place"):
        seen["attention"].weights()


def test_a_parameter_that_is_written_through_data_or_replaced():
    look = Look(Additive(6, 4, 5))
    query, key = torch.randn(M, 6), torch.randn(N, 4)
    with regard.watch(look) as seen:
        look(query, key, key)
    wanted = look.weights(query, key)
    look.score.vector = nn.Parameter(torch.randn(5))
    look.score.key = nn.Linear(4, 5)
    assert torch.equal(seen["attention"].weights(), wanted)
    with regard.watch(look) as seen:
        look(query, key, key)
    look.score.vector.data.mul_(2)
    with pytest.raises(RuntimeError, match=r"'score\.vector' has been changed"):
        seen["attention"].weights()


def test_a_copy_is_taken_where_versions_cannot_be_known():
    layer = Heads(WIDTH, HEADS)
    x = torch.randn(BATCH, M, WIDTH)
    with torch.inference_mode():
        with regard.watch(layer) as seen:
            output = layer(x)
        assert torch.equal(output, layer(x))
    torch.testing.assert_close(seen["attention"].weights(), layer.weights(x).detach())
    look = Look()
    with torch.inference_mode():
        query = torch.randn(M, 6)
        with regard.watch(look) as seen:
            look(query, query, query)
        wanted = look.weights(query, query).clone()
        query.zero_()
    assert torch.equal(seen["attention"].weights(), wanted)


@pytest.mark.parametrize("gradient", [True, False])
def test_steps_with_a_cache_can_all_be_seen(gradient):
    """Without gradients a cache is written in place, but never where an earlier step looked."""
    layer = Heads(WIDTH, HEADS, where=causal)
    x = torch.randn(BATCH, M, WIDTH)
    whole = layer.weights(x).detach()
    with torch.set_grad_enabled(gradient), regard.watch(layer) as seen:
        cache = layer.cache(BATCH, longest=M)
        for t in range(M):
            layer(x[:, t : t + 1], cache=cache)
        for t in range(M):
            torch.testing.assert_close(seen["attention"].weights(call=t)[:, :, 0], whole[:, :, t, : t + 1])
        cache.rewind(1)
        layer(x[:, :1], cache=cache)
    if not gradient:
        with pytest.raises(RuntimeError, match="'key' has been changed in place"):
            seen["attention"].weights(call=M - 1)


def test_a_recurrent_decoder_gives_a_call_a_step():
    model = RnnSearch(Config(source_vocabulary=11, target_vocabulary=13, width=6, embedding=5, readout=4, alignment=3))
    source, length, target = torch.randint(3, 11, (BATCH, N)), torch.tensor([7, 4]), torch.randint(3, 13, (BATCH, M))
    with regard.watch(model) as seen:
        output = model(source, length, target)
    assert torch.equal(output, model(source, length, target))
    (name,) = seen.names
    assert len(seen[name]) == M
    matrix = seen[name].weights()
    assert matrix.shape == (BATCH, M, N)
    assert torch.equal(seen[name].weights(example=1, rows=3), matrix[1, 3])
    assert torch.equal(seen[name].weights(rows=slice(1, -1)), matrix[:, 1:-1])
    assert seen[name].weights(rows=slice(2, 2)).shape == (BATCH, 0, N)
    torch.testing.assert_close(matrix.sum(-1), torch.ones(BATCH, M))
    assert (matrix[1, :, 4:] == 0).all()
    state, steps = model.begin(source, length), []
    with regard.watch(model) as seen:
        for token in torch.cat([torch.full_like(target[:, :1], 2), target[:, :-1]], 1).unbind(1):
            step = model.step(state, token)
            state = step.state
            steps.append(step.weights)
    assert seen.names == (name,)
    torch.testing.assert_close(seen[name].weights(), torch.stack(steps, 1).detach())
    torch.testing.assert_close(seen[name].weights(), matrix)


def test_a_module_is_named_as_in_the_model_that_is_watched():
    model, given_to = Stack(), inputs()
    with regard.watch(model) as whole, regard.watch(model.layers[1]) as part, regard.watch(model.layers[0].own) as one:
        model(*given_to)
    assert len(whole) == 5
    assert list(part) == ["own", "cross"]
    assert one.names == ("attention",)
    assert torch.equal(part["cross"].weights(), whole["layers.1.cross"].weights())
    model.add_module("attention", Heads(WIDTH, HEADS))
    with regard.watch(model) as seen:
        model(*given_to)
        model.attention(given_to[0])
    assert seen.names[-2:] == ("", "attention")


def test_a_model_called_twice_and_one_that_is_not_watched():
    model, other, given_to = Stack(), Stack(), inputs()
    other.load_state_dict(model.state_dict())
    other.pool.vector.data.mul_(2)
    with regard.watch(model) as seen:
        model(*given_to)
        other(*given_to)
        attend(*given_to[:1] * 3)
        Heads(WIDTH, HEADS)(given_to[0])
        model(*given_to)
    assert {name: len(site) for name, site in seen.items()} == dict.fromkeys(seen.names, 2)
    assert torch.equal(seen["attention"].weights(call=0), seen["attention"].weights(call=1))
    assert torch.equal(seen["attention"].weights(call=0), seen["attention"].weights(rows=slice(1)))


def test_one_watch_inside_another():
    model, given_to = Stack(), inputs()
    with regard.watch(model) as outer:
        model(*given_to)
        with regard.watch(model) as inner:
            model(*given_to)
        model(*given_to)
    assert [len(outer["attention"]), len(inner["attention"])] == [3, 1]


def test_watches_that_end_in_another_order():
    model, given_to = Stack(), inputs()
    first, second = regard.watch(model), regard.watch(model)
    one = first.__enter__()
    other = second.__enter__()
    model(*given_to)
    first.__exit__(None, None, None)
    model(*given_to)
    second.__exit__(None, None, None)
    model(*given_to)
    assert [len(one["attention"]), len(other["attention"])] == [1, 2]
    assert not any(hooks(model))


def test_nothing_is_left_behind():
    model, given_to = Stack(), inputs()
    with regard.watch(model) as seen:
        assert any(hooks(model))
        assert not any(hooks(scaled_dot))
        model(*given_to)
    assert not any(hooks(model))
    assert not OPEN
    assert not _running.get()
    with pytest.raises(ZeroDivisionError), regard.watch(model):
        raise ZeroDivisionError
    assert not any(hooks(model))
    assert not OPEN
    model(*given_to)
    assert len(seen["attention"]) == 1


def test_an_error_inside_of_the_model_does_not_mislead_what_follows():
    class Fails(nn.Module):
        def forward(self, x):
            raise ZeroDivisionError

    model = nn.Sequential(Heads(WIDTH, HEADS), Fails())
    other = Heads(WIDTH, HEADS)
    x = inputs()[0]
    with regard.watch(model) as seen:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                model(x)
            other(x)
            attend(x, x, x)
    assert {name: len(site) for name, site in seen.items()} == {"0": 2}


def test_another_thread_is_not_watched_unless_it_is_told_to():
    model, given_to = Stack(), inputs()
    with regard.watch(model) as seen:
        for target in (model, contextvars.copy_context().run):
            thread = threading.Thread(target=target, args=given_to if target is model else (model, *given_to))
            thread.start()
            thread.join()
    assert {len(site) for site in seen.values()} == {1}


def test_threads_that_share_a_model_each_see_their_own():
    model, given_to = Stack(), inputs()
    barrier, found = threading.Barrier(2), {}

    def look(times):
        with regard.watch(model) as seen:
            barrier.wait()
            for _ in range(times):
                model(*given_to)
            barrier.wait()
        found[times] = {len(site) for site in seen.values()}

    threads = [threading.Thread(target=look, args=(times,)) for times in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {2: {2}, 3: {3}}
    assert not any(hooks(model))


def test_a_task_that_outlives_the_block_is_not_watched():
    """Its context still knows of the watch, and somebody else is watched by then."""
    model, given_to = Stack(), inputs()

    async def late():
        await asyncio.sleep(0)
        model(*given_to)

    async def main():
        with regard.watch(model) as seen:
            task = asyncio.create_task(late())
        with regard.watch(nn.Identity()):
            await task
        return seen

    assert len(asyncio.run(main())) == 0


def test_a_copy_of_a_watched_model_is_another_model():
    model, given_to = Stack(), inputs()
    with regard.watch(model) as seen:
        copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
        for other in copies:
            other(*given_to)
        copy.copy(model.layers[0].own)(given_to[0])
        model(*given_to)
    assert [len(site) for site in seen.values()] == [1] * 5
    for other in (model, *copies):
        other(*given_to)
    assert len(seen["attention"]) == 1


def test_checkpointing_is_not_another_call():
    layer = Heads(WIDTH, HEADS)
    x = inputs()[0].requires_grad_()
    with regard.watch(layer) as seen:
        checkpoint(layer, x, use_reentrant=False).sum().backward()
    assert len(seen["attention"]) == 1


def test_calls_inside_of_a_transform_are_left_out():
    layer = Heads(WIDTH, HEADS, weigh=sparsemax)
    with regard.watch(layer) as seen:
        torch.func.vmap(layer)(torch.randn(3, BATCH, M, WIDTH))
        torch.func.vmap(layer, (None, 0))(inputs()[0], torch.randn(3, BATCH, N, WIDTH))
        layer(inputs()[0])
    assert len(seen["attention"]) == 1


BESIDE = """
import torch, regard

layer, x = regard.Heads(8, 2), torch.randn(2, 5, 8)
shared = layer.projections.value
alone = torch.compile(lambda x: regard.attend(x, x, shared(x), where=regard.causal), backend="eager", fullgraph=True)
before = alone(x)
with regard.watch(layer) as seen:
    during = alone(x)
    layer(x)
assert torch.equal(before, during) and torch.equal(before, alone(x))
assert len(seen["attention"]) == 1
"""


def test_what_is_compiled_beside_a_watched_model_stays_compiled():
    """A graph that must be whole, with modules in common; without the shape checks of the test run, which break it."""
    done = subprocess.run([sys.executable, "-c", BESIDE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_not_finite_is_shown_as_it_is():
    layer = Heads(WIDTH, HEADS, where=causal)
    x = inputs()[0]
    x[1, 2] = torch.nan
    with regard.watch(layer) as seen:
        layer(x)
    found, wanted = seen["attention"].weights(), layer.weights(x).detach()
    torch.testing.assert_close(found, wanted, equal_nan=True)
    assert found[1, :, 2:].isnan().any()
    torch.testing.assert_close(seen["attention"].weights(example=1, head=3), wanted[1, 3], equal_nan=True)


def test_the_types_of_autocast_are_those_of_the_call():
    look = Look(General(6, 6))
    query, key = torch.randn(M, 6), torch.randn(N, 6).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16), regard.watch(look) as seen:
        look(query, key, key)
        wanted = look.weights(query, key)
    torch.testing.assert_close(seen["attention"].weights(), wanted.to(key.dtype).detach(), atol=0, rtol=0.02)


def test_a_prepared_key_and_its_parts():
    look = Look(Additive(6, 4, 5))
    query, key = torch.randn(BATCH, M, 6).double(), torch.randn(BATCH, N, 4).double()
    look.double()
    key[0, 1] = torch.inf
    with regard.watch(look) as seen:
        look(query, look.prepare(key), key, where=~lengths(torch.tensor([2, 1])))
    wanted = look.weights(query, key, where=~lengths(torch.tensor([2, 1]))).detach()
    torch.testing.assert_close(seen["attention"].weights(), wanted)
    torch.testing.assert_close(seen["attention"].weights(example=1, rows=2), wanted[1, 2])


def test_heads_are_told_from_examples():
    layer = Heads(WIDTH, HEADS)
    x = torch.randn(3, BATCH, M, WIDTH)
    for given_to, axes in (
        (x, ("example 1", "example 2", "head", "query", "key")),
        (x[0], ("example", "head", "query", "key")),
        (x[0, 0], ("head", "query", "key")),
    ):
        with regard.watch(layer) as seen:
            layer(given_to)
        assert seen["attention"][0].axes == axes
    with regard.watch(layer) as seen:
        layer(x)
    wanted = layer.weights(x)[2, 1, 3]
    torch.testing.assert_close(seen["attention"].weights(example=(2, 1), head=3), wanted.detach())
    look = Look()
    with regard.watch(look) as seen:
        look(x[0, 0], x[0, 0], x[0, 0])
        look(x[0], x[0], x[0])
    assert [record.axes for record in seen["attention"]] == [("query", "key"), ("example", "query", "key")]


def site():
    look = Look()
    query, key = torch.randn(BATCH, M, 6), torch.randn(BATCH, N, 6)
    with regard.watch(look) as seen:
        look(query, key, key)
        look(query, key[:, 1:], key[:, 1:])
    return seen["attention"]


@pytest.mark.parametrize(
    ("ask", "kind", "text"),
    [
        ({"call": 2}, IndexError, "attention has 2 calls, numbered from 0: there is no call 2"),
        ({"call": 0, "example": 2}, IndexError, "there is no example 2: there are 2, numbered from 0"),
        ({"call": 0, "rows": -6}, IndexError, "there is no query -6: there are 5, numbered from 0"),
        (
            {"call": 0, "head": 1},
            ValueError,
            "head=1 does not fit, there are no heads: the axes are example (2), query (5), key (7)",
        ),
        (
            {"call": 0, "example": (1, 2)},
            ValueError,
            "example=(1, 2) does not fit: the axes are example (2), query (5), key (7)",
        ),
        ({"call": 0, "rows": slice(0, 4, 2)}, ValueError, "query: a slice must have step 1, got slice(0, 4, 2)"),
        (
            {},
            ValueError,
            "attention: call 0 has shape (2, 5, 7), call 1 (2, 5, 6), which cannot be laid as one: "
            "ask for one of them, call=0 to call=1",
        ),
    ],
)
def test_what_is_not_there_cannot_be_asked_for(ask, kind, text):
    with pytest.raises(kind) as caught:
        site().weights(**ask)
    assert str(caught.value) == text


def test_a_name_that_is_not_there_suggests_the_nearest():
    with regard.watch(Stack()) as seen:
        pass
    with pytest.raises(UnknownSite) as caught:
        seen["layers.0.own"]
    assert str(caught.value) == "no attention 'layers.0.own' was seen: no attention of the model was called"
    model = Stack()
    with regard.watch(model) as seen:
        model(*inputs())
    assert "layers.3.own" not in seen
    with pytest.raises(KeyError) as caught:
        seen["layers.0.crss"]
    assert str(caught.value) == (
        "no attention 'layers.0.crss' was seen: did you mean 'layers.0.cross'? "
        "one of: attention, layers.0.cross, layers.0.own, layers.1.cross, layers.1.own"
    )
    assert repr(seen).startswith("Seen(layers.0.own: 1 call, layers.0.cross: 1 call")
    assert repr(seen["attention"]) == "Site('attention', 1 call)"
    assert repr(seen["layers.1.cross"][0]).startswith("Looked(example 2, head 6, query 5, key 7; score=scaled_dot")


def test_what_cannot_be_watched(unchecked):
    with pytest.raises(TypeError) as caught, regard.watch(3):
        pass
    assert str(caught.value) == "watch: model must be a module, got int: 3"
    compiled = nn.Sequential(Heads(WIDTH, HEADS))
    compiled[0].compile(backend="eager")
    with pytest.raises(ValueError) as caught, regard.watch(compiled):
        pass
    assert str(caught.value) == (
        "watch: 0 is compiled, and nothing can be seen inside of what is compiled: "
        "watch the model as it was before torch.compile"
    )
    with (
        pytest.raises(ValueError, match=r"^watch: the model is compiled"),
        regard.watch(torch.compile(Stack(), backend="eager")),
    ):
        pass
    assert not OPEN


def test_a_look_is_the_operation_with_its_choices_made():
    look = Look(Cosine(2.0), where=causal, weigh=sparsemax, dropout=0.5)
    x = torch.randn(BATCH, M, 6)
    with pytest.raises(ValueError, match=r"^Look: dropout must be at least 0 and below 1, got 1\.5$"):
        Look(dropout=1.5)
    drawn = look(x, x, x, where=window(2), generator=torch.Generator().manual_seed(3))
    choices = {"score": look.score, "where": causal & window(2), "weigh": sparsemax}
    again = attend(x, x, x, **choices, dropout=0.5, generator=torch.Generator().manual_seed(3))
    assert torch.equal(drawn, again)
    look.eval()
    assert torch.equal(look(x, look.prepare(x), x, where=window(2)), attend(x, x, x, **choices))
    assert torch.equal(look.weights(x, x, where=window(2)), weights(x, x, **choices))
    assert torch.equal(look(x, x, x, where=everywhere), attend(x, x, x, **{**choices, "where": causal}))
