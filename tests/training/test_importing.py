"""Files of other programs: what comes through, what is refused, and within which bounds."""

import collections
import io
import os
import pickle
import resource
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
import torch

from regard.errors import BadData, RegardError
from regard.training import foreign
from regard.training.header import Mismatch
from regard.training.importing import import_foreign
from regard.training.tensors import expected, pack
from tests.training import evil
from tests.training.crashing import in_child

WEIGHTS = {
    "embedding": torch.arange(35.0).reshape(5, 7),
    "half": torch.ones(3, dtype=torch.bfloat16),
    "count": torch.tensor(11),
}


def saved(content: object, *, old: bool = False) -> bytes:
    out = io.BytesIO()
    torch.save(content, out, _use_new_zipfile_serialization=not old)
    return out.getvalue()


def same(have: dict[str, torch.Tensor], want: dict[str, torch.Tensor]) -> bool:
    return have.keys() == want.keys() and all(torch.equal(have[name], want[name]) for name in want)


def convert(content: bytes, tmp_path: Path) -> dict[str, torch.Tensor]:
    """The work of the child process, here."""
    foreign.convert(io.BufferedReader(io.BytesIO(content)), len(content), tmp_path / "output")
    (tmp_path / "output.safetensors").write_bytes((tmp_path / "output").read_bytes())
    return import_foreign(tmp_path / "output.safetensors")


def test_safetensors_come_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(subprocess, "run", None)
    path = tmp_path / "model.safetensors"
    path.write_bytes(pack(WEIGHTS))
    (tmp_path / "link.safetensors").symlink_to(path)
    assert same(import_foreign(path, expect=expected(WEIGHTS)), WEIGHTS)
    assert same(import_foreign(str(tmp_path / "link.safetensors")), WEIGHTS)
    with pytest.raises(Mismatch, match=r"model\.safetensors: made for another model: 1 tensors are missing"):
        import_foreign(path, expect=expected({"other": WEIGHTS["half"]}))


def test_a_pickled_file_comes_through_the_child(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(saved({"epoch": 3, "state_dict": collections.OrderedDict(WEIGHTS)}))
    assert same(import_foreign(path, expect=expected(WEIGHTS)), WEIGHTS)
    path.write_bytes(saved(WEIGHTS, old=True))
    assert same(import_foreign(path), WEIGHTS)


@pytest.mark.parametrize("old", [False, True])
def test_the_usual_shapes_of_a_pickled_file(old, tmp_path):
    tied = torch.nn.Parameter(torch.arange(3.0))
    for content, want in (
        (WEIGHTS, WEIGHTS),
        ({"model": WEIGHTS, "optimizer": {"state": {0: {"step": 3}}}}, WEIGHTS),
        ({"model_state_dict": WEIGHTS, "module": 3}, WEIGHTS),
        ({"a": tied, "b": tied, "c": torch.ones(5, 7).T}, {"a": tied, "b": tied, "c": torch.ones(7, 5)}),
        (torch.nn.Linear(3, 5).state_dict(), None),
    ):
        have = convert(saved(content, old=old), tmp_path)
        assert same(have, want) if want else have.keys() == {"weight", "bias"}


def test_what_is_no_set_of_weights(tmp_path):
    for content, told in (
        ([torch.ones(3)], "a list was stored, expected a dict of tensors"),
        ({}, "got 0 other entries of 0"),
        ({"a": torch.ones(3), "lr": 0.1}, "got 1 other entries of 2, the first other one at 'lr'"),
        ({3: torch.ones(3)}, "got 1 other entries of 1"),
        ({"model": {"model": {"model": {}}}}, "got 1 other entries of 1, the first other one at 'model'"),
        (
            {"a": torch.ones(1).expand(10**9)},
            r"4,000,000,000 bytes of tensors in a file of [\d,]+: views that were blown up",
        ),
        ({"a": torch.eye(3).to_sparse()}, "a has no plain numbers to write: torch.sparse_coo"),
        ({"a": torch.ones(3, dtype=torch.complex128)}, "a has the type torch.complex128"),
        ({"a\n": torch.ones(3)}, "is not a name of a tensor"),
        ({"a": collections.Counter}, "it holds an object of the kind collections.Counter|names and tensors alone"),
    ):
        with pytest.raises(BadData, match=told):
            convert(saved(content), tmp_path)
    circle: dict = {}
    circle["model"] = circle
    with pytest.raises(BadData, match="names and tensors alone"):
        convert(saved(circle), tmp_path)


def test_no_advice_to_load_it_all_the_same(tmp_path):
    """PyTorch's own message tells the reader how to switch the protection off."""
    data = evil.corpus("/nowhere")
    for name in data:
        if name.endswith((".zip.pt", ".old.bin")):
            with pytest.raises(BadData) as error:
                convert(data[name], tmp_path)
            assert "weights_only" not in str(error.value)
            assert len(str(error.value)) < 250


def lying(entries: int, length: int) -> bytes:
    """A sound archive whose long end says something else."""
    data = saved(WEIGHTS)
    place = data.rindex(b"PK\x06\x06")
    wide = list(struct.unpack("<4sQ2H2I4Q", data[place : place + 56]))
    wide[6:9] = entries, entries, length
    return data[:place] + struct.pack("<4sQ2H2I4Q", *wide) + data[place + 56 :]


FORMS = {
    "empty": (b"", "not a file that PyTorch wrote"),
    "text": (b"#!/bin/sh\ntrue", "not a file that PyTorch wrote"),
    "a bare pickle": (pickle.dumps({"a": 1}, 2), "not a file that PyTorch wrote"),
    "a later pickle": (pickle.dumps({"a": 1}, 4), "not a file that PyTorch wrote"),
    "a tar": (b"./PaxHeaders" + bytes(500), "not a file that PyTorch wrote"),
    "cut short": (saved(WEIGHTS)[:-1], "not a sound archive: it is cut short"),
    "longer": (saved(WEIGHTS) + b"x", "not a sound archive: it is cut short, or has something after"),
    "no list": (
        b"PK\x03\x04" + bytes(100) + b"PK\x05\x06" + bytes(4) + b"\x07\0\x07\0\xcf\1\0\0\xff\xff\0\0\0\0",
        "not a sound",
    ),
    "deflated": (evil.archive({"a/data.pkl": bytes(10**5)}, zipfile.ZIP_DEFLATED), "unpacks to more than its"),
    "deflated, not smaller": (
        evil.archive({"a/data.pkl": os.urandom(1000)}, zipfile.ZIP_DEFLATED),
        "'a/data.pkl' is compressed: PyTorch does not compress",
    ),
    "a large pickle": (evil.archive({"a/data.pkl": bytes(5 * 2**20)}), "'a/data.pkl' has 5,242,880 bytes, too many"),
    "30,000 entries": (evil.many_entries(30_000), "30,000 entries in"),
    "70,000 entries": (evil.many_entries(70_000), "70,000 entries in"),
    "entries that are not there": (lying(10**9, 100), "1,000,000,000 entries in"),
    "a list that is too long": (lying(9, 10**9), "9 entries in 1,000,000,000 bytes, at most 20,100 are read"),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_that_no_child_is_started_for(name, tmp_path, monkeypatch):
    data, told = FORMS[name]
    monkeypatch.setattr(subprocess, "run", None)
    (tmp_path / "a.pt").write_bytes(data)
    with pytest.raises(BadData, match=rf"a\.pt: .*{told}"):
        import_foreign(tmp_path / "a.pt")


def test_overlapping_entries(tmp_path, monkeypatch):
    """Many names for one place: 2 MB that unpack to 200."""
    monkeypatch.setattr(subprocess, "run", None)
    data = evil.archive({"a": bytes(2 * 2**20), **{f"a{i}": b"" for i in range(100)}})
    first = data.index(b"PK\x01\x02")
    entry = data[first : first + 46]
    lies = b"".join(entry[:28] + struct.pack("<H", 3) + entry[30:46] + b"%03d" % i for i in range(100))
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 100, 100, len(lies), first, 0)
    (tmp_path / "a.pt").write_bytes(data[:first] + lies + end)
    with pytest.raises(BadData, match=r"it unpacks to more than its 2,\d+,\d+ bytes"):
        import_foreign(tmp_path / "a.pt")


def test_bombs_take_no_time_and_no_memory(tmp_path, monkeypatch):
    """At most 2 s, and 100 MB and the size of the file more than before; no child is started for them."""
    monkeypatch.setattr(subprocess, "run", None)
    bombs = {
        "deflated": evil.archive({"a/data.pkl": bytes(10**8)}, zipfile.ZIP_DEFLATED),
        "nested": evil.archive({"a": evil.archive({"b": bytes(10**8)}, zipfile.ZIP_DEFLATED)}, zipfile.ZIP_DEFLATED),
        "many": evil.many_entries(70_000),
    }

    def refused(path, size):
        Path("/proc/self/clear_refs").write_text("5")
        before = resident()
        begin = time.perf_counter()
        with pytest.raises(BadData):
            import_foreign(path)
        assert time.perf_counter() - begin <= 2
        assert peak() - before <= 100 * 2**20 + size

    for name, data in bombs.items():
        path = tmp_path / f"{name}.pt"
        path.write_bytes(data)
        assert in_child(lambda path=path: refused(path, path.stat().st_size)) == 0, name


def status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def resident() -> int:
    return status("VmRSS")


def peak() -> int:
    return status("VmHWM")


def test_the_child_has_little_more_memory_than_the_file_calls_for(tmp_path):
    good = saved({"a": torch.ones(2**20)})
    lists = evil.archive({"archive/data.pkl": b"\x80\x02(" + b"]" * 10_000_000 + b"l.", "archive/version": b"3\n"})

    def limited():
        foreign.limit(len(good), 60)
        assert resource.getrlimit(resource.RLIMIT_AS)[0] < status("VmSize") + 8 * len(good) + 100 * 2**20
        assert resource.getrlimit(resource.RLIMIT_FSIZE) == (4 * len(good) + 2**24,) * 2
        assert resource.getrlimit(resource.RLIMIT_CPU) == (60, 60)
        assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)
        convert(good, tmp_path)

    def starved():
        """Ten million empty lists, of a byte each in the file, of 56 in memory: more than this process left free."""
        foreign.limit(len(lists) // 8, 60)
        with pytest.raises(BadData, match="asks for more memory than that calls for"):
            convert(lists, tmp_path)

    assert in_child(limited) == 0
    assert in_child(starved) == 0


def test_a_child_that_takes_too_long_is_ended(tmp_path):
    (tmp_path / "a.pt").write_bytes(saved(WEIGHTS))
    begin = time.perf_counter()
    with pytest.raises(BadData, match=r"a\.pt: reading took more than 0\.2 s and was ended"):
        import_foreign(tmp_path / "a.pt", seconds=0.2)
    assert time.perf_counter() - begin < 2


@pytest.mark.parametrize(
    ("code", "said", "told"),
    [
        (-9, b"", "ended by signal 9: it asked for more than its size allows"),
        (2, b"noise\nthe \x1b[31mreason\n\n", r"refused: the \?\[31mreason$"),
        (1, b"", "refused: no reason was given"),
        (0, b"", "its reading gave nothing: No such file or directory"),
    ],
)
def test_what_the_child_says_is_told_without_control_signs(code, said, told, tmp_path, monkeypatch):
    (tmp_path / "a.pt").write_bytes(saved(WEIGHTS))
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: subprocess.CompletedProcess(a, code, b"", said))
    with pytest.raises(BadData, match=told):
        import_foreign(tmp_path / "a.pt")


def test_what_the_child_wrote_is_checked_as_a_strangers(tmp_path, monkeypatch):
    (tmp_path / "a.pt").write_bytes(saved(WEIGHTS))

    def wrote(command, *, cwd, **options):
        Path(cwd, "tensors.safetensors").write_bytes(evil.bad_header("overlapping")[0])
        return subprocess.CompletedProcess(command, 0, b"", b"")

    monkeypatch.setattr(subprocess, "run", wrote)
    with pytest.raises(BadData, match=r"a\.pt: b stands at 8 to 24"):
        import_foreign(tmp_path / "a.pt")


def test_what_is_no_file(tmp_path):
    (tmp_path / "folder.pt").mkdir()
    os.mkfifo(tmp_path / "pipe.pt")
    for name, told in (
        ("a.npz", r"a\.npz does not end with any of \.safetensors, \.pt, \.pth, \.bin, \.ckpt: its kind is not known"),
        ("none.pt", "cannot read .*No such file"),
        ("nul\0.pt", "cannot read .*null byte"),
        ("folder.pt", r"folder\.pt is not a file|Is a directory"),
        ("pipe.pt", r"pipe\.pt is not a file"),
    ):
        with pytest.raises(RegardError, match=told):
            import_foreign(tmp_path / name)


def test_the_child_as_a_command(tmp_path):
    """Run as it is run, it says one line and gives the code of the error."""
    (tmp_path / "bad.pt").write_bytes(saved([1]))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with (tmp_path / "bad.pt").open("rb") as file:
        command = [sys.executable, "-m", "regard.training.foreign", str(tmp_path / "out"), "60"]
        done = subprocess.run(command, stdin=file, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (2, "a list was stored, expected a dict of tensors\n")
    assert not (tmp_path / "out").exists()
