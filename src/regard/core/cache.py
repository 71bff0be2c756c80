"""Keys and values of the positions already seen, kept between the steps of a decoder.

A cache stands beside the module that fills it: training code never sees one. `Heads.cache` makes it.

Axes: `*batch` (with key heads last), `longest` positions of which the first `length` are filled.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from regard.core.errors import whole


class Cache:
    """Room for the keys and values of `longest` positions, all of it allocated at once.

    Without gradients a step is written in place; with them a new tensor is made at each step, so that a
    gradient through earlier steps is right.

    Args:
        key: (*batch, longest, d_k), storage.
        value: (*batch, longest, d_v), storage.
    """

    def __init__(self, key: Tensor, value: Tensor) -> None:
        if key.shape[:-1] != value.shape[:-1]:
            raise ValueError(
                f"Cache: keys and values need the same batch axes and room, "
                f"got {tuple(key.shape)} and {tuple(value.shape)}"
            )
        self._key, self._value = key, value
        self._length = self._given = 0

    @property
    def length(self) -> int:
        """How many positions are filled; the next query stands there."""
        return self._length

    @property
    def longest(self) -> int:
        """How many positions there is room for."""
        return self._key.shape[-2]

    @property
    def key(self) -> Float[Tensor, "*batch length d_k"]:
        """The keys so far."""
        return self._key[..., : self._length, :]

    @property
    def value(self) -> Float[Tensor, "*batch length d_v"]:
        """The values so far."""
        return self._value[..., : self._length, :]

    def extend(
        self, key: Float[Tensor, "*batch new d_k"], value: Float[Tensor, "*batch new d_v"]
    ) -> tuple[Float[Tensor, "*batch length d_k"], Float[Tensor, "*batch length d_v"]]:
        """Appends the keys and values of the next positions, and returns all so far.

        Raises:
            ValueError: if they do not fit the storage, or there is no room left.
        """
        for name, new, kept in (("keys", key, self._key), ("values", value, self._value)):
            if new.shape[:-2] != kept.shape[:-2] or new.shape[-1] != kept.shape[-1] or new.dtype != kept.dtype:
                raise ValueError(
                    f"Cache: made for {name} {tuple(kept.shape)} {kept.dtype}, got {tuple(new.shape)} {new.dtype}"
                )
        start, stop = self._length, self._length + key.shape[-2]
        if stop > self.longest:
            raise ValueError(
                f"Cache: holds {self.longest} positions, {start} are filled and {key.shape[-2]} came: make it longer"
            )
        fresh = start >= self._given
        self._key = _written(self._key, start, key, fresh=fresh)
        self._value = _written(self._value, start, value, fresh=fresh)
        self._length, self._given = stop, max(stop, self._given)
        return self.key, self.value

    def map(self, change: Callable[[Tensor], Tensor]) -> None:
        """Changes the batch axes, as a beam does when it reorders its hypotheses.

        >>> import torch
        >>> cache = Cache(torch.zeros(3, 2, 9, 4), torch.zeros(3, 2, 9, 4))
        >>> cache.map(lambda t: t[torch.tensor([2, 2, 0])])
        """
        self._key, self._value = change(self._key), change(self._value)

    def rewind(self, length: int) -> None:
        """Forgets every position from `length` on.

        Raises:
            ValueError: if fewer positions are filled.
        """
        if whole(length, "Cache.rewind: length", least=0) > self._length:
            raise ValueError(f"Cache: {self._length} positions are filled, cannot rewind to {length}")
        self._length = length

    def __repr__(self) -> str:
        return f"Cache({self._length} of {self.longest}, keys {tuple(self._key.shape)})"


def _written(storage: Tensor, start: int, new: Tensor, *, fresh: bool) -> Tensor:
    """The storage with new positions; in places that nobody has been given yet it is not counted as a change."""
    stop = start + new.shape[-2]
    if torch.is_grad_enabled() and (new.requires_grad or storage.requires_grad):
        return torch.cat([storage[..., :start, :], new, storage[..., stop:, :]], -2)
    (storage.data if fresh else storage)[..., start:stop, :] = new
    return storage
