"""Files of public data sets: found on this machine, or fetched from their home, and the same bytes either way."""

import hashlib
import http.client
import os
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import ENOSPC
from pathlib import Path, PurePosixPath
from typing import IO

from regard.errors import BadData, NoSpace, RegardError

VARIABLE = "REGARD_DATA"
PIECE = 1 << 16
PATIENCE = 30.0  # seconds without a byte

Notify = Callable[[str], object]


@dataclass(frozen=True)
class Remote:
    """A public file.

    Attributes:
        path: Where it stands below a folder of data, such as `multi30k/train.de.gz`.
        url: Its home.
        size: Its length in bytes.
        sha256: The hash of its bytes, in hexadecimal.
    """

    path: str
    url: str
    size: int
    sha256: str


def to_stderr(text: str) -> None:
    """Says one line where results do not go."""
    sys.stderr.write(text + "\n")


def located(remote: Remote, licence: str, notify: Notify = to_stderr) -> Path:
    """The file on this machine: below REGARD_DATA, or fetched before, or fetched now.

    Raises:
        RegardError: if it cannot be fetched.
        BadData: if what is there is not the file that was published.
        NoSpace: if there is no room for it.
    """
    given = os.environ.get(VARIABLE)
    for folder in ([Path(given)] if given else []) + [cache()]:
        path = folder / remote.path
        if path.is_file():
            _check(path, remote)
            return path
    path = cache() / remote.path
    notify(f"{remote.path}: {remote.size / 1e6:.1f} MB from {remote.url}. Licence: {licence}")
    _fetch(remote, path, notify)
    return path


def cache() -> Path:
    """Where fetched files are kept: `regard` below XDG_CACHE_HOME, by default `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"


@contextmanager
def member(path: Path, name: str) -> Iterator[IO[bytes]]:
    """One file inside a zip, as a stream; nothing is written to the disk.

    Raises:
        BadData: if there is no such file inside, it is damaged, or its name leads out of the archive.
    """
    parts = PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts or ":" in name or "\0" in name:
        raise BadData(f"the name {name!r} inside the archive leads out of it", file=str(path))
    try:
        with zipfile.ZipFile(path) as archive, archive.open(name) as stream:
            yield stream
    except KeyError:
        raise BadData(f"no file named {name!r} in the archive", file=str(path)) from None
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as fault:
        raise BadData(f"not a zip archive that can be read: {fault}", file=str(path)) from None


def _check(path: Path, remote: Remote) -> None:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(PIECE):
            digest.update(piece)
    if digest.hexdigest() != remote.sha256:
        raise BadData(_other(digest.hexdigest(), remote) + "; take it away to fetch it again", file=str(path))


def _fetch(remote: Remote, path: Path, notify: Notify) -> None:
    """Fetches into a new file beside, and renames it when it is known to be the right one."""
    by_hand = f"; or fetch it by hand and put it at {path}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as part:
            try:
                found = _copy(remote, part, notify)
                if found != remote.sha256:
                    reason = _other(found, remote) + ": its home may have a newer version; read that as a file of yours"
                    raise BadData(reason, file=remote.url)
                os.replace(part.name, path)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(part.name)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as fault:
        cause = getattr(fault, "reason", None) or fault
        raise RegardError(f"{remote.url} could not be fetched ({cause}): try again{by_hand}") from None
    except OSError as fault:
        if fault.errno == ENOSPC:
            raise NoSpace(f"{path}: no space left for {remote.size} bytes") from None
        raise RegardError(f"{path} could not be written ({fault.strerror}): set XDG_CACHE_HOME{by_hand}") from None


def _copy(remote: Remote, part: IO[bytes], notify: Notify) -> str:
    """Copies the file's bytes, no more than it has and one; gives their hash."""
    digest, done, told = hashlib.sha256(), 0, 0
    with urllib.request.urlopen(remote.url, timeout=PATIENCE) as stream:
        while done <= remote.size and (piece := stream.read(min(PIECE, remote.size + 1 - done))):
            part.write(piece)
            digest.update(piece)
            done += len(piece)
            if done * 4 // max(remote.size, 1) > told:
                told = done * 4 // max(remote.size, 1)
                notify(f"{remote.path}: {done / 1e6:.1f} of {remote.size / 1e6:.1f} MB")
    part.flush()
    os.fsync(part.fileno())
    return digest.hexdigest()


def _other(found: str, remote: Remote) -> str:
    return f"its SHA-256 is {found}, expected {remote.sha256}"
