"""The learning rate of each step: a pure function of the step."""

import math

from regard.training.settings import Settings


def rate(step: int, steps: int, settings: Settings) -> float:
    """The learning rate of step number `step`, counted from 1, of `steps` in all.

    >>> settings = Settings(rate=1.0, warmup=4, shape="constant")
    >>> [rate(step, 100, settings) for step in (1, 2, 4, 50)]
    [0.25, 0.5, 1.0, 1.0]
    """
    risen = min(1.0, step / settings.warmup) if settings.warmup else 1.0
    if settings.shape == "inverse_root":
        return settings.rate * risen * math.sqrt(max(settings.warmup, 1) / max(step, settings.warmup, 1))
    left = max(steps - settings.warmup, 1)
    done = min(max(step - settings.warmup, 0) / left, 1.0)
    fallen = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}[settings.shape]
    return settings.rate * risen * fallen
