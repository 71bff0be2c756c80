"""Heads and their cache."""

import copy
import pickle

import pytest
import torch

from regard import (
    Additive,
    Alibi,
    Cache,
    Heads,
    Rotary,
    attend,
    causal,
    dot,
    everywhere,
    given,
    lengths,
    scaled_dot,
    window,
)
from regard.core import Projections

WIDTH, M, N = 24, 5, 7


def by_hand(layer: Heads, x, source, **choices):
    """One head at a time, with slices of the projections and single-head calls."""
    parts = layer.projections
    size = WIDTH // layer.heads
    q, k, v = parts.query(x), parts.key(source), parts.value(source)
    outputs = []
    for head in range(layer.heads):
        read = head * layer.key_heads // layer.heads
        own, shared = slice(head * size, (head + 1) * size), slice(read * size, (read + 1) * size)
        outputs.append(attend(q[..., own], k[..., shared], v[..., shared], **choices))
    return parts.output(torch.cat(outputs, -1))


@pytest.mark.parametrize("key_heads", [6, 3, 2, 1])
def test_heads_are_single_heads_side_by_side(key_heads):
    """Grouped heads too: query head h reads key head ⌊h · key_heads / heads⌋."""
    layer = Heads(WIDTH, 6, key_heads=key_heads).double()
    x, source = torch.randn(2, M, WIDTH).double(), torch.randn(2, N, WIDTH).double()
    torch.testing.assert_close(layer(x, source), by_hand(layer, x, source), atol=1e-12, rtol=0)
    torch.testing.assert_close(layer(x, where=causal), by_hand(layer, x, x, where=causal), atol=1e-12, rtol=0)


def test_a_length_per_example_applies_to_every_head():
    """Batch and heads of equal size must not be taken for each other."""
    layer = Heads(WIDTH, 3).double()
    x = torch.randn(3, N, WIDTH).double()
    length = torch.tensor([7, 2, 4])
    seen = layer.weights(x, where=lengths(length)) > 0
    for example in range(3):
        assert (seen[example].sum(-1) == length[example]).all()
    mask = torch.rand(3, N, N) > 0.3
    per_example = layer.weights(x, where=given(mask) & causal) > 0
    assert torch.equal(per_example[:, 0], mask & torch.ones(N, N).tril().bool())
    per_head = torch.rand(3, 3, N, N) > 0.3
    assert torch.equal(layer.weights(x, where=given(per_head)) > 0, per_head)


@pytest.mark.parametrize("key_heads", [4, 2, 1])
@pytest.mark.parametrize("gradient", [True, False])
def test_cached_steps_are_the_whole_pass(key_heads, gradient):
    layer = Heads(WIDTH, 4, key_heads=key_heads, where=causal & window(3), position=Rotary(6)).double()
    x = torch.randn(2, 11, WIDTH).double()
    whole = layer(x)
    cache = layer.cache(2, longest=13)
    steps = []
    with torch.set_grad_enabled(gradient):
        for start, stop in ((0, 4), (4, 5), (5, 5), (5, 8), (8, 11)):
            steps.append(layer(x[:, start:stop], cache=cache))
            assert cache.length == stop
    torch.testing.assert_close(torch.cat(steps, 1), whole, atol=1e-12, rtol=0)


def test_cached_gradients_are_those_of_the_whole_pass_and_none_comes_from_later():
    layer = Heads(WIDTH, 4, where=causal).double()
    x = torch.randn(1, M, WIDTH).double().requires_grad_()
    (whole,) = torch.autograd.grad(layer(x).square().sum(), x)
    cache = layer.cache(1, longest=M)
    steps = torch.cat([layer(x[:, t : t + 1], cache=cache) for t in range(M)], 1)
    (stepped,) = torch.autograd.grad(steps.square().sum(), x, retain_graph=True)
    torch.testing.assert_close(stepped, whole, atol=1e-12, rtol=0)
    for t in range(M):
        (gradient,) = torch.autograd.grad(steps[:, t].sum(), x, retain_graph=True)
        assert (gradient[:, t + 1 :] == 0.0).all()


def test_a_cache_can_be_reordered_rewound_and_read():
    layer = Heads(WIDTH, 4, where=causal).double()
    x = torch.randn(3, M, WIDTH).double()
    order = torch.tensor([2, 0, 0])
    with torch.no_grad():
        cache = layer.cache(3, longest=M)
        layer(x[:, :3], cache=cache)
        cache.map(lambda t: t[order])
        got = layer(x[order, 3:4], cache=cache)
        torch.testing.assert_close(got, layer(x[order, :4])[:, 3:], atol=1e-12, rtol=0)
        cache.rewind(2)
        looked = layer.weights(x[order, 2:3], cache=cache)
        assert cache.length == 2
        torch.testing.assert_close(looked, layer.weights(x[order, :3])[:, :, 2:], atol=1e-12, rtol=0)
        assert cache.key.shape == (3, 4, 2, 6)


def test_looking_at_a_step_changes_nothing():
    """To ask for the weights of a step must not leave its keys behind, in either mode."""
    layer = Heads(WIDTH, 4, where=causal).double()
    x = torch.randn(1, 4, WIDTH).double()
    for gradient in (True, False):
        with torch.set_grad_enabled(gradient):
            cache, other = layer.cache(1, longest=4), layer.cache(1, longest=4)
            for t in range(4):
                layer.weights(x[:, t : t + 1], cache=cache)
                assert torch.equal(layer(x[:, t : t + 1], cache=cache), layer(x[:, t : t + 1], cache=other))


def test_a_prepared_source_answers_as_the_source_does():
    score = Additive(6, 6, 5)
    for layer in (Heads(WIDTH, 4, key_heads=2, score=score), Heads(WIDTH, 4, position=Rotary(6))):
        x, source = torch.randn(3, M, WIDTH), torch.randn(3, N, WIDTH)
        prepared = layer.prepare(source)
        where = lengths(torch.tensor([7, 0, 3]))
        torch.testing.assert_close(layer(x, prepared, where=where), layer(x, source, where=where))
        torch.testing.assert_close(layer.weights(x, prepared), layer.weights(x, source))
        last = prepared.map(lambda t: t[2:])
        torch.testing.assert_close(layer(x[2:], last), layer(x[2:], source[2:]))


def test_nan_in_padding_reaches_no_weight():
    """As key, value and query, through four projections: N6."""
    layer = Heads(WIDTH, 4, key_heads=2)
    x = torch.randn(2, N, WIDTH)
    where = lengths(torch.tensor([7, 4]))
    gradients = []
    for junk in (0.0, torch.nan, torch.inf):
        layer.zero_grad()
        padded = x.clone()
        padded[1, 4:] = junk
        padded.requires_grad_()
        output = layer(padded, where=where)
        (output[0].square().sum() + output[1, :4].square().sum()).backward()
        assert output[1, :4].isfinite().all()
        gradients.append([padded.grad[:, :4].clone(), *(p.grad.clone() for p in layer.parameters())])
    for other in gradients[1:]:
        for a, b in zip(gradients[0], other, strict=True):
            torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)
            assert a.isfinite().all()


def test_parts_are_received():
    layer = Heads(
        WIDTH,
        2,
        projections=Projections.linear(WIDTH, 2, head_width=5, source_width=9, bias=False),
        score=scaled_dot + Alibi(2),
    )
    assert layer(torch.randn(3, M, WIDTH), torch.randn(3, N, 9)).shape == (3, M, WIDTH)
    own = Heads(WIDTH, 2, projections=Projections.linear(WIDTH, 2, head_width=5))
    cache = own.cache(3, longest=M)
    assert own(torch.randn(3, M, WIDTH), cache=cache).shape == (3, M, WIDTH)
    assert cache.key.shape == (3, 2, M, 5)
    assert not any(name.endswith("bias") for name in layer.state_dict())


def test_weights_need_no_values_and_projections_need_no_parameters():
    """Keys and values of other widths than the model's, and maps that learn nothing."""
    wide = Projections(
        torch.nn.Linear(WIDTH, 8), torch.nn.Linear(9, 8), torch.nn.Linear(13, 6), torch.nn.Linear(6, WIDTH)
    )
    layer = Heads(WIDTH, 2, projections=wide)
    x, key, value = torch.randn(3, M, WIDTH), torch.randn(3, N, 9), torch.randn(3, N, 13)
    assert layer.weights(x, key).shape == (3, 2, M, N)
    assert layer(x, key, value).shape == (3, M, WIDTH)
    still = Heads(WIDTH, 2, projections=Projections(*(torch.nn.Identity() for _ in range(4))), where=causal)
    cache = still.cache(3, longest=M)
    torch.testing.assert_close(still(x, cache=cache), still(x))


def test_dropout_acts_in_training_only():
    layer = Heads(WIDTH, 4, dropout=0.5)
    x = torch.randn(2, M, WIDTH)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_dropout_keeps_the_mean_and_follows_its_generator():
    x = torch.zeros(1, 1, 3)
    keys, values = torch.zeros(1, 20_000, 3), torch.ones(1, 20_000, 1)
    draws = [
        attend(x, keys, values, dropout=0.25, generator=torch.Generator().manual_seed(seed)).item()
        for seed in (1, 1, 2)
    ]
    assert draws[0] == draws[1] != draws[2]
    assert abs(draws[0] - 1) < 0.02


def test_a_module_like_any_other():
    layer = Heads(WIDTH, 4, where=causal & window(2), position=Rotary(6))
    x = torch.randn(2, M, WIDTH)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin(x), layer(x))
    assert pickle.loads(pickle.dumps(everywhere)) is everywhere
    assert copy.deepcopy(everywhere) is everywhere


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda: Heads(24, 5), "Heads: a width of 24 does not divide into 5 heads"),
        (lambda: Heads(24, 4, key_heads=3), "key_heads must divide heads, got 4 heads and 3 key heads"),
        (lambda: Heads(24, 4)(torch.zeros(2, 5, 20)), "Heads: queries must be (*batch, m, 24), got shape (2, 5, 20)"),
        (lambda: Heads(24, 4, dropout=1.0), "dropout must be at least 0 and below 1, got 1.0"),
        (
            lambda: Heads(24, 4)(torch.zeros(2, 3, 24), where=lengths(torch.ones(2, 3, 5, dtype=torch.long))),
            "lengths has shape (2, 3, 5), which is 3 batch axes, but the heads are called with 1",
        ),
        (
            lambda: Heads(24, 4)(torch.zeros(2, 3, 24), torch.zeros(2, 3, 24), cache=Heads(24, 4).cache(2, longest=3)),
            "a cache is for self-attention: give query and cache, or query and key",
        ),
        (
            lambda: Heads(24, 4)(torch.zeros(2, 3, 24), first=2, cache=Heads(24, 4).cache(2, longest=3)),
            "with a cache the first query stands at its length 0, got first=2",
        ),
        (
            lambda: Heads(24, 4)(torch.zeros(2, 4, 24), cache=Heads(24, 4).cache(2, longest=3)),
            "Cache: holds 3 positions, 0 are filled and 4 came: make it longer",
        ),
        (
            lambda: Heads(24, 4)(torch.zeros(3, 1, 24), cache=Heads(24, 4).cache(2, longest=3)),
            "Cache: made for keys (2, 4, 3, 6) torch.float32, got (3, 4, 1, 6) torch.float32",
        ),
        (lambda: Heads(24, 4).cache(2, longest=3).rewind(1), "0 positions are filled, cannot rewind to 1"),
        (
            lambda: Cache(torch.zeros(2, 3, 4), torch.zeros(2, 5, 4)),
            "keys and values need the same batch axes and room, got (2, 3, 4) and (2, 5, 4)",
        ),
    ],
)
def test_errors(unchecked, act, text):
    with pytest.raises(ValueError) as caught:
        act()
    assert text in str(caught.value)


def test_wrong_kinds_are_named(unchecked):
    for act, text in (
        (lambda: Heads(24, 4, score="dot"), "Heads: score must be a score such as scaled_dot"),
        (lambda: Heads(24, 4, where=torch.ones(2, 2).bool()), "Heads: where must be a predicate, got a Tensor"),
        (lambda: Heads(24, 4, weigh="softmax"), "weigh must be one of softmax, sparsemax, Entmax(alpha) and hardmax"),
        (lambda: Heads(24.0, 4), "Heads: width must be an int, got float: 24.0"),
        (lambda: Heads(24, True), "Heads: heads must be an int, got bool: True"),
    ):
        with pytest.raises(TypeError) as caught:
            act()
        assert text in str(caught.value)
    assert repr(dot) == "dot"
