"""`regard look RUN TEXT … [--to matrix|pharaoh|json]`: where a run looked while it wrote each answer."""

from typing import Any

from regard.cli.options import taken
from regard.cli.words import no_more_options, parted
from regard.errors import RegardError, nearest

LINE_END = "∎"
"""Stands for END, in a picture."""
FORMS = ("matrix", "pharaoh", "json")

USAGE = """usage: regard look RUN TEXT … [--to matrix|pharaoh|json] [-- TEXT …]

What stands behind -- is text, whatever it is.

  matrix     a picture in the terminal: columns what was read, rows what was written, the darker the more
  pharaoh    a line for each text: source-target, from 0, for each written token the one that it looked at most
  json       a line for each text: tokens, log-probabilities, and all weights"""


def run(words: list[str]) -> int:
    """Draws or prints the weights of each text."""
    words, behind = parted(words)
    if {"-h", "--help"} & set(words):
        print(USAGE)  # noqa: T201
        return 0
    form, words = taken(words, "--to", FORMS[0])
    if form not in FORMS:
        raise RegardError(f"look: --to {form} is not known: {nearest(str(form), FORMS)}")
    no_more_options("look", words, ("--to", "--help"))
    words += behind
    if len(words) < 2:
        raise RegardError("look: name a run folder and at least one text: regard look RUN TEXT …")
    from regard.cli import printable
    from regard.decode import alignment
    from regard.run import load

    trained = load(words[0])
    for text, answer in zip(words[1:], trained.look(words[1:]), strict=True):
        if answer.weights is None:
            raise RegardError(f"look: {trained.config['model_name']} has no attention: there is nothing to see")
        if form == "pharaoh":
            print(alignment.pharaoh(answer))  # noqa: T201
        elif form == "json":
            columns, rows = _names(trained.task, text, answer)
            print(alignment.as_json(answer, source=columns, target=rows))  # noqa: T201
        else:
            print(f"{printable(text)}  →  {printable(trained.task.text(answer))}")  # noqa: T201
            picture(trained.task, text, answer)
    return 0


def picture(task: Any, text: str, answer: Any) -> None:
    """One answer's weights."""
    from regard.view.terminal import draw

    if answer.weights is not None:
        draw(answer.weights.tolist(), *_names(task, text, answer))


def _names(task: Any, text: str, answer: Any) -> tuple[list[str], list[str]]:
    """What was read and what was written, token by token."""
    columns = [*task.source.tokens(task.encoded(text)[:-1]), LINE_END]
    return columns, [*task.target.tokens(answer.tokens), LINE_END][: len(answer.weights)]
