"""The alignment error rate against its definition and the cases worked in the literature's own terms."""

import re

import pytest

from regard.errors import BadData
from regard.measure.alignment import AlignmentError, Gold, alignment_error, read_gold


def test_the_definition():
    """|A| = 4, |S| = 3, |A∩S| = 2, |A∩P| = 3."""
    gold = Gold(frozenset({(0, 0), (1, 1), (2, 2)}), frozenset({(3, 2), (3, 3)}))
    found = alignment_error([[(0, 0), (1, 1), (3, 3), (4, 0)]], [gold])
    assert found == AlignmentError(links=4, sure=3, found_sure=2, found_possible=3)
    assert found.rate == pytest.approx(1 - 5 / 7, abs=1e-15)
    assert (found.precision, found.recall) == (3 / 4, 2 / 3)


def test_the_ends_of_the_scale():
    gold = read_gold("0-0 1-1 2?1")
    assert alignment_error([[(0, 0), (1, 1)]], [gold]).rate == 0.0
    assert alignment_error([[(0, 0), (1, 1), (2, 1)]], [gold]).rate == 0.0  # possible links do no harm
    assert alignment_error([[(2, 0)]], [gold]).rate == 1.0
    assert alignment_error([[]], [gold]).rate == 1.0
    nothing = alignment_error([[]], [read_gold("")])
    assert (nothing.rate, nothing.precision, nothing.recall) == (0.0, 1.0, 1.0)


def test_a_link_given_twice_counts_once():
    assert alignment_error([[(0, 0), (0, 0)]], [read_gold("0-0")]) == AlignmentError(1, 1, 1, 1)


def test_counts_are_summed_over_sentences():
    golds = [read_gold("0-0 1-1"), read_gold("0?0"), read_gold("5-3 1p1")]
    given = [[(0, 0)], [(0, 0), (1, 1)], [(1, 1)]]
    parts = [alignment_error([a], [g]) for a, g in zip(given, golds, strict=True)]
    assert sum(parts, AlignmentError()) == alignment_error(given, golds) == AlignmentError(4, 3, 1, 3)


def test_all_forms_of_gold_links_are_read():
    wanted = Gold(frozenset({(0, 1), (12, 3)}), frozenset({(4, 5)}))
    for text in ("0-1 12-3 4?5", "12-3 0-1\t4p5\n", "0-1-S 12-3-S 4-5-P", "0-1/S 12-3 4-5/P"):
        assert read_gold(text) == wanted
    assert read_gold("1-2 13-4 5?6", first=1) == wanted
    assert read_gold("1-2 13-4 5?6", first=1, words=(13, 6)) == wanted


WRONG = {
    "word": (lambda: read_gold("0-0 1:1"), "'1:1' is not a link: write 3-4 or 3-4-S for a sure one, 3?4 or 3-4-P"),
    "both": (lambda: read_gold("1?1-S"), "'1?1-S' is not a link"),
    "negative": (lambda: read_gold("-1-0"), "'-1-0' is not a link"),
    "place": (lambda: read_gold("x", file="gold.txt", line=7), "gold.txt:7: 'x' is not a link"),
    "first": (lambda: read_gold("1-0", first=1), "'1-0' is before the first word, which has the number 1"),
    "outside": (
        lambda: read_gold("0-0 3-1", words=(3, 2), file="gold.txt", line=7),
        "gold.txt:7: '3-1' is outside of the pair, of 3 and 2 words (white space parts them): the numbers begin at 0",
    ),
    "outside, counted from 1": (lambda: read_gold("1-1 3?3", words=(3, 2), first=1), "'3?3' is outside of the pair"),
    "count": (lambda: alignment_error([[]], []), "1 alignments but 0 gold ones"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_what_does_not_fit_is_refused(case):
    call, message = case
    with pytest.raises(BadData, match=re.escape(message)):
        call()
