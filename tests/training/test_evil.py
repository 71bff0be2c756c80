"""Programs in place of numbers, and names that lead outside: nothing is run, reached, or written."""

import contextlib
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.errors import BadData, Damaged, RegardError
from regard.training import foreign, importing, manifest
from regard.training.header import read_header
from regard.training.manifest import manifest_of
from regard.training.store import Store
from regard.training.tensors import pack, unpack
from tests.training import evil
from tests.training.crashing import in_child

SUSPECT = ("socket.", "subprocess.", "os.", "pty.", "ctypes.", "shutil.", "webbrowser.", "urllib.", "pickle.", "exec")
LIBRARY = os.path.dirname(os.__file__)  # a module of Python's own that is needed for the first time
HARMLESS = ("os.listdir", "os.scandir")


def watched(folder: Path, action) -> list[str]:
    """Does something under an audit hook, and returns what is suspect: only files below `folder` may be written."""
    seen: list[str] = []
    quiet = [False]

    def look(event, arguments):
        if quiet[0]:
            return
        outside = False
        if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            _, mode, flags = arguments
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) or any(sign in (mode or "") for sign in "wax+")
            outside = writes and not os.path.realpath(os.fspath(arguments[0])).startswith(os.path.realpath(folder))
        if event == "exec" and getattr(arguments[0], "co_filename", "").startswith(LIBRARY):
            return
        if outside or (event.startswith(SUSPECT) and event not in HARMLESS):
            seen.append(f"{event} {arguments!r:.150}")

    sys.addaudithook(look)
    action()
    quiet[0] = True
    return seen


def converted_here(file, what, expect, seconds):
    """The work of the child process, done in this one, where the hook sees it, and without its own guard."""
    output = Path(what).parent / "output"
    file.seek(0)
    foreign.convert(file, os.fstat(file.fileno()).st_size, output)
    data = output.read_bytes()
    output.unlink()
    return unpack(data, what, expect=expect)


def read_everywhere(folder: Path, name: str, data: bytes) -> int:
    """Reads a file as whatever it could be; returns how many of the five ways led to an error of ours."""
    path, named_tensors = folder / name, folder / "named.safetensors"
    for place in (path, named_tensors):
        place.write_bytes(data)
    store = Store(folder / "run")
    ways = [lambda: importing.import_foreign(path), lambda: importing.import_foreign(named_tensors)]
    for step, place in enumerate(("tensors.safetensors", "record.json", "manifest.json"), start=3):
        contents = {"tensors.safetensors": pack({}), "record.json": b"{}", place: data}
        listed = manifest_of("state", step, {file: contents[file] for file in ("tensors.safetensors", "record.json")})
        state = folder / "run" / "state" / f"step-0000000{step}"
        state.mkdir(parents=True)
        for file, content in ({"manifest.json": listed.render()} | contents).items():
            (state / file).write_bytes(content)
        ways.append(lambda state=state: store._read(state.name, None))
    refused = 0
    for way in ways:
        try:
            way()
        except RegardError:
            refused += 1
    for made in sorted(folder.rglob("*"), reverse=True):
        made.rmdir() if made.is_dir() else made.unlink()
    return refused


def test_no_evil_file_does_anything(tmp_path, monkeypatch):
    canary = tmp_path / "canary"
    files = evil.corpus(str(canary))
    assert len(files) >= 80
    monkeypatch.setattr(importing, "_converted", converted_here)
    folder = tmp_path / "inside"
    folder.mkdir()

    def in_turn():
        good = folder / "good.pt"
        torch.save({"w": torch.ones(2)}, good)
        importing.import_foreign(good)
        assert read_everywhere(folder, "good.json", b"{}") == 4
        counts: dict[str, int] = {}

        def all_of_them():
            for name, data in files.items():
                counts[name] = read_everywhere(folder, name, data)

        seen = [line for line in watched(folder, all_of_them) if not own(line)]
        assert seen == []
        assert min(counts.values()) >= 2
        assert all(counts[name] == 5 for name in files if name.endswith((".pt", ".bin", ".pth")))

    def own(line: str) -> bool:
        """What this test does itself, in its own folder."""
        return line.startswith(("os.mkdir", "os.remove", "os.rmdir")) and f"{folder}" in line

    assert in_child(in_turn) == 0
    assert not canary.exists()


@pytest.mark.parametrize("name", ["os.system", "open", "eval", "socket", "mkdir"])
def test_the_hook_and_the_canary_see_what_unpickling_does(name, tmp_path):
    """A control: the same files, read without care."""
    canary = tmp_path / "canary"
    data = evil.corpus(str(canary))[f"{name}.raw.pth"]
    folder = tmp_path / "inside"
    folder.mkdir()

    def careless():
        with contextlib.suppress(OSError):
            pickle.loads(data)

    def in_turn():
        assert watched(folder, careless)

    assert in_child(in_turn) == 0
    assert canary.exists() == (name != "socket")


STEPS = ("../", "..\\", "%2e%2e/", "%252e%252e%252f", "..%2f", "..%c0%af", "....//", "./../", "..;/", "a/../../")
STRINGS = sorted(
    {
        step * depth + tail
        for step in (
            "../",
            "..\\",
            "%2e%2e/",
            "%252e%252e%252f",
            "..%2f",
            "..%c0%af",
            "....//",
            "./../",
            "..;/",
            "a/../../",
        )
        for depth in (1, 2, 3, 6)
        for tail in ("canary", "etc/passwd", "canary\0.json", "canary.json")
    }
    | {
        *("/etc/passwd", "//etc/passwd", "/canary", "~/canary", "~root/.ssh/id_rsa", "$HOME/canary", "${HOME}/canary"),
        *("C:\\canary", "C:canary", "c:/canary", "\\\\server\\share\\canary", "//server/share", "\\\\?\\C:\\canary"),
        *("file:///etc/passwd", "http://127.0.0.1/canary", "data:,canary", "|touch canary", "`canary`", "$(canary)"),
        *("..", ".", "", " ", "...", "....", ".canary", ".publish", ".tmp-0123", "a..b", "..canary", "canary.."),
        *("canary\0", "\0", "canary\n", "can\rary", "canary\t", "canary ", " canary", "can ary", "canary/", "canary/."),
        *("a" * 65, "a" * 256, "a" * 5000, "é", "ｃanary", "ca\u202enary", "．．/canary", "‥/canary", "canary\u0000"),
        *(
            "*",
            "?",
            "[a]",
            "a:b",
            "a|b",
            'a"b',
            "a'b",
            "a<b",
            "a>b",
            "a;b",
            "a&b",
            "a%b",
            "a#b",
            "a@b",
            "a+b",
            "a=b",
            "a,b",
        ),
    }
)


def outside(folder: Path, run: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and run not in path.parents}


def test_no_name_leads_outside(tmp_path):
    """Every string, as a file of a state's and of a published manifest, and as a name to write to."""
    assert len(STRINGS) >= 200
    run = tmp_path / "a" / "b" / "run"
    store = Store(run)
    with store.lock():
        store.save_state(3, {}, {})
        store.publish({"config.json": b"{}"}, 3)
    for place in (tmp_path, tmp_path / "a", tmp_path / "a" / "b", run, run / "state"):
        (place / "canary").write_bytes(b"secret")
        (place / "canary.json").write_bytes(b"secret")
    before = outside(tmp_path, run)
    opened: list[str] = []
    kinds = {"state": run / "state" / "step-00000003", "published": run, "pending": run / ".publish"}
    kinds["pending"].mkdir()

    def try_all():
        sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event == "open" else None)
        with store.lock():
            for name in STRINGS:
                for kind, folder in kinds.items():
                    listed = manifest_of("state" if kind == "state" else "published", 3, {name: b"secret"})
                    whole = manifest_of("published", 3, {"config.json": b"{}"}).render()
                    (run / "manifest.json").write_bytes(whole)
                    with contextlib.suppress(UnicodeEncodeError, RegardError):
                        folder.mkdir(exist_ok=True)
                        (folder / "manifest.json").write_bytes(listed.render())
                    with pytest.raises(Damaged):
                        store._listed("step-00000003") if kind == "state" else manifest.read_manifest(
                            folder, "published"
                        )
                    with contextlib.suppress(Damaged):
                        assert b"secret" not in store.load_published().files.values()
                for write in (
                    lambda name=name: store.publish({name: b"changed"}, 4),
                    lambda name=name: manifest.read_listed(run, manifest_of("published", 3, {name: b"secret"}), name),
                ):
                    with pytest.raises(RegardError):
                        write()
        inside = [path for path in opened if "canary" in path or "passwd" in path]
        assert inside == []

    assert in_child(try_all) == 0
    assert {
        path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and run not in path.parents
    } == before
    assert (run / "canary").read_bytes() == b"secret"


def test_a_name_of_a_tensor_is_never_a_path(tmp_path):
    """Names of tensors may hold what names of files may not; they are keys, and nothing is opened by them."""
    accepted = 0
    opened: list[object] = []

    def try_all():
        nonlocal accepted
        sys.addaudithook(lambda event, arguments: opened.append(arguments[0]) if event == "open" else None)
        path = tmp_path / "a.safetensors"
        for name in STRINGS:
            path.write_bytes(evil.safetensors({name: evil.ONE}, bytes(24)))
            with contextlib.suppress(BadData):
                assert list(importing.import_foreign(path)) == [name]
                accepted += 1
        assert {os.fspath(name) for name in opened if not isinstance(name, int)} == {str(path)}
        assert accepted >= 100

    assert in_child(try_all) == 0


def test_a_whole_child_process_refuses_too(tmp_path):
    """The one way that is used, whole, on one file of each form."""
    canary = tmp_path / "canary"
    files = evil.corpus(str(canary))
    for name in ("os.system.zip.pt", "os.system.old.bin"):
        path = tmp_path / name
        path.write_bytes(files[name])
        with pytest.raises(BadData, match=r"refused: it cannot be read as weights alone: .* kind posix\.system$"):
            importing.import_foreign(path)
    assert not canary.exists()


def test_the_guard_of_the_child_refuses_on_its_own(tmp_path):
    """Should PyTorch ever run what it reads, the process still could not start, connect, or write."""
    output = tmp_path / "output"

    def guarded():
        foreign.forbid(output)
        for attempt in (
            lambda: os.system("true"),
            lambda: subprocess.run(["true"], check=False),
            lambda: os.posix_spawn("/bin/true", ["true"], {}),
            lambda: __import__("socket").create_connection(("127.0.0.1", 9)),
            lambda: (tmp_path / "canary").write_bytes(b""),
            lambda: os.open(tmp_path / "canary", os.O_CREAT | os.O_WRONLY),
            lambda: os.mkdir(tmp_path / "canary"),
            lambda: os.rename(tmp_path, tmp_path / "x"),
            lambda: os.unlink(tmp_path / "kept"),
            lambda: __import__("ctypes").CDLL("libc.so.6"),
            lambda: os.fork(),
            lambda: os.execv("/bin/true", ["true"]),
        ):
            with pytest.raises(RegardError, match=r"was tried$"):
                attempt()
        output.write_bytes(b"allowed")
        assert (tmp_path / "kept").read_bytes() == b"kept"

    (tmp_path / "kept").write_bytes(b"kept")
    assert in_child(guarded) == 0
    assert output.read_bytes() == b"allowed"
    assert not (tmp_path / "canary").exists()


def test_a_header_check_needs_no_pytorch():
    assert read_header.__module__ == "regard.training.header"
    code = "import regard.training.header, regard.training.lock, sys; sys.exit('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=environment).returncode == 0
