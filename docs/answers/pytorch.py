"""PyTorch: its function, its layers, and softmax by hand."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.bias import causal_lower_right

from docs.answers.ours import alone, our_look
from docs.answers.parts import HEADS, LENGTH, WIDTH, Asked, Path, Step, identity, merge, split


def looks() -> Iterator[Path]:
    masks: dict[str, Callable[[Tensor], Tensor]] = {
        "mask of booleans": lambda here: here,
        "mask of 0 and -inf": lambda here: torch.zeros(here.shape).masked_fill(~here, -torch.inf),
        "mask of 0 and `finfo.min`": lambda here: torch.zeros(here.shape).masked_fill(~here, torch.finfo().min),
    }
    for name, mask in masks.items():
        yield Path("torch", f"`scaled_dot_product_attention`, {name}", partial(_function, mask), our_look)
    yield Path("torch", "by hand: `masked_fill(-inf)`, `softmax`", partial(by_hand, torch.softmax), alone())
    for need_weights in (True, False):
        name = f"`nn.MultiheadAttention`, `need_weights={need_weights}`"
        layer = _heads()
        look = partial(_layer, layer, need_weights)
        yield Path("torch", f"{name}, training", look, our_look, (layer,))
        # Its fast path is taken only where query, key and value are one tensor.
        layer = _heads().eval()
        look = torch.no_grad()(partial(_layer, layer, need_weights))
        yield Path("torch", f"{name}, evaluation, `no_grad`", look, our_look, (layer,), itself=True)
    for mode in ("training", "evaluation, `no_grad`", "evaluation, `no_grad`, fast path switched off"):
        yield _encoder(mode)


def _function(mask: Callable[[Tensor], Tensor], query: Tensor, key: Tensor, value: Tensor, here: Tensor) -> Tensor:
    inputs = map(split, (query, key, value))
    return merge(functional.scaled_dot_product_attention(*inputs, attn_mask=mask(here)[:, None, None, :]))


def by_hand(normalise: Callable[..., Tensor], query: Tensor, key: Tensor, value: Tensor, here: Tensor) -> Tensor:
    scores = query @ key.mT / WIDTH**0.5
    return normalise(scores.masked_fill(~here[:, None, :], -torch.inf), dim=-1) @ value


def _heads(dropout: float = 0.0) -> nn.MultiheadAttention:
    """PyTorch's layer."""
    layer = nn.MultiheadAttention(WIDTH, HEADS, dropout=dropout, batch_first=True)
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.eye(WIDTH).repeat(3, 1))
    identity(layer.out_proj)
    return layer


def _layer(
    layer: nn.MultiheadAttention, need_weights: bool, query: Tensor, key: Tensor, value: Tensor, here: Tensor
) -> Tensor:
    return layer(query, key, value, key_padding_mask=~here, need_weights=need_weights)[0]


def _encoder(mode: str) -> Path:
    """A layer whose feed-forward part gives 0: norm(norm(tokens + looked))."""
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, dim_feedforward=WIDTH, dropout=0.0, batch_first=True)
    layer.self_attn = _heads()
    for parameter in layer.linear2.parameters():
        nn.init.zeros_(parameter)
    layer.train(mode == "training")
    slow = mode.endswith("off")

    def norms(tokens: Tensor, looked: Tensor) -> Tensor:
        return functional.layer_norm(functional.layer_norm(tokens + looked, (WIDTH,)), (WIDTH,))

    def look(query: Tensor, key: Tensor, value: Tensor, here: Tensor) -> Tensor:
        fast = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(fast and not slow)
        try:
            with torch.set_grad_enabled(layer.training):
                return layer(query, src_key_padding_mask=~here)
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)

    def ours(query: Tensor, key: Tensor, value: Tensor, here: Tensor) -> Tensor:
        return norms(query, our_look(query, key, value, here))

    return Path("torch", f"`nn.TransformerEncoderLayer`, {mode}", look, ours, (layer,), itself=True, shown=norms)


def steps() -> Iterator[Step]:
    def function(options: dict[str, Any], query: Tensor, keys: Tensor) -> Tensor:
        return merge(functional.scaled_dot_product_attention(split(query), split(keys), split(keys), **options))

    def layer(need_weights: bool, query: Tensor, keys: Tensor) -> Tensor:
        return _heads()(query, keys, keys, is_causal=True, need_weights=need_weights)[0]

    name = "`scaled_dot_product_attention`"
    yield Step("torch", f"{name}, `is_causal=True`", partial(function, {"is_causal": True}))
    corner = {"attn_mask": causal_lower_right(1, LENGTH)}
    yield Step("torch", f"{name}, `attn_mask=causal_lower_right(1, 4)`", partial(function, corner))
    for need_weights in (True, False):
        name = f"`nn.MultiheadAttention`, `is_causal=True`, `need_weights={need_weights}`"
        yield Step("torch", name, partial(layer, need_weights))


def asked() -> Iterator[Asked]:
    def function(module: None, tokens: Tensor, here: Tensor, ask: bool) -> tuple[Tensor, Any]:
        inputs = [split(tokens)] * 3
        asking: dict[str, Any] = {"need_weights": True} if ask else {}
        return functional.scaled_dot_product_attention(*inputs, attn_mask=here[:, None, None, :], **asking), None

    def layer(average: bool, module: nn.Module, tokens: Tensor, here: Tensor, ask: bool) -> tuple[Tensor, Any]:
        options = {"key_padding_mask": ~here, "need_weights": ask, "average_attn_weights": average}
        with torch.set_grad_enabled(module.training):
            return module(tokens, tokens, tokens, **options)

    name = "`scaled_dot_product_attention`, `need_weights=True`"
    yield Asked("torch", name, lambda dropout, training: None, function)
    for average in (True, False):
        name = f"`nn.MultiheadAttention`, `average_attn_weights={average}`"
        call = partial(layer, average)
        yield Asked("torch", f"{name}, training", lambda dropout, training: _heads(dropout), call)
        name = f"{name}, evaluation, `no_grad`"
        yield Asked("torch", name, lambda dropout, training: _heads(dropout).eval(), call, drops=False)
