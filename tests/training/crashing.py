"""Death at every call that touches a disk, in forked children: what is left is what a crash leaves."""

import os
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

WATCHED = ("open", "write", "fsync", "close", "mkdir", "rename", "replace", "unlink", "rmdir", "link")
WHENS = ("before", "half", "after", "power")
DIED, FAILED = 77, 78


class Call(NamedTuple):
    """A call that came: its name, and the path that it was about."""

    name: str
    path: str


class Death(NamedTuple):
    """When to die: at which call, and before it, half-way through a write, or after it, with or without power."""

    call: int
    when: str


class Watch:
    """Stands in for the calls of `os`, writes them down, and ends the process at one of them."""

    def __init__(self, root: Path, death: Death | None = None) -> None:
        self.root, self.death = root, death
        self.calls: list[Call] = []
        self._paths: dict[int, str] = {}
        self._unsynced: set[int] = set()

    def install(self, put: Callable[[object, str, object], None] = setattr) -> None:
        for name in WATCHED:
            put(os, name, self._standing_in(name, getattr(os, name)))

    def _standing_in(self, name, real):
        def call(*arguments, **options):
            number = len(self.calls)
            self.calls.append(Call(name, self._path(name, arguments, options)))
            at = self.death.when if self.death and self.death.call == number else ""
            if at == "before":
                os._exit(DIED)
            if at == "half" and name == "write":
                real(arguments[0], arguments[1][: len(arguments[1]) // 2])
                os._exit(DIED)
            try:
                result = real(*arguments, **options)
                self._note(name, arguments, result)
            except OSError:
                if at:
                    os._exit(DIED)
                raise
            if at in ("after", "half"):
                os._exit(DIED)
            if at == "power":
                self._lose_power()
            return result

        return call

    def _path(self, name, arguments, options) -> str:
        path = arguments[0]
        if isinstance(path, int):
            return self._paths.get(path, "?")
        folder = options.get("dir_fd")
        path = os.path.join(self._paths.get(folder, "?"), path) if folder is not None else os.fspath(path)
        return f"{path} -> {os.fspath(arguments[1])}" if name in ("rename", "replace", "link") else path

    def _note(self, name, arguments, result) -> None:
        if name == "open":
            self._paths[result] = self.calls[-1].path
        elif name == "write":
            self._unsynced.add(os.fstat(arguments[0]).st_ino)
        elif name == "fsync":
            self._unsynced.discard(os.fstat(arguments[0]).st_ino)

    def _lose_power(self) -> None:
        """What was not forced to the disk is not there."""
        for folder, _, names in os.walk(self.root):
            for name in names:
                if os.lstat(os.path.join(folder, name)).st_ino in self._unsynced:
                    os.truncate(os.path.join(folder, name), 0)
        os._exit(DIED)


def in_child(action: Callable[[], object]) -> int:
    """Runs something in a forked child, and returns its exit code; a failure is shown on stderr."""
    return os.waitstatus_to_exitcode(os.waitpid(forked(action), 0)[1])


def forked(action: Callable[[], object]) -> int:
    """Starts something in a forked child, and returns its number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    try:
        action()
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
        os._exit(FAILED)
    os._exit(0)


def deaths(
    template: Path, run: Path, action: Callable[[Path], object], whens: tuple[str, ...] = WHENS
) -> Iterator[Death]:
    """Makes `run` a copy of `template`, does an action on it in a child that dies, for every place to die at."""
    calls = calls_of(template, run, action)
    for number, call in enumerate(calls):
        for when in whens:
            if when == "half" and call.name != "write":
                continue
            copied(template, run)
            death = Death(number, when)
            code = in_child(lambda death=death: (Watch(run, death).install(), action(run)))
            assert code == DIED, f"{death} at {call}: exit code {code}"
            yield death


def calls_of(template: Path, run: Path, action: Callable[[Path], object]) -> list[Call]:
    """The calls that an action makes on a copy of `template`, which it leaves done."""
    copied(template, run)
    real = {name: getattr(os, name) for name in WATCHED}
    watch = Watch(run)
    watch.install()
    try:
        action(run)
    finally:
        for name, call in real.items():
            setattr(os, name, call)
    return watch.calls


def copied(template: Path, run: Path) -> Path:
    """Makes `run` a copy of `template`."""
    shutil.rmtree(run, ignore_errors=True)
    if template.exists():
        shutil.copytree(template, run, symlinks=True)
    return run
