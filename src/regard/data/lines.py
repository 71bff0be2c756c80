r"""Lines of text from bytes, strictly: what a line is does not depend on a locale, a platform or a library.

A line ends at the byte `\n` and nowhere else; the `\r` of a `\r\n` goes with it. A lone carriage return, a form
feed, U+0085 and U+2028 stay inside a line: `str.splitlines` and text mode split there, and every later pair of two
aligned files is then shifted. The text is UTF-8, with or without a mark at the start; anything else is an error that
names file, line and remedy. Gzip is known by its first bytes, not by the file's name.
"""

import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

from regard.errors import BadData, RegardError

UTF8_MARK = b"\xef\xbb\xbf"
OTHER_MARKS = {  # the longer ones first: UTF-32 begins as UTF-16 does
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
GZIP_MARK = b"\x1f\x8b"
DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile)


class Line(NamedTuple):
    """A line, and where it stands.

    Attributes:
        number: Counted from 1.
        start: The position of its first byte, after a mark.
        end: The position past its last byte, before its line end.
        text: Without its line end.
    """

    number: int
    start: int
    end: int
    text: str


def read_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    r"""The lines of a file, plain or gzip, one at a time.

    Raises:
        RegardError: if there is no such file.
        BadData: `file:line: reason`, if it is not UTF-8 text.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "a.txt")
    ...     _ = file.write_bytes(b"one\r\n\ntwo\x0cthree\xe2\x80\xa8four")
    ...     list(read_lines(file))
    ['one', '', 'two\x0cthree\u2028four']
    """
    with opened(path) as stream:
        for line in lines_of(stream, os.fspath(path)):
            yield line.text


def lines_of(stream: Iterable[bytes], name: str) -> Iterator[Line]:
    """The lines of an open stream of bytes, or of an iterable of whole lines; `name` stands in errors."""
    number = place = 0
    try:
        for number, raw in enumerate(stream, 1):
            start = place
            place += len(raw)
            if number == 1:
                marked = _without_mark(raw, name)
                start, raw = start + len(raw) - len(marked), marked
                if not raw:
                    return
            line = raw.removesuffix(b"\n")
            line = line.removesuffix(b"\r") if len(line) < len(raw) else line
            yield Line(number, start, start + len(line), text_of(line, name, number))
    except DAMAGE as fault:
        raise BadData(f"the gzip stream is damaged or cut short ({fault})", file=name, line=number + 1) from None


def text_of(line: bytes, name: str, number: int | None) -> str:
    """One line as text.

    Raises:
        BadData: if it is not UTF-8, or holds a NUL byte.
    """
    if b"\0" in line:
        reason = f"a NUL byte at byte {line.index(0) + 1}: expected text. If it is UTF-16, convert it with: "
        raise BadData(reason + f"iconv -f UTF-16LE -t UTF-8 {name}", file=name, line=number)
    try:
        return line.decode()
    except UnicodeDecodeError as fault:
        found = f"byte 0x{line[fault.start]:02x} at byte {fault.start + 1}"
        if fault.reason == "unexpected end of data":
            reason = f"{found} begins a UTF-8 character that is cut short: the file may be incomplete"
        else:
            reason = f"{found} is not UTF-8. If it is Latin-1, convert it with: iconv -f LATIN1 -t UTF-8 {name}"
        raise BadData(reason, file=name, line=number) from None


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[io.BufferedReader]:
    """A regular file as a stream of bytes, unpacked if it is gzip.

    Raises:
        RegardError: if there is no such file.
        BadData: if it cannot be read.
    """
    name = os.fspath(path)
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):  # a pipe would block, a folder has no lines
            raise BadData("is not a regular file: expected text, plain or gzip", file=name)
        stream = Path(name).open("rb")  # noqa: SIM115  closed below
    except (FileNotFoundError, NotADirectoryError):
        raise RegardError(f"{name}: there is no such file") from None
    except ValueError as fault:  # a NUL in the name
        raise RegardError(f"{name!r} is not the name of a file: {fault}") from None
    except OSError as fault:
        raise BadData(f"cannot be read: {fault.strerror}", file=name) from None
    with stream:
        packed = stream.peek(2)[:2] == GZIP_MARK
        try:
            yield io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=stream))) if packed else stream
        except DAMAGE as fault:
            raise BadData(f"the gzip stream is damaged or cut short ({fault})", file=name) from None


def _without_mark(raw: bytes, name: str) -> bytes:
    for mark, encoding in OTHER_MARKS.items():
        if raw.startswith(mark):
            reason = f"begins with the mark of {encoding}: expected UTF-8; convert it with: "
            raise BadData(reason + f"iconv -f {encoding} -t UTF-8 {name}", file=name, line=1)
    return raw.removeprefix(UTF8_MARK)
