"""What a line is, byte by byte."""

import gzip
import io
import os

import pytest

from regard.data.lines import lines_of, read_lines, text_of
from regard.errors import BadData, RegardError

LINES = {
    "nothing": (b"", []),
    "one end": (b"\n", [""]),
    "no end": (b"a\nb", ["a", "b"]),
    "an end": (b"a\nb\n", ["a", "b"]),
    "empty ones": (b"\na\n\n", ["", "a", ""]),
    "carriage return and line feed": (b"a\r\nb\r\n", ["a", "b"]),
    "only one carriage return goes": (b"a\r\r\n", ["a\r"]),
    "a lone carriage return": (b"a\rb\n", ["a\rb"]),
    "a carriage return at the end": (b"a\nb\r", ["a", "b\r"]),
    "a mark": (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
    "only a mark": (b"\xef\xbb\xbf", []),
    "a mark and an end": (b"\xef\xbb\xbf\n", [""]),
    "what splitlines splits": (
        "a\x0bb\x0cc\x1cd\x1de\x1ef\x85g\u2028h\u2029i\n".encode(),
        ["a\x0bb\x0cc\x1cd\x1de\x1ef\x85g\u2028h\u2029i"],
    ),
    "white space": (b" \n\t\n", [" ", "\t"]),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", LINES)
def test_lines(tmp_path, name, packed):
    data, expected = LINES[name]
    file = tmp_path / "a.txt"
    file.write_bytes(gzip.compress(data) if packed else data)
    assert list(read_lines(file)) == expected


@pytest.mark.parametrize("name", LINES)
def test_positions_are_those_of_the_text(name):
    data, _ = LINES[name]
    for line in lines_of(io.BytesIO(data), "x"):
        assert data[line.start : line.end].decode() == line.text


def test_a_line_of_ten_megabytes():
    data = b"a\n" + b"x" * 10_000_000 + b"\nb"
    assert [len(line.text) for line in lines_of(io.BytesIO(data), "x")] == [1, 10_000_000, 1]


def test_lines_come_one_at_a_time():
    def endless():
        yield b"a\n"
        raise AssertionError("read ahead")

    assert next(lines_of(endless(), "x")).text == "a"  # type: ignore[arg-type]


WRONG = {
    "latin": (
        b"good\ncaf\xe9 noir\n",
        ":2: byte 0xe9 at byte 4 is not UTF-8. If it is Latin-1, convert it with: iconv -f LATIN1",
    ),
    "cut short": (b"a\nb\xe2\x82", ":2: byte 0xe2 at byte 2 begins a UTF-8 character that is cut short"),
    "utf-16": ("ab\n".encode("utf-16"), ":1: begins with the mark of UTF-16: expected UTF-8; convert it with: iconv"),
    "utf-32": ("ab\n".encode("utf-32"), ":1: begins with the mark of UTF-32"),
    "utf-16 big": (b"\xfe\xff\0a", ":1: begins with the mark of UTF-16"),
    "utf-16 without a mark": ("ab".encode("utf-16-le"), ":1: a NUL byte at byte 2: expected text. If it is UTF-16"),
    "nul": (b"a\nb\nc\0d", ":3: a NUL byte at byte 2"),
    "surrogate": (b"\xed\xa0\x80\n", ":1: byte 0xed at byte 1 is not UTF-8"),
    "overlong": (b"\xc0\xaf\n", ":1: byte 0xc0 at byte 1 is not UTF-8"),
    "gzip cut short": (gzip.compress(os.urandom(50).hex().encode() + b"\n")[:-12], "the gzip stream is damaged"),
    "gzip changed": (gzip.compress(b"abc\n")[:-8] + b"\0" * 8, "the gzip stream is damaged"),
    "gzip of nothing": (b"\x1f\x8b", ":1: the gzip stream is damaged"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_not_text_is_named_with_file_and_line(tmp_path, name):
    data, text = WRONG[name]
    file = tmp_path / "a.txt"
    file.write_bytes(data)
    with pytest.raises(BadData) as fault:
        list(read_lines(file))
    assert str(fault.value).startswith(str(file))
    assert text in str(fault.value)


def test_what_is_no_file(tmp_path):
    with pytest.raises(RegardError, match="nowhere: there is no such file"):
        list(read_lines(tmp_path / "nowhere"))
    with pytest.raises(BadData, match="is not a regular file"):
        list(read_lines(tmp_path))
    with pytest.raises(RegardError, match="is not the name of a file"):
        list(read_lines("a\0b"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadData, match="is not a regular file"):
        list(read_lines(tmp_path / "pipe"))
    with pytest.raises(BadData, match="cannot be read: File name too long"):
        list(read_lines("x" * 5000))


def test_a_line_alone_has_no_number():
    with pytest.raises(BadData, match=r"^x: byte 0xff at byte 1"):
        text_of(b"\xff", "x", None)
