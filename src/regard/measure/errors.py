"""Error rates of sequences: by token, by sequence, by length.

What a rate is called depends on what a token and a sequence are:

    phoneme error rate     token rate, tokens are phonemes       (word to pronunciation)
    character error rate   token rate, tokens are characters
    word error rate        token rate, tokens are words          (sentences: speech, translation)
    word error rate        sequence rate, a sequence is a word   (word to pronunciation: words not exactly right)

The two last share a name in the literature and nothing else; here they are `token_rate` and `sequence_rate`.
A token rate may exceed 1.
"""

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

from regard.errors import BadData

Tokens = Sequence[Hashable]
"""A text (its characters), or a list of words, phonemes or token ids."""


@dataclasses.dataclass(frozen=True)
class ErrorRates:
    """Counts, from which the rates follow. Counts of parts add up: `+`.

    Attributes:
        edits: Insertions, deletions and substitutions, summed.
        tokens: Tokens of the references that were compared with.
        wrong: Sequences that are not exactly right.
        sequences: All sequences.
    """

    edits: int = 0
    tokens: int = 0
    wrong: int = 0
    sequences: int = 0

    @property
    def token_rate(self) -> float:
        """Edits for each reference token. Of no tokens at all: 0 without edits, otherwise infinite."""
        if not self.tokens:
            return float("inf") if self.edits else 0.0
        return self.edits / self.tokens

    @property
    def sequence_rate(self) -> float:
        """The share of sequences that are not exactly right; 0 of none."""
        return self.wrong / self.sequences if self.sequences else 0.0

    @property
    def exact_match(self) -> float:
        """The share of sequences that are exactly right; 0 of none."""
        return (self.sequences - self.wrong) / self.sequences if self.sequences else 0.0

    def __add__(self, other: "ErrorRates") -> "ErrorRates":
        return ErrorRates(
            self.edits + other.edits,
            self.tokens + other.tokens,
            self.wrong + other.wrong,
            self.sequences + other.sequences,
        )


def error_rates(outputs: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> ErrorRates:
    """Compares each output with the nearest of its references.

    The token rate is all edits over all reference tokens, not a mean of rates. The nearest reference is that of the
    fewest edits, the first listed of equals; its tokens are the ones that count. So a word with several
    pronunciations is right if it is any of them.

    Args:
        outputs: The sequences to judge.
        references: For each of them a list of one or more references.

    Raises:
        BadData: if there are not as many lists of references as outputs, one is empty, or texts are compared with
            lists of tokens.

    >>> rates = error_rates([["K", "AH", "T"], "dog"], [[["K", "AE", "T"]], ["dot", "dog"]])
    >>> rates
    ErrorRates(edits=1, tokens=6, wrong=1, sequences=2)
    >>> rates.sequence_rate
    0.5
    """
    if len(outputs) != len(references):
        raise BadData(f"{len(outputs)} outputs but {len(references)} lists of references: each output needs one")
    total = ErrorRates()
    for number, (output, several) in enumerate(zip(outputs, references, strict=True)):
        if isinstance(several, str) or not several:
            raise BadData(f"output {number} must have a list of one or more references, got {_shown(several)}")
        if any(isinstance(one, str) != isinstance(output, str) for one in several):
            raise BadData(
                f"output {number} is {_kind(output)}, but a reference is not: got {_shown(output)} and "
                f"{_shown(several)}; references are a list of such sequences"
            )
        edits, tokens = min(((edit_distance(output, one), len(one)) for one in several), key=lambda found: found[0])
        total += ErrorRates(edits, tokens, int(edits > 0), 1)
    return total


def edit_distance(a: Tokens, b: Tokens) -> int:
    """The fewest insertions, deletions and substitutions that turn `a` into `b` (Levenshtein).

    Computed a whole column at a time, its differences held as the bits of two numbers (Myers 1999, in the form of
    Hyyrö 2003).

    >>> edit_distance("kitten", "sitting")
    3
    """
    if not a or not b:
        return max(len(a), len(b))
    return _bits(a, b)


def _bits(a: Tokens, b: Tokens) -> int:
    places: dict[Hashable, int] = {}
    for place, token in enumerate(a):
        places[token] = places.get(token, 0) | 1 << place
    everything, last = (1 << len(a)) - 1, 1 << (len(a) - 1)
    up, down, distance = everything, 0, len(a)  # where the column rises and falls from one row to the next
    for token in b:
        same = places.get(token, 0)
        diagonal = (((same & up) + up) ^ up) | same | down
        right_up = down | ~(diagonal | up) & everything
        right_down = diagonal & up
        distance += bool(right_up & last) - bool(right_down & last)
        right_up = right_up << 1 | 1
        up = (right_down << 1 | ~(diagonal | right_up)) & everything
        down = right_up & diagonal & everything
    return distance


def _kind(tokens: Tokens) -> str:
    return "a text" if isinstance(tokens, str) else "a list of tokens"


def _shown(value: Any) -> str:
    return repr(value) if len(repr(value)) < 60 else f"{repr(value)[:57]}..."
