"""`regard train TASK --model NAME --data SPEC --out RUN …`: from data to a run folder."""

import dataclasses
import difflib
import shlex
from typing import Any

from regard.cli.options import flag, from_file, parsed, taken
from regard.errors import RegardError
from regard.models.catalogue import Entry, entry
from regard.tasks.catalogue import TaskEntry, task_entry

NAMED = ["--model", "--preset", "--config"]
"""What is read before the rest can be typed."""

USAGE = """usage: regard train TASK [options]          regard train --resume --out RUN [options]

Trains a model on your data, into a run folder. The most used options:

  --data SPEC          a known set, a file or folder of your own, or hub:ID (regard ls data)
  --model NAME         which model learns (regard ls models)
  --preset NAME        its sizes: small (the default) or paper
  --out RUN            the run folder
  --minutes M          how long: minutes, or
  --steps N            steps, or
  --epochs E           passes over the data
  --seed S             of everything random
  --resume             go on where the run folder stopped; its options hold unless given anew
  --config FILE        options from a TOML or JSON file; --print-config prints one
  --quiet              say nothing but errors

regard train TASK --help lists all options (regard ls tasks); with --model NAME those of that model."""


def run(words: list[str]) -> int:
    """Trains, and says where it got to and what to type next."""
    task_name, rest = (words[0], words[1:]) if words and not words[0].startswith("-") else ("", words)
    helped = bool({"-h", "--help"} & set(rest))
    if helped and not task_name:
        print(USAGE)  # noqa: T201
        return 0
    model_name, rest = taken(rest, "--model", "")
    preset, rest = taken(rest, "--preset", "")
    file, rest = taken(rest, "--config")
    printed, rest = flag(rest, "--print-config")
    quiet, rest = flag(rest, "--quiet")
    resume = "--resume" in rest and not helped
    if not task_name and not resume:
        raise RegardError("train: name a task, such as: regard train translate --data dates --out runs/dates")
    # A mistake in a name is told of before PyTorch is imported, which takes a second.
    _check_names(rest)
    for name, look in ((task_name, task_entry), (model_name, entry)):
        if name:
            look(name)
    from regard.job import Job, beginning

    out, _ = taken(rest, "--out", Job.out)
    begun = beginning(task_name, str(model_name), str(preset), out=str(out), resume=resume)
    default = begun.job if file is None else from_file(file, begun.job)
    kind: Any = Job[begun.chosen.config(), begun.what.options()]  # type: ignore[misc]
    job = begun.settled(parsed(kind, rest, default=default, command="train"))
    if printed:
        return _print_config(job)
    return trained(begun.what, begun.chosen, job, command="regard train " + shlex.join(words), quiet=quiet)


def trained(what: TaskEntry, chosen: Entry, job: Any, *, command: str, watch: Any = None, quiet: bool = False) -> int:
    """Trains with the options given; the exit code says how it ended."""
    from regard.cli.bar import Bar
    from regard.job import run_job

    bar = Bar(quiet=quiet)
    outcome = run_job(what, chosen, job, command=command, say=bar.say, report=bar.report, showing=bar, watch=watch)
    if outcome.stopped:
        again = f"go on with: regard train --resume --out {job.out}"
        bar.say(f"stopped at step {outcome.step} of {outcome.steps or 'some'}; {again}")
        if not outcome.metrics:
            first = min(job.train.validate, outcome.steps or job.train.validate)
            bar.say(f"that was before its first validation, at step {first}: there is nothing to predict with yet")
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


def _print_config(job: Any) -> int:
    """The options as a file for --config."""
    import msgspec

    print(msgspec.json.format(msgspec.json.encode(dataclasses.asdict(job))).decode())  # noqa: T201
    return 0
