"""Progress on the error stream: a live line in a terminal, plain lines elsewhere, nothing when quiet."""

import contextlib
import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live

from regard.training.record import Progress

PLAIN_EVERY = 10.0
"""Seconds between two plain lines."""


class _Console(Console):
    """A console that says when nobody reads it, where rich's own would end the program."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Bar:
    """Shows how training goes, while it is entered."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.console = _Console(stderr=True, highlight=False)
        self._live = Live(console=self.console, refresh_per_second=4, transient=True)
        self._terminal = self.console.is_terminal and not quiet
        self._last = 0.0

    def __enter__(self) -> Self:
        if self._terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal:
            with contextlib.suppress(OSError):  # the terminal may have gone
                self._live.stop()

    def say(self, text: str) -> None:
        """A line that stays; if nobody listens any more, `report` will notice."""
        if not self.quiet:
            with contextlib.suppress(OSError):
                self.console.print(text, markup=False, soft_wrap=True)

    def report(self, progress: Progress) -> None:
        """The line of a step."""
        if self._terminal:
            self._live.update(str(progress))
        elif not self.quiet and (time.monotonic() - self._last > PLAIN_EVERY or progress.step == progress.steps):
            self._last = time.monotonic()
            print(progress, file=sys.stderr, flush=True)  # noqa: T201
