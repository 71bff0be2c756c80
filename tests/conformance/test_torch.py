"""PyTorch's own attention beside regard's parts: `scaled_dot_product_attention` and `nn.MultiheadAttention`.

PyTorch's masks of booleans mean opposite things: True is *may look* in the function, *must not look* in the layer.
"""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from regard.core import Bias, Dot, Heads, attend, causal, everywhere, given, scaled_dot
from tests.conformance.peers import (
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
    vectors,
)

KEY_WIDTH, VALUE_WIDTH = 13, 17


def function(dtype, *, mask=None, bias=None, square=False, groups=1, ours=None, **options):
    """`scaled_dot_product_attention` beside `attend`, with heads as a batch axis and values of another width."""
    rows = COLUMNS if square else ROWS
    query = vectors(BATCH, HEADS * groups, rows, HEAD_WIDTH, dtype=dtype)
    key = vectors(BATCH, HEADS, COLUMNS, HEAD_WIDTH, dtype=dtype)
    value = vectors(BATCH, HEADS, COLUMNS, VALUE_WIDTH, dtype=dtype)
    if mask is not None:
        mask = keep(*mask)
        options["attn_mask"], ours = mask, {"where": given(mask)}
    if bias is not None:
        bias = vectors(*bias, dtype=dtype)
        options["attn_mask"], ours = bias, {"score": scaled_dot + Bias(bias)}

    def here(query, key, value):
        key, value = (tensor.repeat_interleave(groups, dim=-3) for tensor in (key, value))
        return attend(query, key, value, **(ours or {}))

    return Pair(partial(scaled_dot_product_attention, **options), here, (query, key, value))


def layer_and_heads(dtype, *, bias=True, widths=(WIDTH, WIDTH), **parts) -> tuple[nn.MultiheadAttention, Heads]:
    """`nn.MultiheadAttention`, which stacks its projections where the widths are equal, and the same in parts."""
    key_width, value_width = widths
    layer = nn.MultiheadAttention(WIDTH, HEADS, bias=bias, kdim=key_width, vdim=value_width, batch_first=True)
    settled(layer, dtype)
    weights = (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
    if layer.in_proj_weight is not None:
        weights = layer.in_proj_weight.chunk(3)
    biases = layer.in_proj_bias.chunk(3) if bias else (None, None, None)
    maps = (linear(weight, bias) for weight, bias in zip(weights, biases, strict=True))
    return layer, heads_of(*maps, linear(layer.out_proj.weight, layer.out_proj.bias), HEADS, **parts)


def looking_at_itself(dtype, *, where=everywhere, bias=True, parts=None, batch=True, options=None):
    """Self-attention."""
    layer, heads = layer_and_heads(dtype, bias=bias, **(parts or {}))
    inputs = queries(dtype) if batch else vectors(ROWS, WIDTH, dtype=dtype)
    return Pair(
        lambda x: layer(x, x, x, need_weights=False, **(options or {}))[0], lambda x: heads(x, where=where), (inputs,)
    )


def looking_elsewhere(dtype, *, where=everywhere, options=None):
    """Cross-attention, with keys and values of widths of their own."""
    layer, heads = layer_and_heads(dtype, widths=(KEY_WIDTH, VALUE_WIDTH))
    return Pair(
        lambda *inputs: layer(*inputs, **(options or {}))[0],
        lambda *inputs: heads(*inputs, where=where),
        (queries(dtype), keys(dtype, KEY_WIDTH), keys(dtype, VALUE_WIDTH)),
    )


def padded(dtype):
    here = padding(COLUMNS)
    return looking_elsewhere(dtype, where=given(here[:, None, :]), options={"key_padding_mask": ~here})


def masked(dtype):
    mask = keep(ROWS, ROWS)
    return looking_at_itself(dtype, where=given(mask), options={"attn_mask": ~mask})


def masked_by_head(dtype):
    mask = keep(BATCH, HEADS, ROWS, ROWS)
    return looking_at_itself(dtype, where=given(mask), options={"attn_mask": ~mask.flatten(0, 1)})


def biased(dtype):
    bias = vectors(ROWS, ROWS, dtype=dtype)
    return looking_at_itself(dtype, parts={"score": scaled_dot + Bias(bias)}, options={"attn_mask": bias})


def not_ahead(dtype):
    mask = torch.ones(ROWS, ROWS, dtype=torch.bool).triu(1)
    return looking_at_itself(dtype, where=causal, options={"attn_mask": mask, "is_causal": True})


def not_ahead_and_padded(dtype):
    mask, here = torch.ones(ROWS, ROWS, dtype=torch.bool).triu(1), padding(ROWS)
    options = {"attn_mask": mask, "key_padding_mask": ~here}
    return looking_at_itself(dtype, where=causal & given(here[:, None, :]), options=options)


def positions_first(dtype):
    layer, heads = layer_and_heads(dtype)
    layer.batch_first = False
    return Pair(lambda x: layer(x, x, x)[0], lambda x: heads(x.transpose(0, 1)).transpose(0, 1), (queries(dtype),))


def weights_by_head(dtype):
    layer, heads = layer_and_heads(dtype, widths=(KEY_WIDTH, KEY_WIDTH))
    here = padding(COLUMNS)
    return Pair(
        lambda query, key: layer(query, key, key, key_padding_mask=~here, average_attn_weights=False)[1],
        lambda query, key: heads.weights(query, key, where=given(here[:, None, :])),
        (queries(dtype), keys(dtype, KEY_WIDTH)),
    )


CASES = [
    *(
        Case("torch scaled_dot_product_attention", variant, build)
        for variant, build in {
            "no mask": function,
            "a mask of booleans": partial(function, mask=(BATCH, 1, ROWS, COLUMNS)),
            "a mask for each head": partial(function, mask=(BATCH, HEADS, ROWS, COLUMNS)),
            "a bias": partial(function, bias=(BATCH, HEADS, ROWS, COLUMNS)),
            "causal": partial(function, square=True, is_causal=True, ours={"where": causal}),
            "a scale": partial(function, scale=0.7, ours={"score": Dot(0.7)}),
            "grouped heads": partial(function, groups=2, enable_gqa=True),
        }.items()
    ),
    *(
        Case("torch.nn.MultiheadAttention", variant, build)
        for variant, build in {
            "self-attention": looking_at_itself,
            "self-attention without biases": partial(looking_at_itself, bias=False),
            "self-attention without a batch axis": partial(looking_at_itself, batch=False),
            "self-attention, positions first": positions_first,
            "self-attention, attn_mask": masked,
            "self-attention, attn_mask for each head": masked_by_head,
            "self-attention, attn_mask of numbers": biased,
            "self-attention, causal": not_ahead,
            "self-attention, causal and key_padding_mask": not_ahead_and_padded,
            "cross-attention, kdim and vdim": looking_elsewhere,
            "cross-attention, key_padding_mask": padded,
            "the weights of each head": weights_by_head,
        }.items()
    ),
]


@pytest.mark.parametrize("dtype", LIMITS, ids=name)
@pytest.mark.parametrize("case", CASES, ids=name)
def test_agrees_with_torch(case, dtype):
    assert_agrees(case, dtype)


@pytest.mark.parametrize("dtype", LIMITS, ids=name)
def test_agrees_with_the_fast_path(dtype):
    """In evaluation without gradients `nn.MultiheadAttention` runs other code."""
    torch.manual_seed(0)
    layer, heads = layer_and_heads(dtype)
    x, here = queries(dtype), padding(ROWS)
    layer.eval()
    with torch.no_grad():
        theirs = layer(x, x, x, key_padding_mask=~here, need_weights=False)[0]
        ours = heads(x, where=given(here[:, None, :]))
    assert (ours - theirs).abs().max() <= LIMITS[dtype]
