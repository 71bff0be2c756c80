"""One trainer a run: who holds the folder, and whether that one still lives.

`RUN/lock` names a process by its number, the time it started (numbers are used again), and the machine as the
kernel sees it: one boot, one space of process numbers. On the same machine a holder lives if that very process
does. For a holder elsewhere (another container, a shared disk) the lock that the system keeps on the open file
decides: it falls when the process ends.

Taking and leaving happen under a guard, a short lock on the folder itself, so that two who find a dead
holder's file cannot both take it over.
"""

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from regard.errors import RegardError
from regard.training import strict
from regard.training.files import read_file, write_atomically

NAME = "lock"
_PATIENCE = 1.5
_PAUSE = 0.02
_LARGEST = 4096


class Holder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The process that holds a run: its number, when it started, and where."""

    pid: Annotated[int, msgspec.Meta(gt=0)]
    started: str
    machine: str
    host: str


class Held:
    """A lock that this process holds."""

    def __init__(self, run: Path, holder: Holder) -> None:
        self._run, self._holder = run, holder
        write_atomically(run / NAME, strict.render(msgspec.to_builtins(holder), NAME))
        self._open = os.open(run / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with contextlib.suppress(OSError):
            _try_lock(self._open)

    def check(self) -> None:
        """Raises `RegardError` if the lock was taken away meanwhile."""
        if _holder(self._run) != self._holder or os.getpid() != self._holder.pid:
            raise RegardError(
                f"{self._run / NAME} is no longer that of this process: nothing more is written into the run"
            )

    def release(self) -> None:
        """Leaves the run to others."""
        if _holder(self._run) == self._holder and os.getpid() == self._holder.pid:
            with contextlib.suppress(OSError):
                os.unlink(self._run / NAME)
        os.close(self._open)


@contextlib.contextmanager
def held(run: Path) -> Iterator[Held]:
    """Holds a run folder while the block runs.

    Raises:
        RegardError: at once, if a process that lives holds it.
    """
    with _guard(run):
        _refuse_if_held(run)
        lock = Held(run, Holder(os.getpid(), _started(os.getpid()) or "", _machine(), socket.gethostname()))
    try:
        yield lock
    finally:
        with _guard(run):
            lock.release()


def _refuse_if_held(run: Path) -> None:
    if not os.path.lexists(run / NAME):
        return
    holder = _holder(run)
    if holder is not None and holder.machine and holder.machine == _machine():
        alive = _started(holder.pid) == holder.started
    else:
        alive = _is_locked(run / NAME)
    if alive:
        who = f"process {holder.pid} on {holder.host}" if holder else "another process"
        raise RegardError(
            f"{run} is in use by {who}: wait until it ends, or end it; two trainers would overwrite each other. "
            f"If it no longer runs, delete {run / NAME}"
        )


def _holder(run: Path) -> Holder | None:
    """Who is named by the lock, or None if there is none or it cannot be read."""
    try:
        return msgspec.convert(strict.parse(read_file(run, NAME, _LARGEST), NAME), Holder)
    except (RegardError, msgspec.ValidationError):
        return None


def _started(pid: int) -> str | None:
    """When a process started, in ticks of its machine; "" where that is not known; None if it does not live."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()
    except OSError:
        return None if Path("/proc/self/stat").exists() else ""
    return None if state in (b"Z", b"X") else fields[18].decode()


def _machine() -> str:
    """This boot of this machine and this space of process numbers, or "" where they are not known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _is_locked(path: Path) -> bool:
    """Whether some process holds the system's lock on a file; True if that cannot be known."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return not _try_lock(number)
        finally:
            os.close(number)
    except OSError:
        return True


def _try_lock(number: int) -> bool:
    """Takes the system's lock on an open file; False if another has it. `OSError` where files have no locks."""
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _guard(run: Path) -> Iterator[None]:
    """Keeps others from taking or leaving the same lock meanwhile."""
    number = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            _wait_for(number, run)
        yield
    finally:
        os.close(number)


def _wait_for(number: int, run: Path) -> None:
    patience = time.monotonic() + _PATIENCE
    while not _try_lock(number):
        if time.monotonic() > patience:
            raise RegardError(f"{run} could not be locked within {_PATIENCE} s: another process is starting there")
        time.sleep(_PAUSE)
