"""No space, no permission, no room in a quota: what was there before stays, and a sentence says what is needed."""

import os
import re
import resource
import subprocess
import tempfile
from pathlib import Path

import pytest
import torch

from regard.errors import NoSpace, RegardError
from regard.training import files
from regard.training.store import Store
from tests.training.crashing import in_child

MODEL = {"config.json": b"{}", "model.safetensors": b"small"}


def filled(run: Path) -> Store:
    store = Store(run)
    with store.lock():
        store.save_state(5, {"w": torch.ones(11)}, {"of": 5})
        store.publish(MODEL, 5)
    return store


def unharmed(store: Store) -> None:
    assert store.load_state().record == {"of": 5}
    assert store.load_state().warnings == ()
    assert store.load_published() == (5, MODEL, ())
    assert [p for p in store.path.rglob("*") if p.name.startswith(".")] == []
    with store.lock():
        store.save_state(5, {"w": torch.ones(11)}, {"of": 5})
        store.publish(MODEL, 5)


@pytest.fixture
def small_disk(tmp_path):
    """4 MB of memory as a disk."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", tmp_path], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.decode().strip()}")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def test_a_disk_that_would_be_full_is_seen_before(small_disk):
    store = filled(small_disk / "run")
    with store.lock():
        with pytest.raises(NoSpace) as told:
            store.save_state(6, {"w": torch.ones(3, 2**20)}, {})
        with pytest.raises(NoSpace):
            store.publish({"model.safetensors": bytes(5 * 2**20)}, 6)
    needed, free = re.search(r"run/state: ([\d,]+) bytes are needed, ([\d,]+) are free", str(told.value)).groups()
    assert 12 * 2**20 < int(needed.replace(",", "")) < 13 * 2**20
    assert 3 * 2**20 < int(free.replace(",", "")) < 4 * 2**20
    assert told.value.exit_code == 3
    unharmed(store)


def test_a_disk_that_fills_up_meanwhile(small_disk, monkeypatch):
    """The check before finds room, as when another process takes it between."""
    store = filled(small_disk / "run")
    monkeypatch.setattr(files, "check_space", lambda folder, sizes: None)
    with store.lock():
        with pytest.raises(NoSpace, match=r"bytes are needed, [\d,]+ are free \(a quota may allow less\): make room"):
            store.save_state(6, {"w": torch.ones(3, 2**20)}, {})
        with pytest.raises(NoSpace):
            store.publish({"config.json": b"{}", "model.safetensors": bytes(5 * 2**20)}, 6)
        with pytest.raises(NoSpace):
            files.write_atomically(store.path / "README.md", bytes(5 * 2**20))
    monkeypatch.undo()
    unharmed(store)


@pytest.mark.parametrize("what", ["state", "published"])
def test_a_limit_on_the_size_of_files(what, tmp_path):
    """As a quota: the system refuses in the middle of a write."""
    store = filled(tmp_path / "run")

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        save = {
            "state": lambda: store.save_state(6, {"w": torch.ones(5000)}, {}),
            "published": lambda: store.publish({"config.json": b"{}", "model.safetensors": bytes(20_000)}, 6),
        }
        with store.lock(), pytest.raises(NoSpace, match=r"[\d,]+ bytes are needed, [\d,]+ are free"):
            save[what]()

    assert in_child(limited) == 0
    unharmed(store)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_device_that_is_full(tmp_path, monkeypatch):
    store = filled(tmp_path / "run")
    real = os.open

    def full(path, flags, *rest, **options):
        writing = flags & os.O_CREAT and str(path).endswith(".safetensors")
        return real("/dev/full", os.O_WRONLY) if writing else real(path, flags, *rest, **options)

    with store.lock():
        monkeypatch.setattr(os, "open", full)
        with pytest.raises(NoSpace):
            store.save_state(6, {"w": torch.ones(11)}, {})
        with pytest.raises(NoSpace):
            store.publish(MODEL, 6)
        monkeypatch.undo()
    unharmed(store)


def test_a_folder_that_cannot_be_written_to():
    """Root may write anywhere: the child gives that up first."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        store = filled(Path(folder) / "run")
        for closed in (store.path / "state", store.path):
            closed.chmod(0o555)

        def as_nobody():
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            with pytest.raises(RegardError, match=rf"cannot write to {store.path}: Permission denied"), store.lock():
                pass
            assert store.load_state().record == {"of": 5}
            assert store.load_published().files == MODEL

        assert in_child(as_nobody) == 0
        for closed in (store.path / "state", store.path):
            closed.chmod(0o755)
        unharmed(store)


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    store = filled(tmp_path / "run")

    def interrupted(number):
        raise KeyboardInterrupt

    with store.lock():
        monkeypatch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.save_state(6, {"w": torch.ones(11)}, {})
        monkeypatch.undo()
    unharmed(store)


def test_a_full_disk_can_still_be_told_of_and_read(small_disk):
    store = filled(small_disk / "run")
    (small_disk / "ballast").write_bytes(bytes((os.statvfs(small_disk).f_bavail) * os.statvfs(small_disk).f_frsize))
    with pytest.raises(NoSpace, match=r"bytes are needed, 0 are free"), store.lock():
        pass
    assert store.load_state().step == 5
    (small_disk / "ballast").unlink()
    unharmed(store)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_line_that_finds_no_room(tmp_path):
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    with pytest.raises(NoSpace, match=r"[\d,]+ bytes are needed, [\d,]+ are free"):
        files.append(tmp_path / "metrics.jsonl", b"{}\n")
