"""What every test starts from."""

from collections.abc import Iterator

import jaxtyping
import pytest
import tests.checking  # noqa: F401  the shape checks look it up by name
import torch


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(20141119)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Switches the shape checks of the test run off, as they are for a user, who sees our own errors instead."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
