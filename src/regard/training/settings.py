"""How a model is trained, and how long: frozen dataclasses, whose fields are options of the command line."""

import dataclasses
import math
from typing import Literal

from regard.errors import RegardError

Shape = Literal["constant", "linear", "cosine", "inverse_root"]
"""How the rate goes after the warm-up."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How a model is trained. Schedules count steps, never the clock."""

    rate: float = 2e-3
    """The highest learning rate, reached at the end of the warm-up."""
    warmup: int = 100
    """Steps over which the rate rises from 0; the first step already has its share."""
    shape: Shape = "cosine"
    """How the rate falls: not at all, along a line or a half cosine to 0 at the last step, or as 1/√step."""
    decay: float = 0.01
    """AdamW's weight decay; biases and vectors have none."""
    beta2: float = 0.98
    """AdamW's second factor."""
    clip: float = 1.0
    """The largest norm of the gradient; 0 for no limit."""
    smoothing: float = 0.0
    """Label smoothing. What is reported is always the plain likelihood."""
    tokens: int = 4096
    """Tokens of a batch, sources and targets with their padding; no batch has more."""
    accumulate: int = 1
    """Batches whose gradients make one step."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """What matrix products are computed in; weights and sums stay in float32."""
    average: float = 0.0
    """Decay of the running average of the weights that is validated and published, such as 0.999; 0 for none."""
    validate: int = 250
    """Steps between two validations."""
    save: int = 250
    """Steps between two states to resume from."""
    patience: int = 0
    """Validations without a better metric after which training stops; 0 for never."""
    log: int = 1
    """Steps between two lines of metrics.jsonl."""
    tensorboard: bool = False
    """Also write TensorBoard files (needs `pip install "regard[log]"`)."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise RegardError(f"train.{name} must be a finite number, got {value}")
        for name in ("tokens", "accumulate", "validate", "save", "log"):
            if getattr(self, name) < 1:
                raise RegardError(f"train.{name} must be at least 1, got {getattr(self, name)}")
        for name in ("warmup", "decay", "clip", "patience"):
            if getattr(self, name) < 0:
                raise RegardError(f"train.{name} must be at least 0, got {getattr(self, name)}")
        for name in ("smoothing", "average", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise RegardError(f"train.{name} must be at least 0 and below 1, got {getattr(self, name)}")
        if not self.rate > 0:
            raise RegardError(f"train.rate must be above 0, got {self.rate}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Duration:
    """How long to train; exactly one is given.

    >>> print(Duration(minutes=10))
    --minutes 10
    """

    steps: int | None = None
    epochs: int | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        given = [f"--{name}" for name, value in vars(self).items() if value is not None]
        if len(given) != 1:
            raise RegardError(f"give one of --steps, --epochs and --minutes, got {' and '.join(given) or 'none'}")
        value = next(value for value in vars(self).values() if value is not None)
        if not 0 < value < math.inf:
            raise RegardError(f"{given[0]} must be above 0 and finite, got {value}")

    def __str__(self) -> str:
        return next(f"--{name} {value}" for name, value in vars(self).items() if value is not None)
