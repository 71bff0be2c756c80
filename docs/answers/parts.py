"""What the modules of this directory share: each has the ways into one library, set up for the same computation.

That is two heads of width 2 (one of width 4 where a way has none), with identity matrices for projections and
no biases, so that an answer can be read off the output. Beside each way stands the same computation in `regard`.
A module has up to three lists: `looks()`, `steps()` and `asked()`.

Axes: (batch, tokens, width). `here` is (batch, tokens), True for the tokens that may be seen.
"""

import os
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Any, NamedTuple

from torch import Tensor, nn

HEADS, WIDTH, LENGTH = 2, 4, 4
PEERS = {
    "torch": "PyTorch",
    "keras": "Keras",
    "transformers": "transformers",
    "x-transformers": "x-transformers",
    "entmax": "entmax",
}
Look = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""From query, key, value and which keys are there to an output."""


class Path(NamedTuple):
    """One way to look.

    Attributes:
        peer: The library, a key of `PEERS`.
        name: The path, in Markdown.
        there: The library's answer.
        ours: The answer of `regard`.
        modules: What the library's answer is computed with.
        itself: Whether query, key and value are one tensor.
        shown: What the path gives for what attention alone gives: a layer adds its residual and its norms.
    """

    peer: str
    name: str
    there: Look
    ours: Look
    modules: tuple[nn.Module, ...] = ()
    itself: bool = False
    shown: Callable[[Tensor, Tensor], Tensor] = lambda tokens, looked: looked


class Step(NamedTuple):
    """One way to say *causal* for one query that comes after the keys of a cache.

    Attributes:
        peer: The library, a key of `PEERS`, or "regard".
        name: The path, in Markdown.
        look: From the query, (1, 1, width), and all tokens up to its own, to an output.
    """

    peer: str
    name: str
    look: Callable[[Tensor, Tensor], Tensor]


class Asked(NamedTuple):
    """One way to ask for weights.

    Attributes:
        peer: The library, a key of `PEERS`, or "regard".
        name: The path, in Markdown.
        make: From the share of dropout, and whether in training, to something that can be called.
        call: From that, the tokens, which are there, and whether to ask, to the output and the weights.
        drops: Whether the path has dropout at all: there is none in evaluation.
        alone: Whether it has one head without a scale, and not two with.
        inner: What the tokens are by the time that they reach the attention.
    """

    peer: str
    name: str
    make: Callable[[float, bool], Any]
    call: Callable[[Any, Tensor, Tensor, bool], tuple[Tensor, Any]]
    drops: bool = True
    alone: bool = False
    inner: Callable[[Tensor], Tensor] = lambda tokens: tokens


def load(name: str) -> Any:
    """Imports a peer's module; x-transformers decorates a function with what PyTorch has deprecated."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*torch\.jit\.script.*", category=DeprecationWarning)
        return import_module(name)


@cache
def installed() -> dict[str, str]:
    """The peers that can be imported, with their public versions; Keras where it runs on PyTorch."""
    versions = {}
    for peer in PEERS:
        try:
            module = load(peer.replace("-", "_"))
        except ImportError:
            continue
        if peer != "keras" or module.backend.backend() == "torch":
            versions[peer] = version(peer).split("+")[0]
    return versions


def split(tokens: Tensor) -> Tensor:
    """(batch, tokens, width) to (batch, heads, tokens, width of a head)."""
    return tokens.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def merge(looked: Tensor) -> Tensor:
    """The way back."""
    return looked.transpose(1, 2).flatten(-2)


def identity(*layers: nn.Linear) -> None:
    """Makes each linear map return what it gets."""
    for layer in layers:
        nn.init.eye_(layer.weight)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
