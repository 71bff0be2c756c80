"""`regard train TASK --model NAME --data SPEC --out RUN …`: from data to a run folder."""

import dataclasses
import difflib
import shlex
import sys
from pathlib import Path
from typing import Any

from regard.cli.options import from_file, over, parsed, taken
from regard.errors import RegardError
from regard.models.catalogue import Entry, entry


def run(words: list[str]) -> int:
    """Trains, and says where it got to and what to type next."""
    task_name = words[0] if words and not words[0].startswith("-") else None
    model_name, rest = taken(words[1:] if task_name else words, "--model", "rnnsearch")
    preset, rest = taken(rest, "--preset", "small")
    file, rest = taken(rest, "--config")
    if task_name not in ("translate", None):
        raise RegardError(f"train: there is no task {task_name!r}: regard ls tasks lists them: translate")
    if task_name is None and not {"-h", "--help"} & set(words) and "--resume" not in words:
        raise RegardError("train: name a task, such as: regard train translate --data dates --out runs/dates")
    chosen = entry(str(model_name))
    presets = chosen.presets()
    if preset not in presets:
        raise RegardError(f"train: {chosen.name} has no preset {preset!r}: one of {', '.join(presets)}")
    from regard.cli.training import Train

    default: Any = Train(model=presets[str(preset)])
    saved = _saved(rest) if "--resume" in rest else None
    if saved is not None:
        chosen = entry(saved.pop("model_name"))
        default = over(Train(model=chosen.config()()), saved, "the run")
    if file is not None:
        default = from_file(file, default)
    _check_names(rest)
    options = parsed(Train[chosen.config()], rest, default=default, command="train")  # type: ignore[misc]
    return trained(chosen, options, command="regard train " + shlex.join(words))


def _check_names(words: list[str]) -> None:
    """Suggests --model, --preset and --config where one of them was meant: the typed options do not know them."""
    for word in words:
        close = difflib.get_close_matches(word.partition("=")[0], ["--model", "--preset", "--config"], n=1, cutoff=0.8)
        if close and "." not in word:
            raise RegardError(f"train: there is no option {word}: did you mean {close[0]}?")


def _saved(words: list[str]) -> dict[str, Any] | None:
    """The options that a run was started with, if it has a state."""
    from regard.training.store import Store

    out, _ = taken(words, "--out")
    state = Store(out).load_state() if out and Path(out).is_dir() else None
    return None if state is None else {**state.record["options"], "out": out}


def trained(chosen: Entry, options: Any, *, command: str, watch: Any = None, quiet: bool = False) -> int:
    """Trains with the options given; the exit code says how it ended."""
    import torch

    from regard import __version__
    from regard.cli.bar import Bar
    from regard.data.specs import load
    from regard.tasks.translate import Translate
    from regard.training import files
    from regard.training.loop import Duration, train
    from regard.training.store import Store

    given = {name: getattr(options, name) for name in ("steps", "epochs", "minutes")}
    duration = Duration(**given) if any(given.values()) else Duration(minutes=5)
    store = Store(options.out)
    splits = load(options.data, seed=options.seed)
    with store.lock():
        task = Translate.of(splits, options.task)
        torch.manual_seed(options.seed)
        config = task.configured(options.model)
        model = chosen.make(config)
        size = sum(parameter.numel() for parameter in model.parameters())
        said = dataclasses.asdict(options) | {"model_name": chosen.name}
        bar = Bar(quiet=quiet)
        bar.say(f"{chosen.name}, {size:,} parameters, on {options.data}: {len(splits.train):,} training pairs")
        for warning in splits.warnings:
            bar.say(warning)
        with bar:
            outcome = train(
                model,
                task,
                splits,
                options.train,
                duration,
                store=store,
                config={
                    "format_version": 1,
                    "model_type": f"regard.{chosen.name}",
                    "model_name": chosen.name,
                    "model": dataclasses.asdict(config),
                    "task_name": task.name,
                    "task": dataclasses.asdict(options.task),
                    "data": options.data,
                    "seed": options.seed,
                    "train": dataclasses.asdict(options.train),
                    "command": command,
                    "versions": {"regard": __version__, "torch": torch.__version__, "python": sys.version.split()[0]},
                    "threads": torch.get_num_threads(),
                },
                options=said,
                seed=options.seed,
                resume=options.resume,
                report=bar.report,
                watch=watch,
            )
    for warning in outcome.warnings:
        bar.say(f"passed over: {warning}")
    if outcome.stopped:
        bar.say(
            f"stopped at step {outcome.step} of {outcome.steps}; go on with: regard train --resume --out {options.out}"
        )
        return 128 + outcome.stopped
    files.write_atomically(store.path / "README.md", _card(chosen, options, outcome.metrics, command).encode())
    found = ", ".join(f"{name} {value:.4g}" for name, value in outcome.metrics.items())
    bar.say(f"{options.out}: {found}")
    bar.say(f"next: regard predict {options.out}    regard look {options.out} TEXT    regard eval {options.out}")
    return 0


def _card(chosen: Entry, options: Any, metrics: dict[str, float], command: str) -> str:
    """The run in words, for whoever finds the folder."""
    measured = "\n".join(f"| {name} | {value:.6g} |" for name, value in metrics.items())
    return (
        f"# {chosen.name} on {options.data}\n\n{chosen.title}.\n\n{chosen.paper}\n\n"
        f"Made by\n\n    {command}\n\nwith seed {options.seed}. On the validation pairs, at its best:\n\n"
        f"| measure | value |\n|---|---|\n{measured}\n\n"
        f"Use it: `regard predict FOLDER TEXT`, or `regard.load(FOLDER).predict([…])`.\n"
    )
