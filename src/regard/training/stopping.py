"""Stopping on request: the first signal ends training after its step, with a state saved; the second at once."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop:
    """Whether to stop.

    Attributes:
        signal: The signal's number, or 0.
    """

    def __init__(self) -> None:
        self.signal = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Notes the first signal; at the second leaves without another word: the states on disk are complete."""
        del frame
        if self.signal:
            os._exit(128 + number)
        self.signal = number

    @contextlib.contextmanager
    def if_nobody_listens(self) -> Iterator[None]:
        """Takes a reader who has gone, at the other end of a pipe, for a request to stop."""
        try:
            yield
        except BrokenPipeError:
            self.signal = self.signal or signal.SIGPIPE


@contextlib.contextmanager
def requested() -> Iterator[Stop]:
    """Catches interrupt, termination and hang-up while the block runs; does nothing outside the main thread."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
