"""Data sets of the Hub, with the library that loads them replaced: nothing is fetched."""

import sys
import types

import pytest

from regard.data.pairs import Pair
from regard.data.specs import load
from regard.errors import BadData, RegardError


class Split(list):
    @property
    def column_names(self):
        return list(self[0])


@pytest.fixture
def library(monkeypatch):
    made = types.ModuleType("datasets")
    made.asked = []
    made.found = {}

    def load_dataset(name, revision=None):
        made.asked.append((name, revision))
        if name == "no/such":
            raise FileNotFoundError("Dataset 'no/such' doesn't exist on the Hub")
        return made.found

    made.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", made)
    return made


def rows(count, start=0):
    return Split({"id": i, "source": f"s{i}", "target": f"t{i}"} for i in range(start, start + count))


def test_splits_of_its_own(library):
    library.found = {"train": rows(9), "validation": rows(2, 8), "test": rows(3, 20)}
    made = load("hub:user/name@v1")
    assert library.asked == [("user/name", "v1")]
    assert list(made.test) == [Pair(f"s{i}", f"t{i}") for i in (20, 21, 22)]
    assert made.warnings == ("1 of 2 different valid sources are also in training: scores on them measure memory",)


def test_without_splits_it_is_divided(library):
    library.found = {"train": rows(300)}
    made = load("hub:name")
    assert library.asked == [("name", None)]
    assert sorted([*made.train, *made.valid, *made.test]) == sorted(Pair(f"s{i}", f"t{i}") for i in range(300))


def test_translations(library):
    library.found = {"train": Split({"translation": {"de": f"d{i}", "en": f"e{i}\u0301"}} for i in range(5))}
    made = load("hub:name", columns=("en", "de"), normalise="nfkc")
    assert {*made.train, *made.valid, *made.test} == {Pair(f"e{i}\u0301", f"d{i}") for i in range(5)}


def test_what_does_not_fit(library):
    with pytest.raises(RegardError, match="hub:no/such could not be loaded: Dataset 'no/such' doesn't exist"):
        load("hub:no/such")
    library.found = {"test": rows(3)}
    with pytest.raises(BadData, match="hub:name: no split named 'train': there are 'test'"):
        load("hub:name")
    library.found = {"train": Split([{"source": "a", "target": "b"}, {"source": "", "target": "b"}])}
    with pytest.raises(BadData, match="hub:name:train:2: the source is empty"):
        load("hub:name")
    library.found = {"train": Split([{"source": "a", "target": 7}])}
    with pytest.raises(BadData, match="hub:name:train:1: the column 'target' holds 7, expected text"):
        load("hub:name")
    library.found = {"train": Split([*rows(9), {"id": 1, "source": None, "target": "b"}])}
    assert load("hub:name", empty="skip").warnings == ("1 pairs left out: one side is empty",)


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(RegardError, match=r'need datasets: pip install "regard\[hub\]"'):
        load("hub:name")
