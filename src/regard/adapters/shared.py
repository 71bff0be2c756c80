"""What is done once for all who want it, and undone when the last of them has left."""

import threading
from collections.abc import Callable
from types import TracebackType


class Shared:
    """A change of something that a whole process shares, such as a flag: several may ask for it, in any order.

    Args:
        make: Makes the change, and returns what undoes it.
    """

    def __init__(self, make: Callable[[], Callable[[], None]]) -> None:
        self._make = make
        self._undo: Callable[[], None] | None = None
        self._wanted = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            if self._undo is None:
                self._undo = self._make()
            self._wanted += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._wanted -= 1
            if not self._wanted and self._undo is not None:
                self._undo()
                self._undo = None
