"""From weights to a matrix, links, Pharaoh and JSON."""

import dataclasses
import json
import re

import pytest
import torch

from regard.decode.alignment import as_json, links, matrix, pharaoh
from regard.decode.hypothesis import Hypothesis

WEIGHTS = torch.tensor(
    [
        [0.125, 0.5, 0.25, 0.125],
        [0.375, 0.25, 0.375, 0.0],  # of equals the first
        [0.0, 0.25, 0.25, 0.5],  # at END: no link
        [0.0, 0.0, 0.0, 0.0],  # nowhere: no link
        [0.0, 0.0, 0.25, 0.75],
    ]
)
ENDED = Hypothesis([7, 8, 9, 4], True, -2.5, -1.25, [-0.5] * 5, WEIGHTS)
CUT = Hypothesis([7, 8, 9, 4, 5], False, -2.5, -1.25, [-0.5] * 5, WEIGHTS)
BLIND = Hypothesis([7], True, -1.0, -1.0, [-0.5, -0.5], None)
EMPTY = Hypothesis([], True, -1.0, -1.0, [-1.0], torch.tensor([[0.25, 0.75]]))


def test_the_matrix_with_and_without_ends():
    assert matrix(ENDED) == WEIGHTS.tolist()
    assert matrix(ENDED, ends=False) == WEIGHTS[:4, :3].tolist()
    assert matrix(CUT, ends=False) == WEIGHTS[:, :3].tolist()
    assert matrix(EMPTY, ends=False) == []


def test_links_are_the_greatest_weights():
    assert links(ENDED) == [(1, 0), (0, 1)]
    assert links(ENDED, ends=True) == [(1, 0), (0, 1), (3, 2), (3, 4)]
    assert links(CUT) == [(1, 0), (0, 1)]
    assert links(dataclasses.replace(CUT, weights=WEIGHTS[[4, 3, 2, 1, 0]])) == [(0, 3), (1, 4)]
    assert links(EMPTY) == []
    assert links(EMPTY, ends=True) == [(1, 0)]


def test_a_threshold_drops_weak_links():
    assert links(ENDED, threshold=0.375) == [(1, 0), (0, 1)]
    assert links(ENDED, threshold=0.4) == [(1, 0)]
    assert links(ENDED, threshold=0.75, ends=True) == [(3, 4)]


def test_pharaoh_writes_the_source_first():
    assert pharaoh(ENDED) == "1-0 0-1"
    assert pharaoh(ENDED, ends=True) == "1-0 0-1 3-2 3-4"
    assert pharaoh(EMPTY) == ""


def test_json_holds_it_all():
    names = {"source": ["l'", "été", "rouge", "END"], "target": ["the", "red", "summer", "!", "END"]}
    text = as_json(ENDED, **names)
    assert "\n" not in text
    assert "été" in text
    assert json.loads(text) == {
        **names,
        "finished": True,
        "log_probability": -2.5,
        "score": -1.25,
        "token_log_probabilities": [-0.5] * 5,
        "weights": WEIGHTS.tolist(),
    }
    plain = json.loads(as_json(BLIND, ends=False))
    assert (plain["source"], plain["target"], plain["weights"]) == (None, [7], None)
    assert json.loads(as_json(ENDED, ends=False, source=["a", "b", "c"]))["weights"] == WEIGHTS[:4, :3].tolist()


WRONG = {
    "no weights": (lambda: matrix(BLIND), "the hypothesis has no weights: its model does not look at the source"),
    "no links": (lambda: pharaoh(BLIND), "the hypothesis has no weights"),
    "rows": (lambda: as_json(ENDED, target=["a", "b"]), "as_json: target must name 5 rows, got 2 names: ['a', 'b']"),
    "columns": (
        lambda: as_json(ENDED, source=["a"], ends=False),
        "as_json: source must name 3 columns, got 1 names: ['a']",
    ),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_what_does_not_fit_is_refused(case):
    call, message = case
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
