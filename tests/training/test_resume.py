"""T2: cut anywhere, with any signal or none, and resumed: not one bit of the rest is other."""

import os
import signal

import pytest
import torch

from regard.training.loop import train
from regard.training.resuming import found
from regard.training.settings import Duration, Settings
from regard.training.store import Store
from tests.training import toy

STEPS = 24
ACCUMULATE = 2  # seven batches an epoch: every fourth step is half a step, and ends it


class Cut(toy.Toy):
    """The toy, which is stopped or dies at one place.

    Args:
        at: "batch" or "validation".
        number: Which one, counted from 1.
        how: A signal to send to oneself, or None to die without a word.
    """

    def __init__(self, at: str = "", number: int = 0, how: signal.Signals | None = None) -> None:
        super().__init__()
        self.at, self.number, self.how, self.counts = at, number, how, {"batch": 0, "validation": 0}

    def reached(self, what: str) -> None:
        self.counts[what] += 1
        if self.at == what and self.counts[what] == self.number:
            if self.how is None:
                raise KeyboardInterrupt  # as SIGKILL: nothing is saved on the way out
            os.kill(os.getpid(), self.how)

    def batch(self, examples, places):
        self.reached("batch")
        return super().batch(examples, places)

    def validated(self, *arguments, **options):
        self.reached("validation")
        return super().validated(*arguments, **options)


def run(path, settings, task=None, *, resume=False, steps=STEPS):
    """One sitting; whether it came to its end."""
    store = Store(path)
    task = task or Cut()
    with store.lock():
        arguments = {"store": store, "config": {}, "options": {}, "state": found(store, resume=resume)}
        try:
            outcome = train(toy.model(), task, toy.SPLITS, settings, Duration(steps=steps), **arguments)
        except KeyboardInterrupt:
            return False
    return not outcome.stopped


def ends(path):
    """All that a run leaves, to the bit."""
    state = Store(path).load_state()
    tensors = {name: (t.dtype, t.flatten().view(torch.uint8).tolist()) for name, t in state.tensors.items()}
    record = {name: value for name, value in state.record.items() if name != "seconds"}  # the clock's, no result
    return (path / "metrics.jsonl").read_text(), state.step, record, tensors, Store(path).load_published()


VARIANTS = {
    "linear": {"shape": "linear"},
    "cosine": {"shape": "cosine", "average": 0.9},
    "inverse root": {"shape": "inverse_root", "warmup": 9},
    "constant": {"shape": "constant", "warmup": 0, "clip": 0.01},
    "bfloat16": {"precision": "bfloat16", "average": 0.9},
    "patience": {"patience": 3, "rate": 1e-9, "warmup": 0, "average": 0.5},
}
CUTS = [
    ("batch", 1, None),  # before anything is saved
    ("batch", 8, signal.SIGTERM),  # during accumulation: the second batch of a step
    ("batch", 16, None),
    ("batch", 14, signal.SIGINT),  # the last batch of an epoch
    ("batch", 15, signal.SIGHUP),  # the first of the next
    ("validation", 2, signal.SIGTERM),
    ("validation", 3, None),
]


def settings_of(variant):
    common = {"rate": 0.02, "warmup": 3, "validate": 4, "save": 5, "accumulate": ACCUMULATE}
    return Settings(**common | VARIANTS[variant])


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: f"{cut[0]}-{cut[1]}-{cut[2] and cut[2].name}")
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_cut_leaves_no_trace(memory, variant, cut):
    settings = settings_of(variant)
    assert run(memory / "whole", settings)
    done = run(memory / "cut", settings, Cut(*cut))
    while not done:
        done = run(memory / "cut", settings, resume=Store(memory / "cut").load_state() is not None)
    assert ends(memory / "cut") == ends(memory / "whole")


def test_patience_is_counted_across_cuts(memory):
    """Stopped after every single validation, a run ends at the step at which it would have ended."""
    settings = settings_of("patience")
    run(memory / "whole", settings, steps=100)
    run(memory / "cut", settings, Cut("validation", 1, signal.SIGTERM), steps=100)
    while Store(memory / "cut").load_state().record["waited"] < 3:
        run(memory / "cut", settings, Cut("validation", 1, signal.SIGTERM), resume=True, steps=100)
    assert ends(memory / "cut") == ends(memory / "whole")
    assert Store(memory / "cut").load_state().step < 100


@pytest.mark.parametrize("number", range(1, 23))
def test_every_example_once_an_epoch_across_every_cut(memory, number):
    settings = Settings(rate=0.02, warmup=3, validate=50, save=1, accumulate=ACCUMULATE)
    sittings = [Cut("batch", number, signal.SIGTERM), Cut()]
    run(memory / "run", settings, sittings[0], steps=12)
    run(memory / "run", settings, sittings[1], resume=True, steps=12)
    seen = [place for sitting in sittings for part in sitting.seen for place in part]
    epochs = [seen[start : start + 20] for start in range(0, 60, 20)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(20))] * 3
    assert epochs[0] != epochs[1] != epochs[2]
