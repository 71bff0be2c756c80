"""Every task by its name, and where it stands. Imports no task."""

import dataclasses
import importlib
from typing import Any

from regard.errors import RegardError, nearest


@dataclasses.dataclass(frozen=True)
class TaskEntry:
    """One task.

    Attributes:
        name: As the command line knows it.
        title: One line.
        place: Its module and its class.
        data: What it learns from where nothing is named: embedded, generated.
        model: What it is learned by where nothing is named.
    """

    name: str
    title: str
    place: tuple[str, str]
    data: str
    model: str

    def options(self) -> type[Any]:
        """The dataclass of its choices."""
        kind: type[Any] = importlib.import_module(self.place[0]).Options
        return kind

    def kind(self) -> Any:
        """Its class, which is made with `of(splits, options)` or `load(options, files)`."""
        return getattr(importlib.import_module(self.place[0]), self.place[1])


TASKS = (
    TaskEntry(
        "translate", "any line of text to any other", ("regard.tasks.translate", "Translate"), "dates", "rnnsearch"
    ),
)


def task_entry(name: str) -> TaskEntry:
    """The task of that name.

    Raises:
        RegardError: if there is none; the nearest is suggested.
    """
    known = {task.name: task for task in TASKS}
    if name in known:
        return known[name]
    raise RegardError(f"there is no task {name!r}: {nearest(name, known)} (regard ls tasks)")
