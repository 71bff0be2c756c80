"""Division by source: equal sources stay together."""

from collections import Counter

import pytest

from regard.data.divide import completed, mark, overlap, part_of
from regard.data.pairs import Pair
from regard.errors import BadData

MANY = [Pair(f"source {i % 1500}", f"target {i}") for i in range(4000)]


def test_no_source_in_two_parts_and_nothing_lost():
    for seed in (0, 1, -7):
        parts = completed({"train": MANY}, seed)
        sources = [{pair.source for pair in part} for part in parts]
        assert not sources[0] & sources[1]
        assert not sources[0] & sources[2]
        assert not sources[1] & sources[2]
        assert sorted(pair for part in parts for pair in part) == sorted(MANY)
        assert 0.86 < len(parts[0]) / len(MANY) < 0.94


def test_the_seed_matters_and_nothing_else():
    first, same, other = (list(completed({"train": MANY}, seed)[2]) for seed in (0, 0, 1))
    assert first == same != other
    longer = completed({"train": [*MANY, Pair("one", "more")]}, 0)
    assert list(longer[2])[: len(first)] == first


def test_one_text_has_the_same_mark_for_ever():
    assert mark("one", 0) == 14489617718373642804
    assert Counter(part_of(str(i)) for i in range(4000)).most_common(1)[0][0] == "train"


def test_what_is_given_is_kept_and_the_rest_is_not_thrown_away():
    given = [Pair("x", "y")]
    train, valid, test = completed({"train": MANY, "valid": given}, 0)
    assert valid is given
    assert sorted([*train, *test]) == sorted(MANY)
    train, valid, test = completed({"train": MANY, "test": given}, 0)
    assert test is given
    assert sorted([*train, *valid]) == sorted(MANY)
    assert completed({"train": MANY, "valid": given, "test": given}) == (MANY, given, given)


def test_few_sources():
    few = [Pair(c, "x") for c in "aabbc"]
    parts = completed({"train": few})
    assert all(len(part) for part in parts)
    assert sorted(p for part in parts for p in part) == few
    with pytest.raises(BadData, match=r"^here: 2 different sources: at least 3 are needed to take test and valid out"):
        completed({"train": few[:4]}, file="here")
    assert len(completed({"train": few[:4], "test": few})[1]) == 2


def test_overlap_is_counted():
    train = [Pair("a", "1"), Pair("a", "2"), Pair("b", "3")]
    assert overlap(train, [Pair("c", "1")]) is None
    assert overlap(train, [Pair("a", "1"), Pair("a", "9"), Pair("c", "1")], "valid") == (
        "1 of 2 different valid sources are also in training: scores on them measure memory"
    )
