"""Claims: what they say of themselves, how they are run, gone on with, judged and written down."""

import dataclasses
import importlib
import inspect
import json
import xml.etree.ElementTree as ElementTree

import pytest

from regard.claims.catalogue import CLAIMS, claim
from regard.claims.claim import Claim, Goal, Line, Measured, Plot, Tell
from regard.claims.reproduce import reproduce
from regard.errors import RegardError

TELL = Tell(lambda _: None, lambda _: None)
calls: list[int] = []


def toy(seed, folder, tell):
    tell.say(f"seed {seed}")
    calls.append(seed)
    points = [(1.0, 0.5 + seed), (2.0, 1.0)]
    return Measured({"exact": 0.9 + 0.02 * seed, "seconds of training": 6.0}, Plot("x", "y", [Line("one", points)]))


TOY = Claim(
    name="toy",
    says="it counts",
    source="nobody, 2026",
    goals=(Goal("exact", ">=", 0.92), Goal("exact", "<=", 0.5)),
    seeds=(0, 1, 5),
    minutes=0,
    place=(__name__, "toy"),
)


@pytest.fixture(autouse=True)
def measured_here(monkeypatch):
    calls.clear()
    monkeypatch.setattr(Claim, "measure", lambda self, *given: toy(*given))


def test_the_median_is_held_against_the_goal(tmp_path):
    found = reproduce(TOY, tmp_path / "runs", tmp_path / "results", TELL, command="regard reproduce toy")
    first, second = found["goals"]
    assert (first["median"], first["goal"], first["reached"]) == (pytest.approx(0.92), ">= 0.92", True)
    assert (first["seeds that reach it"], second["seeds that reach it"], second["reached"]) == (2, 0, False)
    assert found["measured"]["exact"] == {
        "median": pytest.approx(0.92),
        "least": pytest.approx(0.9),
        "most": pytest.approx(1.0),
        "each": [pytest.approx(0.9), pytest.approx(0.92), pytest.approx(1.0)],
    }
    assert found["minutes"] == pytest.approx(0.3)
    assert found["plot"]["lines"] == [["one", [[1.0, 1.5], [2.0, 1.0]]]]
    assert found["command"] == "regard reproduce toy"
    assert json.loads((tmp_path / "results" / "toy.json").read_text()) == found
    ElementTree.parse(tmp_path / "results" / "toy.svg")
    assert str(tmp_path) not in (tmp_path / "results" / "toy.json").read_text()


def test_a_seed_that_is_done_is_not_done_again(tmp_path):
    place = tmp_path / "runs" / "toy"
    place.mkdir(parents=True)
    numbers = {"exact": 0.1, "seconds of training": 1.0}
    (place / "seed-1.json").write_text(json.dumps({"seed": 1, "numbers": numbers, "plot": None, "seconds": 1.0}))
    claim = dataclasses.replace(TOY, seeds=(1,))
    found = reproduce(claim, tmp_path / "runs", tmp_path, TELL, command="")
    assert calls == []
    assert (found["goals"][0]["median"], found["plot"]) == (0.1, None)
    assert not (tmp_path / "toy.svg").exists()


def test_a_seed_that_was_cut_off_begins_where_it_stopped(tmp_path):
    reproduce(dataclasses.replace(TOY, seeds=(0,)), tmp_path, tmp_path, TELL, command="")
    reproduce(TOY, tmp_path, tmp_path, TELL, command="")
    assert calls == [0, 1, 5]


@pytest.mark.parametrize("each", CLAIMS, ids=lambda c: c.name)
def test_a_claim_is_whole(each):
    module, name = each.place
    function = getattr(importlib.import_module(module), name)
    assert list(inspect.signature(function).parameters) == ["seed", "folder", "tell"]
    assert inspect.getdoc(function)
    source = inspect.getsource(function)
    for goal in each.goals:
        assert str(goal.value) not in source  # a goal that stands in the function would be met by itself
    assert each.seeds
    assert each.source
    assert claim(each.name) is each


def test_an_unknown_claim_suggests_the_nearest():
    with pytest.raises(RegardError, match="there is no claim 'reversl': did you mean 'reversal'"):
        claim("reversl")
