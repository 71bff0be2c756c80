"""Edit distance against the plain table, rates against counts by hand."""

import math
import random
import re

import pytest

from regard.errors import BadData
from regard.measure.errors import ErrorRates, edit_distance, error_rates


def table(a, b) -> int:
    """Levenshtein's own recurrence."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y)))
    return row[-1]


@pytest.mark.parametrize(("letters", "longest"), [(2, 7), (4, 23), (3, 150)])
def test_the_distance_is_that_of_the_table(letters, longest):
    draw = random.Random(5)
    for _ in range(400 if longest < 100 else 20):
        a, b = ([draw.randrange(letters) for _ in range(draw.randint(0, longest))] for _ in range(2))
        assert edit_distance(a, b) == table(a, b)


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("abc", "abc", 0), ("kitten", "sitting", 3), ("flaw", "lawn", 2)],
)
def test_known_distances(a, b, distance):
    assert edit_distance(a, b) == edit_distance(list(a), tuple(b)) == distance


def test_long_texts_take_no_time():
    """20,000 by 20,000 cells, which a table in plain Python would need minutes for."""
    draw = random.Random(3)
    a = [draw.randrange(9) for _ in range(20_000)]
    b = [token for token in a if draw.random() < 0.99]
    assert edit_distance(a, b) == len(a) - len(b)


def test_rates_are_totals_over_totals():
    outputs = ["abcd", "x", "", "same"]
    references = [["abxd"], ["xyz"], ["no"], ["same"]]
    rates = error_rates(outputs, references)
    assert rates == ErrorRates(edits=1 + 2 + 2, tokens=4 + 3 + 2 + 4, wrong=3, sequences=4)
    assert (rates.token_rate, rates.sequence_rate, rates.exact_match) == (5 / 13, 0.75, 0.25)


def test_the_nearest_reference_counts_and_of_equals_the_first():
    assert error_rates(["abc"], [["abcdef", "abd", "xbc"]]) == ErrorRates(1, 3, 1, 1)
    assert error_rates(["ab"], [["a", "abc"]]) == ErrorRates(1, 1, 1, 1)
    assert error_rates(["ab"], [["abc", "a"]]) == ErrorRates(1, 3, 1, 1)
    assert error_rates([["K", "AE"]], [[["K"], ["K", "AE"]]]) == ErrorRates(0, 2, 0, 1)


def test_words_and_characters_are_the_callers_choice():
    output, reference = "the cat sat", "the cats sat"
    assert error_rates([output], [[reference]]).token_rate == 1 / 12
    assert error_rates([output.split()], [[reference.split()]]).token_rate == 1 / 3


def test_parts_add_up_to_the_whole():
    draw = random.Random(2)
    outputs, references = (
        [[draw.randrange(3) for _ in range(draw.randint(0, 9))] for _ in range(31)] for _ in range(2)
    )
    several = [[one] for one in references]
    parts = [error_rates(outputs[i : i + 7], several[i : i + 7]) for i in range(0, 31, 7)]
    assert sum(parts, ErrorRates()) == error_rates(outputs, several)


def test_nothing_to_compare():
    assert (ErrorRates().token_rate, ErrorRates().sequence_rate, ErrorRates().exact_match) == (0.0, 0.0, 0.0)
    assert error_rates([""], [[""]]).token_rate == 0.0
    assert error_rates(["ab"], [[""]]).token_rate == math.inf
    assert error_rates(["abcd"], [["a"]]).token_rate == 3.0


WRONG = {
    "count": (lambda: error_rates(["a", "b"], [["a"]]), "2 outputs but 1 lists of references"),
    "none": (
        lambda: error_rates(["a", "b"], [["a"], []]),
        "output 1 must have a list of one or more references, got []",
    ),
    "a text": (lambda: error_rates(["abc"], ["abd"]), "output 0 must have a list of one or more references, got 'abd'"),
    "flat": (
        lambda: error_rates([["K", "AE"]], [["K", "AE"]]),
        "output 0 is a list of tokens, but a reference is not: got ['K', 'AE'] and ['K', 'AE']; references are a list",
    ),
    "other way": (lambda: error_rates(["ab"], [[["a", "b"]]]), "output 0 is a text, but a reference is not"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_what_does_not_fit_is_refused(case):
    call, message = case
    with pytest.raises(BadData, match=re.escape(message)):
        call()
