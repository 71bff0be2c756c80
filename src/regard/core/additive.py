"""The additive score, `Σ_h v_h tanh(a_h + b_h)`, without a tanh and without an (m, n, h) tensor.

    tanh(a + b) = 1 - 2r,   r = 1 / (1 + e^{2a} e^{2b}),   tanh'(a + b) = 4 r (1 - r)

e^{2a} is computed once for each query and e^{2b} once for each key, in float32 at least; what is left for each cell
is a multiply, an add, a reciprocal and a multiply-add. The backward pass recomputes r, once for the queries' side
and the vector together, once for the keys' side.

The products are safe while no |a| or |b| exceeds 40: e^{80} · e^{80} is infinite and r then 0, as it should be, but
beyond, one factor alone would be infinite while the other is 0. Outside of that range the same sums are made in
tiles of tanh. Where the work is large and a compiler at hand, the sums are compiled; else they are made in tiles
that fit the cache.

Axes: `batch` all batch axes as one, `m` queries, `n` keys, `h` hidden units.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.core import compiling
from regard.core.score import at_least_single, is_seen
from regard.core.twice import again

SAFE = 40.0
"""The largest |a| and |b| whose exponentials are multiplied."""
TILE = 2**16
"""Cells times width of a tile: a few of them fit a core's cache."""

Queries = Float[Tensor, "batch m h"]
Keys = Float[Tensor, "batch n h"]
Table = Float[Tensor, "batch m n"]


class KeySide(NamedTuple):
    """What an additive score keeps of its keys.

    Attributes:
        projected: b, with its gradient.
        exponential: e^{2b}, without; nothing where some |b| exceeds `SAFE`.
    """

    projected: Float[Tensor, "*batch n h"]
    exponential: Float[Tensor, "*batch n h"] | tuple[()]


def key_side(projected: Float[Tensor, "*batch n h"]) -> KeySide:
    """Does the keys' share of the work."""
    if not is_seen(projected):
        return KeySide(projected, ())
    wide = projected.detach().to(at_least_single(projected.dtype))
    return KeySide(projected, (2 * wide).exp() if is_safe(wide) else ())


def is_safe(projected: Tensor) -> bool:
    """Whether exponentials of these sides may be multiplied."""
    if not projected.numel():
        return True
    least, most = torch.aminmax(projected)
    return float(least) >= -SAFE and float(most) <= SAFE


def plain_scores(
    query: Float[Tensor, "*_ m h"], key: Float[Tensor, "*_ n h"], vector: Float[Tensor, " h"]
) -> Float[Tensor, "*_ m n"]:
    """The equation as it stands, with every derivative."""
    return torch.tanh(query[..., :, None, :] + key[..., None, :, :]) @ vector


def scores(query: Float[Tensor, "*_ m h"], key: KeySide, vector: Float[Tensor, " h"]) -> Float[Tensor, "*_ m n"]:
    """The scores of projected queries and keys, in float32 at least."""
    if not is_seen(query, key.projected, vector):  # an outer compiler, an export, a transform
        return plain_scores(query, key.projected, vector)
    dtype = at_least_single(query.dtype)
    batch = torch.broadcast_shapes(query.shape[:-2], key.projected.shape[:-2])  # type: ignore[no-untyped-call]
    asked = _flat(query.to(dtype), batch)
    exponential = None
    if isinstance(key.exponential, Tensor) and is_safe(asked.detach()):
        exponential = _flat(key.exponential, batch)
    found: Tensor = _Scores.apply(asked, _flat(key.projected.to(dtype), batch), vector.to(dtype), exponential)  # type: ignore[no-untyped-call]
    return found.reshape(*batch, *found.shape[1:])


def _flat(tensor: Tensor, batch: tuple[int, ...]) -> Tensor:
    return tensor.expand(*batch, *tensor.shape[-2:]).reshape(math.prod(batch), *tensor.shape[-2:])


class _Scores(torch.autograd.Function):
    """The scores, with the gradients of both sides and of the vector; a second derivative goes the plain way."""

    @staticmethod
    def forward(ctx: Any, query: Queries, key: Keys, vector: Tensor, exponential: Keys | None) -> Table:
        ctx.save_for_backward(query, key, vector, exponential)
        kernels, queries, keys = chosen(query, key, exponential, learns=any(ctx.needs_input_grad))
        found: Table = kernels.scores(queries, keys, vector)
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, vector, exponential = ctx.saved_tensors
        slope = gradients[0]
        if torch.is_grad_enabled():
            return *again(plain_scores, (query, key, vector), ctx.needs_input_grad[:3], slope), None
        kernels, queries, keys = chosen(query, key, exponential, learns=True)
        for_query = for_key = for_vector = None
        if ctx.needs_input_grad[0] or ctx.needs_input_grad[2]:
            steep, values = kernels.query_side(queries, keys, slope)
            for_query, for_vector = vector * steep, values.sum((0, 1))
        if ctx.needs_input_grad[1]:
            for_key = vector * kernels.key_side(queries, keys, slope)
        return for_query, for_key, for_vector, None


class _Kernels(NamedTuple):
    """Three sums over the cells, each from what the two sides were turned into.

    Attributes:
        scores: Σ_h v_h t, with t the hyperbolic tangent of a cell.
        query_side: Σ_n g t' and Σ_n g t, with g the gradient of a cell and t' the derivative.
        key_side: Σ_m g t'.
    """

    scores: Callable[..., Any]
    query_side: Callable[..., Any]
    key_side: Callable[..., Any]


def chosen(query: Queries, key: Keys, exponential: Keys | None, *, learns: bool) -> tuple[_Kernels, Tensor, Tensor]:
    """The sums to call, and what they are given of each side."""
    if exponential is None:
        return _TANH, query, key
    work = query.numel() * key.shape[-2]
    kernels = _COMPILED if compiling.worthwhile(work, query.device, learns=learns) else _RECIPROCAL
    return kernels, (2 * query).exp(), exponential


def _scores(query: Queries, key: Keys, vector: Float[Tensor, " h"]) -> Table:
    r = (1 + query[:, :, None, :] * key[:, None, :, :]).reciprocal()
    return vector.sum() - 2 * (r * vector).sum(-1)


def _query_side(query: Queries, key: Keys, slope: Table) -> tuple[Queries, Queries]:
    r = (1 + query[:, :, None, :] * key[:, None, :, :]).reciprocal()
    sloped = slope[..., None] * r
    return 4 * (sloped * (1 - r)).sum(2), slope.sum(-1, keepdim=True) - 2 * sloped.sum(2)


def _key_side(query: Queries, key: Keys, slope: Table) -> Keys:
    r = (1 + query[:, :, None, :] * key[:, None, :, :]).reciprocal()
    return 4 * (slope[..., None] * r * (1 - r)).sum(1)


_SIZES = ((17, 127, 257), (17, 131, 257))
_COMPILED = _Kernels(
    compiling.Compiled(_scores, *_SIZES, (257,)),
    compiling.Compiled(_query_side, *_SIZES, (17, 127, 131)),
    compiling.Compiled(_key_side, *_SIZES, (17, 127, 131)),
)


def _tiles(query: Queries, key: Keys) -> Iterator[tuple[slice, slice]]:
    """Examples and queries, a tile at a time: whole examples where they are small."""
    each = max(key.shape[1] * key.shape[2], 1)
    examples = max(TILE // max(each * query.shape[1], 1), 1)
    rows = max(TILE // each, 1) if examples == 1 else max(query.shape[1], 1)
    for example in range(0, query.shape[0], examples):
        for row in range(0, query.shape[1], rows):
            yield slice(example, example + examples), slice(row, row + rows)


def _reciprocal(query: Tensor, key: Tensor) -> Tensor:
    """t, from the exponentials: 1 - 2r."""
    r = torch.mul(query[:, :, None, :], key[:, None, :, :]).add_(1).reciprocal_()
    return r.mul_(-2).add_(1)


def _tangent(query: Tensor, key: Tensor) -> Tensor:
    """t, from what is projected."""
    return (query[:, :, None, :] + key[:, None, :, :]).tanh_()


def _in_tiles(tangent: Callable[[Tensor, Tensor], Tensor]) -> _Kernels:
    """The three sums in plain PyTorch, one tile of t at a time."""

    def scores(query: Queries, key: Keys, vector: Float[Tensor, " h"]) -> Table:
        found = query.new_empty(*query.shape[:2], key.shape[1])
        for example, row in _tiles(query, key):
            found[example, row] = tangent(query[example, row], key[example]) @ vector
        return found

    def query_side(query: Queries, key: Keys, slope: Table) -> tuple[Queries, Queries]:
        steep, values = torch.empty_like(query), torch.empty_like(query)
        for example, row in _tiles(query, key):
            t, g = tangent(query[example, row], key[example]), slope[example, row, None, :]
            values[example, row] = (g @ t).squeeze(-2)
            steep[example, row] = (g @ t.square_().neg_().add_(1)).squeeze(-2)
        return steep, values

    def key_side(query: Queries, key: Keys, slope: Table) -> Keys:
        found = torch.zeros_like(key)
        for example, row in _tiles(query, key):
            t = tangent(query[example, row], key[example])
            found[example] += t.square_().neg_().add_(1).mul_(slope[example, row, :, None]).sum(1)
        return found

    return _Kernels(scores, query_side, key_side)


_RECIPROCAL, _TANH = _in_tiles(_reciprocal), _in_tiles(_tangent)
