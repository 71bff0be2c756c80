"""Alignments against those that people made: the alignment error rate.

A gold alignment has sure links, S, on which the annotators agree, and possible ones, P, which may be missing without
harm; every sure link is possible too. For links A that a model gives (Och and Ney 2003)

    precision = |A ∩ P| / |A|      recall = |A ∩ S| / |S|      AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

A link is a pair (source, target) of word positions from 0.
"""

import dataclasses
import re
from collections.abc import Iterable, Sequence

from regard.errors import BadData

Link = tuple[int, int]
LINK = re.compile(r"(\d+)([-?p])(\d+)(?:[-/]([SP]))?")


@dataclasses.dataclass(frozen=True)
class Gold:
    """What people drew for one pair of sentences.

    Attributes:
        sure: The sure links.
        possible: The possible links; the sure ones need not be among them.
    """

    sure: frozenset[Link]
    possible: frozenset[Link] = frozenset()


@dataclasses.dataclass(frozen=True)
class AlignmentError:
    """Counts, from which the rates follow. Counts of parts add up: `+`.

    Attributes:
        links: |A|, the links to judge.
        sure: |S|.
        found_sure: |A ∩ S|.
        found_possible: |A ∩ P|.
    """

    links: int = 0
    sure: int = 0
    found_sure: int = 0
    found_possible: int = 0

    @property
    def rate(self) -> float:
        """The alignment error rate; 0 where there is no link on either side."""
        both = self.links + self.sure
        return 1 - (self.found_sure + self.found_possible) / both if both else 0.0

    @property
    def precision(self) -> float:
        """The share of the given links that are possible; 1 of none."""
        return self.found_possible / self.links if self.links else 1.0

    @property
    def recall(self) -> float:
        """The share of the sure links that are given; 1 of none."""
        return self.found_sure / self.sure if self.sure else 1.0

    def __add__(self, other: "AlignmentError") -> "AlignmentError":
        return AlignmentError(
            self.links + other.links,
            self.sure + other.sure,
            self.found_sure + other.found_sure,
            self.found_possible + other.found_possible,
        )


def alignment_error(given: Sequence[Iterable[Link]], gold: Sequence[Gold]) -> AlignmentError:
    """Compares the links of each pair of sentences with the gold ones; the counts are summed over all.

    Raises:
        BadData: if there are not as many gold alignments as given ones.

    >>> found = alignment_error([[(0, 0), (1, 2)]], [read_gold("0-0 1-1 1?2")])
    >>> (round(found.rate, 4), found.precision, found.recall)
    (0.25, 1.0, 0.5)
    """
    if len(given) != len(gold):
        raise BadData(f"{len(given)} alignments but {len(gold)} gold ones: each pair of sentences needs one")
    total = AlignmentError()
    for links, right in zip(given, gold, strict=True):
        drawn = set(links)
        possible = right.sure | right.possible
        total += AlignmentError(len(drawn), len(right.sure), len(drawn & right.sure), len(drawn & possible))
    return total


def read_gold(
    text: str,
    *,
    first: int = 0,
    words: tuple[int, int] | None = None,
    file: str | None = None,
    line: int | None = None,
) -> Gold:
    """Reads the alignment of one pair of sentences, `source-target` links with a space between.

    A sure link is `3-4`, `3-4-S` or `3-4/S`; a possible one `3?4`, `3p4`, `3-4-P` or `3-4/P`.

    Args:
        text: One line.
        first: The number of the first word: 1 for alignments that count from 1.
        words: How many words the source and the target have, where a link outside of them is to be refused.
        file: Where the line comes from, for the error.
        line: Its number there, from 1.

    Raises:
        BadData: if the line holds anything else, or a link outside of the sentences.

    >>> gold = read_gold("0-0 1?1 2-1/P")
    >>> (sorted(gold.sure), sorted(gold.possible))
    ([(0, 0)], [(1, 1), (2, 1)])
    """
    sure: set[Link] = set()
    possible: set[Link] = set()
    for word in text.split():
        match = LINK.fullmatch(word)
        if match is None or (match[4] and match[2] != "-"):
            raise BadData(
                f"{word!r} is not a link: write 3-4 or 3-4-S for a sure one, 3?4 or 3-4-P for a possible one",
                file=file,
                line=line,
            )
        link = (int(match[1]) - first, int(match[3]) - first)
        if min(link) < 0:
            raise BadData(f"{word!r} is before the first word, which has the number {first}", file=file, line=line)
        if words is not None and not (link[0] < words[0] and link[1] < words[1]):
            reason = f"{word!r} is outside of the pair, of {words[0]} and {words[1]} words (white space parts them)"
            raise BadData(f"{reason}: the numbers begin at {first}", file=file, line=line)
        (possible if match[2] != "-" or match[4] == "P" else sure).add(link)
    return Gold(frozenset(sure), frozenset(possible))
