"""D1, D2: every hostile file gives the right pairs, or `file:line: reason` and its exit code; nothing else."""

import os
import re
import subprocess
import sys

import pytest

from regard.cli import main
from regard.data.specs import load
from regard.errors import RegardError
from tests.data.hostile import CASES, LONG, made
from tests.training.crashing import in_child

pytestmark = pytest.mark.usefixtures("unchecked")

TINY = [
    "--model.width",
    "5",
    "--model.embedding",
    "3",
    "--model.readout",
    "3",
    "--model.alignment",
    "3",
    "--steps",
    "1",
]


def test_there_are_enough():
    assert len(CASES) >= 60
    assert sum(isinstance(case.told, int) for case in CASES.values()) >= 30


def needed(name):
    if name.startswith("parquet"):
        pytest.importorskip("pyarrow", reason="parquet needs pyarrow")


@pytest.mark.parametrize("name", CASES)
def test_in_python(name, memory):
    needed(name)
    case = CASES[name]
    spec = made(case, memory)
    if isinstance(case.told, str):
        with pytest.raises(RegardError) as caught:
            load(spec)
        assert str(caught.value).startswith(case.told.replace("{}", str(memory)))
        assert caught.value.exit_code == case.code
        return
    splits = load(spec)
    found = [*splits.train, *splits.valid, *splits.test]
    assert len(found) == case.told
    for pair in found:
        numbers = [re.match(letter + r"(\d+)", text) for letter, text in (("s", pair.source), ("t", pair.target))]
        assert numbers[0][1] == numbers[1][1], pair[:9]


@pytest.mark.parametrize("name", [name for name in CASES if "10 MB" not in name])  # there 1 MB stands for them
def test_on_the_command_line(name, memory, capfd):
    """A whole training of one step where there is something to learn; one line of words where there is not."""
    needed(name)
    case = CASES[name]
    words = ["train", "translate", "--data", made(case, memory), "--out", str(memory / "run"), *TINY]
    assert main(words) == case.code
    said = capfd.readouterr().err
    assert "Traceback" not in said
    if isinstance(case.told, str):
        first = case.told.replace("{}", str(memory)).replace("\0", "")
        assert said.startswith(f"regard: {first}")
        assert said.count("\n") == 1
        assert not (memory / "run").exists()


def test_a_pair_that_is_too_long_is_counted(memory, capfd):
    """It is left out of the training, as the option says; never without a word."""
    (memory / "a.tsv").write_bytes(
        b"".join(b"s%d\tt%d\n" % (i, i) for i in range(40)) + b"s40" + LONG[:999] + b"\tt40\n"
    )
    words = ["train", "translate", "--data", f"{memory}/a.tsv", "--out", str(memory / "run"), "--epochs", "1"]
    assert main([*words, *TINY[:-2]]) == 0
    assert re.search(
        r"1 of 3\d training examples are longer than --task.longest, and were left out", capfd.readouterr().err
    )


def test_an_overlap_is_counted(memory, capfd):
    (memory / "d").mkdir()
    (memory / "d" / "train.tsv").write_bytes(b"".join(b"s%d\tt%d\n" % (i, i) for i in range(20)))
    (memory / "d" / "valid.tsv").write_bytes(b"x\ty\n")
    (memory / "d" / "test.tsv").write_bytes(b"s3\tt3\ns5\tother\ns5\tthird\nnew\tt\n")
    words = ["train", "translate", "--data", str(memory / "d"), "--out", str(memory / "run"), *TINY]
    assert main(words) == 0
    said = capfd.readouterr().err
    assert "2 of 3 different test sources are also in training: scores on them measure memory" in said
    assert "valid sources" not in said


@pytest.mark.parametrize("closed", ["d/a.tsv", "d"])
def test_what_may_not_be_read(closed, memory, capfd):
    (memory / "d").mkdir()
    (memory / "d" / "a.tsv").write_bytes(b"s1\tt1\ns2\tt2\ns3\tt3\n")
    memory.chmod(0o755)
    (memory / closed).chmod(0)

    def as_nobody():
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        for spec in ("d/a.tsv", "d"):
            assert main(["train", "translate", "--data", f"{memory}/{spec}", "--out", "/nowhere", *TINY]) in (1, 2)

    assert in_child(as_nobody) == 0
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert said.count("\n") == 2
    (memory / closed).chmod(0o755)


def test_as_a_process(tmp_path):
    """The same through the door that a user takes, once with success and once without."""
    for name in ("all of them", "Latin-1"):
        case = CASES[name]
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        words = ["train", "translate", "--data", made(case, folder), "--out", str(folder / "run"), *TINY]
        done = subprocess.run([sys.executable, "-m", "regard", *words], capture_output=True, text=True, check=False)
        assert done.returncode == case.code
        assert "Traceback" not in done.stderr
