"""T4, T7, T8, T9 as a user meets them: how a training ends, with which exit code, and what it leaves.

Each training is a fork of this process, which has imported everything; a few are processes of their own.
"""

import contextlib
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from regard.cli import main
from regard.training.store import Store
from tests.training.crashing import forked, in_child

pytestmark = pytest.mark.usefixtures("unchecked")

TINY = ["--model.width", "7", "--model.embedding", "5", "--model.readout", "5", "--model.alignment", "3"]
LONG = ["--steps", "1000000", "--train.validate", "1000000", "--train.save", "1000000"]


@pytest.fixture
def pairs(memory):
    path = memory / "pairs.tsv"
    path.write_text("".join(f"{n:03}\t{n:03}\n" for n in range(90)))
    return path


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory):
    """What is imported late is there before the forks, and no thread of this process is missing in them."""
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("warm")
    (path / "p.tsv").write_text("1\t1\n2\t2\n3\t3\n")
    assert main(train(path / "p.tsv", path / "run", "--steps", "1")) == 0


def train(data, run, *more):
    return ["train", "translate", "--data", str(data), "--out", str(run), *TINY, *more]


class Started:
    """A command in a child, whose output comes through a pipe."""

    def __init__(self, words, before=lambda: None):
        self.read, write = os.pipe()
        self.pid = forked(lambda: self._child(words, write, before))
        os.close(write)
        self.said = ""

    def _child(self, words, write, before):
        os.close(self.read)
        os.dup2(write, 2)
        sys.stderr = os.fdopen(write, "w", buffering=1)
        before()
        os._exit(main(words))

    def until(self, text):
        while text not in self.said:
            piece = os.read(self.read, 4096).decode()
            assert piece, f"ended with {self.said!r}"
            self.said += piece

    def end(self):
        """The exit code, and how long it took to come."""
        begin = time.monotonic()
        while piece := os.read(self.read, 4096).decode():
            self.said += piece
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        assert "Traceback" not in self.said, self.said
        return code, time.monotonic() - begin


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_saves_and_ends(pairs, memory, number):
    started = Started(train(pairs, memory / "run", *LONG))
    started.until("step ")
    time.sleep(0.1)
    os.kill(started.pid, number)
    code, seconds = started.end()
    assert (code, seconds <= 5) == (128 + number, True)
    state = Store(memory / "run").load_state()
    assert (
        f"stopped at step {state.step} of 1000000; go on with: regard train --resume --out {memory}/run" in started.said
    )
    assert main(["train", "--resume", "--out", str(memory / "run"), "--steps", str(state.step + 2)]) == 0
    assert Store(memory / "run").load_state().step == state.step + 2


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_at_once(pairs, memory, monkeypatch, second):
    """The first one waits for a validation that takes a minute; what was saved before stays."""
    from regard.tasks.translate import Translate

    monkeypatch.setattr(Translate, "validated", lambda *_, **__: time.sleep(60))
    started = Started(train(pairs, memory / "run", "--train.save", "3", "--train.validate", "7", "--steps", "99"))
    started.until("step ")
    while (state := newest(memory / "run")) is None or state < 6:
        time.sleep(0.01)
    time.sleep(0.3)
    os.kill(started.pid, signal.SIGINT)
    time.sleep(0.2)
    os.kill(started.pid, second)
    code, seconds = started.end()
    assert (code, seconds <= 1) == (128 + second, True)
    assert Store(memory / "run").load_state().step == 6
    monkeypatch.undo()
    assert main(["train", "--resume", "--out", str(memory / "run"), "--steps", "8"]) == 0


def newest(run):
    with contextlib.suppress(OSError):
        state = Store(run).load_state()
        return state and state.step


def test_a_reader_that_has_gone(pairs, memory):
    """`regard train 2>&1 | head -1`: as good as a request to stop."""

    def often():
        import regard.cli.bar

        regard.cli.bar.PLAIN_EVERY = 0.0

    started = Started(train(pairs, memory / "run", *LONG), often)
    started.until("step ")
    os.close(started.read)
    code = os.waitstatus_to_exitcode(os.waitpid(started.pid, 0)[1])
    assert code == 141
    assert Store(memory / "run").load_state().step >= 1


def test_a_terminal_that_has_gone(pairs, memory):
    """The window is closed: SIGHUP, and every later write fails."""
    pid, terminal = os.forkpty()
    if pid == 0:
        code = 99
        with contextlib.suppress(BaseException):
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            code = main(train(pairs, memory / "run", *LONG))
        os._exit(code)
    said = b""
    while b"step " not in said:
        said += os.read(terminal, 4096)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 129
    assert Store(memory / "run").load_state().step >= 1


SCRIPT = (
    "import sys; import regard.cli.bar as bar; from regard.cli import main; bar.PLAIN_EVERY = 0.0; sys.exit(main())"
)


def test_a_reader_that_has_gone_from_a_process(pairs, memory):
    """Whole, since Python adds an exit code of its own where the last flush fails."""
    command = [sys.executable, "-c", SCRIPT, *train(pairs, memory / "run", *LONG)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"}) as process:
        assert process.stderr.readline()
        process.stderr.close()
        assert process.wait() == 141
    assert Store(memory / "run").load_state().step >= 1


@pytest.fixture
def small_disk(tmp_path):
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", tmp_path], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.decode().strip()}")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def test_a_disk_that_fills_up(pairs, small_disk):
    run = small_disk / "run"
    words = train(pairs, run, "--steps", "1000000", "--train.save", "2", "--train.validate", "4")
    started = Started(words)
    while (state := newest(run)) is None or state < 8:
        time.sleep(0.01)
    with contextlib.suppress(OSError), (small_disk / "ballast").open("wb", buffering=0) as ballast:
        while True:
            ballast.write(bytes(4096))
    code, _ = started.end()
    assert code == 3
    (told,) = [line for line in started.said.splitlines() if line.startswith("regard: ")]
    needed, free = re.search(r"([\d,]+) bytes are needed, ([\d,]+) are free", told).groups()
    assert int(free.replace(",", "")) < int(needed.replace(",", "")) < 2**20
    state = Store(run).load_state()
    assert state.step >= 8
    assert state.warnings == ()
    assert Store(run).load_published().warnings == ()
    (small_disk / "ballast").unlink()
    assert (
        in_child(lambda: os._exit(main(["train", "--resume", "--out", str(run), "--steps", str(state.step + 3)]))) == 0
    )
    assert Store(run).load_state().step == state.step + 3
    assert list(run.rglob(".tmp*")) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_answers_that_no_disk_takes(pairs, memory, capfd):
    assert main(train(pairs, memory / "run", "--steps", "1")) == 0
    assert main(["predict", str(memory / "run"), "--output", "/dev/full", "012"]) == 3
    said = capfd.readouterr().err
    assert "regard: No space left on device: make room where the output goes" in said

    def to_full():
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
        sys.stdout = os.fdopen(1, "w")
        os._exit(main(["predict", str(memory / "run"), "012"]))

    assert in_child(to_full) == 3


def test_one_example_a_hundred_times_longer(pairs, memory):
    """T8: its batch does not fit; the message names it, and the states before stay."""
    pairs.write_text("".join(f"{n:03}\t{n:03}\n" for n in range(90)) + "7" * 20_000 + "\t" + "7" * 20_000 + "\n")
    words = train(pairs, memory / "run", "--epochs", "1", "--train.save", "1", "--train.tokens", "100")
    words += ["--task.longest", "100000", "--train.validate", "1000", "--seed", "3"]
    started = Started(words, lambda: little_memory(200))
    code, _ = started.end()
    assert code == 4, started.said
    told = (
        "regard: out of memory on a batch of 1 examples, of up to 20001 source and 20001 target tokens: lower --train"
    )
    assert told in started.said
    state = Store(memory / "run").load_state()
    assert state.step >= 1
    assert state.warnings == ()
    again = [*words, "--resume", "--task.longest", "100"]
    assert in_child(lambda: os._exit(main(again))) == 0


def little_memory(megabytes):
    """No more address space than is taken now, and this much."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + megabytes * 2**20,) * 2)


@pytest.mark.parametrize("megabytes", [1, 20, 40, 60, 90, 120])
def test_memory_that_runs_out_anywhere(pairs, memory, megabytes):
    """A model of some 20 MB, whose optimiser needs twice that, whose save needs it again."""
    words = train(pairs, memory / "run", "--steps", "3", "--train.save", "1", "--model.width", "700")
    started = Started(words, lambda: little_memory(megabytes))
    code, _ = started.end()
    assert code in (0, 4), started.said
    if code:
        (told,) = [line for line in started.said.splitlines() if line.startswith("regard: ")]
        assert "out of memory" in told
    assert megabytes > 60 or code == 4
    state = Store(memory / "run").load_state()
    assert state is None or state.warnings == ()


def test_a_second_trainer_is_refused(pairs, memory, capfd):
    started = Started(train(pairs, memory / "run", *LONG))
    started.until("step ")
    begin = time.monotonic()
    assert main(train(pairs, memory / "run", "--steps", "3")) == 1
    assert time.monotonic() - begin <= 2
    assert f"run is in use by process {started.pid} on" in capfd.readouterr().err
    os.kill(started.pid, signal.SIGKILL)
    started.end()
    assert (memory / "run" / "lock").exists()
    assert main(train(pairs, memory / "run", "--steps", "3")) == 0, "the lock of the dead is taken over"


def test_a_run_that_was_moved(pairs, memory, monkeypatch):
    """It goes on where it now stands, and nothing in it tells where that was but the command that the user typed."""
    common = ["--train.save", "3", "--train.validate", "4", "--train.shape", "constant"]
    for name, steps in (("whole", 9), ("first", 5)):
        assert main(train(pairs, memory / name, "--steps", str(steps), *common)) == 0
    for path in (memory / "first").rglob("*"):
        if path.is_file():
            text = path.read_bytes().decode(errors="replace").replace(f"--out {memory}/first", "")
            assert f"{memory}/first" not in text, path
    shutil.move(memory / "first", memory / "elsewhere")
    monkeypatch.chdir(memory)
    assert main(["train", "--resume", "--out", "elsewhere", "--steps", "9"]) == 0
    assert not (memory / "first").exists()
    told = [(memory / name / "metrics.jsonl").read_text().splitlines() for name in ("elsewhere", "whole")]
    assert [line for line in told[0] if '"loss"' in line] == [line for line in told[1] if '"loss"' in line]
    moved, whole = (Store(memory / name).load_state().tensors for name in ("elsewhere", "whole"))
    assert all(torch.equal(moved[name], whole[name]) for name in whole)


def test_resume_never_begins_anew(pairs, memory, capfd):
    """T5: with no state, or with none that is whole, it says so and changes nothing."""
    assert main(["train", "--resume", "--out", str(memory / "run"), "--data", str(pairs), "--steps", "3"]) == 1
    assert "has no state to resume from: leave out --resume to begin" in capfd.readouterr().err
    assert main(train(pairs, memory / "run", "--steps", "4", "--train.save", "2")) == 0
    draw = random.Random(3)
    for state in (memory / "run" / "state").iterdir():
        data = bytearray((state / "tensors.safetensors").read_bytes())
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        (state / "tensors.safetensors").write_bytes(data)
    before = {path: path.read_bytes() for path in (memory / "run").rglob("*") if path.is_file()}
    capfd.readouterr()
    for words in (["train", "--resume", "--out", str(memory / "run")], train(pairs, memory / "run", "--steps", "9")):
        assert main(words) == 2
        assert "states are damaged, so there is nothing to resume from" in capfd.readouterr().err
    assert {path: path.read_bytes() for path in (memory / "run").rglob("*") if path.is_file()} == before


def test_a_damaged_state_is_told_of(pairs, memory, capfd):
    assert main(train(pairs, memory / "run", "--steps", "4", "--train.save", "2")) == 0
    (memory / "run" / "state" / "step-00000004" / "record.json").write_bytes(b"{}")
    capfd.readouterr()
    assert main(["train", "--resume", "--out", str(memory / "run"), "--steps", "5"]) == 0
    assert "step-00000004 is passed over: " in capfd.readouterr().err


def test_a_state_of_another_model(pairs, memory, capfd):
    assert main(train(pairs, memory / "run", "--steps", "2")) == 0
    assert main(["train", "--resume", "--out", str(memory / "run"), "--model.width", "9"]) == 2
    assert "the state is of another model: " in capfd.readouterr().err
    assert Store(memory / "run").load_state().step == 2
