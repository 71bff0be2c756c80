"""x-transformers: its own arithmetic, and PyTorch's (`flash=True`)."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from torch import Tensor, nn

from docs.answers.ours import our_look
from docs.answers.parts import HEADS, WIDTH, Asked, Path, Step, identity, load, merge, split


def looks() -> Iterator[Path]:
    def look(attention: nn.Module, query: Tensor, key: Tensor, value: Tensor, here: Tensor) -> Tensor:
        return merge(attention(*map(split, (query, key, value)), mask=here)[0])

    for flash in (False, True):
        attention = load("x_transformers.attend").Attend(flash=flash)
        yield Path("x-transformers", f"`Attend(flash={flash})`", partial(look, attention), our_look, (attention,))


def steps() -> Iterator[Step]:
    def look(attention: nn.Module, query: Tensor, keys: Tensor) -> Tensor:
        return merge(attention(split(query), split(keys), split(keys))[0])

    for flash in (False, True):
        attention = load("x_transformers.attend").Attend(flash=flash, causal=True)
        yield Step("x-transformers", f"`Attend(causal=True, flash={flash})`", partial(look, attention))


def asked() -> Iterator[Asked]:
    def make(flash: bool, dropout: float, training: bool) -> nn.Module:
        sizes = {"dim_head": WIDTH // HEADS, "heads": HEADS}
        module = load("x_transformers.x_transformers").Attention(WIDTH, **sizes, dropout=dropout, flash=flash)
        identity(module.to_q, module.to_k, module.to_v, module.to_out)
        return module.train(training)

    def call(module: nn.Module, tokens: Tensor, here: Tensor, ask: bool) -> tuple[Tensor, Any]:
        answer = module(tokens, mask=here, return_intermediates=ask)
        return (answer[0], answer[1].post_softmax_attn) if ask else (answer, None)

    for flash in (False, True):
        name = f"`Attention(flash={flash})`, `return_intermediates=True`"
        yield Asked("x-transformers", name, partial(make, flash), call)
