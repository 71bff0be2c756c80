"""transformers: BERT and, for its cache, GPT-2."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from docs.answers.ours import our_look
from docs.answers.parts import HEADS, LENGTH, WIDTH, Asked, Path, Step, identity, load


def looks() -> Iterator[Path]:
    """BERT's self-attention, with the masks that the library makes for it."""
    masks, bert = load("transformers.masking_utils"), load("transformers.models.bert.modeling_bert")

    def look(layer: nn.Module, query: Tensor, key: Tensor, value: Tensor, here: Tensor) -> Tensor:
        return layer(query, masks.create_bidirectional_mask(layer.config, query, here))[0]

    for way in ("eager", "sdpa"):
        layer = bert.BertSelfAttention(_bert_config(way))
        identity(layer.query, layer.key, layer.value)
        name = f"BERT's self-attention, `{way}`"
        yield Path("transformers", name, partial(look, layer), our_look, (layer,), itself=True)


def _bert_config(way: str, dropout: float = 0.0) -> Any:
    return load("transformers").BertConfig(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        num_hidden_layers=1,
        intermediate_size=WIDTH,
        vocab_size=WIDTH,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=dropout,
        attn_implementation=way,
    )


def steps() -> Iterator[Step]:
    masks, gpt2 = load("transformers.masking_utils"), load("transformers.models.gpt2.modeling_gpt2")

    def look(way: str, query: Tensor, keys: Tensor) -> Tensor:
        options = {"n_embd": WIDTH, "n_head": HEADS, "attn_pdrop": 0.0, "resid_pdrop": 0.0}
        config = load("transformers").GPT2Config(**options, attn_implementation=way)
        layer = gpt2.GPT2Attention(config, layer_idx=0)
        with torch.no_grad():
            layer.c_attn.weight.copy_(torch.eye(WIDTH).repeat(1, 3))
            layer.c_proj.weight.copy_(torch.eye(WIDTH))
        cache = load("transformers").DynamicCache(config=config)
        for tokens in (keys[:, :-1], query):
            mask = masks.create_causal_mask(config, tokens, None, cache)
            looked = layer(tokens, past_key_values=cache, attention_mask=mask)[0]
        return looked

    for way in ("eager", "sdpa"):
        yield Step("transformers", f"GPT-2's attention with its cache, `{way}`", partial(look, way))


def asked() -> Iterator[Asked]:
    """A whole BERT with one layer, its embeddings zero but for the tokens given, so that a norm comes first."""

    def make(way: str, dropout: float, training: bool) -> nn.Module:
        model = load("transformers").BertModel(_bert_config(way, dropout), add_pooling_layer=False)
        for embedding in (model.embeddings.position_embeddings, model.embeddings.token_type_embeddings):
            nn.init.zeros_(embedding.weight)
        layer = model.encoder.layer[0]
        looks = layer.attention.self
        identity(looks.query, looks.key, looks.value)
        identity(layer.attention.output.dense, layer.intermediate.dense, layer.output.dense)
        return model.train(training)

    def call(model: nn.Module, tokens: Tensor, here: Tensor, ask: bool) -> tuple[Tensor, Any]:
        answer = model(inputs_embeds=tokens, attention_mask=here.long(), output_attentions=ask)
        return answer.last_hidden_state, answer.attentions[0] if answer.attentions else answer.attentions

    norm = partial(functional.layer_norm, normalized_shape=(WIDTH,), eps=1e-12)
    for way in ("eager", "sdpa"):
        name = f"`BertModel`, `output_attentions=True`, `{way}`"
        yield Asked("transformers", name, partial(make, way), call, inner=norm)
