"""Rows of pairs in a file of text: tab-separated, comma-separated, JSON lines.

A format reads a whole file once, to check every row and to know where each one stands, and a single row later.
Columns are found by name. Without names the source is the one column called `source`, `src` or `input`, the target
the one called `target`, `tgt` or `output`.
"""

import csv
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, final

from regard.data.lines import Line
from regard.errors import BadData, RegardError

SOURCES = ("source", "src", "input")
TARGETS = ("target", "tgt", "output")
Columns = tuple[str, str]
CHOOSE = "--read.source and --read.target (columns=(…, …))"
NO_COLUMNS = "leave out --read.source and --read.target (columns={})"


class Record(NamedTuple):
    """One row: where it stands, as in `Line`, and its two texts."""

    number: int
    start: int
    end: int
    source: str
    target: str


class Format(ABC):
    """How rows are written. It learns the columns from the beginning of a file: one object a file."""

    def __init__(self, file: str, columns: Columns | None) -> None:
        self.file, self.columns = file, columns

    @abstractmethod
    def records(self, lines: Iterator[Line]) -> Iterator[Record]:
        """Every row. A blank line is a row of two empty texts."""

    @abstractmethod
    def texts(self, row: bytes) -> tuple[str, str]:
        """The two texts of one row that `records` has seen."""


@final
class Tsv(Format):
    """Tabs between columns, nothing quoted. A first line that names both columns is a header; else there are two."""

    places, width = (0, 1), 2

    def records(self, lines: Iterator[Line]) -> Iterator[Record]:
        for line in lines:
            fields = line.text.split("\t")
            if line.number == 1 and self._is_header(fields):
                continue
            if not line.text.strip():
                fields = [""] * self.width
            if len(fields) != self.width:
                raise BadData(_ragged(fields, self.width), file=self.file, line=line.number)
            yield Record(line.number, line.start, line.end, fields[self.places[0]], fields[self.places[1]])

    def texts(self, row: bytes) -> tuple[str, str]:
        fields = row.decode().split("\t")
        return fields[self.places[0]], fields[self.places[1]]

    def _is_header(self, fields: list[str]) -> bool:
        if self.columns is None and not (set(fields) & set(SOURCES) and set(fields) & set(TARGETS)):
            if len(fields) > 2:
                reason = f"{len(fields)} columns and no header that names source and target: expected two columns, or "
                raise BadData(
                    f"{reason}a first line with names; choose two of them with {CHOOSE}", file=self.file, line=1
                )
            return False
        self.places, self.width = chosen(fields, self.columns, self.file, 1), len(fields)
        return True


@final
class Csv(Format):
    """Commas between columns, quoted as the `csv` module writes it, with a header."""

    places, width = (0, 1), 0

    def __init__(self, file: str, columns: Columns | None) -> None:
        super().__init__(file, columns)
        csv.field_size_limit(max(csv.field_size_limit(), 2**31 - 1))  # a long text is not a fault

    def records(self, lines: Iterator[Line]) -> Iterator[Record]:
        seen: list[Line] = []
        rows = csv.reader(_with_ends(lines, seen), strict=True)
        while True:
            seen.clear()
            try:
                fields = next(rows)
            except StopIteration:
                return
            except csv.Error as fault:
                raise BadData(_not_csv(str(fault)), file=self.file, line=seen[0].number) from None
            first = seen[0]
            if first.number == 1:
                self.places, self.width = chosen(fields, self.columns, self.file, 1), len(fields)
                continue
            if not "".join(fields).strip():
                fields = [""] * self.width
            if len(fields) != self.width:
                raise BadData(_ragged(fields, self.width), file=self.file, line=first.number)
            yield Record(first.number, first.start, seen[-1].end, fields[self.places[0]], fields[self.places[1]])

    def texts(self, row: bytes) -> tuple[str, str]:
        lines = (part + "\n" for part in row.replace(b"\r\n", b"\n").decode().split("\n"))
        fields = next(csv.reader(lines, strict=True))
        return fields[self.places[0]], fields[self.places[1]]


@final
class Jsonl(Format):
    """One JSON object a line; the two columns are texts, the others do not matter."""

    def records(self, lines: Iterator[Line]) -> Iterator[Record]:
        for line in lines:
            source, target = self._texts(line.text, line.number) if line.text.strip() else ("", "")
            yield Record(line.number, line.start, line.end, source, target)

    def texts(self, row: bytes) -> tuple[str, str]:
        return self._texts(row.decode(), None)

    def _texts(self, text: str, number: int | None) -> tuple[str, str]:
        try:
            row = json.loads(text, object_pairs_hook=_once)
            if not isinstance(row, dict):
                raise ValueError(f"expected an object {{…}}, got {_named(row)}")  # noqa: TRY004, TRY301
            if self.columns is None:
                names = list(row)
                source, target = chosen(names, None, self.file, number)
                self.columns = names[source], names[target]
            chosen(list(row), self.columns, self.file, number)
            source_text, target_text = (_text(row[name], name) for name in self.columns)
        except RecursionError:
            raise BadData("not JSON that can be read: nested too deeply", file=self.file, line=number) from None
        except ValueError as fault:
            raise BadData(f"not a JSON row: {fault}", file=self.file, line=number) from None
        return source_text, target_text


def chosen(names: Sequence[str], columns: Columns | None, file: str, line: int | None) -> tuple[int, int]:
    """Where the source and the target stand among the names of the columns.

    Raises:
        BadData: if a name is missing, or stands there twice.
    """
    there = ", ".join(repr(n) for n in names)
    twice = _twice(names)
    if twice is not None:
        raise BadData(f"two columns named {twice!r}: give each its own name", file=file, line=line)
    if columns is not None and columns[0] == columns[1]:
        raise RegardError(f"columns={columns!r}: source and target must be two different columns")
    places = []
    for side, options in enumerate((SOURCES, TARGETS) if columns is None else ((columns[0],), (columns[1],))):
        found = [n for n in names if n in options]
        if len(found) > 1:
            reason = f"both {found[0]!r} and {found[1]!r} could be the {('source', 'target')[side]}: "
            raise BadData(f"{reason}choose with {CHOOSE}", file=file, line=line)
        if not found:
            wanted = " or ".join(repr(o) for o in options)
            reason = f"no column named {wanted}: there are {there or 'none'}; choose two with {CHOOSE}"
            raise BadData(reason, file=file, line=line)
        places.append(names.index(found[0]))
    return places[0], places[1]


def _with_ends(lines: Iterator[Line], seen: list[Line]) -> Iterator[str]:
    for line in lines:
        seen.append(line)
        yield line.text + "\n"


def _ragged(fields: list[str], width: int) -> str:
    return f"{len(fields)} column{'s' * (len(fields) != 1)}, expected {width}"


def _not_csv(fault: str) -> str:
    if fault == "unexpected end of data":
        return "a quote is opened in this row and never closed"
    if fault.startswith("new-line character"):
        return "a carriage return outside of quotes: quote the text, or take it out"
    return f"not CSV: {fault}"


def _once(items: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(items)
    if len(row) < len(items):
        raise ValueError(f"the name {_twice([name for name, _ in items])!r} stands there twice")
    return row


def _twice(names: Sequence[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _text(value: object, name: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name!r} is {_named(value)}, expected a text")  # noqa: TRY004
    return value


def _named(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")
