"""The attention layers of Keras, on PyTorch, beside regard's parts.

A layer takes query, *value*, key, in this order; the inputs of a pair are in ours: query, key, value.

Except on TensorFlow, Keras rounds the result of a float64 product to float32 as it promotes types, in layers
made with dtype="float64" too. For the comparison in float64 that one entry of its table is changed.
"""

import os
from functools import partial

import pytest
import torch

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", reason="Keras cannot be imported")
if keras.backend.backend() != "torch":
    pytest.skip(f"Keras runs on {keras.backend.backend()} here, not on PyTorch", allow_module_level=True)

from regard.core import Additive, Dot, attend, causal, everywhere, given, weights, window  # noqa: E402
from tests.conformance.peers import (  # noqa: E402
    BATCH,
    COLUMNS,
    HEAD_WIDTH,
    HEADS,
    LIMITS,
    ROWS,
    WIDTH,
    Case,
    Pair,
    assert_agrees,
    heads_of,
    keep,
    keys,
    linear,
    name,
    padding,
    queries,
    settled,
)

KEY_WIDTH, VALUE_WIDTH, VALUE_HEAD_WIDTH = 13, 17, 19


def same_score(layer, dtype):
    """The score of `Attention` or `AdditiveAttention`, with the numbers that the layer has learned."""
    scale = layer.scale.value.detach() if layer.use_scale else 1.0
    if isinstance(layer, keras.layers.AdditiveAttention):
        return additive(1.0, scale, dtype)
    if layer.score_mode == "concat":
        return additive(scale, layer.concat_score_weight.value.detach(), dtype)
    return Dot(float(scale))


def additive(inner, vector, dtype):
    """`vector · tanh(inner (q + k))`."""
    score = Additive(WIDTH, WIDTH, hidden=WIDTH).to(dtype)
    with torch.no_grad():
        score.query.weight.copy_(torch.eye(WIDTH)).mul_(inner)
        score.key.weight.copy_(score.query.weight)
        score.vector.fill_(1).mul_(vector)
    return score


def single(dtype, make, *, masks=(None, None), where=everywhere, ours=None, **options):
    """A layer without projections beside `attend`."""
    layer = make(dtype=name(dtype))
    inputs = (queries(dtype), keys(dtype), keys(dtype))
    layer.build([tuple(tensor.shape) for tensor in inputs])
    settled(layer, dtype)
    score = same_score(layer, dtype)
    mask = None if masks == (None, None) else list(masks)
    if ours is not None:
        return Pair(
            lambda query, key: layer([query, key, key], mask=mask, **options)[1],
            lambda query, key: ours(query, key, score=score, where=where),
            inputs[:2],
        )
    return Pair(
        lambda query, key, value: layer([query, value, key], mask=mask, **options),
        lambda query, key, value: attend(query, key, value, score=score, where=where),
        inputs,
    )


def without_padding(dtype, make):
    here = padding(COLUMNS)
    return single(dtype, make, masks=(None, here[:, None, :]), where=given(here[:, None, :]))


def without_padded_queries(dtype, make):
    """A padded query's output is 0: for us it is a query that may see nothing."""
    asks, here = padding(ROWS), padding(COLUMNS)
    both = given(asks[:, :, None] & here[:, None, :])
    return single(dtype, make, masks=(asks, here[:, None, :]), where=both)


def without_padding_and_causal(dtype, make):
    here = padding(COLUMNS)
    return single(dtype, make, masks=(None, here), where=causal & given(here[:, None, :]), use_causal_mask=True)


SINGLE = {
    "no mask": single,
    "a mask": without_padding,
    "masks of queries and of keys": without_padded_queries,
    "causal": partial(single, where=causal, use_causal_mask=True),
    "causal and a mask": without_padding_and_causal,
    "the scores that it returns": partial(single, ours=weights, return_attention_scores=True),
}


def same_heads(layer):
    """`Heads` with the layer's kernels, (in, heads, head) and (heads, head, out), as matrices (out, in)."""
    maps = []
    for part in (layer._query_dense, layer._key_dense, layer._value_dense, layer._output_dense):
        kernel, bias = part.kernel.value, None if part.bias is None else part.bias.value.flatten()
        matrix = kernel.flatten(0, 1) if part is layer._output_dense else kernel.flatten(1)
        maps.append(linear(matrix.mT, bias))
    return heads_of(*maps, heads=2 * HEADS, key_heads=layer._key_dense.kernel.shape[1])


def with_heads(dtype, make, *, where=everywhere, cross=False, score_path=False, **options):
    """A layer with projections beside `Heads`."""
    layer = make(dtype=name(dtype))
    inputs = (queries(dtype),)
    shapes = (inputs[0].shape, inputs[0].shape, inputs[0].shape)
    if cross:
        inputs = (queries(dtype), keys(dtype, KEY_WIDTH), keys(dtype, VALUE_WIDTH))
        shapes = (inputs[0].shape, inputs[2].shape, inputs[1].shape)
    layer.build(*map(tuple, shapes))
    settled(layer, dtype)
    heads = same_heads(layer)

    def there(query, key=None, value=None):
        answer = layer(query, query if value is None else value, key, return_attention_scores=score_path, **options)
        return answer[0] if score_path else answer

    return Pair(there, lambda *tensors: heads(*tensors, where=where), inputs)


def scores_of_heads(dtype, make):
    """The second thing that a layer returns when asked for its scores."""
    layer = make(dtype=name(dtype))
    inputs = (queries(dtype), keys(dtype))
    layer.build(tuple(inputs[0].shape), tuple(inputs[1].shape))
    settled(layer, dtype)
    heads = same_heads(layer)
    here = padding(COLUMNS)
    return Pair(
        lambda query, key: layer(query, key, value_mask=here, return_attention_scores=True)[1],
        lambda query, key: heads.weights(query, key, where=given(here[:, None, :])),
        inputs,
    )


def looking_past_padding(dtype, make):
    value_mask, key_mask = padding(COLUMNS), torch.arange(COLUMNS).expand(BATCH, -1) > 0
    where = given((value_mask & key_mask)[:, None, :])
    options = {"value_mask": value_mask, "key_mask": key_mask}
    return with_heads(dtype, make, cross=True, where=where, **options)


def masked(dtype, make, **options):
    mask = keep(BATCH, ROWS, ROWS)
    return with_heads(dtype, make, where=given(mask), attention_mask=mask, **options)


def masked_and_causal(dtype, make, **options):
    here = padding(ROWS)
    where = causal & given(here[:, None, :])
    return with_heads(dtype, make, where=where, use_causal_mask=True, value_mask=here, **options)


def slid(dtype, make):
    """Their window of 3 counts the query's own position on both sides."""
    return with_heads(dtype, partial(make, sliding_window=3), where=window(2, 2))


def without_biases(dtype, make):
    return with_heads(dtype, partial(make, use_bias=False))


WITH_HEADS = {
    "self-attention": with_heads,
    "cross-attention": partial(with_heads, cross=True),
    "masks of keys and of values": looking_past_padding,
    "attention_mask": masked,
    "attention_mask, scores returned": partial(masked, score_path=True),
    "causal": partial(with_heads, where=causal, use_causal_mask=True),
    "causal, scores returned": partial(with_heads, where=causal, use_causal_mask=True, score_path=True),
    "causal and a mask": masked_and_causal,
    "causal and a mask, scores returned": partial(masked_and_causal, score_path=True),
    "the scores that it returns": scores_of_heads,
    "a sliding window": slid,
    "without biases": without_biases,
}

LAYERS = [
    ("Attention", {}, SINGLE),
    ("Attention", {"use_scale": True}, SINGLE),
    ("Attention", {"score_mode": "concat"}, SINGLE),
    ("Attention", {"score_mode": "concat", "use_scale": True}, SINGLE),
    ("AdditiveAttention", {}, SINGLE),
    ("AdditiveAttention", {"use_scale": False}, SINGLE),
    (
        "MultiHeadAttention",
        {"num_heads": 2 * HEADS, "key_dim": HEAD_WIDTH, "value_dim": VALUE_HEAD_WIDTH},
        WITH_HEADS,
    ),
    (
        "GroupQueryAttention",
        {"num_query_heads": 2 * HEADS, "num_key_value_heads": HEADS, "head_dim": HEAD_WIDTH},
        WITH_HEADS,
    ),
]

CASES = [
    Case(
        f"keras {layer}",
        ", ".join([variant, *(f"{setting}={value}" for setting, value in settings.items())]),
        partial(build, make=partial(getattr(keras.layers, layer), **settings)),
    )
    for layer, settings, variants in LAYERS
    for variant, build in variants.items()
]


@pytest.fixture
def float64_kept(monkeypatch):
    """Lets Keras compute in float64 what it is given in float64."""
    types = pytest.importorskip("keras.src.backend.common.dtypes", reason="Keras promotes types elsewhere")
    monkeypatch.setitem(types.BIT64_TO_BIT32_DTYPE, "float64", "float64")


@pytest.mark.usefixtures("float64_kept")
@pytest.mark.parametrize("dtype", LIMITS, ids=name)
@pytest.mark.parametrize("case", CASES, ids=name)
def test_agrees_with_keras(case, dtype):
    assert_agrees(case, dtype)
