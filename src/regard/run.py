"""A trained run as a Python object: `regard.load(run).predict([…])`."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import nn

from regard.decode.hypothesis import Hypothesis
from regard.models.catalogue import entry
from regard.tasks.translate import Translate
from regard.training.store import Store
from regard.training.tensors import expected, unpack


@dataclasses.dataclass(frozen=True)
class Run:
    """A published model, ready to use.

    Attributes:
        path: The run folder.
        config: What it was trained with.
        model: In evaluation mode.
        task: With its tokenisers.
    """

    path: Path
    config: dict[str, Any]
    model: nn.Module
    task: Translate

    def predict(self, lines: Sequence[str], *, size: int = 64) -> list[str]:
        """One answer for each line, in their order."""
        return [self.task.text(answer) for answer in self.look(lines, size=size)]

    def look(self, lines: Sequence[str], *, size: int = 64) -> list[Hypothesis]:
        """One hypothesis for each line, with its weights where the model looks."""
        return self.task.answers(self.model, lines, size=size)


def load(path: str | Path) -> Run:
    """Loads the published model of a run folder.

    Raises:
        RegardError: if nothing is published there.
        Damaged: if a file is not what was written, or not of this model.
    """
    published = Store(path).load_published()
    config = msgspec.json.decode(published.files["config.json"])
    model_entry = entry(config["model_name"])
    settled = msgspec.convert(config["model"], model_entry.config())
    with torch.device("meta"):
        implied = expected(model_entry.make(settled).state_dict())
    weights = unpack(published.files["model.safetensors"], f"{path}: model.safetensors", expect=implied)
    model = model_entry.make(settled)
    with torch.no_grad():
        model.load_state_dict(weights)
    return Run(Path(path), config, model.eval(), Translate.load(config["task"], published.files))
