"""S10, at the size of a push: fifty thousand mutated run folders through the loaders."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.cli import main
from regard.training.store import Store

pytestmark = pytest.mark.usefixtures("unchecked")

ROOT = Path(__file__).parents[2]
COUNTS = {"published": 10_000, "state": 40_000}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A trained run, with a state so small that most of the time goes into reading it and not into mutating it."""
    path = tmp_path_factory.mktemp("fuzz")
    (path / "p.tsv").write_text("".join(f"{n}a\t{n}b\n" for n in range(9)))
    sizes = ["--model.width", "3", "--model.embedding", "2", "--model.readout", "2", "--model.alignment", "2"]
    words = ["train", "translate", "--data", str(path / "p.tsv"), "--out", str(path / "run"), "--steps", "1", *sizes]
    assert main(words) == 0
    shutil.rmtree(path / "run" / "state")
    store = Store(path / "run")
    with store.lock():
        tensors = {"model.weight": torch.ones(3, 2), "half": torch.ones(5, dtype=torch.bfloat16)}
        store.save_state(1, tensors, {"epoch": 0, "metrics": {"exact": 0.5}})
    return path / "run"


@pytest.mark.parametrize("kind", COUNTS)
def test_mutants_load_or_are_refused(folder, kind):
    """In a process of its own, without the shape checks, which would take most of the time."""
    command = [sys.executable, "-m", "tests.training.fuzzing", str(folder), kind, str(COUNTS[kind]), "20141119"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["loaded"] + found["refused"] == COUNTS[kind]
    assert found["refused"] > 0.6 * COUNTS[kind]
    assert found["loaded"] > 0.02 * COUNTS[kind], "some changes do no harm, and some mutants reach the end"
    assert found["longest"] < 1000
    assert found["slowest"] <= 1
