"""Buckets: every example in exactly one, edges on the right side."""

import re

import pytest

from regard.measure.errors import ErrorRates, error_rates
from regard.measure.lengths import by_length


def test_an_edge_begins_a_bucket():
    found = by_length(len, [0, 4, 5, 9, 10, 99], [5, 10], list("abcdef"))
    assert [(b.low, b.high, b.name, b.members, b.result, b.count) for b in found] == [
        (0, 5, "0-4", [0, 1], 2, 2),
        (5, 10, "5-9", [2, 3], 2, 2),
        (10, None, "10+", [4, 5], 2, 2),
    ]


def test_every_example_is_in_one_bucket():
    lengths = [7 * i % 31 for i in range(101)]
    found = by_length(len, lengths, [1, 2, 8, 30], lengths)
    assert sorted(i for bucket in found for i in bucket.members) == list(range(101))
    assert [bucket.name for bucket in found] == ["0", "1", "2-7", "8-29", "30+"]


def test_measures_get_their_part_of_every_column():
    outputs, references = ["ab", "abcdef", "xy"], [["ab"], ["abcxyz"], ["xz"]]
    found = by_length(error_rates, [2, 6, 2], [4, 9], outputs, references)
    assert [bucket.result for bucket in found] == [ErrorRates(1, 4, 1, 2), ErrorRates(3, 6, 1, 1), None]


WRONG = {
    "falling": (lambda: by_length(len, [1], [5, 5], "a"), "by_length: edges must rise, and from 1 on, got [5, 5]"),
    "column": (lambda: by_length(max, [1, 2], [5], "ab", "c"), "by_length: 2 lengths but 1 entries in column 1"),
    "zero": (lambda: by_length(len, [1], [0], "a"), "by_length: edges must rise, and from 1 on, got [0]"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_what_does_not_fit_is_refused(case):
    call, message = case
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
