"""`regard train TASK --model NAME --data SPEC --out RUN …`: from data to a run folder."""

import dataclasses
import difflib
import shlex
from pathlib import Path
from typing import Any

from regard.cli.options import from_file, over, parsed, taken
from regard.errors import RegardError
from regard.models.catalogue import Entry, entry
from regard.tasks.catalogue import TaskEntry, task_entry

NAMED = ["--model", "--preset", "--config"]
"""What is read before the rest can be typed."""


def run(words: list[str]) -> int:
    """Trains, and says where it got to and what to type next."""
    task_name, rest = (words[0], words[1:]) if words and not words[0].startswith("-") else (None, words)
    model_name, rest = taken(rest, "--model")
    preset, rest = taken(rest, "--preset", "small")
    file, rest = taken(rest, "--config")
    printed, rest = "--print-config" in rest, [word for word in rest if word != "--print-config"]
    quiet, rest = "--quiet" in rest, [word for word in rest if word != "--quiet"]
    helped = bool({"-h", "--help"} & set(rest))
    if task_name is None and not helped and "--resume" not in rest:
        raise RegardError("train: name a task, such as: regard train translate --data dates --out runs/dates")
    saved = _saved(rest) if "--resume" in rest and not helped else None
    what = task_entry(saved.pop("task_name") if saved else task_name or "translate")
    chosen = entry(saved.pop("model_name") if saved else model_name or what.model)
    _check_names(rest)
    from regard.job import Job

    default: Any = Job(data=what.data, task=what.options()(), model=chosen.preset(str(preset)))
    if saved is not None:
        default = over(default, saved, "the run")
    if file is not None:
        default = from_file(file, default)
    kind: Any = Job[chosen.config(), what.options()]  # type: ignore[misc]
    job = parsed(kind, rest, default=default, command="train")
    if printed:
        return _print_config(job)
    return trained(what, chosen, job, command="regard train " + shlex.join(words), quiet=quiet)


def trained(what: TaskEntry, chosen: Entry, job: Any, *, command: str, watch: Any = None, quiet: bool = False) -> int:
    """Trains with the options given; the exit code says how it ended."""
    from regard.cli.bar import Bar
    from regard.job import run_job

    bar = Bar(quiet=quiet)
    outcome = run_job(what, chosen, job, command=command, say=bar.say, report=bar.report, showing=bar, watch=watch)
    if outcome.stopped:
        bar.say(f"stopped at step {outcome.step} of {outcome.steps}; go on with: regard train --resume --out {job.out}")
        return 128 + outcome.stopped
    found = ", ".join(f"{name} {value:.4g}" for name, value in outcome.metrics.items())
    bar.say(f"{job.out}: {found}")
    bar.say(f"next: regard predict {job.out}    regard look {job.out} TEXT    regard eval {job.out}")
    return 0


def _check_names(words: list[str]) -> None:
    """Suggests --model, --preset and --config where one of them was meant: the typed options do not know them."""
    for word in words:
        close = difflib.get_close_matches(word.partition("=")[0], NAMED, n=1, cutoff=0.8)
        if close and "." not in word:
            raise RegardError(f"train: there is no option {word}: did you mean {close[0]}?")


def _saved(words: list[str]) -> dict[str, Any] | None:
    """The options that a run was started with, if it has a state."""
    from regard.training.store import Store

    out, _ = taken(words, "--out")
    state = Store(out).load_state() if out and Path(out).is_dir() else None
    return None if state is None else {**state.record["options"], "out": out}


def _print_config(job: Any) -> int:
    """The options as a file for --config."""
    import msgspec

    print(msgspec.json.format(msgspec.json.encode(dataclasses.asdict(job))).decode())  # noqa: T201
    return 0
