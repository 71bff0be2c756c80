"""Killed before, in the middle of, and after every call of a save or a publish: one complete version remains."""

import json
import os
import re
import shutil
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from regard.errors import RegardError
from regard.training import files
from regard.training.store import Store
from tests.training.crashing import Call, calls_of, copied, deaths, in_child

pytestmark = pytest.mark.usefixtures("unchecked")  # the checks of shapes would take most of the time here

FILES = ("config.json", "model.safetensors", "tokenizer.json")


@pytest.fixture
def place():
    """A folder in memory where there is one: a thousand deaths, each with its fsyncs, take seconds then."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


def save(run: Path, step: int, version: int, best: bool = False) -> None:
    store = Store(run)
    with store.lock():
        store.save_state(step, {"weight": torch.full((3, 5), float(version))}, {"version": version}, best=best)


def contents(version: int) -> dict[str, bytes]:
    """Of odd versions one file more, which an even one must not leave behind."""
    extra = {"tokenizer.target.json": b"odd"} if version % 2 else {}
    return {name: json.dumps([name, version]).encode() for name in FILES} | extra


def publish(run: Path, version: int) -> None:
    store = Store(run)
    with store.lock():
        store.publish(contents(version), step=version)


def saved_version(run: Path) -> int | None:
    state = Store(run).load_state()
    if state is None:
        return None
    version = state.record["version"]
    assert state.warnings == ()
    assert torch.equal(state.tensors["weight"], torch.full((3, 5), float(version)))
    return version


def published_version(run: Path) -> int | None:
    try:
        found = Store(run).load_published()
    except RegardError as error:
        if "no published model" not in str(error):
            raise
        return None
    assert found.files == contents(found.step)
    assert found.warnings == ()
    return found.step


def leftovers(run: Path) -> list[str]:
    return [str(path) for path in run.rglob("*") if path.name.startswith(".") or path.name == "lock"]


def three_states(run: Path) -> None:
    for step, best in ((10, True), (20, False), (30, False)):
        save(run, step, step, best)


SAVES = {
    "the first": (lambda run: None, 40, None),
    "a later one, which removes another": (three_states, 40, 30),
    "the same step again": (three_states, 30, 30),
}


@pytest.mark.parametrize("name", SAVES)
def test_killed_while_saving(name, place):
    prepare, step, old = SAVES[name]
    prepare(place / "template")
    seen = []
    for death in deaths(place / "template", place / "run", lambda run: save(run, step, 77)):
        seen.append(saved_version(place / "run"))
        assert seen[-1] in (old, 77), death
        save(place / "run", step, 78)
        assert saved_version(place / "run") == 78, death
        assert leftovers(place / "run") == [], death
    assert seen[0] == old
    assert seen[-1] == 77
    assert all(later == 77 for earlier, later in pairwise(seen) if earlier == 77)
    assert len(seen) >= 140, f"{len(seen)} points"


@pytest.mark.parametrize("old", [None, 41, 42])
def test_killed_while_publishing(old, place):
    if old is not None:
        publish(place / "template", old)
    seen = []
    for death in deaths(place / "template", place / "run", lambda run: publish(run, 44)):
        seen.append(published_version(place / "run"))
        assert seen[-1] in (old, 44), death
        publish(place / "run", 45)
        assert published_version(place / "run") == 45, death
        assert leftovers(place / "run") == [], death
    assert seen[0] == old
    assert seen[-1] == 44
    assert all(later == 44 for earlier, later in pairwise(seen) if earlier == 44)
    assert len(seen) >= 170, f"{len(seen)} points"


def test_killed_while_finishing_what_a_crash_began(place):
    """Each state that a kill leaves between commit and end is a start, killed again at every call."""
    publish(place / "template", 41)
    begun = []
    for _ in deaths(place / "template", place / "run", lambda run: publish(run, 44)):
        if (place / "run" / ".publish").exists():
            names = sorted(str(path.relative_to(place / "run")) for path in (place / "run").rglob("*"))
            if names not in [known for known, _ in begun]:
                begun.append((names, shutil.copytree(place / "run", place / f"begun{len(begun)}")))
    assert len(begun) >= 6
    count = 0
    for _, template in begun:
        for death in deaths(template, place / "run", lambda run: publish(run, 46), ("half", "power")):
            assert published_version(place / "run") in (44, 46), death
            count += 1
        assert published_version(place / "run") == 46
    assert count >= 400, f"{count} points"


def test_what_is_read_while_another_process_publishes_is_one_version(place):
    publish(place / "run", 1)
    pid = os.fork()
    if pid == 0:
        code = in_child(lambda: [publish(place / "run", version) for version in range(2, 150)])
        os._exit(code)
    seen = []
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        seen.append(published_version(place / "run"))
    assert seen == sorted(seen)
    assert len(set(seen)) >= 20
    assert published_version(place / "run") == 149


def test_a_file_is_old_or_new(place):
    (place / "template").mkdir()
    (place / "template" / "README.md").write_bytes(b"old" * 100)
    seen = []
    for _ in deaths(
        place / "template", place / "run", lambda run: files.write_atomically(run / "README.md", b"new" * 100)
    ):
        seen.append((place / "run" / "README.md").read_bytes()[:3])
        assert (place / "run" / "README.md").stat().st_size == 300
    assert set(seen) == {b"old", b"new"}
    assert len(seen) >= 22


def short(path: str) -> str:
    return re.sub(r"\.tmp-[0-9a-f]{16}", "TMP", path)


def where(calls: list[Call], name: str, path: str) -> int:
    """Where a call stands among all; there must be exactly one."""
    (found,) = [i for i, call in enumerate(calls) if (call.name, short(call.path)) == (name, path)]
    return found


def test_the_order_of_a_save(place):
    three_states(place / "template")
    calls = calls_of(place / "template", place / "run", lambda run: save(run, 40, 4))
    states = f"{place}/run/state"
    moved = where(calls, "rename", f"{states}/TMP -> {states}/step-00000040")
    folder = where(calls, "fsync", f"{states}/TMP")
    for name in ("tensors.safetensors", "record.json", "manifest.json"):
        assert where(calls, "write", f"{states}/TMP/{name}") < where(calls, "fsync", f"{states}/TMP/{name}") < folder
    after = [short(call.path) for call in calls[moved:] if call.name == "fsync"]
    assert folder < moved
    assert after[0] == states
    removed = where(calls, "rename", f"{states}/step-00000020 -> {states}/TMP")
    assert removed > moved + [c.name for c in calls[moved:]].index("fsync"), "the old goes after the new is on the disk"


def test_the_order_of_a_publish(place):
    publish(place / "template", 41)
    calls = calls_of(place / "template", place / "run", lambda run: publish(run, 44))
    run = f"{place}/run"
    commit = where(calls, "rename", f"{run}/TMP -> {run}/.publish")
    folder = max(i for i, c in enumerate(calls[:commit]) if (c.name, short(c.path)) == ("fsync", f"{run}/TMP"))
    for name in (*FILES, "manifest.json"):
        assert where(calls, "fsync", f"{run}/TMP/{name}") < folder < commit
    moves = [where(calls, "replace", f"{run}/.publish/{name} -> {run}/{name}") for name in FILES]
    last = where(calls, "replace", f"{run}/.publish/manifest.json -> {run}/manifest.json")
    forced = [i for i, call in enumerate(calls) if (call.name, call.path) == ("fsync", run) and i > commit]
    assert forced[0] < min(moves)
    assert any(max(moves) < i < last for i in forced), "all files are on the disk before the manifest says so"
    assert any(i > last for i in forced)
    gone = [i for i, c in enumerate(calls) if (c.name, short(c.path)) == ("rename", f"{run}/.publish -> {run}/TMP")]
    assert gone[-1] > next(i for i in forced if i > last)


def test_the_order_of_a_single_file(place):
    calls = calls_of(
        place / "none", place / "run", lambda run: (run.mkdir(), files.write_atomically(run / "a", b"x"))[1]
    )
    names = [(call.name, short(call.path)) for call in calls if call.name in ("write", "fsync", "replace")]
    run = f"{place}/run"
    assert names == [
        ("write", f"{run}/TMP"),
        ("fsync", f"{run}/TMP"),
        ("replace", f"{run}/TMP -> {run}/a"),
        ("fsync", run),
    ]


def test_a_control_that_writes_in_place_is_caught(place):
    """The harness sees what it is there for: a plain overwrite is lost, and so is a rename before its fsync."""
    (place / "template").mkdir()
    (place / "template" / "a").write_bytes(b"old" * 100)

    def overwrite(run):
        number = os.open(run / "a", os.O_WRONLY | os.O_TRUNC)
        os.write(number, b"new" * 100)
        os.close(number)

    def rename_unsynced(run):
        number = os.open(run / "b", os.O_WRONLY | os.O_CREAT)
        os.write(number, b"new" * 100)
        os.close(number)
        os.replace(run / "b", run / "a")

    for action in (overwrite, rename_unsynced):
        sizes = {(place / "run" / "a").stat().st_size for _ in deaths(place / "template", place / "run", action)}
        assert 0 in sizes
    assert copied(place / "template", place / "run").exists()
