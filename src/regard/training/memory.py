"""A batch that does not fit is an error that names the batch."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from regard.errors import OutOfMemory


@contextlib.contextmanager
def explained_memory(batch: Any) -> Iterator[None]:
    """Turns every way in which memory runs out into `OutOfMemory`, with the batch's shape and a remedy."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as fact:
        raise _named(batch) from fact
    except RuntimeError as fact:
        if "can't allocate memory" not in str(fact) and "not enough memory" not in str(fact):
            raise
        raise _named(batch) from fact


def _named(batch: Any) -> OutOfMemory:
    rows, longest = batch.source.shape
    return OutOfMemory(
        f"out of memory on a batch of {rows} examples, of up to {longest} source and {batch.target.shape[1]} target "
        f"tokens: lower --train.tokens (and raise --train.accumulate), or --task.longest"
    )
