"""Memory that runs out is an error that names the batch, or what else was being done."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from regard.errors import OutOfMemory

_SAID = ("can't allocate memory", "not enough memory", "bad_alloc", "could not create a memory")
"""How the parts of PyTorch say so, in a RuntimeError."""


@contextlib.contextmanager
def explained_memory(what: Any) -> Iterator[None]:
    """Turns every way in which memory runs out into `OutOfMemory`, with a remedy.

    Args:
        what: The batch that is worked on, or words for what else.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as fact:
        if not ran_out(fact):
            raise
        raise _named(what) from fact


def ran_out(fact: Exception) -> bool:
    """Whether an error says that there is no memory left."""
    known = isinstance(fact, (MemoryError, torch.OutOfMemoryError))
    return known or (isinstance(fact, RuntimeError) and any(words in str(fact) for words in _SAID))


def _named(what: Any) -> OutOfMemory:
    if not isinstance(what, str):
        rows, longest = what.source.shape
        what = f"a batch of {rows} examples, of up to {longest} source and {what.target.shape[1]} target tokens"
    return OutOfMemory(
        f"out of memory on {what}: lower --train.tokens (and raise --train.accumulate), or --task.longest"
    )
