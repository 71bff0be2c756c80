"""T1: forty kills of a real training run, at random moments; what comes out is what an undisturbed run gives."""

import json
import os
import random

import pytest
import torch

from regard.training.store import Store
from tests.training.crashing import in_child
from tests.training.killing import digest, killed, left, lines, pairs, trainer

pytestmark = pytest.mark.usefixtures("unchecked")

KILLS = 40


@pytest.mark.parametrize("model", ["rnnsearch", "seq2seq"])
def test_killed_at_random_moments(model, memory):
    """Dropout, accumulation and averages are on, epochs of nine steps, a state every third and a validation every
    fifth step: the moments lie in all of them, in saves and in the taking over of what the kill before left."""
    data = pairs(memory / "pairs.tsv")
    assert trainer(data, memory / "warm", model) == 0  # what is imported late is there before the forks
    assert in_child(lambda: os._exit(trainer(data, memory / "whole", model))) == 0
    whole = lines(memory / "whole")
    draw = random.Random(20141119)
    kills = runs = 0
    steps: list[int] = []
    while kills < KILLS:
        run = memory / f"run{runs}"
        before = 0
        while not killed(data, run, model, draw):
            kills += 1
            found = left(run)
            assert found.missing == []
            assert (found.step or 0) >= before, "what was saved is gone"
            before = found.step or 0
            steps.append(before)
        runs += 1
        assert lines(run) == whole, "the lines of metrics.jsonl, to the last digit of every loss"
        assert [path.name for path in run.rglob("*") if path.name.startswith(".tmp") or path.name == "lock"] == []
        for name in ("model.safetensors", "tokenizer.json"):
            assert digest(run, name) == digest(memory / "whole", name)
        ends = [Store(path).load_state() for path in (memory / "whole", run)]
        assert ends[0].record["metrics"] == ends[1].record["metrics"]
        assert all(torch.equal(ends[0].tensors[name], ends[1].tensors[name]) for name in ends[0].tensors)
    assert len(set(steps)) >= 10, "the kills were spread over the run"


def test_the_undisturbed_run_is_one_that_matters(memory):
    """A control: another seed gives other losses, and the run publishes more than once."""
    data = pairs(memory / "pairs.tsv")
    assert trainer(data, memory / "a", "rnnsearch") == 0
    told = lines(memory / "a")
    best = [line["valid.exact"] for line in told if "valid.exact" in line]
    assert len({value for place, value in enumerate(best) if value > max(best[:place], default=-1)}) >= 2
    assert json.loads((memory / "a" / "config.json").read_text())["train"]["accumulate"] == 2
