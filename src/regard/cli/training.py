"""The options of `regard train`, typed; they need a model's configuration, and so PyTorch."""

import dataclasses
from typing import Generic, TypeVar

from regard.tasks.translate import Options as TaskOptions
from regard.training.settings import Settings

Model = TypeVar("Model")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train(Generic[Model]):
    """Train a model on your data, into a run folder. --model NAME picks another model (regard ls models)."""

    data: str = "dates"
    """A known set, a file or folder of your own, or hub:ID (regard ls data)."""
    out: str = "runs/new"
    """The run folder."""
    steps: int | None = None
    """How long: steps,"""
    epochs: int | None = None
    """or passes over the data,"""
    minutes: float | None = None
    """or minutes, which become a number of steps once the first few have been timed."""
    seed: int = 0
    """Of everything random."""
    resume: bool = False
    """Go on where the run folder stopped; its options hold unless given anew."""
    task: TaskOptions = TaskOptions()  # noqa: RUF009
    """How text becomes tokens, and how it is decoded."""
    train: Settings = Settings()  # noqa: RUF009
    """How it is trained."""
    model: Model
    """Its sizes and choices."""
