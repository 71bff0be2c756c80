"""Which examples go into which batch: bounded by tokens, alike in length, a pure function of (seed, epoch).

An epoch is an order of all examples, cut into pools; a pool is sorted by length, cut into batches, and its batches
are put into a new order. A pool's lengths are asked for when its turn comes: a split may be lazy and large.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, final

import numpy as np

from regard.errors import BadData, RegardError

TooLong = Literal["error", "truncate", "skip"]
Lengths = Sequence[int] | Sequence[tuple[int, ...]]


@final
class Plan:
    """Batches of examples. Every example is in exactly one batch of an epoch.

    >>> plan = Plan([3, 1, 2, 9, 1], tokens=6, seed=0)
    >>> sorted(sorted(batch) for batch in plan.epoch(0))
    [[0], [1, 2, 4], [3]]
    >>> plan.epoch(0) == plan.epoch(0)
    True

    Attributes:
        too_long: Which examples, of those met so far, are longer than `longest`.
    """

    def __init__(
        self,
        lengths: Lengths,
        tokens: int = 4096,
        *,
        examples: int | None = None,
        seed: int = 0,
        longest: int | None = None,
        too_long: TooLong = "error",
        pool: int | None = None,
    ) -> None:
        """Checks the settings.

        Args:
            lengths: Of each example: one number, or one for each side (source and target).
            tokens: The most tokens in a batch, padding included: its size times the sum over the sides of the
                greatest length. An example that is longer than that is alone.
            examples: The number of examples in a batch, instead of a number of tokens.
            seed: Of the order.
            longest: The greatest length of a side.
            too_long: What to do with an example that is longer than that: stop, count it as `longest` (and have
                `collate` cut it), or leave it out.
            pool: How many examples are sorted at a time. More waste less padding, and a lazy split needs longer to
                begin. By default 8,192, or twice `tokens` if that is more.
        """
        for name, value in {"tokens": tokens, "examples": examples, "longest": longest, "pool": pool}.items():
            if value is not None and value < 1:
                raise RegardError(f"{name}={value}: expected at least 1")
        if seed < 0:
            raise RegardError(f"seed={seed}: expected at least 0")
        if not len(lengths):
            raise RegardError("no examples: expected at least one")
        self.lengths, self.tokens, self.examples, self.seed = lengths, tokens, examples, seed
        self.longest, self.when_too_long = longest, too_long
        self.pool = pool or max(8192, 2 * tokens)
        self.too_long: set[int] = set()

    def epoch(self, epoch: int) -> list[list[int]]:
        """The batches of an epoch, as numbers of examples."""
        return list(self.batches(epoch))

    def batches(self, epoch: int) -> Iterator[list[int]]:
        """The same, one by one: what a large split needs."""
        random = np.random.Generator(np.random.Philox(np.random.SeedSequence([self.seed, epoch])))
        order = random.permutation(len(self.lengths))
        for start in range(0, len(order), self.pool):
            pool = order[start : start + self.pool].tolist()
            cut = self._cut({i: length for i in pool if (length := self._length(i)) is not None})
            for place in random.permutation(len(cut)):
                yield cut[place]

    def _cut(self, lengths: dict[int, tuple[int, ...]]) -> list[list[int]]:
        """One pool in batches."""
        batches: list[list[int]] = []
        greatest: tuple[int, ...] = ()
        for i in sorted(lengths, key=lambda i: _snake(lengths[i])):
            wider = tuple(map(max, greatest, lengths[i])) if greatest else lengths[i]
            if batches and self._fits(len(batches[-1]) + 1, sum(wider)):
                batches[-1].append(i)
                greatest = wider
            else:
                batches.append([i])
                greatest = lengths[i]
        return batches

    def _fits(self, count: int, width: int) -> bool:
        return count * width <= self.tokens if self.examples is None else count <= self.examples

    def _length(self, index: int) -> tuple[int, ...] | None:
        """The length of an example on each side, or None if it is left out."""
        length = self.lengths[index]
        sides = (length,) if isinstance(length, (int, np.integer)) else tuple(length)
        if self.longest is None or max(sides) <= self.longest:
            return sides
        self.too_long.add(index)
        if self.when_too_long == "skip":
            return None
        if self.when_too_long == "truncate":
            return tuple(min(side, self.longest) for side in sides)
        lengths = " and ".join(str(side) for side in sides)
        reason = f"example {index} has {lengths} tokens, more than longest={self.longest}: raise it, or cut or leave "
        raise BadData(reason + "out such examples with too_long='truncate' or 'skip'")


def _snake(sides: tuple[int, ...]) -> tuple[int, ...]:
    """The order within a pool: by the first side, and up and down the second, so that neighbours are alike in both."""
    up = 1 if sides[0] % 2 else -1
    return (sides[0], *(up * side for side in sides[1:]))
