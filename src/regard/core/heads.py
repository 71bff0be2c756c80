"""Attention with heads: projections, the operation, and an output projection, in one module.

Axes: `*batch` of the caller, `m` queries, `n` keys, `width` of the model; inside, heads are the last batch
axis: (*batch, heads, m, head width).
"""

from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.cache import Cache
from regard.core.compare import scaled_dot
from regard.core.errors import explained, whole
from regard.core.local import Factor
from regard.core.operation import attend, weights
from regard.core.score import Prepared, Score, as_score, sound_rows
from regard.core.weigh import Weigh, as_weigh, softmax
from regard.core.where import Where, as_where, everywhere


class Projections(nn.Module):
    """The four maps around the operation: query, key and value in, output out.

    Each takes (*batch, k, width of what comes) to (*batch, k, width of what goes). The query's must give
    `heads` heads, the key's and the value's `key_heads`.
    """

    def __init__(self, query: nn.Module, key: nn.Module, value: nn.Module, output: nn.Module) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = query, key, value, output

    @classmethod
    def linear(
        cls,
        width: int,
        heads: int,
        *,
        key_heads: int | None = None,
        head_width: int | None = None,
        source_width: int | None = None,
        bias: bool = True,
    ) -> "Projections":
        """Linear maps: heads of `head_width` (width / heads unless given), keys from `source_width` (width)."""
        head = _head_width(width, heads) if head_width is None else whole(head_width, "head_width", least=1)
        shared = heads if key_heads is None else key_heads
        source = width if source_width is None else source_width
        return cls(
            query=nn.Linear(width, heads * head, bias=bias),
            key=nn.Linear(source, shared * head, bias=bias),
            value=nn.Linear(source, shared * head, bias=bias),
            output=nn.Linear(heads * head, width, bias=bias),
        )


class Source(NamedTuple):
    """Keys and values that are already projected: `heads.prepare(source)`, once for all decoding steps."""

    key: Prepared
    value: Float[Tensor, "*batch n d_v"]

    def map(self, change: Callable[[Tensor], Tensor]) -> "Source":
        """The same keys and values after a change of their batch axes."""
        return Source(self.key.map(change), change(self.value))


class Heads(nn.Module):
    """Multi-head attention (Vaswani et al. 2017, arXiv:1706.03762), from parts.

    `key_heads=heads` is multi-head, `key_heads=1` multi-query (arXiv:1911.02150), in between grouped-query
    (arXiv:2305.13245): query head h reads key head ⌊h · key_heads / heads⌋.

    What is not finite in a row of the input is taken out before each projection and marked after it, so that
    a NaN in padding reaches no weight's gradient.

    Args:
        width: The width of the model.
        heads: How many heads the queries have.
        key_heads: How many heads the keys and values have; as many unless given.
        projections: The four maps; linear ones with biases unless given.
        score: How well a query matches a key, inside each head.
        where: Which keys a query may see, in every call. A call may narrow it further.
        weigh: How scores become weights.
        position: Applied to queries and keys of each head, such as `Rotary(width // heads)`.
        dropout: The share of weights set to 0 in training.

    >>> import torch
    >>> from regard import Heads, Rotary, causal
    >>> layer = Heads(32, 4, key_heads=2, where=causal, position=Rotary(8))
    >>> layer(torch.randn(2, 5, 32)).shape
    torch.Size([2, 5, 32])
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        key_heads: int | None = None,
        projections: Projections | None = None,
        score: Score = scaled_dot,
        where: Where = everywhere,
        weigh: Weigh = softmax,
        position: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.width = whole(width, "Heads: width", least=1)
        self.heads = whole(heads, "Heads: heads", least=1)
        self.key_heads = heads if key_heads is None else whole(key_heads, "Heads: key_heads", least=1)
        if heads % self.key_heads:
            raise ValueError(f"Heads: key_heads must divide heads, got {heads} heads and {key_heads} key heads")
        if not 0 <= dropout < 1:
            raise ValueError(f"Heads: dropout must be at least 0 and below 1, got {dropout}")
        self.projections = projections or Projections.linear(width, heads, key_heads=self.key_heads)
        self.score = as_score(score, "Heads: score")
        self.where = as_where(where, "Heads: where")
        self.weigh = as_weigh(weigh)
        self.position = position
        self.dropout = dropout

    def forward(
        self,
        query: Tensor,
        key: Tensor | Source | None = None,
        value: Tensor | None = None,
        *,
        where: Where = everywhere,
        first: int | Tensor = 0,
        after: Tensor | Factor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """Looks from each query at the keys.

        Args:
            query: (*batch, m, width).
            key: (*batch, n, source width), or what `prepare` made of it; the queries themselves unless given.
            value: (*batch, n, source width); the keys unless given.
            where: Narrows `self.where`. Tensors in it have the batch axes of this call, and apply to every
                head, or those and heads.
            first: The position of the first query. With a cache it is the cache's length.
            after: Multiplies the weights, in the axes of the call with heads, (*batch, heads, m, n).
            cache: Keys and values so far, for self-attention step by step; those of this call are appended.

        Returns:
            (*batch, m, width).

        Raises:
            ValueError: if arguments do not fit each other.
        """
        asked, at, within = self._ready(query, key, where, first, cache)
        if isinstance(key, Source):
            seen: Tensor | Prepared = key.key
            taken = key.value
        else:
            source = query if key is None else key
            keys = self._keys(source, at if key is None else 0)
            values = self._values(source if value is None else value)
            if cache is not None:
                keys, values = cache.extend(keys, values)
            seen, taken = self._shared(keys), self._shared(values)
        dropout = self.dropout if self.training else 0.0
        looked = attend(
            asked,
            seen,
            taken,
            score=self.score,
            where=within,
            weigh=self.weigh,
            first=at,
            after=after,
            dropout=dropout,
        )
        return projected(self.projections.output, looked.transpose(-2, -3).flatten(-2))

    def weights(
        self,
        query: Tensor,
        key: Tensor | Source | None = None,
        *,
        where: Where = everywhere,
        first: int | Tensor = 0,
        cache: Cache | None = None,
    ) -> Tensor:
        """The weights of each head, (*batch, heads, m, n), before `after` and dropout. Arguments as in a call.

        A cache is read, not extended: the keys of `query` are seen beside those it holds.
        """
        asked, at, within = self._ready(query, key, where, first, cache)
        if not isinstance(key, Source):
            keys = self._keys(query if key is None else key, at if key is None else 0)
            if cache is not None:
                keys = torch.cat([cache.key, keys], -2)
        seen = key.key if isinstance(key, Source) else self._shared(keys)
        return weights(asked, seen, score=self.score, where=within, weigh=self.weigh, first=at)

    def prepare(self, key: Tensor, value: Tensor | None = None) -> Source:
        """Projects keys and values once, for many calls: a decoder's cross-attention.

        A `position` turns the keys as standing at 0 and after.
        """
        keys = self._shared(self._keys(key, first=0))
        return Source(self.score.prepare(keys), self._shared(self._values(key if value is None else value)))

    def cache(self, *batch: int, longest: int) -> Cache:
        """An empty cache for this module, with room for `longest` positions of each example."""
        whole(longest, "Heads.cache: longest", least=0)
        like = next(self.parameters(), torch.empty(0))
        with torch.no_grad():
            probe = torch.zeros(1, self.width, dtype=like.dtype, device=like.device)
            key, value = self._keys(probe, 0), self._values(probe)
        room = (*batch, self.key_heads, longest)
        return Cache(key.new_zeros(*room, key.shape[-1]), value.new_zeros(*room, value.shape[-1]))

    def _ready(
        self, query: Tensor, key: Tensor | Source | None, where: Where, first: int | Tensor, cache: Cache | None
    ) -> tuple[Tensor, int | Tensor, Where]:
        """Checks how a call is made; the queries by head, where they stand, and what they may see."""
        if cache is not None and key is not None:
            raise ValueError("Heads: a cache is for self-attention: give query and cache, or query and key")
        if cache is not None and not (isinstance(first, int) and first in (0, cache.length)):
            raise ValueError(
                f"Heads: with a cache the first query stands at its length {cache.length}, got first={first}"
            )
        if query.ndim < 2 or query.shape[-1] != self.width:
            raise ValueError(f"Heads: queries must be (*batch, m, {self.width}), got shape {tuple(query.shape)}")
        first = cache.length if cache is not None else first
        first = first[..., None] if isinstance(first, Tensor) and first.ndim else first
        batch_axes = query.ndim - 2
        with explained("Heads", query=query, where=where):
            within = self.where.per_head(batch_axes) & as_where(where).per_head(batch_axes)
        return self._placed(self._split(self.projections.query, query, self.heads), first), first, within

    def _keys(self, source: Tensor, first: int | Tensor) -> Tensor:
        return self._placed(self._split(self.projections.key, source, self.key_heads), first)

    def _values(self, source: Tensor) -> Tensor:
        return self._split(self.projections.value, source, self.key_heads)

    def _split(self, layer: nn.Module, vectors: Tensor, heads: int) -> Tensor:
        mapped = projected(layer, vectors)
        return mapped.reshape(*mapped.shape[:-1], heads, _head_width(mapped.shape[-1], heads)).transpose(-2, -3)

    def _placed(self, vectors: Tensor, first: int | Tensor) -> Tensor:
        return vectors if self.position is None else cast(Tensor, self.position(vectors, first=first))

    def _shared(self, keys: Tensor) -> Tensor:
        """Each key head once for every query head that reads it."""
        groups = self.heads // self.key_heads
        return keys if groups == 1 else keys.repeat_interleave(groups, dim=-3)


def projected(layer: nn.Module, vectors: Tensor) -> Tensor:
    """A layer applied to every row that is finite; NaN in the others, which reach none of its gradients."""
    sound, clean = sound_rows(vectors)
    mapped = cast(Tensor, layer(clean))
    return mapped if sound is None else torch.where(sound[..., None], mapped, torch.nan)


def _head_width(width: int, heads: int) -> int:
    if width % heads:
        raise ValueError(f"Heads: a width of {width} does not divide into {heads} heads")
    return width // heads
