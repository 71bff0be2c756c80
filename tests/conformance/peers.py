"""What the conformance tests share: a peer's layer beside regard's parts with the same weights.

A case builds such a pair for a floating type. `assert_agrees` gives both the same inputs and the same gradient
of the output, and requires equal outputs and equal gradients of every input. It keeps a tally, from which
`test_verdict.py` says how much has agreed.

Sizes are primes, so that a swapped axis cannot pass: `BATCH` examples, `ROWS` queries, `COLUMNS` keys, `HEADS`
heads; `WIDTH` is that of the model.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.core import Heads, Projections

BATCH, ROWS, COLUMNS, HEADS, HEAD_WIDTH = 2, 5, 7, 3, 11
WIDTH = HEADS * HEAD_WIDTH

LIMITS = {torch.float32: 1e-5, torch.float64: 1e-10}
"""The largest difference allowed, in each type."""


class Pair(NamedTuple):
    """A peer's layer and its counterpart, as functions of the same inputs."""

    peer: Callable[..., Tensor]
    ours: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]


class Case(NamedTuple):
    """One way to call one peer's layer."""

    layer: str
    variant: str
    build: Callable[[torch.dtype], Pair]

    def __str__(self) -> str:
        return f"{self.layer}, {self.variant}".replace(" ", "_")


TRIED: set[tuple[Case, torch.dtype]] = set()
AGREED: set[tuple[Case, torch.dtype]] = set()


def name(value: object) -> str:
    """How a case or a type is called in the name of a test."""
    return str(value).removeprefix("torch.")


def assert_agrees(case: Case, dtype: torch.dtype) -> None:
    """Requires equal outputs and equal gradients of all inputs, within `LIMITS`."""
    TRIED.add((case, dtype))
    torch.manual_seed(0)
    pair = case.build(dtype)
    theirs, their_gradients = _run(pair.peer, pair.inputs)
    ours, our_gradients = _run(pair.ours, pair.inputs)
    _assert_close(ours, theirs, dtype, "the output")
    for number, (our, their) in enumerate(zip(our_gradients, their_gradients, strict=True)):
        _assert_close(our, their, dtype, f"the gradient of input {number}")
    AGREED.add((case, dtype))


def _run(layer: Callable[..., Tensor], inputs: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    output = layer(*leaves)
    towards = torch.randn(output.shape, dtype=output.dtype, generator=torch.Generator().manual_seed(1))
    return output.detach(), torch.autograd.grad(output, leaves, towards)


def _assert_close(ours: Tensor, theirs: Tensor, dtype: torch.dtype, what: str) -> None:
    assert ours.shape == theirs.shape, f"{what}: {tuple(ours.shape)} here, {tuple(theirs.shape)} there"
    assert ours.dtype == theirs.dtype == dtype, f"{what}: {ours.dtype} here, {theirs.dtype} there"
    assert theirs.abs().max() > 0.01, f"{what} is almost 0 there: a comparison with it would show nothing"
    difference = (ours - theirs).abs().max().item()
    assert difference <= LIMITS[dtype], f"{what} differs by {difference:.1e}, more than {LIMITS[dtype]:.0e}"


def vectors(*shape: int, dtype: torch.dtype) -> Tensor:
    """Random inputs."""
    return torch.randn(shape, dtype=dtype)


def queries(dtype: torch.dtype, width: int = WIDTH) -> Tensor:
    """(BATCH, ROWS, width)."""
    return vectors(BATCH, ROWS, width, dtype=dtype)


def keys(dtype: torch.dtype, width: int = WIDTH) -> Tensor:
    """(BATCH, COLUMNS, width)."""
    return vectors(BATCH, COLUMNS, width, dtype=dtype)


def keep(*shape: int) -> Tensor:
    """A random mask, True where a query may look, of which every row allows something and forbids something."""
    order = torch.rand(shape).argsort(-1)
    return order < torch.randint(1, shape[-1], (*shape[:-1], 1))


def padding(length: int) -> Tensor:
    """(BATCH, length): True for the keys that are there, fewer in each further example."""
    return torch.arange(length) < (length - 2 * torch.arange(BATCH))[:, None]


def settled(module, dtype: torch.dtype):
    """The module in that type, every parameter random: a bias that starts at 0 would not show when it is lost."""
    module.to(dtype)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim:
                parameter.normal_(std=max(parameter.shape[0], 4) ** -0.5)
            else:
                parameter.uniform_(0.5, 1.5)
    return module


def linear(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    """A linear map with a copy of a weight (out, in), and of a bias (out,)."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, dtype=weight.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
    return layer


def heads_of(query: nn.Module, key: nn.Module, value: nn.Module, output: nn.Module, heads: int, **parts) -> Heads:
    """Heads around four maps."""
    width = next(query.parameters()).shape[-1]
    return Heads(width, heads, projections=Projections(query, key, value, output), **parts)
