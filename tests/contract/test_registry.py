"""A mechanism that is public and not in the registry is not held to the laws: that is an error."""

import inspect
from pathlib import Path

import pytest

import regard
import regard.core
from tests.registry import OPERATIONS, PARTS, SCORES, WEIGHS, WHERES

VERBS = {"load", "train", "watch", "explain"}
"""What is done with runs and models; all else is the operation, in forty names at most."""
LISTED = {*OPERATIONS, *PARTS} | {name for case in (*SCORES, *WHERES, *WEIGHS) for name in case.public}


def test_every_public_name_is_registered():
    assert set(regard.__all__) == LISTED


def test_the_public_page_is_short_and_complete():
    assert len(set(regard.__all__) - VERBS) <= 40
    assert all(getattr(regard, name) is getattr(regard.core, name) for name in set(regard.__all__) - VERBS)
    assert set(regard.__all__) <= set(dir(regard))


@pytest.mark.parametrize("name", sorted(PARTS))
def test_a_part_is_used_in_the_file_that_is_named_for_it(name):
    text = (Path(__file__).parents[2] / PARTS[name]).read_text()
    assert f"{name}(" in text or f"{name}." in text


@pytest.mark.parametrize("name", regard.core.__all__)
def test_every_name_says_what_it_is(name):
    thing = getattr(regard.core, name)
    assert inspect.getdoc(thing), f"{name} has no docstring"


def test_a_misspelt_name_suggests_the_nearest():
    with pytest.raises(AttributeError, match=r"has no attribute 'softmx': did you mean 'softmax'\?"):
        regard.softmx  # noqa: B018
