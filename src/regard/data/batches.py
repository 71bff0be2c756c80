"""Batches of ids: encoded splits, and rectangles of padded numbers.

Axes: `batch` of examples, `n` source positions, `m` target positions.
"""

from collections.abc import Sequence
from typing import NamedTuple, final, overload

import torch
from jaxtyping import Int
from torch import Tensor

from regard.data.pairs import Pair
from regard.data.plan import Plan, TooLong
from regard.data.tokens import END, PAD, Tokeniser

__all__ = ["Batch", "Examples", "Plan", "TooLong", "collate"]


class Batch(NamedTuple):
    """Some examples side by side, int64. Source and target end with END; behind it is PAD.

    Attributes:
        source: (batch, n).
        source_length: (batch,), with END.
        target: (batch, m), without BEGIN.
        target_length: (batch,), with END.
        index: (batch,), which examples of the split these are.
    """

    source: Int[Tensor, "batch n"]
    source_length: Int[Tensor, " batch"]
    target: Int[Tensor, "batch m"]
    target_length: Int[Tensor, " batch"]
    index: Int[Tensor, " batch"]  # type: ignore[assignment]  # hides tuple.index, which no batch needs


@final
class Examples(Sequence[tuple[list[int], list[int]]]):
    """A split as ids: (source, target), each ending with END. A pair is encoded when it is first asked for, and kept.

    >>> from regard.data.pairs import Pair
    >>> letters = Tokeniser.train(["ab", "ba"], "characters")
    >>> examples = Examples([Pair("ab", "b"), Pair("a", "bab")], letters, letters)
    >>> examples[0], list(examples.lengths)
    (([4, 5, 3], [5, 3]), [(3, 2), (2, 4)])
    >>> examples.batch([1, 0]).target
    tensor([[5, 4, 5, 3],
            [5, 3, 0, 0]])
    """

    def __init__(self, pairs: Sequence[Pair], source: Tokeniser, target: Tokeniser, *, keep: int = 1_000_000) -> None:
        """Takes the pairs, one tokeniser for each side, and how many encoded pairs to keep at most."""
        self.pairs, self.source, self.target, self.keep = pairs, source, target, keep
        self._kept: dict[int, tuple[list[int], list[int]]] = {}

    def __len__(self) -> int:
        return len(self.pairs)

    @overload
    def __getitem__(self, index: int) -> tuple[list[int], list[int]]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[list[int], list[int]]]: ...
    def __getitem__(self, index: int | slice) -> tuple[list[int], list[int]] | list[tuple[list[int], list[int]]]:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        place = range(len(self))[index]
        found = self._kept.get(place)
        if found is None:
            pair = self.pairs[place]
            found = self.source.encode(pair.source), self.target.encode(pair.target)
            if len(self._kept) >= self.keep > 0:
                del self._kept[next(iter(self._kept))]
            if self.keep > 0:
                self._kept[place] = found
        return found

    @property
    def lengths(self) -> "Sequence[tuple[int, int]]":
        """The lengths of source and target of each example, END included: what `Plan` asks for."""
        return _Lengths(self)

    def batch(self, index: Sequence[int], *, longest: int | None = None) -> Batch:
        """These examples as a batch; see `collate`."""
        return collate([self[i] for i in index], index, longest=longest)


def collate(
    examples: Sequence[tuple[Sequence[int], Sequence[int]]], index: Sequence[int], *, longest: int | None = None
) -> Batch:
    """Puts examples side by side.

    Args:
        examples: The ids of source and target, each ending with END.
        index: Which examples of the split these are.
        longest: Cuts each side to this length, END included. Nothing is cut without it.

    Raises:
        ValueError: if there is no example, or not one index for each, or one does not end with END.
    """
    if not examples or len(examples) != len(index):
        raise ValueError(f"{len(examples)} examples and {len(index)} indices: expected as many, at least one")
    source, source_length = _rectangle([s for s, _ in examples], longest)
    target, target_length = _rectangle([t for _, t in examples], longest)
    return Batch(source, source_length, target, target_length, torch.tensor(list(index)))


@final
class _Lengths(Sequence[tuple[int, int]]):
    def __init__(self, examples: Examples) -> None:
        self.examples = examples

    def __len__(self) -> int:
        return len(self.examples)

    @overload
    def __getitem__(self, index: int) -> tuple[int, int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[int, int]]: ...
    def __getitem__(self, index: int | slice) -> tuple[int, int] | list[tuple[int, int]]:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        source, target = self.examples[index]
        return len(source), len(target)


def _rectangle(rows: Sequence[Sequence[int]], longest: int | None) -> tuple[Tensor, Tensor]:
    for row in rows:
        if not row or row[-1] != END:
            raise ValueError(f"the ids {list(row[-3:])} do not end with END ({END})")
    cut = [row if longest is None or len(row) <= longest else [*row[: longest - 1], END] for row in rows]
    width = max(map(len, cut))
    padded = [[*row, *[PAD] * (width - len(row))] for row in cut]
    return torch.tensor(padded), torch.tensor([len(row) for row in cut])
