"""S3: no string in a run folder, and no name of a set, leads outside; what lies there is never read or written."""

import contextlib
import json
import os
import random
import sys

import pytest
import torch

import regard
from regard.cli import main
from regard.data.known import KNOWN
from regard.data.specs import load
from regard.errors import RegardError
from regard.training.manifest import manifest_of
from regard.training.store import Store
from tests.training.crashing import in_child
from tests.training.test_evil import STRINGS

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("paths")
    (path / "p.tsv").write_text("".join(f"{n}a\t{n}b\n" for n in range(9)))
    sizes = ["--model.width", "3", "--model.embedding", "2", "--model.readout", "2", "--model.alignment", "2"]
    words = ["train", "translate", "--data", str(path / "p.tsv"), "--out", str(path / "run"), "--steps", "1", *sizes]
    assert main(words) == 0
    return path / "run"


def leaves(tree, path=()):
    """Every place in a tree of JSON, by its keys."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from leaves(value, (*path, key))


def replaced(tree, path, value):
    copy = json.loads(json.dumps(tree))
    at = copy
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return copy


def guarded(action, *, allowed):
    """Does something in a child where opening, making or moving what is outside of `allowed` ends it."""

    def look(event, arguments):
        if event in ("open", "os.mkdir", "os.rename", "os.remove", "os.symlink", "os.listdir", "os.scandir"):
            path = arguments[0]
            if isinstance(path, (str, bytes, os.PathLike)):
                real = os.path.realpath(os.fsdecode(path))
                if "canary" in real or "passwd" in real:
                    os.write(2, f"{event} {path!r}\n".encode())
                    os._exit(66)
                if os.path.isabs(path) and not real.startswith(allowed) and event != "open":
                    os._exit(67)

    def watched():
        sys.addaudithook(look)
        action()

    assert in_child(watched) == 0


def secrets(folder):
    for place in (folder, *folder.parents):
        with contextlib.suppress(OSError):
            if str(place).startswith("/dev/shm/") or "pytest" in str(place):
                (place / "canary").write_bytes(b"secret")


def test_there_are_enough():
    assert len(STRINGS) >= 200


def test_every_field_of_a_published_configuration(trained, memory):
    """Each string in each field, told as written: it loads without a look elsewhere, or it is refused."""
    run = memory / "a" / "run"
    run.mkdir(parents=True)
    secrets(run)
    whole = {
        name: (trained / name).read_bytes() for name in json.loads((trained / "manifest.json").read_text())["files"]
    }
    config = json.loads(whole["config.json"])
    places = [path for path in leaves(config) if path[0] != "metrics"]
    draw = random.Random(20141119)
    tried = [(path, text) for path in places for text in draw.sample(STRINGS, 5)]
    tried += [(("model_name",), text) for text in STRINGS] + [(("task_name",), text) for text in STRINGS]

    def try_all():
        for name, data in whole.items():
            (run / name).write_bytes(data)
        for path, text in tried:
            made = json.dumps(replaced(config, path, text)).encode()
            (run / "config.json").write_bytes(made)
            (run / "manifest.json").write_bytes(manifest_of("published", 1, {**whole, "config.json": made}).render())
            with contextlib.suppress(RegardError):
                assert regard.load(run).path == run

    guarded(try_all, allowed=str(memory))
    assert len(tried) >= 500


def test_every_field_of_a_record(trained, memory):
    run = memory / "a" / "run"
    secrets(run.parent)
    state = Store(trained).load_state()
    places = list(leaves(state.record))
    draw = random.Random(20141119)

    def try_all():
        for number, (path, text) in enumerate((path, text) for path in places for text in draw.sample(STRINGS, 3)):
            made = Store(run.parent / str(number % 7))
            for left in made.path.rglob("*.json") if made.path.exists() else ():
                left.unlink()
            with made.lock(), contextlib.suppress(RegardError):
                made.save_state(1 + number, state.tensors, replaced(state.record, path, text))
            with contextlib.suppress(RegardError):
                made.load_state()

    run.parent.mkdir(parents=True, exist_ok=True)
    guarded(try_all, allowed=str(memory))


@pytest.mark.parametrize("name", ["dates", *KNOWN])
def test_every_variant_of_a_known_set(name, memory, monkeypatch):
    """A known name is followed by one of its variants, or refused before any file is looked for."""
    monkeypatch.setenv("REGARD_DATA", str(memory))
    secrets(memory)

    def try_all():
        for text in STRINGS:
            if text:
                with pytest.raises(RegardError):
                    load(f"{name}:{text}")

    guarded(try_all, allowed=str(memory))


def test_every_name_on_the_command_line(trained, memory, capfd):
    """Names of models, tasks, presets, splits and commands are looked up, never opened."""
    secrets(memory)
    words = [
        lambda text: ["train", "translate", "--model", text, "--steps", "1"],
        lambda text: ["train", text, "--steps", "1"],
        lambda text: ["train", "translate", "--preset", text, "--steps", "1"],
        lambda text: ["eval", str(trained), "--split", text],
        lambda text: [text],
        lambda text: ["ls", text],
    ]

    def try_all():
        os.chdir(memory)
        for text in STRINGS:
            for made in words:
                if not text.startswith("-") and text:
                    with contextlib.suppress(SystemExit):
                        assert main(made(text)) == 1, text

    guarded(try_all, allowed=str(memory))
    assert "Traceback" not in capfd.readouterr().err
