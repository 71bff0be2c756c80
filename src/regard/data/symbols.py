"""Generated lines of symbols, to be copied or turned round: what a decoder without attention forgets.

    copy          abcde → abcde         the letters a to t, at most 20 of them; copy:30 for at most 30
    reversal      abcde → edcba

Item `i` is a pure function of (seed, part, i). Lengths are even, from 1 to the longest, so that short lines, of
which there are few, may be in two parts; a line of 5 symbols or more is in two of them once in a thousand.
"""

import random
from collections.abc import Callable
from typing import final

from regard.data.pairs import Pair, Pairs, Splits
from regard.errors import RegardError

SYMBOLS = "abcdefghijklmnopqrst"
LONGEST, LIMIT = 20, 1000
KINDS: dict[str, Callable[[str], str]] = {"copy": str, "reversal": lambda line: line[::-1]}


def splits(spec: str, seed: int = 0, *, train: int = 100_000, valid: int = 1000, test: int = 2000) -> Splits:
    """The three parts of `copy` or `reversal`, or of either with its longest line behind a colon.

    Raises:
        RegardError: if the longest is not a number from 1 to 1,000.
    """
    name, _, variant = spec.partition(":")
    if variant and not (variant.isascii() and variant.isdigit() and 1 <= int(variant) <= LIMIT):
        raise RegardError(f"{spec}: behind {name} stands the longest line, a number from 1 to {LIMIT:,}")
    longest = int(variant or LONGEST)
    made = (
        Symbols(name, longest, seed, "train", train),
        Symbols(name, longest, seed, "valid", valid),
        Symbols(name, longest, seed, "test", test),
    )
    return Splits(*made, name=spec, description=f"Lines of 1 to {longest} symbols: {name}")


@final
class Symbols(Pairs):
    """Lines, each made when it is asked for."""

    def __init__(self, kind: str, longest: int, seed: int, part: str, size: int) -> None:
        self.kind, self.longest, self.seed, self.part, self.size = kind, longest, seed, part, size

    def __len__(self) -> int:
        return self.size

    def pair(self, index: int) -> Pair:
        drawn = random.Random(f"{self.seed}:{self.part}:{index}")
        line = "".join(drawn.choices(SYMBOLS, k=drawn.randint(1, self.longest)))
        return Pair(line, KINDS[self.kind](line))
