"""Pairs from a user's files, by their kind, checked whole before the first one is used.

    pairs.tsv           two columns, or a header with names        pairs.csv       a header with names
    pairs.jsonl         an object a line                           pairs.parquet   two columns of text
    train.de,train.en   two files of lines, the n-th belongs to the n-th
    folder              files of one of the first four kinds, in the order of their names

Text may be plain or gzip. Opening a plain file reads it once and keeps, for each pair, where it stands and the mark of
its source (24 bytes, 40 for two files); a pair is read when it is asked for, so that files may be larger than memory.
A gzip file is held unpacked, and a parquet file's two columns are held as they are.
"""

import os
from array import array
from functools import lru_cache
from gzip import GzipFile
from itertools import zip_longest
from pathlib import Path
from typing import Literal, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from regard.data.divide import Marks
from regard.data.formats import NO_COLUMNS, Columns, Csv, Format, Jsonl, Tsv
from regard.data.lines import Line, lines_of, opened
from regard.data.normal import Normalise, normalised
from regard.data.pairs import Chain, Pair, Pairs
from regard.errors import BadData, RegardError

KINDS: dict[str, type[Format]] = {".tsv": Tsv, ".csv": Csv, ".jsonl": Jsonl}
Empty = Literal["error", "skip"]


def read_pairs(
    path: str | os.PathLike[str],
    *,
    columns: Columns | None = None,
    empty: Empty = "error",
    normalise: Normalise = "nfc",
    seed: int = 0,
) -> Pairs:
    """The pairs of a file, of two aligned files, or of a folder of files.

    Args:
        path: As above. A name with a comma is two files, unless there is such a file.
        columns: The names of the source's and the target's column (see `formats.py` for the default).
        empty: What to do where one side has nothing but white space: stop, or leave the pair out and count it in
            the result's `skipped`.
        normalise: The normal form of Unicode that the texts are put into.
        seed: Of the marks by which a division is made, which are found on the way.

    Raises:
        RegardError: if there is no such file, or it is of no known kind.
        BadData: `file:line: reason`, if something in it cannot be read.
    """
    name = os.fspath(path)
    rules = Rules(empty, normalise, seed)
    if "," in name and not os.path.exists(name):
        return _aligned(name, columns, rules)
    if not os.path.isdir(name):
        return _some(_read_file(name, columns, rules), name)
    files = _shards(Path(name))
    return _some(Chain([_read_file(str(file), columns, rules) for file in files]), name)


class Rules(NamedTuple):
    """What makes two texts a pair."""

    empty: Empty
    normalise: Normalise
    seed: int = 0

    def pair(self, source: str, target: str, places: tuple[str, str], line: int | None) -> Pair | None:
        """The pair, or None if one side is empty and is to be left out."""
        for side, text, file in zip(("source", "target"), (source, target), places, strict=True):
            if not text or text.isspace():
                if self.empty == "skip":
                    return None
                reason = f"the {side} is empty: fill it, or leave such pairs out with --read.empty skip (empty='skip')"
                raise BadData(reason, file=file, line=line)
            if not _is_writable(text):
                reason = f"the {side} holds a NUL or half of a surrogate pair: expected text"
                raise BadData(reason, file=file, line=line)
        return self.made(source, target)

    def made(self, source: str, target: str) -> Pair:
        """The pair of two texts that were checked before."""
        return Pair(normalised(source, self.normalise), normalised(target, self.normalise))


@final
class Rows(Pairs):
    """The rows of one file, each at its place."""

    def __init__(self, file: str, form: Format, rules: Rules) -> None:
        self.form, self.rules, self.text, self.found = form, rules, Places(file), Marks(rules.seed)
        with opened(file) as stream:
            for number, start, end, source, target in form.records(lines_of(stream, file)):
                pair = rules.pair(source, target, (file, file), number)
                if pair is None:
                    self.skipped += 1
                else:
                    self.text.add(start, end)
                    self.found.add(pair.source)

    def __len__(self) -> int:
        return len(self.text)

    def marks(self, seed: int) -> NDArray[np.uint64] | None:
        """As reading found them."""
        return self.found.of(seed)

    def pair(self, index: int) -> Pair:
        return self.rules.made(*self.form.texts(self.text[index]))


@final
class Aligned(Pairs):
    """Two files of lines, the n-th of one belonging to the n-th of the other."""

    def __init__(self, source: str, target: str, rules: Rules) -> None:
        self.rules, self.source, self.target, self.found = rules, Places(source), Places(target), Marks(rules.seed)
        counts = [0, 0]
        with opened(source) as first, opened(target) as second:
            for lines in zip_longest(lines_of(first, source), lines_of(second, target)):
                counts = [count + (line is not None) for count, line in zip(counts, lines, strict=True)]
                if counts[0] == counts[1]:
                    self._add(*lines)
        if counts[0] != counts[1]:
            shorter, longer = (source, target) if counts[0] < counts[1] else (target, source)
            reason = f"{min(counts)} lines, but {longer} has {max(counts)}: expected a line for each"
            raise BadData(reason, file=shorter, line=min(counts) + 1)

    def _add(self, source: Line, target: Line) -> None:
        places = (self.source.file, self.target.file)
        pair = self.rules.pair(source.text, target.text, places, source.number)
        if pair is None:
            self.skipped += 1
        else:
            self.source.add(source.start, source.end)
            self.target.add(target.start, target.end)
            self.found.add(pair.source)

    def __len__(self) -> int:
        return len(self.source)

    def marks(self, seed: int) -> NDArray[np.uint64] | None:
        """As reading found them."""
        return self.found.of(seed)

    def pair(self, index: int) -> Pair:
        return self.rules.made(self.source[index].decode(), self.target[index].decode())


@final
class Places:
    """Pieces of a file by their positions. A plain file stays open as long as it is among the last that were read."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._bounds = array("Q")
        with opened(file) as stream:
            packed = isinstance(stream.raw, GzipFile)
            self._held = stream.read() if packed else None
        self._stamp = _stamp(os.stat(file))

    def add(self, start: int, end: int) -> None:
        """One more piece."""
        self._bounds.extend((start, end))

    def __len__(self) -> int:
        return len(self._bounds) // 2

    def __getitem__(self, index: int) -> bytes:
        start, end = self._bounds[2 * index], self._bounds[2 * index + 1]
        if self._held is not None:
            return self._held[start:end]
        try:
            # At a place of its own, not the stream's, which forked processes share.
            return os.pread(_unchanged(self.file, self._stamp), end - start, start)
        except OSError as fault:
            raise BadData(f"cannot be read any more: {fault.strerror}", file=self.file) from None


def _unchanged(file: str, stamp: tuple[int, int]) -> int:
    """The number of an open file.

    Raises:
        BadData: if it is not what it was.
    """
    number = _kept_open(file, stamp).number
    if _stamp(os.fstat(number)) != stamp:
        _kept_open.cache_clear()
        raise BadData("has changed since it was opened: start again", file=file)
    return number


@lru_cache(maxsize=64)  # a folder may have more shards than a process may have files
def _kept_open(file: str, stamp: tuple[int, int]) -> "_Open":
    del stamp  # a file that is read anew after a change is another one
    return _Open(file)


@final
class _Open:
    """A file that is open until nobody needs it."""

    def __init__(self, file: str) -> None:
        self.number = os.open(file, os.O_RDONLY)

    def __del__(self) -> None:
        if hasattr(self, "number"):
            os.close(self.number)


def _read_file(name: str, columns: Columns | None, rules: Rules) -> Pairs:
    kind = kind_of(name)
    if kind in KINDS:
        return Rows(name, KINDS[kind](name, columns), rules)
    if kind == ".parquet":
        from regard.data.parquet import Table

        return Table(name, columns, rules)
    known = ", ".join([*KINDS, ".parquet"])
    if not os.path.exists(name):
        raise RegardError(f"{name}: there is no such file or folder")
    reason = f"{name}: {kind or 'a name without an ending'} is no known kind of pairs, expected one of {known}, "
    raise RegardError(reason + "or two files of lines as SOURCE,TARGET")


def _aligned(name: str, columns: Columns | None, rules: Rules) -> Pairs:
    files = name.split(",")
    if len(files) != 2 or not all(files):
        raise RegardError(f"{name!r}: expected two files of lines as SOURCE,TARGET, got {len(files)} names")
    if columns is not None:
        raise RegardError(f"{name!r}: two files of lines have no columns; {NO_COLUMNS.format(columns)}")
    return _some(Aligned(files[0], files[1], rules), name)


def files_of(folder: Path) -> list[Path]:
    """The files of a folder by name; names that begin with a dot or an underscore are not data.

    Raises:
        BadData: if it cannot be listed; or if something is named as data is and is no file, such as a link to
            nothing: without it the rest would be taken for the whole.
    """
    try:
        found = [(path, path.is_file()) for path in sorted(folder.iterdir()) if path.name[0] not in "._"]
    except OSError as fault:
        raise BadData(f"cannot be listed: {fault.strerror}", file=str(folder)) from None
    for path, is_file in found:
        if not is_file and kind_of(path.name) in (*KINDS, ".parquet"):
            raise BadData("is not a regular file: make it one, or give it another ending", file=str(path))
    return [path for path, is_file in found if is_file]


def _shards(folder: Path) -> list[Path]:
    files = files_of(folder)
    kinds = sorted({kind_of(f.name) for f in files})
    if not files:
        raise BadData("a folder without files: expected .tsv, .csv, .jsonl or .parquet", file=str(folder))
    if len(kinds) > 1:
        reason = f"files of {len(kinds)} kinds ({', '.join(kinds)}): expected one kind"
        raise BadData(reason, file=str(folder))
    return files


def kind_of(name: str) -> str:
    """The ending of a file's name that says its kind, without `.gz`."""
    return Path(name.removesuffix(".gz")).suffix.lower()


def _some(pairs: Pairs, name: str) -> Pairs:
    if not len(pairs):
        left = f" ({pairs.skipped} left out, with an empty side)" if pairs.skipped else ""
        raise BadData(f"no pairs in it{left}: expected at least one", file=name)
    return pairs


def _is_writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _stamp(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns
