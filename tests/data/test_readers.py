"""Hostile files: each gives the right number of right pairs, or `file:line: reason`."""

import gzip
import os
import pickle
import random

import pytest

from regard.data.divide import completed, mark, marks_of, overlap
from regard.data.pairs import Pair
from regard.data.readers import read_pairs
from regard.errors import BadData, RegardError
from tests.training.crashing import in_child

BIG = b"x" * 10_000_000
GOOD_CSV, GOOD_TSV = b"source,target\n", b"source\ttarget\n"

# name: (ending, bytes, the pairs as source|target or the text of the error)
FILES = {
    "tsv": ("tsv", b"a\tb\nc\td\n", ["a|b", "c|d"]),
    "tsv without an end": ("tsv", b"a\tb\nc\td", ["a|b", "c|d"]),
    "tsv with CRLF": ("tsv", b"a\tb\r\nc\td\r\n", ["a|b", "c|d"]),
    "tsv with a mark": ("tsv", b"\xef\xbb\xbfa\tb\nc\td\n", ["a|b", "c|d"]),
    "tsv header behind a mark": ("tsv", b"\xef\xbb\xbf" + GOOD_TSV + b"c\td\n", ["c|d"]),
    "tsv header the other way round": ("tsv", b"target\tid\tsource\nb\t7\ta\n", ["a|b"]),
    "tsv header by short names": ("tsv", b"src\ttgt\na\tb\n", ["a|b"]),
    "tsv with a lone CR": ("tsv", b"a\rb\tc\n", ["a\rb|c"]),
    "tsv with U+2028": ("tsv", "a\u2028b\tc\n".encode(), ["a\u2028b|c"]),
    "tsv with U+0085": ("tsv", "a\x85b\tc\nd\te".encode(), ["a\x85b|c", "d|e"]),
    "tsv with form feeds": ("tsv", b"a\x0bb\x0cc\x1cd\te\n", ["a\x0bb\x0cc\x1cd|e"]),
    "tsv keeps quotes": ("tsv", b'"a\t"b\n', ['"a|"b']),
    "tsv keeps spaces": ("tsv", b" a \t b\n", [" a | b"]),
    "tsv is normalised": ("tsv", "e\u0301\tb\n".encode(), ["é|b"]),
    "tsv of one long line": ("tsv", BIG + b"\tb\nc\td\n", [BIG.decode() + "|b", "c|d"]),
    "tsv ragged, short": ("tsv", b"a\tb\nc\n", ":2: 1 column, expected 2"),
    "tsv ragged, long": ("tsv", b"a\tb\nc\td\te\n", ":2: 3 columns, expected 2"),
    "tsv ragged under a header": ("tsv", b"id\tsource\ttarget\n1\ta\tb\n2\tc\n", ":3: 2 columns, expected 3"),
    "tsv of three columns": ("tsv", b"a\tb\tc\n", ":1: 3 columns and no header that names source and target"),
    "tsv of one column": ("tsv", b"a\nb\n", ":1: 1 column, expected 2"),
    "tsv doubled column": ("tsv", b"source\ttarget\tsource\n", ":1: two columns named 'source'"),
    "tsv two sources": ("tsv", b"source\tsrc\ttarget\n", ":1: both 'source' and 'src' could be the source"),
    "tsv empty source": ("tsv", b"a\tb\n\tc\n", ":2: the source is empty: fill it, or leave such pairs out with"),
    "tsv empty target": ("tsv", b"a\tb\nc\t\n", ":2: the target is empty"),
    "tsv white target": ("tsv", "a\t \u2028\x85\x1c\n".encode(), ":1: the target is empty"),
    "tsv empty line": ("tsv", b"a\tb\n\nc\td\n", ":2: the source is empty"),
    "tsv empty last line": ("tsv", b"a\tb\n\n", ":2: the source is empty"),
    "tsv of nothing": ("tsv", b"", ": no pairs in it: expected at least one"),
    "tsv of a header": ("tsv", GOOD_TSV, ": no pairs in it"),
    "tsv of a mark": ("tsv", b"\xef\xbb\xbf", ": no pairs in it"),
    "tsv Latin-1": ("tsv", b"a\tb\ncaf\xe9\tx\n", ":2: byte 0xe9 at byte 4 is not UTF-8"),
    "tsv cut in a character": ("tsv", b"a\tb\nc\t\xf0\x9f\x98", ":2: byte 0xf0 at byte 3 begins a UTF-8"),
    "tsv UTF-16": ("tsv", "a\tb\n".encode("utf-16"), ":1: begins with the mark of UTF-16"),
    "tsv NUL": ("tsv", b"a\tb\nc\0\td\n", ":2: a NUL byte at byte 2"),
    "csv": ("csv", GOOD_CSV + b'a,b\n"c,d","e""f"\n', ["a|b", 'c,d|e"f']),
    "csv with CRLF": ("csv", b'source,target\r\na,b\r\n"c\r\nd",e\r\n', ["a|b", "c\nd|e"]),
    "csv with line ends in quotes": ("csv", GOOD_CSV + b'"a\nb\n\nc",d\ne,f\n', ["a\nb\n\nc|d", "e|f"]),
    "csv with a lone CR in quotes": ("csv", GOOD_CSV + b'"a\rb",c\n', ["a\rb|c"]),
    "csv with U+2028": ("csv", GOOD_CSV + "a\u2028b,c\x85\n".encode(), ["a\u2028b|c\x85"]),
    "csv with a mark": ("csv", b"\xef\xbb\xbf" + GOOD_CSV + b"a,b\n", ["a|b"]),
    "csv of one long text": ("csv", GOOD_CSV + b'"' + BIG + b'",b\n', [BIG.decode() + "|b"]),
    "csv ragged": ("csv", GOOD_CSV + b"a,b\nc,d,e\n", ":3: 3 columns, expected 2"),
    "csv ragged after line ends": ("csv", GOOD_CSV + b'"a\nb",c\nd\n', ":4: 1 column, expected 2"),
    "csv open quote": ("csv", GOOD_CSV + b'a,b\nc,"d\ne,f\n', ":3: a quote is opened in this row and never closed"),
    "csv text after a quote": ("csv", GOOD_CSV + b'"a"b,c\n', ":2: not CSV: ',' expected after '\"'"),
    "csv lone CR": ("csv", GOOD_CSV + b"a\rb,c\n", ":2: a carriage return outside of quotes"),
    "csv other names": ("csv", b"german,english\na,b\n", ":1: no column named 'source' or 'src' or 'input': there are"),
    "csv no target": ("csv", b"source,english\na,b\n", ":1: no column named 'target' or 'tgt' or 'output'"),
    "csv doubled column": ("csv", b"source,target,target\n", ":1: two columns named 'target'"),
    "csv empty line": ("csv", GOOD_CSV + b"a,b\n\n", ":3: the source is empty"),
    "csv empty target": ("csv", GOOD_CSV + b"a,\n", ":2: the target is empty"),
    "csv of nothing": ("csv", b"", ": no pairs in it"),
    "csv blank header": ("csv", b"\na,b\n", ":1: no column named 'source' or 'src' or 'input': there are none"),
    "csv NUL": ("csv", GOOD_CSV + b"a,b\0\n", ":2: a NUL byte at byte 4"),
    "jsonl": ("jsonl", b'{"source":"a","target":"b","n":[1]}\n{"target":"d","source":"c"}', ["a|b", "c|d"]),
    "jsonl with escapes": ("jsonl", b'{"source":"\\u00e9\\n","target":"\\ud83d\\ude00"}\n', ["é\n|😀"]),
    "jsonl with CRLF and a mark": ("jsonl", b'\xef\xbb\xbf{"src":"a","tgt":"b"}\r\n', ["a|b"]),
    "jsonl with U+2028": ("jsonl", '{"source":"a\u2028","target":"b"}\n'.encode(), ["a\u2028|b"]),
    "jsonl half a pair": ("jsonl", b'{"source":"\\ud800","target":"b"}\n', ":1: the source holds a NUL or half of"),
    "jsonl NUL": ("jsonl", b'{"source":"a","target":"\\u0000"}\n', ":1: the target holds a NUL or half of"),
    "jsonl cut short": ("jsonl", b'{"source":"a","target":"b"}\n{"source":"a', ":2: not a JSON row: Unterminated"),
    "jsonl list": ("jsonl", b'["a","b"]\n', ":1: not a JSON row: expected an object {…}, got a list"),
    "jsonl number": ("jsonl", b'{"source":"a","target":1}\n', ":1: not a JSON row: 'target' is a number, expected a"),
    "jsonl null": ("jsonl", b'{"source":null,"target":"a"}\n', ":1: the source is empty"),
    "jsonl doubled name": ("jsonl", b'{"source":"a","source":"b","target":"c"}\n', "the name 'source' stands there"),
    "jsonl later row": ("jsonl", b'{"source":"a","target":"b"}\n{"src":"a","target":"b"}\n', ":2: no column named"),
    "jsonl deep": ("jsonl", b"[" * 100_000, ":1: not JSON that can be read: nested too deeply"),
    "jsonl great number": ("jsonl", b'{"source":' + b"9" * 5000 + b"}\n", ":1: not a JSON row: Exceeds the limit"),
    "jsonl empty line": ("jsonl", b'{"source":"a","target":"b"}\n\n', ":2: the source is empty"),
    "jsonl Latin-1": ("jsonl", b'{"source":"\xe9","target":"b"}\n', ":1: byte 0xe9 at byte 12 is not UTF-8"),
    "parquet of text": ("parquet", b"hello", ": not a parquet file that can be read"),
    "parquet of nothing": ("parquet", b"", ": not a parquet file that can be read"),
}

# name: (source bytes, target bytes, pairs or error)
TWO = {
    "two": (b"a\nb\n", b"c\nd\n", ["a|c", "b|d"]),
    "one without an end": (b"a\nb", b"c\nd\n", ["a|c", "b|d"]),
    "one with CRLF": (b"a\r\nb\r\n", b"c\nd\n", ["a|c", "b|d"]),
    "one with a mark": (b"\xef\xbb\xbfa\nb\n", b"c\nd\n", ["a|c", "b|d"]),
    "a line separator on one side": ("a\u2028x\nb\n".encode(), b"c\nd\n", ["a\u2028x|c", "b|d"]),
    "a next line on one side": ("a\x85x\nb\n".encode(), b"c\nd\n", ["a\x85x|c", "b|d"]),
    "a lone CR on one side": (b"a\rx\nb\n", b"c\nd\n", ["a\rx|c", "b|d"]),
    "form feeds on one side": (b"a\x0c\x0b\x1cx\nb\n", b"c\nd\n", ["a\x0c\x0b\x1cx|c", "b|d"]),
    "tabs stay": (b"a\tx\n", b"c\n", ["a\tx|c"]),
    "source shorter": (b"a\n", b"c\nd\ne\n", "a.src:2: 1 lines, but "),
    "target shorter": (b"a\nb\nx\n", b"c\nd\n", "b.tgt:3: 2 lines, but "),
    "empty in the source": (b"a\n\n", b"c\nd\n", "a.src:2: the source is empty"),
    "empty in the target": (b"a\nb\nc\n", b"c\n\nd\n", "b.tgt:2: the target is empty"),
    "empty in both": (b"a\n\n", b"c\n\n", "a.src:2: the source is empty"),
    "nothing in both": (b"", b"", "no pairs in it"),
    "nothing in one": (b"", b"a\n", "a.src:1: 0 lines, but "),
    "Latin-1 in the target": (b"a\nb\n", b"c\n\xfc\n", "b.tgt:2: byte 0xfc at byte 1 is not UTF-8"),
    "UTF-16 in the source": ("a\n".encode("utf-16"), b"c\n", "a.src:1: begins with the mark of UTF-16"),
}


def held(path, expected, **options):
    """Either the pairs, or an error that says so; nothing else."""
    if isinstance(expected, str):
        with pytest.raises(BadData) as fault:
            read_pairs(path, **options)
        assert expected in str(fault.value)
        assert fault.value.exit_code == 2
    else:
        pairs = read_pairs(path, **options)
        assert len(pairs) == len(expected)
        assert [pairs[i] for i in reversed(range(len(pairs)))] == [Pair(*e.split("|")) for e in reversed(expected)]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_one_file(tmp_path, name, packed):
    ending, data, expected = FILES[name]
    if ending == "parquet":
        pytest.importorskip("pyarrow", reason="parquet needs pyarrow")
    if packed and (len(data) > 1_000_000 or ending == "parquet"):
        packed = False
    file = tmp_path / f"data.{ending}{'.gz' * packed}"
    file.write_bytes(gzip.compress(data) if packed else data)
    expected = f"{file}{expected}" if isinstance(expected, str) and expected.startswith(":") else expected
    held(file, expected)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", TWO)
def test_two_files(tmp_path, name, packed):
    *data, expected = TWO[name]
    files = [tmp_path / "a.src", tmp_path / "b.tgt"]
    for file, content in zip(files, data, strict=True):
        file.write_bytes(gzip.compress(content) if packed else content)
    held(f"{files[0]},{files[1]}", expected)


def test_unequal_counts_name_both(tmp_path):
    (tmp_path / "a").write_bytes(b"1\n" * 7)
    (tmp_path / "b").write_bytes(b"1\n" * 5)
    held(f"{tmp_path}/a,{tmp_path}/b", f"{tmp_path}/b:6: 5 lines, but {tmp_path}/a has 7: expected a line for each")


def test_the_table_is_long_enough():
    assert len(FILES) + len(TWO) >= 60


def test_empty_sides_are_left_out_and_counted(tmp_path):
    (tmp_path / "a.src").write_bytes(b"a\n\nb\n \nc\n")
    (tmp_path / "b.tgt").write_bytes(b"1\n2\n\n4\n5\n")
    pairs = read_pairs(f"{tmp_path}/a.src,{tmp_path}/b.tgt", empty="skip")
    assert list(pairs) == [Pair("a", "1"), Pair("c", "5")]
    assert pairs.skipped == 3
    (tmp_path / "a.tsv").write_bytes(b"\n\na\tb\n\tc\n")
    pairs = read_pairs(tmp_path / "a.tsv", empty="skip")
    assert (list(pairs), pairs.skipped) == ([Pair("a", "b")], 3)
    (tmp_path / "b.tsv").write_bytes(b"\n\n")
    held(tmp_path / "b.tsv", r"b.tsv: no pairs in it (2 left out, with an empty side)", empty="skip")


def test_columns_by_name(tmp_path):
    for ending, data in {
        "tsv": b"source\tde\ten\nx\ta\tb\n",
        "csv": b"source,de,en\nx,a,b\n",
        "jsonl": b'{"source":"x","en":"b","de":"a"}\n',
    }.items():
        file = tmp_path / f"x.{ending}"
        file.write_bytes(data)
        assert list(read_pairs(file, columns=("de", "en"))) == [Pair("a", "b")]
        held(file, ":1: no column named 'fr': there are", columns=("de", "fr"))
        with pytest.raises(RegardError, match="must be two different columns"):
            read_pairs(file, columns=("de", "de"))


def test_normal_forms(tmp_path):
    (tmp_path / "a.tsv").write_bytes("e\u0301ﬁ\tx\n".encode())
    found = [read_pairs(tmp_path / "a.tsv", normalise=how)[0].source for how in ("none", "nfc", "nfkc")]
    assert found == ["e\u0301ﬁ", "éﬁ", "éfi"]


def test_a_folder_is_its_files_in_order(tmp_path):
    for shard in (2, 0, 1):
        (tmp_path / f"{shard}.tsv").write_bytes(GOOD_TSV + f"{shard}\ta\n{shard}\t\n{shard}\tb\n".encode())
    (tmp_path / "_SUCCESS").write_bytes(b"")
    pairs = read_pairs(tmp_path, empty="skip")
    assert [pair.source for pair in pairs] == ["0", "0", "1", "1", "2", "2"]
    assert pairs.skipped == 3
    (tmp_path / "3.csv").write_bytes(GOOD_CSV)
    held(tmp_path, "files of 2 kinds (.csv, .tsv): expected one kind")
    (tmp_path / "inner").mkdir()
    held(tmp_path / "inner", "a folder without files")


def test_only_positions_are_held(tmp_path):
    import tracemalloc

    file = tmp_path / "a.tsv"
    file.write_bytes(b"".join(b"%d %s\tb\n" % (i, b"x" * 2000) for i in range(5000)))
    tracemalloc.start()
    pairs = read_pairs(file)
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert pairs[4321].source.startswith("4321 x")
    assert held_bytes < 500_000, "10 MB in the file"


def test_the_division_needs_no_second_reading(tmp_path, monkeypatch, unchecked):
    """Every source is marked while its row is checked; what is marked so is what the pairs would give."""
    rows = [f"nai\u0308ve {n}\tb{n}\n".encode() for n in range(50)]
    (tmp_path / "shards").mkdir()
    for part in range(2):
        (tmp_path / "shards" / f"{part}.tsv").write_bytes(b"".join(rows[part::2]))
    (tmp_path / "a").write_bytes(b"".join(row.split(b"\t")[0] + b"\n" for row in rows))
    for name in ("shards", "shards/0.tsv", "a,a"):
        path = ",".join(str(tmp_path / part) for part in name.split(","))
        made = read_pairs(path, seed=7)
        assert marks_of(made, 7).tolist() == [mark(pair.source, 7) for pair in made]
        assert marks_of(made, 8).tolist() == [mark(pair.source, 8) for pair in made]
        assert marks_of(made[3:9:2], 7).tolist() == marks_of(made, 7)[3:9:2].tolist()
        expected = [list(part) for part in completed({"train": list(made)}, 7)]
        monkeypatch.setattr(type(made), "pair", None)
        found = completed({"train": made}, 7)
        assert overlap(found[0], found[2], seed=7) is None
        monkeypatch.undo()
        assert [list(part) for part in found] == expected


def test_a_file_is_opened_once_and_read_by_children_and_copies(tmp_path, monkeypatch, unchecked):
    file = tmp_path / "a.tsv"
    file.write_bytes(b"".join(b"%06d\tb\n" % n for n in range(2000)))
    pairs, opened, real = read_pairs(file), [], os.open
    monkeypatch.setattr(os, "open", lambda *given: opened.append(given[0]) or real(*given))
    assert [pairs[n].source for n in (7, 1999, 0)] == ["000007", "001999", "000000"]
    assert opened == [str(file)]
    monkeypatch.undo()

    def all_of_them():
        assert [pair.source for pair in pairs] == [f"{n:06}" for n in range(2000)]

    assert in_child(all_of_them) == 0
    all_of_them()
    assert [pair.source for pair in pickle.loads(pickle.dumps(pairs))[:2]] == ["000000", "000001"]


def test_more_shards_than_open_files(tmp_path):
    for n in range(150):
        (tmp_path / f"{n:03}.tsv").write_bytes(b"%03d\tb\n" % n)
    pairs, before = read_pairs(tmp_path), len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        assert [pair.source for pair in pairs] == [f"{n:03}" for n in range(150)]
    assert len(os.listdir("/proc/self/fd")) - before < 70


def test_a_file_that_changes_is_noticed(tmp_path):
    file = tmp_path / "a.tsv"
    file.write_bytes(b"a\tb\nc\td\n")
    pairs = read_pairs(file)
    file.write_bytes(b"a\tb\nc\td\ne\tf\n")
    with pytest.raises(BadData, match="has changed since it was opened"):
        pairs[0]
    file.unlink()
    with pytest.raises(BadData, match="cannot be read any more: No such file"):
        pairs[0]


def test_what_is_no_kind_of_pairs(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a\n")
    with pytest.raises(RegardError, match=r"\.txt is no known kind of pairs, expected one of \.tsv, \.csv, \.jsonl"):
        read_pairs(tmp_path / "a.txt")
    with pytest.raises(RegardError, match="there is no such file or folder"):
        read_pairs(tmp_path / "b.txt")
    for name in ("nowhere.tsv", "no,where"):
        with pytest.raises(RegardError, match="there is no such file"):
            read_pairs(tmp_path / name)
    with pytest.raises(RegardError, match="got 3 names"):
        read_pairs("a,b,c")
    with pytest.raises(RegardError, match="two files of lines have no columns"):
        read_pairs("a,b", columns=("a", "b"))


def test_a_comma_in_the_name_of_a_file(tmp_path):
    (tmp_path / "a,b.tsv").write_bytes(b"a\tb\n")
    assert len(read_pairs(tmp_path / "a,b.tsv")) == 1


def outcome(file, empty):
    try:
        return list(read_pairs(file, empty=empty))
    except BadData as fault:
        return str(fault)


def test_random_bytes_never_end_otherwise(tmp_path):
    draw = random.Random(0)
    parts = [b"\n", b"\r", b"\t", b",", b'"', b"\0", b"\xff", b"a", b"\xe2\x80\xa8", b"{", b"}", b"source", b"\x1f\x8b"]
    for number in range(400):
        file = tmp_path / f"{number}.{('tsv', 'csv', 'jsonl')[number % 3]}"
        head = draw.choice([b"", GOOD_CSV, GOOD_TSV, b'{"source":"a","target":"b"}\n'])
        file.write_bytes(head + b"".join(draw.choices(parts, k=draw.randrange(20))))
        for empty in ("error", "skip"):
            found = outcome(file, empty)
            assert found
            assert isinstance(found, list) or found.startswith(str(file))
