"""Data files as they come: each with how many pairs are in it, or with what is said of it.

Pair number i is `s<i>…` to `t<i>…`: one that was shifted by a line shows at once.
"""

import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

File = bytes | Callable[[Path], object]


class Case(NamedTuple):
    """Some files, what `--data` names, and what must come of it.

    Attributes:
        files: By name: bytes, or what makes a file that bytes are not.
        data: The specification; `{}` is the folder.
        told: The number of pairs; or the beginning of the error's text, `{}` again the folder.
        code: The exit code of the command line.
    """

    files: dict[str, File]
    data: str
    told: int | str
    code: int = 0


def rows(*extra: bytes | str, count: int = 5, end: bytes = b"\n") -> bytes:
    """Five good rows of two columns, and others after them."""
    good = [b"s%d\tt%d" % (i, i) for i in range(1, count + 1)]
    return b"".join(row + end for row in [*good, *(e.encode() if isinstance(e, str) else e for e in extra)])


def sides(source: bytes, target: bytes) -> dict[str, File]:
    return {"a.src": source, "b.tgt": target}


def side(letter: str, *extra: bytes, count: int = 5) -> bytes:
    return b"".join(line + b"\n" for line in [*(b"%s%d" % (letter.encode(), i) for i in range(1, count + 1)), *extra])


def jsons(*extra: str) -> bytes:
    return "".join([*(f'{{"source":"s{i}","target":"t{i}"}}\n' for i in range(1, 6)), *extra]).encode()


def csvs(*extra: str, head: str = "source,target") -> bytes:
    return "".join([head + "\n", *(f"s{i},t{i}\n" for i in range(1, 6)), *extra]).encode()


def table(columns: dict[str, list] | None = None, cut: int | None = None, names: list[str] | None = None) -> File:
    """A parquet file, made when it is needed."""

    def make(path: Path) -> None:
        import pyarrow
        from pyarrow import parquet

        data = columns or {"source": [f"s{i}" for i in range(1, 6)], "target": [f"t{i}" for i in range(1, 6)]}
        made = pyarrow.Table.from_arrays([pyarrow.array(c) for c in data.values()], names=names or list(data))
        out = io.BytesIO()
        parquet.write_table(made, out)
        path.write_bytes(out.getvalue() if cut is None else out.getvalue()[:cut])

    return make


def link(target: str) -> File:
    return lambda path: path.symlink_to(target)


LONG = b"x" * 10_000_000
NINE_LINES = b"\x0b \x0c \x1c \x1d \x1e \xc2\x85 \xe2\x80\xa8 \xe2\x80\xa9"  # `splitlines` makes nine lines of these
TSV = "{}/a.tsv"
TWO = "{}/a.src,{}/b.tgt"
AT_6, EMPTY = "{}/a.tsv:6: ", "is empty: fill it, or leave such pairs out with"


def tsv(data: File, told: int | str) -> Case:
    return Case({"a.tsv": data}, TSV, told, 0 if isinstance(told, int) else 2)


def csv(data: File, told: int | str) -> Case:
    return Case({"a.csv": data}, "{}/a.csv", told, 0 if isinstance(told, int) else 2)


def jsonl(data: File, told: int | str) -> Case:
    return Case({"a.jsonl": data}, "{}/a.jsonl", told, 0 if isinstance(told, int) else 2)


def parquet(data: File, told: int | str) -> Case:
    return Case({"a.parquet": data}, "{}/a.parquet", told, 0 if isinstance(told, int) else 2)


def two(source: bytes, target: bytes, told: int | str) -> Case:
    return Case(sides(source, target), TWO, told, 0 if isinstance(told, int) else 2)


LINES = {
    "plain": tsv(rows(), 5),
    "no last end": tsv(rows()[:-1], 5),
    "CRLF": tsv(rows(end=b"\r\n"), 5),
    "CRLF and LF": tsv(rows(end=b"\r\n", count=3) + b"s4\tt4\ns5\tt5\r\n", 5),
    "lone CR": tsv(rows("s6\rx\tt6\ry"), 6),
    "a CR at the end": tsv(rows()[:-1] + b"\r", 5),
    "mark": tsv(b"\xef\xbb\xbf" + rows(), 5),
    "mark in a later row": tsv(rows("s6\ufeff\tt6"), 6),
    "U+2028": tsv(rows("s6\u2028x\tt6"), 6),
    "U+2029": tsv(rows("s6\tt6\u2029x"), 6),
    "U+0085": tsv(rows("s6\x85x\tt6\x85"), 6),
    "vertical tab": tsv(rows("s6\x0bx\tt6"), 6),
    "form feed": tsv(rows("s6\x0cx\tt6"), 6),
    "separators": tsv(rows("s6\x1cx\x1dx\x1ex\tt6"), 6),
    "all of them": tsv(rows(b"s6" + NINE_LINES + b"\tt6" + NINE_LINES, "s7\tt7"), 7),
    "a line of 1 MB": tsv(rows(b"s6" + LONG[: 10**6] + b"\tt6", "s7\tt7"), 7),
    "a line of 10 MB": tsv(rows(b"s6" + LONG + b"\tt6", "s7\tt7"), 7),
    "quotes are letters": tsv(rows('s6"\tt6', '"s7\tt7"').replace(b'"s7', b's7"'), 7),
    "controls": tsv(rows("s6\x01\x1b[2J\x7f\tt6"), 6),
    "directions": tsv(rows("s6\u202e\u2066x\tt6"), 6),
    "joined and combined": tsv(rows("s6👩‍👩‍👧\u0301\u0323\tt6"), 6),
    "the same pair again": tsv(rows("s1\tt1", "s1\tt1"), 7),
    "gzip": Case({"a.tsv.gz": gzip.compress(rows())}, "{}/a.tsv.gz", 5),
    "gzip without its name": tsv(gzip.compress(rows()), 5),
    "its name without gzip": Case({"a.tsv.gz": rows()}, "{}/a.tsv.gz", 5),
    "gzip in two members": tsv(gzip.compress(rows(count=3)) + gzip.compress(b"s4\tt4\ns5\tt5\n"), 5),
    "a link": Case({"data": rows(), "a.tsv": link("data")}, TSV, 5),
    "a space and a comma in the name": Case({"a, b.tsv": rows()}, "{}/a, b.tsv", 5),
    "a mark of UTF-8 alone": tsv(b"\xef\xbb\xbf", "{}/a.tsv: no pairs in it: expected at least one"),
    "zero bytes": tsv(b"", "{}/a.tsv: no pairs in it: expected at least one"),
    "one end": tsv(b"\n", "{}/a.tsv:1: the source " + EMPTY),
    "empty row in the middle": tsv(rows("", "s7\tt7"), AT_6 + "the source " + EMPTY),
    "empty row at the end": tsv(rows(""), AT_6 + "the source " + EMPTY),
    "empty source": tsv(rows("\tt6"), AT_6 + "the source " + EMPTY),
    "empty target": tsv(rows("s6\t"), AT_6 + "the target " + EMPTY),
    "a target of spaces": tsv(rows("s6\t   "), AT_6 + "the target " + EMPTY),
    "a source of wide spaces": tsv(rows("\u3000\u2003\xa0\tt6"), AT_6 + "the source " + EMPTY),
    "a target of separators": tsv(rows("s6\t\x1c\x85\u2028"), AT_6 + "the target " + EMPTY),
    "Latin-1": tsv(rows(b"caf\xe9\tt6"), AT_6 + "byte 0xe9 at byte 4 is not UTF-8. If it is Latin-1, convert it"),
    "Windows quotes": tsv(rows(b"s6\t\x93t6\x94"), AT_6 + "byte 0x93 at byte 4 is not UTF-8"),
    "UTF-8 cut at the end": tsv(rows() + b"s6\tt6\xf0\x9f\x98", AT_6 + "byte 0xf0 at byte 6 begins a UTF-8 character"),
    "UTF-8 cut in the middle": tsv(rows(b"s6\xe2\x82\tt6"), AT_6 + "byte 0xe2 at byte 3 is not UTF-8"),
    "overlong UTF-8": tsv(rows(b"s6\xc0\xaf\tt6"), AT_6 + "byte 0xc0 at byte 3 is not UTF-8"),
    "half a surrogate pair": tsv(rows(b"s6\xed\xa0\x80\tt6"), AT_6 + "byte 0xed at byte 3 is not UTF-8"),
    "UTF-16": tsv(rows().decode().encode("utf-16"), "{}/a.tsv:1: begins with the mark of UTF-16"),
    "UTF-16 turned": tsv(b"\xfe\xff" + rows().decode().encode("utf-16-be"), "{}/a.tsv:1: begins with the mark of UTF"),
    "UTF-16 without a mark": tsv(rows().decode().encode("utf-16-le"), "{}/a.tsv:1: a NUL byte at byte 2"),
    "UTF-32": tsv(rows().decode().encode("utf-32"), "{}/a.tsv:1: begins with the mark of UTF-32"),
    "NUL": tsv(rows(b"s6\0\tt6"), AT_6 + "a NUL byte at byte 3"),
    "bytes of nothing": tsv(bytes(1000), "{}/a.tsv:1: a NUL byte at byte 1"),
    "a picture": tsv(b"\x89PNG\r\n\x1a\n" + bytes(50), "{}/a.tsv:1: byte 0x89 at byte 1 is not UTF-8"),
    "gzip cut short": tsv(gzip.compress(os.urandom(90).hex().encode())[:-12], "{}/a.tsv: the gzip stream is damaged"),
    "gzip with another sum": tsv(gzip.compress(rows())[:-8] + bytes(8), "{}/a.tsv: the gzip stream is damaged"),
    "gzip of garbage": tsv(b"\x1f\x8b" + b"garbage" * 9, "{}/a.tsv: the gzip stream is damaged"),
    "garbage after gzip": tsv(gzip.compress(rows()) + b"garbage", "{}/a.tsv: the gzip stream is damaged"),
    "gzip twice": tsv(gzip.compress(gzip.compress(rows())), "{}/a.tsv:1: "),
    "gzip of UTF-16": tsv(gzip.compress("a\tb".encode("utf-16")), "{}/a.tsv:1: begins with the mark of UTF-16"),
}
TABLES = {
    "header": tsv(b"source\ttarget\n" + rows(), 5),
    "header turned, with another column": tsv(
        b"target\tid\tsource\n" + b"".join(b"t%d\t9\ts%d\n" % (i, i) for i in range(5)), 5
    ),
    "row too short": tsv(rows("s6"), AT_6 + "1 column, expected 2"),
    "row too long": tsv(rows("s6\tt6\tu6"), AT_6 + "3 columns, expected 2"),
    "three columns without names": tsv(b"s1\tt1\tu1\n", "{}/a.tsv:1: 3 columns and no header that names source and"),
    "one column": tsv(b"s1\ns2\n", "{}/a.tsv:1: 1 column, expected 2"),
    "a name twice": tsv(b"source\ttarget\ttarget\n" + rows(), "{}/a.tsv:1: two columns named 'target'"),
    "two that could be the source": tsv(b"source\tsrc\ttarget\n", "{}/a.tsv:1: both 'source' and 'src' could be the"),
    "csv": csv(csvs(), 5),
    "csv with CRLF": csv(csvs().replace(b"\n", b"\r\n"), 5),
    "csv with commas and quotes": csv(csvs('"s6, ""x""",t6\n'), 6),
    "csv with ends of lines inside": csv(csvs('"s6\n\nx","t6\r\ny"\n', "s7,t7\n"), 7),
    "csv with U+2028": csv(csvs("s6\u2028x,t6\x85\n", "s7,t7\n"), 7),
    "csv with a text of 10 MB": csv(csvs(f'"s6{LONG.decode()}",t6\n'), 6),
    "csv with more columns": csv(b"id,target,source,note\n" + b"".join(b"1,t%d,s%d,\n" % (i, i) for i in range(5)), 5),
    "csv with a quote left open": csv(
        csvs('s6,"t6\n', "s7,t7\n"), "{}/a.csv:7: a quote is opened in this row and never"
    ),
    "csv with text after a quote": csv(csvs('"s6"x,t6\n'), "{}/a.csv:7: not CSV: "),
    "csv with a row too long": csv(csvs("s6,t6,u6\n"), "{}/a.csv:7: 3 columns, expected 2"),
    "csv with a row too short": csv(csvs("s6\n"), "{}/a.csv:7: 1 column, expected 2"),
    "csv with a lone CR": csv(csvs("s6\rx,t6\n"), "{}/a.csv:7: a carriage return outside of quotes"),
    "csv with an empty row": csv(csvs("\n"), "{}/a.csv:7: the source " + EMPTY),
    "csv with renamed columns": csv(
        csvs(head="german,english"), "{}/a.csv:1: no column named 'source' or 'src' or 'input'"
    ),
    "csv without a target": csv(
        csvs(head="source,english"), "{}/a.csv:1: no column named 'target' or 'tgt' or 'output'"
    ),
    "csv with a name twice": csv(csvs(head="source,source"), "{}/a.csv:1: two columns named 'source'"),
    "csv with semicolons": csv(csvs(head="source;target"), "{}/a.csv:1: no column named 'source'"),
    "csv with a NUL": csv(csvs("s6\0,t6\n"), "{}/a.csv:7: a NUL byte at byte 3"),
    "csv of nothing": csv(b"", "{}/a.csv: no pairs in it: expected at least one"),
    "csv of a header": csv(b"source,target\n", "{}/a.csv: no pairs in it: expected at least one"),
    "jsonl": jsonl(jsons(), 5),
    "jsonl with more in a row": jsonl(jsons('{"n":NaN,"source":"s6","deep":[[[{}]]],"target":"t6"}\n'), 6),
    "jsonl with escapes": jsonl(jsons('{"source":"s6\\u2028\\ud83d\\ude00\\n","target":"t6\\t"}\n'), 6),
    "jsonl with U+2028": jsonl(jsons('{"source":"s6\u2028","target":"t6\x85"}\r\n'), 6),
    "jsonl that is NaN": jsonl(
        jsons('{"source":NaN,"target":"t6"}\n'), "{}/a.jsonl:6: not a JSON row: 'source' is a number"
    ),
    "jsonl that is a list": jsonl(
        jsons('["s6","t6"]\n'), "{}/a.jsonl:6: not a JSON row: expected an object {…}, got a list"
    ),
    "jsonl that is null": jsonl(jsons("null\n"), "{}/a.jsonl:6: not a JSON row: expected an object {…}, got null"),
    "jsonl of one array": jsonl(b'[{"source":"s1","target":"t1"}]', "{}/a.jsonl:1: not a JSON row: expected an object"),
    "jsonl over several lines": jsonl(b'{\n"source":"s1",\n"target":"t1"}', "{}/a.jsonl:1: not a JSON row: "),
    "jsonl with a number": jsonl(
        jsons('{"source":"s6","target":6}\n'), "{}/a.jsonl:6: not a JSON row: 'target' is a number"
    ),
    "jsonl with null": jsonl(jsons('{"source":"s6","target":null}\n'), "{}/a.jsonl:6: the target " + EMPTY),
    "jsonl with a name twice": jsonl(
        jsons('{"source":"s6","source":"s7","target":"t6"}\n'), "{}/a.jsonl:6: not a JSON row: the name"
    ),
    "jsonl without a name": jsonl(jsons('{"source":"s6"}\n'), "{}/a.jsonl:6: no column named 'target'"),
    "jsonl renamed later": jsonl(jsons('{"src":"s6","tgt":"t6"}\n'), "{}/a.jsonl:6: no column named 'source'"),
    "jsonl cut short": jsonl(jsons('{"source":"s6","tar'), "{}/a.jsonl:6: not a JSON row: Unterminated string"),
    "jsonl two in a row": jsonl(jsons('{"source":"s6","target":"t6"}{}\n'), "{}/a.jsonl:6: not a JSON row: Extra data"),
    "jsonl in single quotes": jsonl(jsons("{'source':'s6','target':'t6'}\n"), "{}/a.jsonl:6: not a JSON row: "),
    "jsonl deep": jsonl(
        jsons('{"source":' + "[" * 100_000 + "\n"), "{}/a.jsonl:6: not JSON that can be read: nested too deeply"
    ),
    "jsonl with a huge number": jsonl(
        jsons('{"n":' + "9" * 10_000 + "}\n"), "{}/a.jsonl:6: not a JSON row: Exceeds the limit"
    ),
    "jsonl with half a surrogate pair": jsonl(
        jsons('{"source":"s6","target":"\\ud800"}\n'), "{}/a.jsonl:6: the target holds a NUL or half"
    ),
    "jsonl with a NUL": jsonl(
        jsons('{"source":"\\u0000","target":"t6"}\n'), "{}/a.jsonl:6: the source holds a NUL or half"
    ),
    "jsonl with an empty row": jsonl(jsons("\n"), "{}/a.jsonl:6: the source " + EMPTY),
    "parquet": parquet(table(), 5),
    "parquet cut in half": parquet(table(cut=300), "{}/a.parquet: not a parquet file that can be read"),
    "parquet cut at the end": parquet(table(cut=-1), "{}/a.parquet: not a parquet file that can be read"),
    "parquet of text": parquet(rows(), "{}/a.parquet: not a parquet file that can be read"),
    "parquet of its marks": parquet(b"PAR1\xff\xff\xff\x7fPAR1", "{}/a.parquet: not a parquet file that can be read"),
    "parquet of numbers": parquet(
        table({"source": [1], "target": [2]}), "{}/a.parquet: the column 'source' holds int64"
    ),
    "parquet without a target": parquet(
        table({"source": ["s1"], "x": ["t1"]}), "{}/a.parquet: no column named 'target'"
    ),
    "parquet with a name twice": parquet(
        table({"a": ["s1"], "b": ["t1"]}, names=["source"] * 2), "{}/a.parquet: two columns named"
    ),
    "parquet with null": parquet(
        table({"source": ["s1", None], "target": ["t1", "t2"]}), "{}/a.parquet:2: the source " + EMPTY
    ),
}
PLACES = {
    "two files": two(side("s"), side("t"), 5),
    "two files, one without a last end": two(side("s")[:-1], side("t"), 5),
    "two files, one with CRLF and a mark": two(b"\xef\xbb\xbf" + side("s").replace(b"\n", b"\r\n"), side("t"), 5),
    "two files, nine lines in one": two(side("s", b"s6" + NINE_LINES, b"s7"), side("t", b"t6", b"t7"), 7),
    "two files, one gzip": two(gzip.compress(side("s")), side("t"), 5),
    "two files, a tab in one": two(side("s", b"s6\tx"), side("t", b"t6"), 6),
    "source shorter": two(side("s", count=4), side("t"), "{}/a.src:5: 4 lines, but {}/b.tgt has 5"),
    "target shorter": two(side("s", b"s6", b"s7"), side("t"), "{}/b.tgt:6: 5 lines, but {}/a.src has 7"),
    "an empty last line in one": two(side("s"), side("t") + b"\n", "{}/a.src:6: 5 lines, but {}/b.tgt has 6"),
    "an empty last line in both": two(side("s", b""), side("t", b""), "{}/a.src:6: the source " + EMPTY),
    "an empty line in the source": two(
        side("s", b"", b"s7"), side("t", b"t6", b"t7"), "{}/a.src:6: the source " + EMPTY
    ),
    "an empty line in the target": two(side("s", b"s6"), side("t", b" "), "{}/b.tgt:6: the target " + EMPTY),
    "nothing in one": two(b"", side("t"), "{}/a.src:1: 0 lines, but {}/b.tgt has 5"),
    "nothing in both": two(b"", b"", "{}/a.src,{}/b.tgt: no pairs in it"),
    "Latin-1 in the target": two(side("s", b"s6"), side("t", b"t\xfc"), "{}/b.tgt:6: byte 0xfc at byte 2 is not UTF-8"),
    "gzip cut short in the source": two(
        gzip.compress(side("s"))[:-5], side("t"), "{}/a.src: the gzip stream is damaged"
    ),
    "a folder on one side": Case({"a.src": Path.mkdir, "b.tgt": side("t")}, TWO, "{}/a.src: is not a regular file", 2),
    "a pipe": Case({"a.tsv": os.mkfifo}, TSV, "{}/a.tsv: is not a regular file", 2),
    "a pipe on one side": Case({"a.src": side("s"), "b.tgt": os.mkfifo}, TWO, "{}/b.tgt: is not a regular file", 2),
    "a device without an end": Case({"a.tsv": link("/dev/zero")}, TSV, "{}/a.tsv: is not a regular file", 2),
    "a device of nothing": Case({}, "/dev/null,/dev/null", "/dev/null: is not a regular file", 2),
    "links in a circle": Case(
        {"a.tsv": link("b.tsv"), "b.tsv": link("a.tsv")}, TSV, "{}/a.tsv: there is no such file", 1
    ),
    "a link to nothing": Case({"a.tsv": link("nowhere")}, TSV, "{}/a.tsv: there is no such file", 1),
    "a file that is not there": Case({}, TSV, "{}/a.tsv: there is no such file", 1),
    "one of two is not there": Case({"a.src": side("s")}, TWO, "{}/b.tgt: there is no such file", 1),
    "a path through a file": Case({"a.tsv": rows()}, "{}/a.tsv/b.tsv", "{}/a.tsv/b.tsv: there is no such file", 1),
    "an ending that is not known": Case({"a.txt": rows()}, "{}/a.txt", "{}/a.txt: .txt is no known kind of pairs", 1),
    "no ending": Case({"a": rows()}, "{}/a", "{}/a: a name without an ending is no known kind of pairs", 1),
    "a NUL in the name": Case({}, "{}/a\0.tsv", "{}/a", 1),
    "a long name": Case({}, "{}/" + "a" * 5000 + ".tsv", "{}/aaaa", 1),
    "a folder of shards": Case({"d/0.tsv": rows(count=3), "d/1.tsv": b"s4\tt4\ns5\tt5\n"}, "{}/d", 5),
    "a folder with what is no data": Case(
        {"d/0.tsv": rows(), "d/.DS_Store": b"\0", "d/_SUCCESS": b"", "d/more/notes.md": b"x"}, "{}/d", 5
    ),
    "a folder of parts": Case({"d/train.tsv": rows(), "d/dev.tsv": b"s6\tt6\n", "d/test.tsv": b"s7\tt7\n"}, "{}/d", 7),
    "an empty folder": Case({"d": Path.mkdir}, "{}/d", "{}/d: a folder without files", 2),
    "a folder of two kinds": Case(
        {"d/0.tsv": rows(), "d/1.csv": csvs()}, "{}/d", "{}/d: files of 2 kinds (.csv, .tsv)", 2
    ),
    "a folder with a bad shard": Case(
        {"d/0.tsv": rows(), "d/1.tsv": b"s6\n"}, "{}/d", "{}/d/1.tsv:1: 1 column, expected 2", 2
    ),
    "a shard that links to nothing": Case(
        {"d/0.tsv": rows(), "d/1.tsv": link("nowhere")}, "{}/d", "{}/d/1.tsv: is not a regular file", 2
    ),
    "a shard that is a pipe": Case(
        {"d/0.tsv": rows(), "d/1.tsv": os.mkfifo}, "{}/d", "{}/d/1.tsv: is not a regular file", 2
    ),
    "a shard that is a folder": Case(
        {"d/0.tsv": rows(), "d/1.tsv": Path.mkdir}, "{}/d", "{}/d/1.tsv: is not a regular", 2
    ),
    "a part that links to nothing": Case(
        {"d/train.tsv": rows(), "d/valid.tsv": rows(), "d/test.tsv": link("no")}, "{}/d", "{}/d/test.tsv: is not a", 2
    ),
    "two parts of one name": Case(
        {"d/train.tsv": rows(), "d/dev.tsv": rows(), "d/val.tsv": rows()}, "{}/d", "{}/d: both dev.tsv and val.tsv", 1
    ),
    "a single pair": Case({"a.tsv": rows(count=1)}, TSV, "{}/a.tsv: 1 different sources: at least 3 are needed", 2),
}
CASES = {**LINES, **TABLES, **PLACES}
"""All of them."""


def made(case: Case, folder: Path) -> str:
    """Makes the files, and returns the specification."""
    for name, content in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            content(path)
    return case.data.replace("{}", str(folder))
