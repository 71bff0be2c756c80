"""Any measure by length: the figure by which attention was shown to hold where a fixed vector fails.

Bahdanau et al. 2015, figure 2: BLEU against the length of the source sentence.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class Bucket(Generic[Result]):
    """The examples whose length is at least `low` and below `high`.

    Attributes:
        low: The least length.
        high: The first length that is too much, or None for no end.
        members: Which examples, by number.
        result: What was measured on them; None where there are none.
    """

    low: int
    high: int | None
    members: list[int]
    result: Result | None

    @property
    def count(self) -> int:
        """How many examples."""
        return len(self.members)

    @property
    def name(self) -> str:
        """The lengths in words, the last one included: `10-19`, `20+`."""
        if self.high is None:
            return f"{self.low}+"
        return f"{self.low}" if self.high == self.low + 1 else f"{self.low}-{self.high - 1}"


def by_length(
    measure: Callable[..., Result], lengths: Sequence[int], edges: Sequence[int], *columns: Sequence[Any]
) -> list[Bucket[Result]]:
    """Measures the examples of each range of lengths by themselves.

    Args:
        measure: Called for each bucket that has examples, with its part of every column.
        lengths: The length of each example, by which it is sorted.
        edges: Where a new bucket begins. The first begins at 0, the last has no end: `edges` 10, 20 make three.
        columns: What `measure` is given, each as long as `lengths`: the outputs, the references.

    Returns:
        The buckets, shortest first, those without examples included.

    Raises:
        ValueError: if the edges do not rise from 1 on, or a column does not have one entry for each length.

    >>> def accuracy(outputs, wanted):
    ...     return sum(a == b for a, b in zip(outputs, wanted)) / len(outputs)
    >>> found = by_length(accuracy, [3, 12, 4], [5, 10], ["a", "b", "c"], ["a", "b", "x"])
    >>> [(bucket.name, bucket.count, bucket.result) for bucket in found]
    [('0-4', 2, 0.5), ('5-9', 0, None), ('10+', 1, 1.0)]
    """
    starts = [0, *edges]
    if any(a >= b for a, b in itertools.pairwise(starts)):
        raise ValueError(f"by_length: edges must rise, and from 1 on, got {list(edges)}")
    for place, column in enumerate(columns):
        if len(column) != len(lengths):
            raise ValueError(f"by_length: {len(lengths)} lengths but {len(column)} entries in column {place}")
    found = []
    for low, high in zip(starts, [*starts[1:], None], strict=True):
        members = [i for i, length in enumerate(lengths) if low <= length and (high is None or length < high)]
        result = measure(*([column[i] for i in members] for column in columns)) if members else None
        found.append(Bucket(low, high, members, result))
    return found
