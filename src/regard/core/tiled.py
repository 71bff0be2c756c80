"""Any call at all, some rows at a time: the plain form, in tiles, made again where a gradient is asked for.

A row of scores is whole in its tile, so that every normaliser works, and a tile is all that is held beside inputs
and outputs. It is for scores and predicates that answer cell by cell.

Axes: `m` queries, `n` keys, `d_v` width of a value.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from regard.core import plain
from regard.core.call import Ready
from regard.core.score import Score

TILE = 2**20
"""Cells of a tile."""


def rows_of(shape: tuple[int, ...]) -> int:
    """How many rows of a call (*batch, m, n) make a tile."""
    return max(TILE // max(math.prod(shape[:-2]) * shape[-1], 1), 1)


def output(ready: Ready) -> Float[Tensor, "*batch m d_v"]:
    """The output of a call whose score and predicate answer cell by cell, without dropout."""
    return in_tiles(plain.output, ready)


def in_tiles(function: Callable[[Ready], Tensor], ready: Ready) -> Float[Tensor, "*batch m _"]:
    """A function of whole rows, some rows at a time."""
    rows, (m, _) = rows_of(ready.shape), ready.shape[-2:]
    if m <= rows:
        return function(ready)
    tiles = [ready.part(slice(start, start + rows)) for start in range(0, m, rows)]
    if not torch.is_grad_enabled():
        return torch.cat([function(tile) for tile in tiles], -2)
    learned = dict(_tensors(ready.call.score))
    return torch.cat([_again(function, tile, learned) for tile in tiles], -2)


def _again(function: Callable[[Ready], Tensor], tile: Ready, learned: dict[str, Tensor]) -> Tensor:
    """A tile that is not kept, but made again in the backward pass: from the same tensors, or not at all."""
    run = _Tile(tile.call.score, function)
    share = list(_flat(tile.share))
    used = {"query": tile.query, "keys": share[0] if share else tile.query, **learned}
    versions = {name: tensor._version for name, tensor in used.items() if not tensor.is_inference()}

    def computed(*tensors: Tensor) -> Tensor:
        for name, version in versions.items():
            if used[name]._version != version:
                raise RuntimeError(
                    f"attend: {name} was changed in place between the forward and the backward pass, which makes "
                    f"the weights again: call backward() before the change, or keep a clone"
                )
        found: Tensor = functional_call(run, dict(zip(learned, tensors, strict=True)), (tile,))
        return found

    return _checkpointed(computed, *learned.values())


def _checkpointed(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    found: Tensor = checkpoint(
        function, *tensors, use_reentrant=False, preserve_rng_state=False, determinism_check="none"
    )
    return found


class _Tile(nn.Module):
    """A tile as a function of what its score has learned, as it was then: `functional_call` may have lent it."""

    def __init__(self, score: Score, function: Callable[[Ready], Tensor]) -> None:
        super().__init__()
        self.score, self.function = score, function

    def forward(self, tile: Ready) -> Tensor:
        return self.function(tile)


def _tensors(score: Score) -> list[tuple[str, Tensor]]:
    return [(f"score.{name}", tensor) for name, tensor in (*score.named_parameters(), *score.named_buffers())]


def _flat(share: object) -> list[Tensor]:
    if isinstance(share, Tensor):
        return [share]
    return [tensor for part in share for tensor in _flat(part)] if isinstance(share, tuple) else []
