"""Every truncation and every flipped bit of every file of a state and of a published model is refused."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import msgspec
import pytest
import torch

from regard.errors import Damaged, RegardError
from regard.training import manifest
from regard.training.manifest import FORMAT, Newer, manifest_of, read_manifest
from regard.training.store import Store

pytestmark = pytest.mark.usefixtures("unchecked")

STATE = ("tensors.safetensors", "record.json", "manifest.json")
MODEL = {"config.json": b'{"width": 7}', "model.safetensors": b"\x00\x01numbers", "tokenizer.json": b"{}"}
PUBLISHED = (*MODEL, "manifest.json")


@pytest.fixture
def store():
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield two_states(Path(folder) / "run")


def two_states(run: Path, width: int = 3) -> Store:
    store = Store(run)
    with store.lock():
        for step in (5, 7):
            store.save_state(step, {"w": torch.full((width,), float(step))}, {"of": step})
        store.publish(MODEL, 7)
    return store


def damages(data: bytes):
    """Every length below the whole one, one more byte, and every flip of one bit."""
    for length in range(len(data)):
        yield data[:length]
    yield data + b"\0"
    changed = bytearray(data)
    for place in range(len(data)):
        for bit in range(8):
            changed[place] ^= 1 << bit
            yield bytes(changed)
            changed[place] ^= 1 << bit


@pytest.mark.parametrize("name", STATE)
def test_a_damaged_state_is_passed_over_with_a_warning(name, store):
    path = store.path / "state" / "step-00000007" / name
    data = path.read_bytes()
    count = 0
    for damaged in damages(data):
        path.write_bytes(damaged)
        state = store.load_state()
        assert state.step == 5
        (warning,) = state.warnings
        assert warning.startswith("step-00000007 is passed over: ")
        count += 1
    assert count == 9 * len(data) + 1
    path.write_bytes(data)
    assert store.load_state().step == 7


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_damaged_published_model_is_refused(name, store):
    path = store.path / name
    data = path.read_bytes()
    for damaged in damages(data):
        path.write_bytes(damaged)
        with pytest.raises(Damaged):
            store.load_published()
    path.write_bytes(data)
    assert store.load_published().files == MODEL


@pytest.mark.parametrize("name", STATE)
def test_a_missing_file_of_a_state(name, store):
    (store.path / "state" / "step-00000007" / name).unlink()
    state = store.load_state()
    assert (state.step, len(state.warnings)) == (5, 1)
    assert f"{name}: No such file" in state.warnings[0]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_missing_file_of_a_published_model(name, store):
    (store.path / name).unlink()
    with pytest.raises(Damaged, match=f"{name}: No such file"):
        store.load_published()


@pytest.mark.parametrize("name", STATE)
def test_a_file_of_another_run(name, store):
    """Of the same step and of the same size."""
    other = Store(store.path.parent / "other")
    with other.lock():
        other.save_state(7, {"w": torch.full((3,), 8.0)}, {"of": 8})
    own, strange = (run.path / "state" / "step-00000007" / name for run in (store, other))
    assert own.stat().st_size == strange.stat().st_size
    shutil.copy(strange, own)
    state = store.load_state()
    assert (state.step, state.record, len(state.warnings)) == (5, {"of": 5}, 1)


def test_a_state_under_the_name_of_another_step(store):
    states = store.path / "state"
    shutil.copytree(states / "step-00000005", states / "step-00000009")
    state = store.load_state()
    assert state.step == 7
    assert "is that of step 5" in state.warnings[0]


def test_a_published_folder_is_no_state_and_a_state_no_published_model(store):
    shutil.copy(store.path / "manifest.json", store.path / "state" / "step-00000007" / "manifest.json")
    assert "lists a published folder, expected a state one" in store.load_state().warnings[0]
    shutil.copy(store.path / "state" / "step-00000005" / "manifest.json", store.path / "manifest.json")
    with pytest.raises(Damaged, match="lists a state folder, expected a published one"):
        store.load_published()


def make_newer(path: Path) -> None:
    fields = json.loads(path.read_text())
    fields["format_version"] = FORMAT + 1
    fields["anything else"] = [1, 2]
    path.write_text(json.dumps(fields))


def test_a_newer_format_is_passed_over_and_kept(store):
    newer = store.path / "state" / "step-00000007"
    make_newer(newer / "manifest.json")
    state = store.load_state()
    assert state.step == 5
    assert "has format 2, this version of regard reads up to 1: update regard" in state.warnings[0]
    with store.lock():
        for step in (6, 7, 8):
            store.save_state(step, {}, {})
    assert newer.exists()
    assert sorted(os.listdir(store.path / "state")) == ["step-00000007", "step-00000007.2", "step-00000008"]


def test_a_newer_published_model_is_refused_and_not_replaced(store):
    make_newer(store.path / "manifest.json")
    before = (store.path / "manifest.json").read_bytes()
    with pytest.raises(Newer, match="has format 2, this version of regard reads up to 1: update regard"):
        store.load_published()
    with store.lock(), pytest.raises(Newer):
        store.publish(MODEL, 9)
    assert (store.path / "manifest.json").read_bytes() == before
    assert not (store.path / ".publish").exists()


def test_a_newer_pending_model_is_not_dropped(store):
    pending = store.path / ".publish"
    shutil.copytree(store.path, pending, ignore=shutil.ignore_patterns("state", "lock"))
    make_newer(pending / "manifest.json")
    with pytest.raises(Newer), store.lock():
        pass
    with pytest.raises(Newer):
        store.load_published()
    assert (pending / "config.json").exists()


def test_a_format_below_the_first_is_refused(store):
    path = store.path / "state" / "step-00000007"
    listed = read_manifest(path, "state")
    path.joinpath("manifest.json").write_bytes(msgspec.structs.replace(listed, format_version=0).render())
    assert store.load_state().step == 5


def test_nothing_starts_at_step_0_when_all_states_are_damaged(store):
    for step in (5, 7):
        (store.path / "state" / f"step-0000000{step}" / "record.json").write_bytes(b"{}")
    with pytest.raises(Damaged, match="all 2 states are damaged, so there is nothing to resume from; restore one"):
        store.load_state()
    assert Store(store.path.parent / "none").load_state() is None


def pending_version_gives_way_to_the_whole_one(store):
    pending = store.path / ".publish"
    pending.mkdir()
    listed = manifest_of("published", 9, {"config.json": b"new"})
    pending.joinpath("manifest.json").write_bytes(listed.render())
    pending.joinpath("config.json").write_bytes(b"neW")
    found = store.load_published()
    assert (found.step, found.files) == (7, MODEL)
    assert "config.json is damaged: its SHA-256 is not the one in manifest.json" in found.warnings[0]
    with store.lock():
        pass
    assert not pending.exists()
    assert store.load_published() == (7, MODEL, ())


def test_where_neither_version_is_whole_all_stays_until_the_next(store):
    pending = store.path / ".publish"
    pending.mkdir()
    (pending / "manifest.json").write_bytes(b"{}")
    (store.path / "config.json").unlink()
    with store.lock():
        assert (store.path / ".publish" / "manifest.json").exists()
        with pytest.raises(Damaged, match=r"\.publish/manifest\.json is damaged.*config\.json: No such file"):
            store.load_published()
        store.publish(MODEL, 11)
    assert store.load_published() == (11, MODEL, ())


def test_a_damaged_newest_state_does_not_push_out_good_ones(store):
    (store.path / "state" / "step-00000007" / "record.json").write_bytes(b"{}")
    fresh = Store(store.path)
    with fresh.lock():
        fresh.save_state(6, {}, {})
        assert sorted(os.listdir(store.path / "state")) == ["step-00000005", "step-00000006"]


def test_every_field_of_a_manifest_is_checked():
    listed = manifest_of("state", 3, {"a": b"x"})
    for change in ({"step": -1}, {"step": "3"}, {"best": 1}, {"files": {"a": {"size": 1}}}, {"more": 1}, {"files": []}):
        fields = {**json.loads(listed.render()), **change}
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, manifest.NAME).write_text(json.dumps(fields))
            with pytest.raises(RegardError, match=r"manifest\.json is damaged: "):
                read_manifest(Path(folder), "state")
