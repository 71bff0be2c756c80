"""The attention layers of transformers, from small random configurations, beside regard's parts.

A layer runs each way that the library offers for it: "eager", its own arithmetic, and "sdpa", PyTorch's.
Llama's eager softmax is in float32 in every type, and its own rotary angles too: it runs by "sdpa", with angles
that are given.
"""

from functools import partial

import pytest
import torch

pytest.importorskip("transformers", reason="transformers cannot be imported")

from transformers import BertConfig, DynamicCache, GPT2Config, LlamaConfig, T5Config
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.models.bert.modeling_bert import BertAttention
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention
from transformers.models.llama.modeling_llama import LlamaAttention
from transformers.models.t5.modeling_t5 import T5Attention

from regard.core import RelativeBias, Rotary, causal, dot, everywhere, given
from tests.conformance.peers import (
    BATCH,
    COLUMNS,
    HEAD_WIDTH,
    HEADS,
    LIMITS,
    WIDTH,
    Case,
    Pair,
    assert_agrees,
    heads_of,
    keys,
    linear,
    name,
    padding,
    queries,
    settled,
)

LLAMA_WIDTH, TURNED_WIDTH = 2 * HEADS * 13, 2 * HEAD_WIDTH
SEEN = 4
"""How many positions are in a cache before the others come."""


def turns(length: int, base: float, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines for Llama, (1, length, width of a head): its two halves are the same."""
    frequency = base ** (-torch.arange(0, TURNED_WIDTH, 2, dtype=torch.float64) / TURNED_WIDTH)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    angle = torch.cat([angle, angle], -1)[None]
    return angle.cos().to(dtype), angle.sin().to(dtype)


def llama(dtype, *, base=10000.0, bias=False, cached=False, here=None):
    config = LlamaConfig(
        hidden_size=LLAMA_WIDTH,
        num_attention_heads=2 * HEADS,
        num_key_value_heads=HEADS,
        head_dim=TURNED_WIDTH,
        attention_bias=bias,
        attn_implementation="sdpa",
    )
    layer = settled(LlamaAttention(config, layer_idx=0), dtype)
    maps = [linear(part.weight, part.bias) for part in (layer.q_proj, layer.k_proj, layer.v_proj, layer.o_proj)]
    position = Rotary(TURNED_WIDTH, pairing="halves", base=base)
    heads = heads_of(*maps, heads=2 * HEADS, key_heads=HEADS, where=causal, position=position)
    cosine, sine = turns(COLUMNS, base, dtype)

    def there(x):
        mask = create_causal_mask(config, x, here, None)
        return layer(x, (cosine, sine), mask)[0]

    def there_in_steps(x):
        cache, parts = DynamicCache(config=config), []
        for part in (slice(0, SEEN), slice(SEEN, COLUMNS)):
            mask = create_causal_mask(config, x[:, part], None, cache)
            parts.append(layer(x[:, part], (cosine[:, part], sine[:, part]), mask, past_key_values=cache)[0])
        return torch.cat(parts, 1)

    def ours_in_steps(x):
        cache = heads.cache(BATCH, longest=COLUMNS)
        return torch.cat([heads(x[:, :SEEN], cache=cache), heads(x[:, SEEN:], cache=cache)], 1)

    if cached:
        return Pair(there_in_steps, ours_in_steps, (keys(dtype, LLAMA_WIDTH),))
    where = everywhere if here is None else given(here[:, None, :])
    return Pair(there, lambda x: heads(x, where=where), (keys(dtype, LLAMA_WIDTH),))


def gpt2(dtype, way, *, here=None, cross=False):
    """Its linear maps are stacked, and hold their weights as (in, out)."""
    config = GPT2Config(n_embd=WIDTH, n_head=HEADS, attn_pdrop=0.0, resid_pdrop=0.0, attn_implementation=way)
    layer = settled(GPT2Attention(config, is_cross_attention=cross, layer_idx=0), dtype)
    stacked = [layer.q_attn, layer.c_attn] if cross else [layer.c_attn]
    weights = torch.cat([part.weight for part in stacked], 1).split(WIDTH, 1)
    biases = torch.cat([part.bias for part in stacked]).split(WIDTH)
    maps = [linear(weight.mT, bias) for weight, bias in zip(weights, biases, strict=True)]
    heads = heads_of(*maps, linear(layer.c_proj.weight.mT, layer.c_proj.bias), heads=HEADS)
    if cross:
        return Pair(
            lambda query, key: layer(query, encoder_hidden_states=key)[0],
            lambda query, key: heads(query, key),
            (queries(dtype), keys(dtype)),
        )
    where = causal if here is None else causal & given(here[:, None, :])
    return Pair(
        lambda x: layer(x, attention_mask=create_causal_mask(config, x, here, None))[0],
        lambda x: heads(x, where=where),
        (keys(dtype),),
    )


def bert(dtype, way, *, here=None, weights=False):
    """Without what follows the output map: dropout, the sum and the norm."""
    config = BertConfig(hidden_size=WIDTH, num_attention_heads=HEADS, attn_implementation=way)
    layer = settled(BertAttention(config), dtype).eval()
    parts = (layer.self.query, layer.self.key, layer.self.value, layer.output.dense)
    heads = heads_of(*(linear(part.weight, part.bias) for part in parts), heads=HEADS)
    where = everywhere if here is None else given(here[:, None, :])

    def there(x):
        looked, shown = layer.self(x, create_bidirectional_mask(config, x, here))
        return shown if weights else layer.output.dense(looked)

    ours = heads.weights if weights else heads
    return Pair(there, lambda x: ours(x, where=where), (keys(dtype),))


def t5(dtype, way, *, decoder=False, cross=False, here=None):
    """No scale, no biases, and a table of relative biases: with both sides told apart in an encoder only."""
    config = T5Config(
        d_model=WIDTH,
        d_kv=HEAD_WIDTH,
        num_heads=HEADS,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=6,
        is_decoder=decoder,
        dropout_rate=0.0,
        attn_implementation=way,
    )
    layer = T5Attention(config, has_relative_attention_bias=not cross, layer_idx=0, is_causal=decoder and not cross)
    settled(layer, dtype)
    score = dot
    if not cross:
        bias = RelativeBias(HEADS, buckets=8, furthest=6, both_ways=not decoder).to(dtype)
        with torch.no_grad():
            bias.weight.copy_(layer.relative_attention_bias.weight)
        score = dot + bias
    maps = [linear(part.weight) for part in (layer.q, layer.k, layer.v, layer.o)]
    heads = heads_of(*maps, heads=HEADS, score=score)
    if cross:
        return Pair(
            lambda query, key: layer(
                query, create_bidirectional_mask(config, query, here, encoder_hidden_states=key), key_value_states=key
            )[0],
            lambda query, key: heads(query, key, where=given(here[:, None, :])),
            (queries(dtype), keys(dtype)),
        )
    where = causal if decoder else everywhere
    if here is not None:
        where &= given(here[:, None, :])

    def there(x):
        mask = create_causal_mask(config, x, here, None) if decoder else create_bidirectional_mask(config, x, here)
        return layer(x, mask)[0]

    return Pair(there, lambda x: heads(x, where=where), (keys(dtype),))


PADDED = padding(COLUMNS)

CASES = [
    Case("transformers Llama", "causal, grouped heads, rotary", llama),
    Case("transformers Llama", "another base", partial(llama, base=500.0)),
    Case("transformers Llama", "with biases", partial(llama, bias=True)),
    Case("transformers Llama", "padding", partial(llama, here=PADDED)),
    Case("transformers Llama", "in two steps with a cache", partial(llama, cached=True)),
    Case("transformers BERT", "the weights of each head", partial(bert, way="eager", here=PADDED, weights=True)),
    *(
        Case(f"transformers {layer}", f"{variant}, {way}", partial(build, way=way))
        for layer, variant, build in (
            ("GPT-2", "causal", gpt2),
            ("GPT-2", "causal and padding", partial(gpt2, here=PADDED)),
            ("GPT-2", "cross-attention", partial(gpt2, cross=True)),
            ("BERT", "no mask", bert),
            ("BERT", "padding", partial(bert, here=PADDED)),
            ("T5", "encoder", t5),
            ("T5", "encoder, padding", partial(t5, here=PADDED)),
            ("T5", "decoder, causal", partial(t5, decoder=True)),
            ("T5", "decoder, causal and padding", partial(t5, decoder=True, here=PADDED)),
            ("T5", "cross-attention, padding", partial(t5, decoder=True, cross=True, here=PADDED)),
        )
        for way in ("eager", "sdpa")
    ),
]


@pytest.mark.parametrize("dtype", LIMITS, ids=name)
@pytest.mark.parametrize("case", CASES, ids=name)
def test_agrees_with_transformers(case, dtype):
    assert_agrees(case, dtype)


@pytest.mark.parametrize("both_ways", [True, False], ids=["both_ways", "one_way"])
@pytest.mark.parametrize(("buckets", "furthest"), [(32, 128), (32, 20), (8, 6), (64, 500), (6, 31)])
def test_buckets_are_those_of_t5(buckets, furthest, both_ways):
    offset = torch.arange(-600, 601)
    ours = RelativeBias(1, buckets=buckets, furthest=furthest, both_ways=both_ways)
    theirs = T5Attention._relative_position_bucket(offset, both_ways, buckets, furthest)
    torch.testing.assert_close(ours.bucket(offset), theirs, rtol=0, atol=0)
