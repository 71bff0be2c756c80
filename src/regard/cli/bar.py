"""Progress on the error stream: a live line in a terminal, plain lines elsewhere, nothing when quiet."""

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live

from regard.training.record import Progress

PLAIN_EVERY = 10.0
"""Seconds between two plain lines."""


class Bar:
    """Shows how training goes, while it is entered."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.console = Console(stderr=True, highlight=False)
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
            self._live.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        if not self.quiet:
            self.console.print(text, markup=False, soft_wrap=True)

    def report(self, progress: Progress) -> None:
        """The line of a step."""
        if self._terminal:
            self._live.update(line(progress))
        elif not self.quiet and (time.monotonic() - self._last > PLAIN_EVERY or progress.step == progress.steps):
            self._last = time.monotonic()
            print(line(progress), file=sys.stderr, flush=True)  # noqa: T201


def line(progress: Progress) -> str:
    """Step, loss, speed, time left, and the best validation.

    >>> line(Progress(10, 200, 1.25, 5300.0, 75.0, {"exact": 0.5}))
    'step 10/200  loss 1.250  5,300 tokens/s  1:15 left  best exact 50.0%'
    """
    parts = [f"step {progress.step}/{progress.steps or '?'}", f"loss {progress.loss:.3f}"]
    if progress.speed:
        parts.append(f"{progress.speed:,.0f} tokens/s")
    if progress.left is not None:
        minutes, seconds = divmod(int(progress.left), 60)
        parts.append(f"{minutes}:{seconds:02} left")
    if "exact" in progress.metrics:
        parts.append(f"best exact {progress.metrics['exact']:.1%}")
    return "  ".join(parts)
