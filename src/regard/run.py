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
from regard.data.pairs import Pair, Splits
from regard.data.specs import Read, has_columns, splits_of, undivided
from regard.decode.hypothesis import Hypothesis
from regard.errors import BadData, Damaged, RegardError, nearest
from regard.measure.alignment import Gold, read_gold
from regard.measure.report import Report
from regard.models.catalogue import entry
from regard.tasks.catalogue import task_entry
from regard.training import strict
from regard.training.store import Store
from regard.training.tensors import expected, unpack


@dataclasses.dataclass(frozen=True, repr=False)
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

    def __repr__(self) -> str:
        size = sum(parameter.numel() for parameter in self.model.parameters())
        step = self.config.get("metrics", {}).get("step", "?")
        name = self.config["model_name"]
        return f"Run({name}, {self.task.name}, {size:,} parameters, step {step}, {self.path})"

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
    split: str | None = None,
    read: Read | None = None,
    edges: Iterable[int] = (),
    gold: str | None = None,
    text_scores: bool = True,
) -> Report:
    """Measures a run.

    Args:
        run: What to measure.
        data: Other data than it was trained on.
        split: train, valid or test, which is the default; all of a file of one's own that is named by `data`.
        read: How the data is read; as the run's own unless given (see `read_of`).
        edges: Where a new range of source lengths begins.
        gold: A file of gold alignments, a line for each example.
        text_scores: Whether BLEU and chrF are wanted; they need sacreBLEU.

    Raises:
        RegardError: if there is nothing to measure on, or the model has no alignments to compare.
        BadData: if the data or the gold alignments cannot be read.
    """
    name = data or run.config["data"]
    splits = _splits(run, data, split, read or read_of(run, data))
    pairs = getattr(splits, split or "test")
    if not len(pairs):
        raise RegardError(f"the {split or 'test'} split of {name} is empty: there is nothing to measure")
    found: Report = run.task.evaluated(
        run.model,
        pairs,
        splits.references,
        tokens=run.config["train"]["tokens"],
        resamples=1000 if text_scores else None,
        edges=list(edges),
        gold=None if gold is None else _gold(gold, pairs),
    )
    return found


def read_of(run: Run, data: str | None = None) -> Read:
    """How a run's data was read: the same for other data, but for the files that were its valid and test parts."""
    with _as_written(run.path):
        read = msgspec.convert(run.config["read"], Read)
    if data is None:
        return read
    read = dataclasses.replace(read, valid=None, test=None)
    return read if has_columns(data) else dataclasses.replace(read, source=None, target=None)


def _splits(run: Run, data: str | None, split: str | None, read: Read) -> Splits:
    """The data. Where no split is named, a file of one's own is all test: it was chosen to be measured on."""
    known = ("train", "valid", "test")
    if split not in (None, *known):
        raise RegardError(f"there is no split {split!r}: {nearest(split, known)}")
    whole = None if data is None or split else undivided(data, read)
    if data is not None and whole is not None:
        return Splits([], [], whole, name=data)
    return splits_of(data or run.config["data"], read, run.config["seed"])


def _gold(file: str, pairs: Sequence[Pair]) -> list[Gold]:
    """A file of gold alignments, a line for each pair.

    Raises:
        BadData: if there are not as many, or one holds what does not fit its pair.
    """
    lines = list(read_lines(file))
    if len(lines) != len(pairs):
        raise BadData(f"{len(lines)} alignments for {len(pairs)} pairs: expected a line for each", file=file)
    sizes = [(len(pair.source.split()), len(pair.target.split())) for pair in pairs]
    return [
        read_gold(text, words=words, file=file, line=number)
        for number, (text, words) in enumerate(zip(lines, sizes, strict=True), 1)
    ]
