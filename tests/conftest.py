"""What every test starts from."""

import importlib.util
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
import torch

import tests.checking  # noqa: F401  the shape checks look it up by name

MEMORY = Path("/dev/shm")


def pytest_sessionstart() -> None:
    """A run on a copy of the package (see `tests/faults`) must be a run on that copy."""
    expected = os.environ.get("REGARD_EXPECTED_AT")
    if expected:
        found = importlib.util.find_spec("regard").origin
        if not found.startswith(expected):
            raise pytest.UsageError(f"regard is imported from {found}, expected below {expected}")


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(20141119)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Switches the shape checks of the test run off, as they are for a user, who sees our own errors instead."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory where there is one: what forces thousands of files to the disk takes seconds then."""
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
        yield Path(folder)
