"""What a run folder keeps, in which order, and what it refuses; damage and crashes have files of their own."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
import torch

from regard.errors import BadData, Damaged, RegardError
from regard.training.header import Mismatch
from regard.training.store import Store
from regard.training.tensors import expected

MODEL = {"config.json": b"{}", "model.safetensors": b"numbers", "tokenizer.target.json": b"[]"}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs" / "one")


def save(store: Store, *steps: int, best: tuple[int, ...] = ()) -> list[str]:
    with store.lock():
        for step in steps:
            store.save_state(step, {"w": torch.full((2, 3), float(step))}, {"of": step}, best=step in best)
    return sorted(os.listdir(store.path / "state"))


def test_a_state_comes_back_bit_for_bit(store):
    tensors = {
        "model.weight": torch.randn(5, 3),
        "optimiser.0.step": torch.tensor(7.0),
        "half": torch.randn(7).to(torch.bfloat16),
        "mask": torch.tensor([True, False, True]),
        "none": torch.empty(0, 11),
        "large": torch.tensor([2**62 + 1, -5]),
        "not a number": torch.tensor([float("nan"), float("inf"), -0.0]),
    }
    record = {"epoch": 3, "best": 27.5, "seen": [1, 2, 3], "seed": 2**64 - 1, "settings": {"name": "wörter", "x": None}}
    with store.lock():
        store.save_state(123, tensors, record, best=True)
    state = Store(store.path).load_state(expect=expected(tensors))
    assert (state.step, state.record, state.best, state.warnings) == (123, record, True, ())
    assert state.tensors.keys() == tensors.keys()
    for name, tensor in tensors.items():
        have = state.tensors[name]
        assert (have.dtype, have.shape) == (tensor.dtype, tensor.shape)
        assert have.flatten().view(torch.uint8).tolist() == tensor.flatten().view(torch.uint8).tolist()
    assert sorted(os.listdir(store.path / "state" / "step-00000123")) == [
        "manifest.json",
        "record.json",
        "tensors.safetensors",
    ]


def test_the_newest_two_and_the_best_are_kept(store):
    assert save(store, 1, 2, 3) == ["step-00000002", "step-00000003"]
    assert save(store, 4, best=(4,)) == ["step-00000003", "step-00000004"]
    assert save(store, 5, 6, 7) == ["step-00000004", "step-00000006", "step-00000007"]
    assert save(store, 8, 9, best=(8,)) == ["step-00000008", "step-00000009"]
    assert store.load_best().record == {"of": 8}
    assert store.load_state().record == {"of": 9}


def test_there_may_be_no_best_and_no_state(store):
    assert store.load_state() is None
    save(store, 1)
    assert store.load_best() is None


def test_a_state_of_the_same_step_is_replaced(store):
    save(store, 4, best=(4,))
    with store.lock():
        store.save_state(4, {}, {"again": True})
        assert store.load_state().record == {"again": True}
        store.save_state(5, {}, {})
    assert sorted(os.listdir(store.path / "state")) == ["step-00000004", "step-00000004.2", "step-00000005"]
    assert store.load_best().record == {"of": 4}


def test_the_newest_is_so_by_step_and_not_by_the_clock(store):
    save(store, 9, 10)
    for age, name in enumerate(("step-00000010", "step-00000009")):
        for path in [*(store.path / "state" / name).iterdir(), store.path / "state" / name]:
            os.utime(path, (10**9 + age, 10**9 + age))
    assert store.load_state().step == 10
    save(store, 100_000_000)
    assert store.load_state().step == 100_000_000


def test_an_earlier_step_is_refused(store):
    save(store, 100)
    with (
        store.lock(),
        pytest.raises(RegardError, match=r"has a state of step 100, which step 5 would come before: res"),
    ):
        store.save_state(5, {}, {})
    assert store.load_state().step == 100
    with store.lock(), pytest.raises(ValueError, match=r"step must be at least 0 and below 10+, got -1"):
        store.save_state(-1, {}, {})


def test_a_copy_elsewhere_is_the_same_run(store, tmp_path):
    save(store, 3, 4)
    with store.lock():
        store.publish(MODEL, 4)
    for path in store.path.rglob("*"):
        assert not path.is_file() or str(tmp_path).encode() not in path.read_bytes(), path
    shutil.move(store.path, tmp_path / "elsewhere")
    moved = Store(str(tmp_path / "elsewhere"))
    assert moved.load_state().step == 4
    assert moved.load_published() == (4, MODEL, ())
    assert save(moved, 5) == ["step-00000004", "step-00000005"]


def test_writing_needs_the_lock(store):
    for write in (lambda: store.save_state(1, {}, {}), lambda: store.publish(MODEL, 1)):
        with pytest.raises(RuntimeError, match=r"needs the lock: call it inside `with store.lock\(\):`"):
            write()
    with store.lock():
        pass
    with pytest.raises(RuntimeError):
        store.save_state(1, {}, {})


def test_a_published_model_is_replaced_whole(store):
    with pytest.raises(RegardError, match="holds no published model: train into it, or choose another folder"):
        store.load_published()
    with store.lock():
        store.publish(MODEL, 3)
        (store.path / "README.md").write_text("a card")
        assert store.load_published() == (3, MODEL, ())
        store.publish({"config.json": b"[]"}, 4)
    assert store.load_published() == (4, {"config.json": b"[]"}, ())
    assert sorted(os.listdir(store.path)) == ["README.md", "config.json", "manifest.json"]
    listed = json.loads((store.path / "manifest.json").read_text())
    assert (listed["format_version"], listed["step"], listed["files"]["config.json"]["size"]) == (1, 4, 2)


@pytest.mark.parametrize("name", ["manifest.json", "README.md", "readme.md", "metrics.jsonl", "lock", "State"])
def test_names_that_the_run_keeps_for_itself(name, store):
    with store.lock(), pytest.raises(RegardError, match=f"{name} is not for a published model"):
        store.publish({name: b""}, 3)


def test_another_model_is_told_by_names_and_shapes(store):
    save(store, 3, 4)
    is_not = "made for another model: "
    for expect, told in (
        ({"w": ((2, 3), "F64")}, r"w is \(2, 3\) F32, expected \(2, 3\) F64"),
        ({"w": ((3, 2), "F32")}, r"w is \(2, 3\) F32, expected \(3, 2\) F32"),
        (
            {"v": ((2, 3), "F32")},
            r"1 tensors are missing \(the first is 'v'\), 1 are not expected \(the first is 'w'\)",
        ),
        ({}, r"0 tensors are missing, 1 are not expected \(the first is 'w'\)"),
    ):
        with pytest.raises(Mismatch, match=is_not + told):
            store.load_state(expect=expect)
    assert store.load_state(expect={"w": ((2, 3), "F32")}).step == 4


def test_a_file_larger_than_the_model_is_not_read(store):
    with store.lock():
        store.save_state(3, {"w": torch.zeros(9 * 2**20, dtype=torch.uint8)}, {})
    with pytest.raises(Mismatch, match=r"made for another model: 9,437,\d+ bytes of tensors"):
        store.load_state(expect={"w": ((2, 3), "F32")})


def test_a_record_that_would_not_come_back_is_refused(store):
    with store.lock():
        for record, told in (
            ({"best": float("inf")}, "not JSON compliant"),
            ({"by step": {3: 1}}, "the key 3 is not text"),
            ({"seed": 2**64}, "beyond 64 bits"),
            ({"x": object()}, "not JSON serializable"),
        ):
            with pytest.raises(BadData, match=f"record.json: cannot be written as JSON: .*{told}"):
                store.save_state(1, {}, record)
    assert store.load_state() is None


def test_links_in_a_run_are_not_followed(store, tmp_path):
    save(store, 3, 4)
    outside = tmp_path / "outside"
    shutil.move(store.path / "state" / "step-00000004", outside)
    (store.path / "state" / "step-00000004").symlink_to(outside)
    assert store.load_state().step == 3
    assert "is a link: links in a run are not followed" in store.load_state().warnings[0]
    for name in ("record.json", "tensors.safetensors", "manifest.json"):
        (store.path / "state" / "step-00000004").unlink()
        shutil.copytree(outside, store.path / "state" / "step-00000004")
        (store.path / "state" / "step-00000004" / name).unlink()
        (store.path / "state" / "step-00000004" / name).symlink_to(outside / name)
        assert "is not an ordinary file: links and devices in a run are not read" in store.load_state().warnings[0]
        shutil.rmtree(store.path / "state" / "step-00000004")
        (store.path / "state" / "step-00000004").symlink_to(outside)
    shutil.move(store.path / "state", tmp_path / "states")
    (store.path / "state").symlink_to(tmp_path / "states")
    with pytest.raises(Damaged, match="state is not an ordinary folder: links in a run are not followed"):
        store.load_state()
    (tmp_path / "states" / ".tmp-other").mkdir()
    with pytest.raises(Damaged), store.lock():
        pass
    assert (tmp_path / "states" / ".tmp-other").exists()


def test_a_pipe_in_place_of_a_file_does_not_hang(store):
    save(store, 3, 4)
    path = store.path / "state" / "step-00000004" / "record.json"
    path.unlink()
    os.mkfifo(path)
    assert store.load_state().step == 3


def test_leftovers_are_removed_at_the_next_start(store):
    save(store, 3)
    for folder in (store.path, store.path / "state"):
        (folder / ".tmp-0123").mkdir()
        (folder / ".tmp-0123" / "tensors.safetensors").write_bytes(b"half")
        (folder / ".tmp-4567").write_bytes(b"half")
        (folder / ".tmp-89ab").symlink_to(Path(__file__).parent)
    assert store.load_state().step == 3
    with store.lock():
        assert list(store.path.rglob(".tmp*")) == []
    assert Path(__file__).exists()


def test_a_run_cannot_be_a_file(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(RegardError, match=r"is not a folder|cannot write to"), Store(path).lock():
            pass


def test_a_save_of_20_megabytes_is_quick(store):
    """The best of five: other work on the machine and its disk is not ours."""
    tensors = {f"w{i}": torch.randn(500, 1000) for i in range(10)}
    times = []
    with store.lock():
        for step in range(5):
            begin = time.perf_counter()
            store.save_state(step, tensors, {"of": step})
            times.append(time.perf_counter() - begin)
    assert min(times) <= 0.15, times
