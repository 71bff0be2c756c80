"""The division of pairs into train, valid and test by what their source says, so that equal sources stay together."""

import hashlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from regard.data.pairs import Chosen, Pair, Pairs
from regard.errors import BadData

Part = Literal["train", "valid", "test"]
SHARE = 1 / 20
"""Of test, and of valid; the rest is to learn from."""


def mark(text: str, seed: int = 0) -> int:
    """64 bits that stand for a text: always the same, on every machine."""
    key = hashlib.blake2b(text.encode(), digest_size=8, salt=seed.to_bytes(16, "little", signed=True))
    return int.from_bytes(key.digest(), "little")


def part_of(text: str, seed: int = 0) -> Part:
    """The part of a text: 90, 5 and 5 of a hundred.

    >>> [part_of(text) for text in ("one", "two", "three")]
    ['train', 'test', 'train']
    """
    share = mark(text, seed) / 2**64
    return "test" if share < SHARE else "valid" if share < 2 * SHARE else "train"


def completed(
    parts: Mapping[str, Sequence[Pair]], seed: int = 0, *, file: str = "data"
) -> tuple[Sequence[Pair], Sequence[Pair], Sequence[Pair]]:
    """Train, valid and test, where what is not given is taken out of `parts["train"]`.

    Where there are so few sources that a part would be empty, it gets one of them.

    Raises:
        BadData: if there are fewer different sources than parts to make of them.
    """
    train = parts["train"]
    missing = [part for part in ("test", "valid") if part not in parts]
    if not missing:
        return train, parts["valid"], parts["test"]
    marks = marks_of(train, seed)
    rest = np.ones(len(marks), dtype=np.bool_)
    made = dict(parts)
    for part, chosen in _held(marks, missing, file).items():
        made[part] = Chosen(train, _places(chosen))
        rest &= ~chosen
    return Chosen(train, _places(rest)), made["valid"], made["test"]


def overlap(train: Sequence[Pair], test: Sequence[Pair], name: str = "test", seed: int = 0) -> str | None:
    """A warning with the number of sources that are in both, or None if there is none; any seed tells the same."""
    sources = np.unique(marks_of(test, seed))
    shared = int(np.isin(sources, np.unique(marks_of(train, seed))).sum())
    if not shared:
        return None
    return f"{shared} of {len(sources)} different {name} sources are also in training: scores on them measure memory"


def marks_of(pairs: Iterable[Pair], seed: int = 0) -> NDArray[np.uint64]:
    """The mark of each source: 8 bytes a pair."""
    found = pairs.marks(seed) if isinstance(pairs, Pairs) else None
    return np.fromiter((mark(pair.source, seed) for pair in pairs), dtype=np.uint64) if found is None else found


@final
class Marks:
    """Marks that are made while sources are read, so that they need not be read once more."""

    def __init__(self, seed: int) -> None:
        self.seed, self._found = seed, array("Q")

    def add(self, source: str) -> None:
        """One more."""
        self._found.append(mark(source, self.seed))

    def of(self, seed: int) -> NDArray[np.uint64] | None:
        """All of them, if they are of this seed."""
        return np.frombuffer(self._found, dtype=np.uint64) if seed == self.seed else None


def _held(marks: NDArray[np.uint64], missing: list[str], file: str) -> dict[str, NDArray[np.bool_]]:
    """Which pairs go into each missing part: a range of marks, or, if that does not come out, one mark."""
    bounds = [np.uint64(int(i * SHARE * 2**64)) for i in range(len(missing) + 1)]
    held = {part: (marks >= bounds[i]) & (marks < bounds[i + 1]) for i, part in enumerate(missing)}
    if all(chosen.any() for chosen in held.values()) and (marks >= bounds[-1]).any():
        return held
    different = np.unique(marks)
    if len(different) <= len(missing):
        reason = f"{len(different)} different sources: at least {len(missing) + 1} are needed to take "
        raise BadData(f"{reason}{' and '.join(missing)} out; give them as files of their own", file=file)
    return {part: marks == different[i] for i, part in enumerate(missing)}


def _places(chosen: NDArray[np.bool_]) -> Sequence[int]:
    places = array("q")
    places.frombytes(np.flatnonzero(chosen).astype(np.int64).tobytes())
    return places
