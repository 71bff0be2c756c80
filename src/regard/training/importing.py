"""Weights that others wrote: safetensors at once, other formats only through a limited child process.

A .safetensors file is checked as such and nothing else. A .pt, .pth, .bin or .ckpt file may hold a program in
place of numbers: its outer form is checked here, then `regard.training.foreign` reads it in a process of its
own, with bounds on memory, time and files, and writes safetensors, which are checked as a stranger's. When one
way fails no other is tried.
"""

import os
import stat
import struct
import subprocess
import sys
import tempfile
import zipfile
from io import BufferedIOBase, BufferedReader
from pathlib import Path

from torch import Tensor

from regard.errors import BadData, RegardError
from regard.training.header import Expected, read_header
from regard.training.tensors import unpack

FOREIGN = (".pt", ".pth", ".bin", ".ckpt")
_SECONDS = 300.0
_LARGEST_DIRECTORY = 8 * 2**20
_MOST_ENTRIES = 20_100
_LARGEST_PICKLE = 4 * 2**20
_ZIP = b"PK\x03\x04"
_BEFORE_1_6 = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_LOCATOR = 20
_END, _END_64 = struct.Struct("<4s4H2IH"), struct.Struct("<4sQ2H2I4Q")


def import_foreign(path: Path | str, *, expect: Expected | None = None, seconds: float = _SECONDS) -> dict[str, Tensor]:
    """Reads a flat set of named tensors from a file of another program.

    Args:
        path: A .safetensors, .pt, .pth, .bin or .ckpt file.
        expect: The tensors that must be there, and no others; None to accept any.
        seconds: How long a child process may take.

    Raises:
        BadData: if the file is not sound, holds anything but tensors, or asks for more than its size allows.
        Mismatch: if its tensors are not those expected.
        RegardError: if there is no such file, or its kind is not known.
    """
    path = Path(path)
    known = (".safetensors", *FOREIGN)
    if path.suffix not in known:
        raise RegardError(f"{path} does not end with any of {', '.join(known)}: its kind is not known")
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise RegardError(f"cannot read {path}: {error}") from None
    found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode):
        os.close(number)
        raise RegardError(f"{path} is not a file")
    with os.fdopen(number, "rb") as file:
        if path.suffix == ".safetensors":
            return _read(file, found.st_size, str(path), expect)
        _check_form(file, found.st_size, str(path))
        return _converted(file, str(path), expect, seconds)


def _read(file: BufferedIOBase, size: int, what: str, expect: Expected | None) -> dict[str, Tensor]:
    read_header(file, size, what, expect)
    file.seek(0)
    return unpack(file.read(size), what, expect=expect)


def _converted(file: BufferedReader, what: str, expect: Expected | None, seconds: float) -> dict[str, Tensor]:
    """Runs the child on the open file, and reads what it wrote."""
    with tempfile.TemporaryDirectory(prefix="regard-import-") as folder:
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        command = [
            sys.executable,
            "-P",
            "-s",
            "-m",
            "regard.training.foreign",
            "tensors.safetensors",
            str(int(seconds) + 1),
        ]
        places = os.pathsep.join(os.path.abspath(place) for place in sys.path if place)
        environment = {
            "PYTHONPATH": places,
            "OMP_NUM_THREADS": "1",
            "HOME": folder,
            "TMPDIR": folder,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        try:
            done = subprocess.run(
                command,
                stdin=file,
                cwd=folder,
                env=environment,
                capture_output=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise BadData(f"reading took more than {seconds:g} s and was ended", file=what) from None
        if done.returncode != 0:
            raise BadData(_reason(done.returncode, done.stderr), file=what)
        return _read_result(Path(folder) / "tensors.safetensors", what, expect)


def _read_result(path: Path, what: str, expect: Expected | None) -> dict[str, Tensor]:
    try:
        with path.open("rb") as file:
            return _read(file, os.fstat(file.fileno()).st_size, what, expect)
    except OSError as error:
        raise BadData(f"its reading gave nothing: {error.strerror}", file=what) from None


def _reason(code: int, said: bytes) -> str:
    if code < 0:
        return f"the process that read it was ended by signal {-code}: it asked for more than its size allows"
    lines = [line for line in said.decode(errors="replace").splitlines() if line.strip()]
    text = "".join(sign if sign.isprintable() else "?" for sign in (lines or ["no reason was given"])[-1])
    return f"refused: {text[:300]}"


def _check_form(file: BufferedIOBase, size: int, what: str) -> None:
    """Refuses, before a process is started for it, what no program of PyTorch writes."""
    start = file.read(16)
    if start.startswith(_ZIP):
        _check_archive(file, size, what)
    elif not start.startswith(_BEFORE_1_6):
        raise BadData("not a file that PyTorch wrote", file=what)


def _check_archive(file: BufferedIOBase, size: int, what: str) -> None:
    """An archive must hold plain, uncompressed entries, no more and no longer than a model has."""
    entries, length = _directory(file, size, what)
    if entries > _MOST_ENTRIES or length > _LARGEST_DIRECTORY:
        raise BadData(f"{entries:,} entries in {length:,} bytes, at most {_MOST_ENTRIES:,} are read", file=what)
    try:
        listed = zipfile.ZipFile(file).infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, struct.error) as error:
        raise BadData(f"not a sound archive: {error}", file=what) from None
    if sum(entry.file_size for entry in listed) > size:
        raise BadData(f"it unpacks to more than its {size:,} bytes: PyTorch does not compress", file=what)
    for entry in listed:
        if entry.compress_type != zipfile.ZIP_STORED:
            raise BadData(f"{entry.filename[:60]!r} is compressed: PyTorch does not compress", file=what)
        if entry.filename.endswith(".pkl") and entry.file_size > _LARGEST_PICKLE:
            raise BadData(f"{entry.filename[:60]!r} has {entry.file_size:,} bytes, too many", file=what)


def _directory(file: BufferedIOBase, size: int, what: str) -> tuple[int, int]:
    """How many entries an archive says it has, and how many bytes their list takes: the most of what it says."""
    file.seek(max(0, size - _END.size))
    end = file.read(_END.size)
    if len(end) < _END.size or not end.startswith(b"PK\x05\x06"):
        raise BadData("not a sound archive: it is cut short, or has something after its end", file=what)
    _, _, _, _, entries, length, _, _ = _END.unpack(end)
    file.seek(max(0, size - _END.size - _LOCATOR - _END_64.size))
    wide = file.read(_END_64.size)
    if len(wide) == _END_64.size and wide.startswith(b"PK\x06\x06"):
        *_, entries_64, length_64, _ = _END_64.unpack(wide)
        entries, length = max(entries % 0xFFFF, entries_64), max(length % 0xFFFFFFFF, length_64)
    return entries, length
