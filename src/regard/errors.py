"""What can go wrong outside of the arithmetic, by who can mend it. Each kind has an exit code of its own.

    1  the user's mistake: an option, a name, a path        2  data or a file that cannot be used
    3  no space left                                         4  out of memory

The command line prints the message alone; in Python they are ordinary exceptions.
"""

import difflib
import errno
from collections.abc import Iterable

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says of a disk, a quota or a limit that is full."""


class RegardError(Exception):
    """The user's mistake: the message says what came, what was expected, and what to do."""

    exit_code = 1


class BadData(RegardError):  # noqa: N818
    """A data file that cannot be read as asked: `file:line: reason`.

    >>> raise BadData("an unclosed quote", file="pairs.csv", line=3)
    Traceback (most recent call last):
    regard.errors.BadData: pairs.csv:3: an unclosed quote
    """

    exit_code = 2

    def __init__(self, reason: str, *, file: str | None = None, line: int | None = None) -> None:
        place = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(place + reason)
        self.reason, self.file, self.line = reason, file, line


class Damaged(RegardError):  # noqa: N818
    """A file of a run that is not what was written: cut short, changed, missing, or of another run."""

    exit_code = 2


class NoSpace(RegardError):  # noqa: N818
    """The disk is full, or would be."""

    exit_code = 3


class OutOfMemory(RegardError):  # noqa: N818
    """A batch did not fit into memory."""

    exit_code = 4


class Diverged(RegardError):  # noqa: N818
    """Training met a number that is not finite; the step was not applied."""


def nearest(word: str, known: Iterable[str]) -> str:
    """A closing hint for a misspelt word: the nearest known one, then all of them.

    >>> nearest("modls", ["tasks", "models"])
    "did you mean 'models'? one of: models, tasks"
    """
    options = sorted(known)
    close = difflib.get_close_matches(word, options, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}one of: {', '.join(options)}"
