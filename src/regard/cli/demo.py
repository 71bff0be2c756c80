"""`regard demo`: a small translator learns dates of forty languages, and shows where it looks as it learns."""

import time
from pathlib import Path
from typing import Any

from regard.cli.options import taken
from regard.cli.words import within
from regard.errors import RegardError

STEPS = 500
DRAWN = (50, 100, 200)
"""After which steps there is a picture; the last one follows at the end."""
SHOWN = ("mercredi 18 novembre 2026", "18 de noviembre de 2026", "2026年11月18日")


def run(words: list[str]) -> int:
    """Trains on the embedded dates for a few minutes, drawing an alignment now and then."""
    if {"-h", "--help"} & set(words):
        print(f"usage: regard demo [--out RUN] [--steps N]\n\n{__doc__}")  # noqa: T201
        return 0
    out, words = taken(words, "--out", _free_folder())
    steps, words = within(words, "--steps", int, least=1)
    if words:
        raise RegardError(f"demo: takes --out RUN and --steps N only, got {' '.join(words)}")
    from regard.cli.look import picture
    from regard.cli.train import trained
    from regard.job import Job
    from regard.models.catalogue import entry
    from regard.run import load
    from regard.tasks.catalogue import task_entry
    from regard.training.settings import Settings

    what, chosen = task_entry("translate"), entry("rnnsearch")
    last = STEPS if steps is None else steps
    job: Job[Any, Any] = Job(
        model=chosen.preset("small"),
        out=str(out),
        steps=last,
        task=what.options()(),
        train=Settings(tokens=6000, rate=4e-3, validate=last, save=last),
    )
    begin = time.monotonic()

    def watch(model: Any, task: Any, step: int) -> None:
        if step in DRAWN:
            answer = task.answers(model, SHOWN[:1])[0]
            print(f"\nafter {step} steps, {time.monotonic() - begin:.0f} s: {SHOWN[0]}  →  {task.text(answer)}")  # noqa: T201
            picture(task, SHOWN[0], answer)

    code = trained(what, chosen, job, command=f"regard demo --out {out}", watch=watch)
    if code:
        return code
    result = load(str(out))
    for text, answer in zip(SHOWN, result.look(SHOWN), strict=True):
        print(f"\n{text}  →  {result.task.text(answer)}")  # noqa: T201
        picture(result.task, text, answer)
    print(  # noqa: T201
        f'\nTry: regard look {out} "3 October 1998"    or your own pairs: '
        "regard train translate --data pairs.tsv --out runs/mine"
    )
    return 0


def _free_folder() -> str:
    """runs/dates, or the first of runs/dates-2, … that is not there."""
    number = 1
    while Path(name := f"runs/dates{'' if number == 1 else f'-{number}'}").exists():
        number += 1
    return name
