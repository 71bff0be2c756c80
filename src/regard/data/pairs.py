"""What data is here: pairs of texts, a sequence of them for each split, and where they came from."""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple, final, overload

import numpy as np
from numpy.typing import NDArray


class Pair(NamedTuple):
    """One example: a text and what it is to become."""

    source: str
    target: str


@dataclass(frozen=True)
class Splits:
    """A data set, divided.

    Attributes:
        train: To learn from.
        valid: To choose by.
        test: To report on.
        name: What was asked for.
        licence: As its source states it; empty for a user's own files.
        description: What it is and where it comes from.
        references: Every allowed target of a source of `valid` or `test`, where there are several.
        warnings: What the user should know, such as an overlap of training and test.
    """

    train: Sequence[Pair]
    valid: Sequence[Pair]
    test: Sequence[Pair]
    name: str
    licence: str = ""
    description: str = ""
    references: Mapping[str, list[str]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Pairs(Sequence[Pair], ABC):
    """A sequence of pairs that makes each one when it is asked for.

    Attributes:
        skipped: How many rows were left out because one side was empty.
    """

    skipped: int = 0

    def marks(self, seed: int) -> NDArray[np.uint64] | None:
        """The mark of each source (see `divide.py`), where reading has made them; None where it has not."""
        del seed
        return None

    @abstractmethod
    def pair(self, index: int) -> Pair:
        """The pair at `index`, which is at least 0 and below the length."""

    @overload
    def __getitem__(self, index: int) -> Pair: ...
    @overload
    def __getitem__(self, index: slice) -> "Pairs": ...
    @final
    def __getitem__(self, index: int | slice) -> "Pair | Pairs":
        if isinstance(index, slice):
            return Chosen(self, range(len(self))[index])
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"index {index}: there are {len(self)} pairs")
        return self.pair(place)


@final
class Chosen(Pairs):
    """Some pairs of another sequence, in the order of `indices`.

    >>> list(Chosen([Pair("a", "1"), Pair("b", "2"), Pair("c", "3")], [2, 0]))
    [Pair(source='c', target='3'), Pair(source='a', target='1')]
    """

    def __init__(self, pairs: Sequence[Pair], indices: Sequence[int]) -> None:
        self.pairs, self.indices = pairs, indices

    def __len__(self) -> int:
        return len(self.indices)

    def marks(self, seed: int) -> NDArray[np.uint64] | None:
        """Those of the chosen ones."""
        found = self.pairs.marks(seed) if isinstance(self.pairs, Pairs) else None
        return None if found is None else found[np.asarray(self.indices, dtype=np.int64)]

    def pair(self, index: int) -> Pair:
        return self.pairs[int(self.indices[index])]


@final
class Chain(Pairs):
    """Several sequences, one after the other."""

    def __init__(self, parts: Sequence[Pairs]) -> None:
        self.parts = parts
        self.skipped = sum(part.skipped for part in parts)
        self._ends = list(accumulate(len(part) for part in parts))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def marks(self, seed: int) -> NDArray[np.uint64] | None:
        """Those of all parts."""
        found = [part.marks(seed) for part in self.parts]
        made = [marks for marks in found if marks is not None]
        return np.concatenate(made) if made and len(made) == len(found) else None

    def pair(self, index: int) -> Pair:
        part = bisect_right(self._ends, index)
        return self.parts[part].pair(index - (self._ends[part - 1] if part else 0))
