"""A trained run as a Python object: `regard.load(run).predict([…])`."""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import nn

from regard.data.lines import read_lines
from regard.data.specs import Read, splits_of
from regard.decode.hypothesis import Hypothesis
from regard.errors import Damaged, RegardError
from regard.measure.alignment import read_gold
from regard.measure.report import Report
from regard.models.catalogue import entry
from regard.tasks.catalogue import task_entry
from regard.training import strict
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
    task: Any

    def with_options(self, **changed: Any) -> "Run":
        """The same with other options of decoding, such as beam=5."""
        return dataclasses.replace(self, task=self.task.with_options(**changed))

    def predict(self, lines: Sequence[str], *, size: int = 64) -> list[str]:
        """One answer for each line, in their order."""
        return [self.task.text(answer) for answer in self.look(lines, size=size)]

    def look(self, lines: Sequence[str], *, size: int = 64) -> list[Hypothesis]:
        """One hypothesis for each line, with its weights where the model looks."""
        found: list[Hypothesis] = self.task.answers(self.model, lines, size=size)
        return found


def load(path: str | Path) -> Run:
    """Loads the published model of a run folder.

    Raises:
        RegardError: if nothing is published there.
        Damaged: if a file is not what was written, or not of this model.
    """
    published = Store(path).load_published()
    with _as_written(path):
        config = strict.parse_object(published.files["config.json"], f"{path}: config.json")
        model_entry = entry(str(config["model_name"]))
        settled = msgspec.convert(config["model"], model_entry.config())
        task = task_entry(str(config["task_name"])).kind().load(config["task"], published.files)
        if task.configured(settled) != settled:
            raise Damaged(f"{path}: the model and the tokenisers are not of one size")
        with torch.device("meta"):
            implied = expected(model_entry.make(settled).state_dict())
        weights = unpack(published.files["model.safetensors"], f"{path}: model.safetensors", expect=implied)
        model = model_entry.make(settled)
        with torch.no_grad():
            model.load_state_dict(weights)
    return Run(Path(path), config, model.eval(), task)


@contextlib.contextmanager
def _as_written(path: str | Path) -> Iterator[None]:
    """A manifest says that files are as they were written, not that it was this library that wrote them."""
    try:
        yield
    except (KeyError, TypeError, ValueError, msgspec.MsgspecError) as fact:
        raise Damaged(f"{path} is no run of this version of regard: {type(fact).__name__}: {str(fact)[:200]}") from fact


def evaluated(
    run: Run,
    *,
    data: str | None = None,
    split: str = "test",
    edges: Iterable[int] = (),
    gold: str | None = None,
    text_scores: bool = True,
) -> Report:
    """Measures a run.

    Args:
        run: What to measure.
        data: Other data than it was trained on.
        split: train, valid or test.
        edges: Where a new range of source lengths begins.
        gold: A file of gold alignments, a line for each example.
        text_scores: Whether BLEU and chrF are wanted; they need sacreBLEU.

    Raises:
        RegardError: if there is nothing to measure on, or the model has no alignments to compare.
        BadData: if the data or the gold alignments cannot be read.
    """
    read = msgspec.convert(run.config["read"], Read) if data is None else Read()
    splits = splits_of(data or run.config["data"], read, run.config["seed"])
    pairs = getattr(splits, split)
    if not len(pairs):
        raise RegardError(f"the {split} split of {data or run.config['data']} is empty: there is nothing to measure")
    drawn = None if gold is None else [read_gold(text, file=gold, line=i) for i, text in enumerate(read_lines(gold), 1)]
    found: Report = run.task.evaluated(
        run.model,
        pairs,
        splits.references,
        tokens=run.config["train"]["tokens"],
        resamples=1000 if text_scores else None,
        edges=list(edges),
        gold=drawn,
    )
    return found
