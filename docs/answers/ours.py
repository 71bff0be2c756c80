"""The computation in `regard`, and its own ways."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from torch import Tensor, nn

from docs.answers.parts import HEADS, LENGTH, WIDTH, Asked, Look, Step, identity
from regard.core import Heads, Projections, Score, Weigh, attend, causal, given, scaled_dot, softmax


def our_heads(dropout: float = 0.0) -> Heads:
    """Two heads."""
    maps = [nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4)]
    identity(*maps)
    return Heads(WIDTH, HEADS, projections=Projections(*maps), dropout=dropout)


def our_look(query: Tensor, key: Tensor, value: Tensor, here: Tensor) -> Tensor:
    """What two heads answer."""
    return our_heads()(query, key, value, where=given(here[:, None, :]))


def alone(score: Score = scaled_dot, weigh: Weigh = softmax) -> Look:
    """What one head of the whole width answers."""
    return lambda query, key, value, here: attend(
        query, key, value, score=score, weigh=weigh, where=given(here[:, None, :])
    )


def steps() -> Iterator[Step]:
    def with_cache(query: Tensor, keys: Tensor) -> Tensor:
        heads = our_heads()
        cache = heads.cache(1, longest=LENGTH)
        heads(keys[:, :-1], where=causal, cache=cache)
        return heads(query, where=causal, cache=cache)

    def function(first: int, query: Tensor, keys: Tensor) -> Tensor:
        return attend(query, keys, keys, where=causal, first=first)

    yield Step("regard", "`attend(…, where=causal)`, which means `first=0`", partial(function, 0))
    yield Step("regard", "`attend(…, where=causal, first=3)`", partial(function, LENGTH - 1))
    yield Step("regard", "`Heads(…)(…, where=causal, cache=cache)`", with_cache)


def asked() -> Iterator[Asked]:
    def call(heads: Heads, tokens: Tensor, here: Tensor, ask: bool) -> tuple[Tensor, Any]:
        where = given(here[:, None, :])
        return heads(tokens, where=where), heads.weights(tokens, where=where) if ask else None

    yield Asked("regard", "`Heads(…).weights(…)`", lambda dropout, training: our_heads(dropout).train(training), call)
