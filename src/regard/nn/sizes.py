"""The sizes of a configuration, within bounds: a mistake, or a stranger's file, is told before anything is made."""

import dataclasses
import math
from typing import Any

from regard.errors import RegardError

LARGEST = 2**20
MOST_LAYERS = 1000


def check_sizes(config: Any) -> None:
    """Checks every number of a model's configuration.

    Whole numbers are sizes, at least 1; a vocabulary may be 0, until it is known. `dropout` is a share below 1.

    Raises:
        RegardError: with the name of the field, what it is, and what it may be.
    """
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        least = 0 if field.name.endswith("_vocabulary") or isinstance(value, float) else 1
        most = MOST_LAYERS if field.name == "layers" else LARGEST
        if not (math.isfinite(value) and least <= value <= most) or (field.name == "dropout" and value >= 1):
            bounds = "at least 0 and below 1" if field.name == "dropout" else f"{least:,} to {most:,}"
            raise RegardError(f"model.{field.name} must be {bounds}, got {value}")
