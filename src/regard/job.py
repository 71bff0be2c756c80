"""From data to a run folder: the one place where a task, a model, data and the training loop meet.

    regard.train(data="pairs.tsv", out="runs/mine", minutes=10)

is `regard train translate --data pairs.tsv --out runs/mine --minutes 10`.
"""

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import torch

from regard import __version__
from regard.data.specs import Read, splits_of
from regard.errors import RegardError
from regard.models.catalogue import Entry, entry
from regard.run import Run, load
from regard.tasks.catalogue import TaskEntry, task_entry
from regard.training import files, loop
from regard.training.record import Progress
from regard.training.settings import Settings
from regard.training.store import Store

Model = TypeVar("Model")
Task = TypeVar("Task")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job(Generic[Model, Task]):
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
    read: Read = Read()  # noqa: RUF009
    """How your own data is read."""
    task: Task
    """How an example becomes numbers, and by what the best model is chosen."""
    train: Settings = Settings()  # noqa: RUF009
    """How it is trained."""
    model: Model
    """Its sizes and choices."""


def train(
    *,
    task: str = "translate",
    model: str = "",
    preset: str = "small",
    data: str = "",
    out: str,
    steps: int | None = None,
    epochs: int | None = None,
    minutes: float | None = None,
    seed: int = 0,
    resume: bool = False,
    read: Read | None = None,
    options: Any = None,
    settings: Settings | None = None,
    config: Any = None,
) -> Run:
    """Trains a model and returns the run, ready to use. Nothing is printed.

    Args:
        task: What is learned (`regard ls tasks`).
        model: What learns, by name (`regard ls models`).
        preset: Its sizes, by name.
        data: A known set, a file or a folder; what the task generates unless given.
        out: The run folder.
        steps: How long; or
        epochs: how often over the data; or
        minutes: how long by the clock: five unless any is given.
        seed: Of everything random.
        resume: Whether to go on where the folder stopped.
        read: How one's own data is read.
        options: The task's options, its dataclass.
        settings: How it is trained.
        config: The model's configuration, instead of a preset.

    Raises:
        RegardError: as the command line says it.
    """
    what = task_entry(task)
    chosen = entry(model or what.model)
    job = Job(
        data=data or what.data,
        out=out,
        steps=steps,
        epochs=epochs,
        minutes=minutes,
        seed=seed,
        resume=resume,
        read=read or Read(),
        task=options or what.options()(),
        train=settings or Settings(),
        model=config or chosen.preset(preset),
    )
    run_job(what, chosen, job, command=f"regard.train(task={task!r}, model={chosen.name!r}, data={job.data!r}, …)")
    return load(out)


def run_job(
    what: TaskEntry,
    chosen: Entry,
    job: Job[Any, Any],
    *,
    command: str,
    say: Callable[[str], None] = lambda _: None,
    report: Callable[[Progress], None] = lambda _: None,
    showing: contextlib.AbstractContextManager[Any] | None = None,
    watch: Callable[[Any, Any, int], None] | None = None,
) -> loop.Outcome:
    """Trains as the job says.

    Args:
        what: The task.
        chosen: The model.
        job: Everything else.
        command: What the user typed; it is kept beside the weights.
        say: Is told what stays to be read: sizes, warnings.
        report: Is told how it goes, after every step.
        showing: Entered while the steps are made: a bar.
        watch: Is shown the model and the task after every step.
    """
    if what.name not in chosen.tasks:
        raise RegardError(f"{chosen.name} does not learn {what.name}: it learns {', '.join(chosen.tasks)}")
    given = {name: getattr(job, name) for name in ("steps", "epochs", "minutes")}
    duration = loop.Duration(**given) if any(value is not None for value in given.values()) else None
    store = Store(job.out)
    splits = splits_of(job.data, job.read, job.seed)
    with store.lock():
        task = what.kind().of(splits, job.task)
        torch.manual_seed(job.seed)
        config = task.configured(job.model)
        model = chosen.make(config)
        said = dataclasses.asdict(job) | {"model_name": chosen.name, "task_name": what.name}
        del said["out"]  # a copy of the folder elsewhere is the same run
        size = sum(parameter.numel() for parameter in model.parameters())
        say(f"{chosen.name}, {size:,} parameters, on {job.data}: {len(splits.train):,} training pairs")
        for warning in splits.warnings:
            say(warning)
        with showing or contextlib.nullcontext():
            outcome = loop.train(
                model,
                task,
                splits,
                job.train,
                duration or loop.Duration(minutes=5),
                store=store,
                config=_published(what, chosen, job, config, command),
                options=said,
                seed=job.seed,
                resume=job.resume,
                report=report,
                watch=watch,
            )
        for warning in outcome.warnings:
            say(warning)
        if not outcome.stopped:
            files.write_atomically(store.path / "README.md", _card(chosen, job, outcome.metrics, command).encode())
    return outcome


def _published(what: TaskEntry, chosen: Entry, job: Job[Any, Any], config: Any, command: str) -> dict[str, Any]:
    """What is kept beside the weights."""
    return {
        "format_version": 1,
        "model_type": f"regard.{chosen.name}",
        "model_name": chosen.name,
        "model": dataclasses.asdict(config),
        "task_name": what.name,
        "task": dataclasses.asdict(job.task),
        "data": job.data,
        "read": dataclasses.asdict(job.read),
        "seed": job.seed,
        "train": dataclasses.asdict(job.train),
        "command": command,
        "versions": {"regard": __version__, "torch": torch.__version__, "python": sys.version.split()[0]},
        "threads": torch.get_num_threads(),
    }


def _card(chosen: Entry, job: Job[Any, Any], metrics: dict[str, float], command: str) -> str:
    """The run in words, for whoever finds the folder."""
    return "\n".join(_card_lines(chosen, job, metrics, command))


def _card_lines(chosen: Entry, job: Job[Any, Any], metrics: dict[str, float], command: str) -> Iterator[str]:
    yield f"# {chosen.name} on {job.data}\n\n{chosen.title}.\n\n{chosen.paper}\n"
    yield f"Made by\n\n    {command}\n\nwith seed {job.seed}. On the validation pairs, at its best:\n"
    yield "| measure | value |\n|---|---|"
    for name, value in metrics.items():
        yield f"| {name} | {value:.6g} |"
    yield "\nUse it: `regard predict FOLDER TEXT`, or `regard.load(FOLDER).predict([…])`.\n"
