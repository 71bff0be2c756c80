"""`regard look RUN TEXT …`: where a run looked while it wrote each answer, drawn in the terminal."""

from typing import Any

from regard.errors import RegardError

LINE_END = "∎"
"""Stands for END, in a picture."""


def run(words: list[str]) -> int:
    """Draws the weights of each text: columns what was read, rows what was written."""
    if {"-h", "--help"} & set(words):
        print(f"usage: regard look RUN TEXT …\n\n{__doc__}")  # noqa: T201
        return 0
    if len(words) < 2 or any(word.startswith("--") for word in words):
        raise RegardError("look: name a run folder and at least one text: regard look RUN TEXT …")
    from regard.cli import printable
    from regard.run import load

    trained = load(words[0])
    for text, answer in zip(words[1:], trained.look(words[1:]), strict=True):
        print(f"{printable(text)}  →  {printable(trained.task.text(answer))}")  # noqa: T201
        if answer.weights is None:
            raise RegardError(f"look: {trained.config['model_name']} has no attention: there is nothing to see")
        picture(trained.task, text, answer)
    return 0


def picture(task: Any, text: str, answer: Any) -> None:
    """One answer's weights."""
    from regard.view.terminal import draw

    if answer.weights is None:
        return
    columns = [*task.source.tokens(task.encoded(text)[:-1]), LINE_END]
    rows = [*task.target.tokens(answer.tokens), LINE_END][: len(answer.weights)]
    draw(answer.weights.tolist(), columns, rows)
