"""Files that appear whole or not at all, whatever happens while they are written.

A file or a folder is made under a temporary name beside its final one, forced to the disk, renamed, and the
rename is forced to the disk too. What a crash leaves behind bears a temporary name and is removed at the next
start, by whoever holds the lock of the folder.

Reading goes by names of one kind only, inside one folder, and never through a symbolic link.
"""

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.errors import FULL, BadData, Damaged, NoSpace, RegardError

TEMPORARY = ".tmp-"
"""How the name of everything unfinished begins."""
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP)
_BLOCK = 4096
_SPARE = 64 * 1024


def checked_name(name: str, what: str) -> str:
    """A file's name, if it is one: letters, digits, `.`, `_`, `-`; 64 at most; no dot first; no two in a row.

    Raises:
        BadData: if it is not.
    """
    if not _NAME.fullmatch(name) or ".." in name:
        raise BadData(f"{name[:80]!r} is not a file name: A-Z a-z 0-9 . _ -, at most 64, no leading dot", file=what)
    return name


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a file, or replaces it: at every instant it is the old one or the new one, complete.

    Raises:
        NoSpace: if the disk is full, or would be; nothing has changed then.
        RegardError: if the folder cannot be written to.
    """
    check_space(path.parent, [len(data)])
    temporary = _temporary(path.parent)
    with _explained(path.parent, [len(data)], temporary):
        _write(temporary, data)
        os.replace(temporary, path)
        sync_folder(path.parent)


def append(path: Path, data: bytes) -> None:
    """Adds to the end of a file, not forced to the disk. A crash may leave a part of it.

    Raises:
        NoSpace: if the disk is full.
        RegardError: if the file cannot be written to.
    """
    with _explained(path.parent, [len(data)]), open(path, "ab") as file:
        file.write(data)


def write_folder(final: Path, contents: Mapping[str, bytes]) -> None:
    """Makes a folder of files: it is there with all of them, or not there.

    Args:
        final: Where, in a folder that exists. It must not exist yet.
        contents: The files by name.

    Raises:
        NoSpace: if the disk is full, or would be; nothing has changed then.
        RegardError: if the folder cannot be written to, or is there already.
        BadData: if a name is not one.
    """
    for name in contents:
        checked_name(name, str(final))
    if os.path.lexists(final):
        raise RegardError(f"{final} is there already: it would be replaced")
    sizes = [len(data) for data in contents.values()]
    check_space(final.parent, sizes)
    temporary = _temporary(final.parent)
    with _explained(final.parent, sizes, temporary):
        os.mkdir(temporary)
        for name, data in contents.items():
            _write(temporary / name, data)
        sync_folder(temporary)
        os.rename(temporary, final)
        sync_folder(final.parent)


def make_folder(path: Path) -> None:
    """Makes a folder and those above it, where they are missing."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    with _explained(path):
        for folder in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder)
            sync_folder(folder.parent)
    if not path.is_dir():
        raise RegardError(f"{path} is not a folder: choose another place")


def move(old: Path, new: Path) -> None:
    """Renames a file over another. The caller syncs the folder, after the last of several moves."""
    with _explained(new.parent):
        os.replace(old, new)


def remove(path: Path) -> None:
    """Removes a file or a folder with all in it, in one step as seen from outside. A missing one is no error."""
    unseen = _temporary(path.parent)
    with _explained(path.parent):
        try:
            os.rename(path, unseen)
        except FileNotFoundError:
            return
        _discard(unseen)


def remove_if_empty(folder: Path) -> None:
    """Removes a folder in which there is nothing. Only for whoever holds the lock, or has just left it."""
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def remove_leftovers(folder: Path) -> None:
    """Removes what a crash left unfinished. Only for whoever holds the lock: it is another's work otherwise."""
    with _explained(folder):
        for name in os.listdir(folder):
            if name.startswith(TEMPORARY):
                _discard(folder / name)


def sync_folder(folder: Path) -> None:
    """Forces the names in a folder to the disk, where the file system can."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(number)


def check_space(folder: Path, sizes: list[int]) -> None:
    """Raises `NoSpace` unless files of these sizes fit on the disk of a folder."""
    with _explained(folder):
        disk = os.statvfs(folder)
    if disk.f_blocks and _needed(sizes) > disk.f_bavail * disk.f_frsize:
        raise _no_space(folder, sizes)


def size_of(folder: Path, name: str) -> int:
    """The size of a file of a folder, in bytes.

    Raises:
        Damaged: if it is missing, or is no ordinary file.
    """
    path = folder / checked_name(name, str(folder))
    try:
        found = os.lstat(path)
    except OSError as error:
        raise Damaged(f"{path}: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode) or os.path.realpath(path) != os.path.join(os.path.realpath(folder), name):
        raise Damaged(f"{path} is not an ordinary file: links and devices in a run are not read")
    return found.st_size


def read_file(folder: Path, name: str, largest: int) -> bytes:
    """Reads a file of a folder.

    Raises:
        Damaged: if it is missing, is no ordinary file, or is larger than `largest`.
    """
    if (size := size_of(folder, name)) > largest:
        raise Damaged(f"{folder / name} has {size:,} bytes, expected at most {largest:,}")
    try:
        number = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(number, "rb") as file:
            data = file.read(size + 1)
    except OSError as error:
        raise Damaged(f"{folder / name}: {error.strerror}") from None
    if len(data) != size:
        raise Damaged(f"{folder / name} changed from {size:,} to {len(data):,} bytes or more while it was read")
    return data


def _write(path: Path, data: bytes) -> None:
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(number, rest) :]
        os.fsync(number)
    finally:
        os.close(number)


def _temporary(folder: Path) -> Path:
    return folder / f"{TEMPORARY}{secrets.token_hex(8)}"


def _discard(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        os.unlink(path)


def _needed(sizes: list[int]) -> int:
    return sum(-(-size // _BLOCK) * _BLOCK for size in sizes) + _SPARE


def _no_space(folder: Path, sizes: list[int]) -> NoSpace:
    disk = os.statvfs(folder)
    return NoSpace(
        f"{folder}: {_needed(sizes):,} bytes are needed, {disk.f_bavail * disk.f_frsize:,} are free "
        "(a quota may allow less): make room, nothing was changed"
    )


@contextlib.contextmanager
def _explained(folder: Path, sizes: list[int] | None = None, temporary: Path | None = None) -> Iterator[None]:
    """Says in a sentence what the system refused, after removing what was begun."""
    try:
        yield
    except BaseException as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                _discard(temporary)
        if not isinstance(error, OSError):
            raise
        if error.errno in FULL:
            raise _no_space(folder, sizes or []) from error
        raise RegardError(f"cannot write to {folder}: {error.strerror or error}") from error
