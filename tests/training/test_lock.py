"""One trainer a run: who is refused, and whose lock is taken over."""

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.errors import RegardError
from regard.training import lock
from regard.training.store import Store
from tests.training.crashing import in_child


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


@contextlib.contextmanager
def another_holder(run):
    """A process that holds the run until the block ends."""
    ready, ready_in = os.pipe()
    pid = os.fork()
    if pid == 0:
        with Store(run).lock():
            os.write(ready_in, b".")
            time.sleep(60)
        os._exit(0)
    assert os.read(ready, 1) == b"."
    try:
        yield pid
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def die_holding(run):
    with Store(run).lock():
        os._exit(5)


def write(run, **changes):
    """A lock file as this process would write it, but for the changes."""
    holder = lock.Holder(os.getpid(), lock._started(os.getpid()), lock._machine(), "here")
    fields = {name: getattr(holder, name) for name in holder.__struct_fields__} | changes
    run.mkdir(exist_ok=True)
    (run / "lock").write_text(json.dumps(fields))


def test_a_second_trainer_is_refused_at_once(run):
    with another_holder(run) as pid:
        begin = time.perf_counter()
        told = rf"run is in use by process {pid} on .*: wait until it ends, or end it"
        with pytest.raises(RegardError, match=told), Store(run).lock():
            pass
        assert time.perf_counter() - begin <= 2
        code = "import sys; from regard.training.store import Store\nwith Store(sys.argv[1]).lock(): pass"
        done = subprocess.run([sys.executable, "-c", code, run], capture_output=True, text=True, check=False)
        assert f"in use by process {pid}" in done.stderr
    with Store(run).lock():
        pass


def test_the_same_process_cannot_hold_it_twice(run):
    with Store(run).lock():
        with pytest.raises(RegardError, match=f"in use by process {os.getpid()}"), Store(run).lock():
            pass
        assert (run / "lock").exists()
    assert not (run / "lock").exists()


def test_the_lock_of_a_dead_process_is_taken_over(run):
    assert in_child(lambda: die_holding(run)) == 5
    assert (run / "lock").exists()
    with Store(run).lock():
        assert json.loads((run / "lock").read_text())["pid"] == os.getpid()


def test_the_lock_of_a_process_that_nobody_has_waited_for_is_taken_over(run):
    """A zombie still has its number and start time."""
    pid = os.fork()
    if pid == 0:
        die_holding(run)
    while b") Z " not in Path(f"/proc/{pid}/stat").read_bytes():
        time.sleep(0.01)
    assert (run / "lock").exists()
    with Store(run).lock():
        pass
    os.waitpid(pid, 0)


def test_the_lock_of_a_dead_trainer_is_taken_over_from_its_children(run):
    """A data worker that outlives its trainer holds the open file, not the run."""
    ready, ready_in = os.pipe()
    pid = os.fork()
    if pid == 0:
        with Store(run).lock():
            worker = os.fork()
            if worker == 0:
                time.sleep(60)
            os.write(ready_in, str(worker).encode())
            os._exit(0)
    worker = int(os.read(ready, 20))
    os.waitpid(pid, 0)
    assert lock._is_locked(run / "lock")
    with Store(run).lock():
        pass
    os.kill(worker, 9)


def test_a_number_used_again_is_not_believed(run):
    write(run, started="1")
    with Store(run).lock():
        pass
    write(run)
    with pytest.raises(RegardError, match="in use by process"), Store(run).lock():
        pass


@pytest.mark.parametrize("machine", ["another boot", ""])
def test_on_another_machine_the_lock_of_the_system_decides(machine, run):
    write(run, machine=machine, host="elsewhere", pid=1)
    with Store(run).lock():
        pass
    with another_holder(run):
        fields = json.loads((run / "lock").read_text()) | {"machine": machine, "host": "elsewhere", "pid": 99}
        number = os.open(run / "lock", os.O_WRONLY | os.O_TRUNC)
        os.write(number, json.dumps(fields).encode())
        os.close(number)
        with pytest.raises(RegardError, match="in use by process 99 on elsewhere"), Store(run).lock():
            pass


@pytest.mark.parametrize("text", ["", "{", '{"pid": -1}', '{"pid": 1}', "[]", "x" * 5000])
def test_a_lock_that_cannot_be_read_is_held_only_if_the_system_says_so(text, run):
    run.mkdir()
    (run / "lock").write_text(text)
    with Store(run).lock():
        pass
    with another_holder(run):
        with open(run / "lock", "w") as file:
            file.write(text)
        told = r"in use by another process.*If it no longer runs, delete .*run/lock"
        with pytest.raises(RegardError, match=told), Store(run).lock():
            pass


def test_nothing_is_written_after_the_lock_is_lost(run):
    store = Store(run)
    with store.lock():
        write(run, pid=1)
        with pytest.raises(RegardError, match="is no longer that of this process: nothing more is written"):
            store.save_state(1, {}, {})
        with pytest.raises(RegardError):
            store.publish({}, 1)
    assert (run / "lock").exists(), "it belongs to the other one"
    assert os.listdir(run / "state") == []


def test_a_child_cannot_write_with_the_lock_of_its_parent(run):
    store = Store(run)
    with store.lock():

        def save():
            with pytest.raises(RegardError):
                store.save_state(1, {}, {})

        assert in_child(save) == 0


def test_of_many_who_find_a_dead_lock_one_takes_it(run, tmp_path):
    """Twelve at once, several times: the file named `inside` would be made twice by two who hold the lock."""
    for _ in range(5):
        write(run, started="1")
        go, go_in = os.pipe()
        children = []
        for _ in range(12):
            pid = os.fork()
            if pid == 0:
                os.close(go_in)
                os.read(go, 1)
                code = 1
                with contextlib.suppress(RegardError), Store(run).lock():
                    os.close(os.open(tmp_path / "inside", os.O_CREAT | os.O_EXCL))
                    time.sleep(0.3)
                    os.unlink(tmp_path / "inside")
                    code = 0
                os._exit(code)
            children.append(pid)
        os.close(go)
        os.close(go_in)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
        assert codes.count(0) >= 1
        assert set(codes) <= {0, 1}


def test_a_guard_that_is_never_left_is_told(run, monkeypatch):
    monkeypatch.setattr(lock, "_PATIENCE", 0.1)
    run.mkdir()
    number = os.open(run, os.O_RDONLY)
    fcntl.flock(number, fcntl.LOCK_EX)
    with pytest.raises(RegardError, match=r"run could not be locked within 0\.1 s: another process"), Store(run).lock():
        pass
    os.close(number)


def test_where_the_system_has_no_locks_a_lock_of_elsewhere_is_believed(run, monkeypatch):
    def none(number, how):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(lock.fcntl, "flock", none)
    with Store(run).lock():
        pass
    write(run, machine="elsewhere", host="elsewhere")
    with pytest.raises(RegardError, match="in use by process"), Store(run).lock():
        pass
