"""A real `regard train` in forked children that are killed at random moments, and what each kill leaves.

A fresh interpreter takes seconds to import PyTorch. A fork of a process that has it takes none, so that forty
kills fit into a push. One thread: threads of the parent do not live on in a fork.
"""

import contextlib
import hashlib
import json
import os
import random
import signal
import time
from pathlib import Path
from typing import NamedTuple

import torch

from regard.training.publish import Nothing
from regard.training.store import Store
from tests.training.crashing import forked

STEPS = 90
SETTINGS = {
    "--model.width": "11",
    "--model.embedding": "7",
    "--model.dropout": "0.3",
    "--train.tokens": "60",
    "--train.rate": "0.01",
    "--train.warmup": "5",
    "--train.accumulate": "2",
    "--train.average": "0.8",
    "--train.save": "3",
    "--train.validate": "5",
    "--steps": str(STEPS),
}


def pairs(path: Path) -> Path:
    """Two letters to their first: soon learnt, so that a new best is published now and then."""
    path.write_text("".join(f"{a}{b}\t{a}\n" for a in "abcdef" for b in "uvwxyz"))
    return path


def trainer(data: Path, run: Path, model: str) -> int:
    """What the command line does, as a process that lives is asked to do it."""
    torch.set_num_threads(1)
    from regard.cli import main

    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere), contextlib.redirect_stdout(nowhere):
        words = [word for option in SETTINGS.items() for word in option]
        begun = ["--resume"] if Store(run).load_state() is not None else []
        command = ["train", "translate", "--model", model, "--data", str(data), "--out", str(run), *words, *begun]
        return main(command)


class Left(NamedTuple):
    """What a kill left, as whoever comes next finds it.

    Attributes:
        step: Of the newest state, or None.
        missing: Steps up to that one of which metrics.jsonl has no line.
    """

    step: int | None
    missing: list[int]


def left(run: Path) -> Left:
    """Looks at a run folder; anything in it that cannot be used is an error."""
    state = Store(run).load_state()
    with contextlib.suppress(Nothing):
        assert Store(run).load_published().warnings == ()
    if state is None:
        return Left(None, [])
    assert state.warnings == ()
    told = {line["step"] for line in lines(run) if "loss" in line}
    return Left(state.step, [step for step in range(1, state.step + 1) if step not in told])


def lines(run: Path) -> list[dict]:
    """The lines of metrics.jsonl that are whole."""
    found = []
    for line in (run / "metrics.jsonl").read_bytes().split(b"\n") if (run / "metrics.jsonl").exists() else []:
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


def killed(data: Path, run: Path, model: str, draw: random.Random) -> bool:
    """Starts a trainer and kills it at a random moment; whether it was done before."""
    begun = run.exists()
    pid = forked(lambda: os._exit(trainer(data, run, model)))
    if begun and draw.random() < 0.25:
        time.sleep(draw.uniform(0, 0.1))  # in the middle of taking over what the last one left
    else:
        before = size(run)
        while size(run) == before and os.waitpid(pid, os.WNOHANG) == (0, 0):
            time.sleep(0.002)
        time.sleep(draw.uniform(0, 0.15))
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code in (0, -signal.SIGKILL), f"exit code {code}"
        return code == 0
    return True


def size(run: Path) -> int:
    try:
        return (run / "metrics.jsonl").stat().st_size
    except OSError:
        return 0


def digest(run: Path, name: str) -> str:
    return hashlib.sha256((run / name).read_bytes()).hexdigest()
