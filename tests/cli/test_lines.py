"""D4: `regard predict` gives a line for a line, in their order, whatever the lines are."""

import os
import random
import sys

import pytest
import torch

from regard.cli import main, predict
from regard.tasks.translate import Translate
from tests.training.crashing import in_child

pytestmark = pytest.mark.usefixtures("unchecked")

FILES = 1000
PIECES = [
    *(b"a", b"bc", b"7", b" ", b"\t", b"\r", b"\0", b"\xff", b"\xc3", b"\xe2\x80\xa8", b"\xc2\x85", b"\x0b", b"\x0c"),
    *(b"\x1c", b"\xef\xbb\xbf", "é".encode(), "e\u0301".encode(), "😀".encode(), b"</s>", b"<pad>", b"\xed\xa0\x80"),
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("lines")
    (path / "p.tsv").write_text("".join(f"{n}a\t{n}b\n" for n in range(20)))
    sizes = ["--model.width", "3", "--model.embedding", "2", "--model.readout", "2", "--model.alignment", "2"]
    words = ["train", "translate", "--data", str(path / "p.tsv"), "--out", str(path / "run"), "--steps", "1", *sizes]
    assert main([*words, "--task.longest", "9"]) == 0
    return str(path / "run")


def text(draw: random.Random) -> bytes:
    """A file of some lines, three in ten of them empty; the last one with or without an end."""
    lines = [b"" if draw.random() < 0.3 else b"".join(draw.choices(PIECES, k=draw.randrange(1, 12))) for _ in range(9)]
    lines = lines[: draw.randrange(10)]
    return draw.choice([b"\n", b"\r\n"]).join(lines) + (b"\n" if lines and draw.random() < 0.6 else b"")


def count(data: bytes) -> int:
    """Lines as `wc` counts them, and one more for a last one without an end."""
    return data.count(b"\n") + (not data.endswith(b"\n") and data != b"")


@pytest.fixture
def echo(monkeypatch):
    """Stands in for decoding: an answer that tells its line, and tries to be several."""

    def searched(self, model, lines, search, *, size=64):
        return [[Told(_told(line))] for line in lines]

    monkeypatch.setattr(Translate, "searched", searched)
    monkeypatch.setattr(Translate, "text", lambda self, answer: answer)


class Told(str):
    """An answer that came to its end."""

    finished = True


def _told(line: str) -> str:
    return f"{line!r}\n\rand more"


def expected(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")[: count(data)]
    read = [line.removesuffix(b"\r").decode(errors="replace") for line in lines]
    return [_told(line).replace("\n", " ").replace("\r", " ").encode() for line in read]


def test_a_thousand_random_files(trained, echo, memory, monkeypatch):
    draw = random.Random(20141119)
    source, target = memory / "in", memory / "out"
    empty = lines = 0
    for number in range(FILES):
        data = text(draw)
        source.write_bytes(data)
        monkeypatch.setattr(predict, "CHUNK", draw.choice([1, 2, 3, 7, 1024]))
        if number % 2:
            assert main(["predict", trained, "--input", str(source), "--output", str(target)]) == 0
        else:
            through(source, target, ["predict", trained])
        found = target.read_bytes()
        assert found.split(b"\n")[:-1] == expected(data), number
        assert found.count(b"\n") == count(data)
        lines += count(data)
        empty += sum(line.strip(b"\r") == b"" for line in data.split(b"\n")[: count(data)])
    assert lines > 3 * FILES
    assert empty / lines > 0.25


def through(source, target, words):
    """The same by the standard streams, in this process: their numbers are what counts."""
    kept = os.dup(0), os.dup(1)
    read, write = os.open(source, os.O_RDONLY), os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    before = sys.stdin, sys.stdout
    try:
        os.dup2(read, 0)
        os.dup2(write, 1)
        sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
        assert main(words) == 0
    finally:
        sys.stdin, sys.stdout = before
        for number, old in enumerate(kept):
            os.dup2(old, number)
        for number in (*kept, read, write):
            os.close(number)


def test_a_model_that_decodes(trained, memory):
    """The same without a stand-in; what a chunk or a batch holds beside a line does not change its answer."""
    draw = random.Random(7)
    data = b"\n".join(text(draw).replace(b"\r", b"") for _ in range(9))
    (memory / "in").write_bytes(data)
    outputs = []
    for chunk in (1, 5, 1024):
        predict.CHUNK, before = chunk, predict.CHUNK
        assert main(["predict", trained, "--input", str(memory / "in"), "--output", str(memory / "out")]) == 0
        predict.CHUNK = before
        outputs.append((memory / "out").read_bytes())
    assert outputs[0].count(b"\n") == count(data) > 20
    assert outputs[0] == outputs[1] == outputs[2]


def test_a_line_that_is_cut_is_counted(trained, memory, capfd):
    """The run reads nine tokens of a line: what is behind them had no part in the answer."""
    (memory / "in").write_text("1a\n" + "1234567890\n" * 3 + "12345678\n123456789\n")
    assert main(["predict", trained, "--input", str(memory / "in")]) == 0
    said = capfd.readouterr()
    assert said.out.count("\n") == 6
    assert "4 lines were longer than 9 tokens, and cut there to be read" in said.err
    assert main(["predict", trained, "1a"]) == 0
    assert "cut there to be read" not in capfd.readouterr().err


def test_arguments_that_are_no_text(trained, capfdbinary):
    assert main(["predict", trained, "1\udcff", "", "a\nb", "2a"]) == 0
    assert capfdbinary.readouterr().out.count(b"\n") == 4


def test_a_file_is_never_lost(trained, memory, capfd):
    """Not by writing over what is being read, and not by a mistake in the name of the other."""
    (memory / "in").write_text("1a\n2a\n")
    (memory / "link").symlink_to("in")
    for source, target in (("in", "in"), ("in", "link"), ("link", "in")):
        assert main(["predict", trained, "--input", str(memory / source), "--output", str(memory / target)]) == 1
        assert "is the file of --input: it would be emptied before it is read" in capfd.readouterr().err
    (memory / "out").write_text("kept\n")
    assert main(["predict", trained, "--input", str(memory / "nowhere"), "--output", str(memory / "out")]) == 1
    assert f"predict: --input {memory}/nowhere: No such file or directory" in capfd.readouterr().err
    assert main(["predict", trained, "--input", str(memory / "in"), "--output", str(memory / "no" / "out")]) == 1
    assert f"predict: --output {memory}/no/out: No such file or directory" in capfd.readouterr().err
    assert (memory / "in").read_text() == "1a\n2a\n"
    assert (memory / "out").read_text() == "kept\n"


def test_a_reader_that_has_gone(trained, memory):
    (memory / "in").write_text("1a\n" * 5000)

    def piped():
        read, write = os.pipe()
        os.dup2(write, 1)
        sys.stdout = os.fdopen(1, "w")
        os.close(write)
        os.close(read)
        os._exit(main(["predict", trained, "--input", str(memory / "in")]))

    assert in_child(piped) == 141
