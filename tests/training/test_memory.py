"""T8: memory that runs out, wherever in a step: which words, and that nothing else is taken for it."""

import pytest
import torch

from regard.errors import OutOfMemory
from regard.training import loop
from regard.training.memory import explained_memory
from regard.training.settings import Duration, Settings
from regard.training.store import Store
from tests.training import toy

SAID = [
    MemoryError(),
    torch.OutOfMemoryError("no"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
    RuntimeError("std::bad_alloc"),
    RuntimeError("could not create a memory object"),
]


@pytest.mark.parametrize("said", SAID, ids=str)
def test_every_way_in_which_it_is_said(said):
    batch = toy.Batch(torch.zeros(3, 5), torch.zeros(3, 7), torch.zeros(3))
    with pytest.raises(OutOfMemory) as caught, explained_memory(batch):
        raise said
    assert str(caught.value) == (
        "out of memory on a batch of 3 examples, of up to 5 source and 7 target tokens: "
        "lower --train.tokens (and raise --train.accumulate), or --task.longest"
    )
    assert caught.value.exit_code == 4


def test_another_error_is_left_alone():
    with pytest.raises(RuntimeError, match=r"^shapes do not fit$"), explained_memory("x"):
        raise RuntimeError("shapes do not fit")


@pytest.mark.parametrize(("where", "name"), [(toy.Toy, "validated"), (loop, "published")])
def test_outside_of_a_batch(where, name, memory, monkeypatch):
    """In a validation, or in what is published after it: the states before stay."""

    def too_large(*arguments, **options):
        raise RuntimeError("can't allocate memory")

    monkeypatch.setattr(where, name, too_large)
    store = Store(memory / "run")
    settings = Settings(save=2, validate=5)
    arguments = {"store": store, "config": {}, "options": {}}
    with store.lock(), pytest.raises(OutOfMemory, match=r"out of memory on what a step adds to its batches"):
        loop.train(toy.model(), toy.Toy(), toy.SPLITS, settings, Duration(steps=9), **arguments)
    assert store.load_state().step == 4
