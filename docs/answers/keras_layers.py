"""Keras, on PyTorch. A layer takes query, *value*, key, in this order."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from docs.answers.ours import alone, our_look
from docs.answers.parts import HEADS, LENGTH, WIDTH, Asked, Path, Step, load
from regard.core import dot

WITH_HEADS = {
    "MultiHeadAttention": {"num_heads": HEADS, "key_dim": WIDTH // HEADS},
    "GroupQueryAttention": {"num_query_heads": HEADS, "num_key_value_heads": HEADS, "head_dim": WIDTH // HEADS},
}


def looks() -> Iterator[Path]:
    def one(layer: Any, ask: bool, query: Tensor, key: Tensor, value: Tensor, here: Tensor) -> Tensor:
        answer = layer([query, value, key], mask=[None, here[:, None, :]], return_attention_scores=ask)
        return answer[0] if ask else answer

    def several(layer: Any, ask: bool, query: Tensor, key: Tensor, value: Tensor, here: Tensor) -> Tensor:
        answer = layer(query, value, key, value_mask=here, return_attention_scores=ask)
        return answer[0] if ask else answer

    for ask in (False, True):
        asked = ", `return_attention_scores=True`" if ask else ""
        layer = load("keras.layers").Attention()
        yield Path("keras", f"`Attention`{asked}", partial(one, layer, ask), alone(dot), (layer,))
        for name in WITH_HEADS:
            layer = _heads(name)
            yield Path("keras", f"`{name}`{asked}", partial(several, layer, ask), our_look, (layer,))


def _heads(name: str, dropout: float = 0.0) -> Any:
    """A layer of Keras with heads, its kernels identity matrices; its biases are zero at first."""
    layer = getattr(load("keras.layers"), name)(dropout=dropout, **WITH_HEADS[name])
    layer.build((1, LENGTH, WIDTH), (1, LENGTH, WIDTH))
    with torch.no_grad():
        for kernel in layer.parameters():
            if kernel.ndim == 3:
                kernel.copy_(torch.eye(WIDTH).view(kernel.shape))
    return layer


def steps() -> Iterator[Step]:
    single = load("keras.layers").Attention()
    name = "`Attention`, `use_causal_mask=True`"
    yield Step("keras", name, lambda query, keys: single([query, keys], use_causal_mask=True))

    def several(layer: Any, query: Tensor, keys: Tensor) -> Tensor:
        return layer(query, keys, use_causal_mask=True)

    for name in WITH_HEADS:
        yield Step("keras", f"`{name}`, `use_causal_mask=True`", partial(several, _heads(name)))


def asked() -> Iterator[Asked]:
    """A layer is told in each call whether it is in training."""

    def one(made: tuple[Any, bool], tokens: Tensor, here: Tensor, ask: bool) -> tuple[Tensor, Any]:
        layer, training = made
        options = {"mask": [None, here[:, None, :]], "return_attention_scores": ask, "training": training}
        answer = layer([tokens, tokens], **options)
        return answer if ask else (answer, None)

    def several(made: tuple[Any, bool], tokens: Tensor, here: Tensor, ask: bool) -> tuple[Tensor, Any]:
        layer, training = made
        answer = layer(tokens, tokens, value_mask=here, return_attention_scores=ask, training=training)
        return answer if ask else (answer, None)

    def make(name: str, dropout: float, training: bool) -> tuple[Any, bool]:
        return _heads(name, dropout), training

    single = load("keras.layers").Attention
    asked = "`return_attention_scores=True`"
    yield Asked("keras", f"`Attention`, {asked}", lambda *made: (single(dropout=made[0]), made[1]), one, alone=True)
    for name in WITH_HEADS:
        yield Asked("keras", f"`{name}`, {asked}", partial(make, name), several)
