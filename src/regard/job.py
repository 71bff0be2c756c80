"""From data to a run folder: the one place where a task, a model, data and the training loop meet.

    regard.train(data="pairs.tsv", out="runs/mine", minutes=10)

is `regard train translate --data pairs.tsv --out runs/mine --minutes 10`.
"""

import contextlib
import dataclasses
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import torch

from regard import __version__
from regard.data.specs import Read, splits_of
from regard.errors import RegardError
from regard.models.catalogue import Entry, entry
from regard.run import Run, load
from regard.tasks.catalogue import TaskEntry, task_entry
from regard.training import loop
from regard.training.options import over
from regard.training.record import Progress
from regard.training.resuming import found, newest
from regard.training.settings import Duration, Settings
from regard.training.store import State, Store

Model = TypeVar("Model")
Task = TypeVar("Task")
MINUTES = 5.0
"""How long a run lasts of which nothing else is said."""


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

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**63:
            raise RegardError(f"--seed must be at least 0 and below 2^63, got {self.seed}")


class Beginning(NamedTuple):
    """What holds before any option is given: the defaults, or what a run that goes on was started with.

    Attributes:
        what: The task.
        chosen: The model.
        job: The options, without how long.
        lasting: How long, in the options' names.
    """

    what: TaskEntry
    chosen: Entry
    job: Job[Any, Any]
    lasting: dict[str, Any]

    def settled(self, job: Job[Any, Any]) -> Job[Any, Any]:
        """The options given, lasting as long as the run was to unless they say how long: one of the two, never both."""
        said = any(getattr(job, name) is not None for name in self.lasting)
        return job if said else dataclasses.replace(job, **self.lasting)


def beginning(task: str, model: str, preset: str, *, out: str, resume: bool) -> Beginning:
    """What a job begins with.

    Args:
        task: Its name; "" for the default, or that of the run.
        model: The same of the model.
        preset: Of the model's sizes; "" for the small ones, or those of the run.
        out: The run folder.
        resume: Whether it goes on.

    Raises:
        RegardError: if a name is unknown, there is nothing to go on with, or the run is of another task or model.
    """
    saved = dict(newest(Store(out)).record["options"]) if resume else {}
    own = {"task": saved.pop("task_name", ""), "model": saved.pop("model_name", "")}
    for name, given in (("task", task), ("model", model)):
        if resume and given not in ("", own[name]):
            raise RegardError(
                f"{out} is a run of the {name} {own[name]}, and does not go on with {given}: leave it out, or choose "
                "another --out"
            )
    if resume and preset:
        raise RegardError(f"{out} goes on with the sizes that it has: leave out the preset {preset}")
    what = task_entry(own["task"] or task or "translate")
    chosen = entry(own["model"] or model or what.model)
    job: Job[Any, Any] = Job(data=what.data, task=what.options()(), model=chosen.preset(preset or "small"))
    saved.pop("commands", None)
    lasting = {name: saved.pop(name, None) for name in ("steps", "epochs", "minutes")}
    return Beginning(what, chosen, over(job, {**saved, "out": out}, f"{out}: its options"), lasting)


def train(
    *,
    task: str = "",
    model: str = "",
    preset: str = "",
    data: str | Path | None = None,
    out: str | Path,
    steps: int | None = None,
    epochs: int | None = None,
    minutes: float | None = None,
    seed: int | None = None,
    resume: bool = False,
    read: Read | None = None,
    options: Any = None,
    settings: Settings | None = None,
    config: Any = None,
) -> Run:
    """Trains a model and returns the run, ready to use. Nothing is printed; what should be known is a warning.

    Ctrl-C saves a state and then interrupts: with `resume=True` the run goes on, with its own options unless they
    are given anew.

    Args:
        task: What is learned (`regard ls tasks`): `translate` unless given.
        model: What learns, by name (`regard ls models`).
        preset: Its sizes, by name.
        data: A known set, a file or a folder; what the task generates unless given.
        out: The run folder.
        steps: How long; or
        epochs: how often over the data; or
        minutes: how long by the clock: five unless any is given.
        seed: Of everything random: 0 unless given.
        resume: Whether to go on where the folder stopped.
        read: How one's own data is read.
        options: The task's options, its dataclass.
        settings: How it is trained.
        config: The model's configuration, instead of a preset.

    Raises:
        RegardError: as the command line says it.
    """
    words = {"task": task, "model": model, "preset": preset, "out": str(out) if isinstance(out, Path) else out}
    simple = {
        "data": str(data) if isinstance(data, Path) else data,
        "steps": steps,
        "epochs": epochs,
        "minutes": minutes,
        "seed": seed,
        "resume": resume,
    }
    trees = {"read": read, "options": options, "settings": settings, "config": config}
    begun, job = _asked(words, simple, trees)
    given = {**words, **simple, **trees}
    said = ", ".join(f"{name}={value!r}" for name, value in given.items() if value not in (None, "", False))
    outcome = run_job(
        begun.what,
        begun.chosen,
        job,
        command=f"regard.train({said})",
        warn=lambda text: warnings.warn(text, stacklevel=2),
    )
    if outcome.stopped == signal.SIGINT:
        raise KeyboardInterrupt(f"stopped at step {outcome.step}, and saved: go on with resume=True")
    if outcome.stopped:
        signal.raise_signal(outcome.stopped)  # it was held back until all was saved
    return load(job.out)


def _asked(words: dict[str, Any], simple: dict[str, Any], trees: dict[str, Any]) -> tuple[Beginning, Job[Any, Any]]:
    """What the arguments of `train` ask for, each of its type."""
    for name, value in words.items():
        if not isinstance(value, str):
            raise RegardError(f"regard.train: {name} must be text, got {value!r}")
    begun = beginning(**words, resume=simple["resume"] is True)
    chosen = {name: value for name, value in {**simple, "out": words["out"]}.items() if value is not None}
    own = {"read": "read", "options": "task", "settings": "train", "config": "model"}
    for name, value in trees.items():
        kind = type(getattr(begun.job, own[name]))
        if value is not None and not isinstance(value, kind):
            raise RegardError(f"regard.train: {name} must be a {kind.__module__}.{kind.__name__}, got {value!r}")
        if value is not None:
            chosen[own[name]] = value
    return begun, begun.settled(over(begun.job, chosen, "regard.train"))


def run_job(
    what: TaskEntry,
    chosen: Entry,
    job: Job[Any, Any],
    *,
    command: str,
    say: Callable[[str], None] = lambda _: None,
    warn: Callable[[str], None] | None = None,
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
        say: Is told what stays to be read, such as sizes.
        warn: Is told what should be known before the first step; `say` is unless given.
        report: Is told how it goes, after every step.
        showing: Entered while the steps are made: a bar.
        watch: Is shown the model and the task after every step.
    """
    warn = warn or say
    if what.name not in chosen.tasks:
        raise RegardError(f"{chosen.name} does not learn {what.name}: it learns {', '.join(chosen.tasks)}")
    lasting = {name: getattr(job, name) for name in ("steps", "epochs", "minutes")}
    if not any(value is not None for value in lasting.values()):
        lasting["minutes"] = MINUTES
    duration = Duration(**lasting)
    store = Store(job.out)
    with store.lock():
        # Whether the folder may be used comes before the data, which may take long to read.
        state = found(store, resume=job.resume)
        begun = 0 if state is None else state.step
        splits = splits_of(job.data, job.read, job.seed)
        task = what.kind().of(splits, job.task)
        job = dataclasses.replace(job, task=task.options)  # with what the task found in the data
        torch.manual_seed(job.seed)
        config = task.configured(job.model)
        model = chosen.make(config)
        commands = _commands(state, command)
        said = {**dataclasses.asdict(job), **lasting}
        said |= {"model_name": chosen.name, "task_name": what.name, "commands": commands}
        del said["out"], said["resume"]  # a copy of the folder elsewhere is the same run
        size = sum(parameter.numel() for parameter in model.parameters())
        say(f"{chosen.name}, {size:,} parameters, on {job.data}: {len(splits.train):,} training pairs")
        for warning in splits.warnings:
            warn(warning)
        with showing or contextlib.nullcontext():
            outcome = loop.train(
                model,
                task,
                splits,
                job.train,
                duration,
                store=store,
                config=_published(what, chosen, job, config, commands),
                options=said,
                seed=job.seed,
                state=state,
                describe=lambda metrics: "\n".join(_card(chosen, job, metrics, commands)),
                report=report,
                warn=warn,
                watch=watch,
            )
        if outcome.ended:
            (say if outcome.step > begun else warn)(outcome.ended)
    return outcome


def _commands(state: State | None, command: str) -> list[str]:
    """All that was typed to come here, the first one first; what was typed again and again once."""
    before = [] if state is None else list(state.record["options"].get("commands", ()))
    return before if before[-1:] == [command] else [*before, command]


def _published(
    what: TaskEntry, chosen: Entry, job: Job[Any, Any], config: Any, commands: Sequence[str]
) -> dict[str, Any]:
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
        "command": commands[0],
        "went_on_by": list(commands[1:]),
        "versions": {"regard": __version__, "torch": torch.__version__, "python": sys.version.split()[0]},
        "threads": torch.get_num_threads(),
    }


def _card(chosen: Entry, job: Job[Any, Any], metrics: dict[str, float], commands: Sequence[str]) -> Iterator[str]:
    """The lines of the run in words, for whoever finds the folder."""
    yield f"# {chosen.name} on {job.data}\n\n{chosen.title}.\n\n{chosen.paper}\n"
    yield "Made by\n"
    yield from (f"    {command}" for command in commands)
    yield f"\nwith seed {job.seed}. On the validation pairs, at its best:\n"
    yield "| measure | value |\n|---|---|"
    for name, value in metrics.items():
        yield f"| {name} | {value:.6g} |"
    yield "\nUse it: `regard predict FOLDER TEXT`, or `regard.load(FOLDER).predict([…])`.\n"
