"""Bad headers and bombs: each refused with its reason, quickly, in little memory, before any parser sees it."""

import io
import os
import subprocess
import sys

import pytest
import safetensors

from regard.errors import BadData
from regard.training.header import Mismatch, largest_file, read_header
from tests.training import evil

GOOD = evil.safetensors({"__metadata__": {"format": "pt"}, "w": evil.ONE, "a": evil.tensor(24, 29)}, bytes(29))


def read(data: bytes, expect=None):
    return read_header(io.BytesIO(data), len(data), "x.safetensors", expect)


def test_a_good_header_is_read():
    places = read(GOOD)
    assert (places["w"].shape, places["w"].dtype, places["w"].data_offsets) == ((2, 3), "F32", (0, 24))
    assert (places["a"].shape, places["a"].dtype) == ((5,), "U8")
    assert set(places) == {"w", "a"}
    assert read(evil.safetensors({})) == {}


@pytest.mark.parametrize("name", evil.HEADERS)
def test_a_bad_header_is_refused(name):
    data, told = evil.bad_header(name)
    with pytest.raises(BadData) as error:
        read(data)
    assert str(error.value).startswith("x.safetensors: ")
    assert told in str(error.value)
    assert len(str(error.value)) < 300
    assert str(error.value).isprintable()


def test_whatever_the_header_accepts_the_parser_accepts_too():
    for shape in ([6], [0], [], [1, 0, 7]):
        size = 4 * (6 if shape == [6] else 1 if shape == [] else 0)
        data = evil.safetensors({"w": {"dtype": "F32", "shape": shape, "data_offsets": [0, size]}}, bytes(size))
        assert read(data)["w"].shape == tuple(shape)
        assert safetensors.deserialize(data)[0][1]["shape"] == shape


def test_no_more_than_the_header_is_read():
    file = io.BytesIO(GOOD)
    read_header(file, len(GOOD), "x")
    assert file.tell() == len(GOOD) - 29


def test_what_is_expected():
    assert read(GOOD, {"w": ((2, 3), "F32"), "a": ((5,), "U8")})
    with pytest.raises(Mismatch, match=r"x\.safetensors: made for another model: a is \(5,\) U8, expected \(6,\) U8"):
        read(GOOD, {"w": ((2, 3), "F32"), "a": ((6,), "U8")})
    assert largest_file({"w": ((2, 3), "F32"), "a": ((5,), "U8")}) == 8 + 8 * 2**20 + 29


SCRIPT = """
import os, sys, time
from regard.errors import BadData
from regard.training.header import read_header
assert "torch" not in sys.modules
for path in sys.argv[1:]:
    pid = os.fork()
    if pid == 0:
        begin = time.perf_counter()
        try:
            with open(path, "rb") as file:
                read_header(file, os.path.getsize(path), "x")
        except BadData:
            os._exit(0 if time.perf_counter() - begin <= 2 else 3)
        os._exit(4)
    _, status, used = os.wait4(pid, 0)
    print(os.waitstatus_to_exitcode(status), used.ru_maxrss)
"""


def test_bombs_take_no_time_and_no_memory(tmp_path):
    """At most 2 s and 100 MB, each in a process of its own that has no PyTorch."""
    bombs = [tmp_path / f"{i}.safetensors" for i in range(len(evil.HEADERS))]
    for path, name in zip(bombs, evil.HEADERS, strict=True):
        path.write_bytes(evil.bad_header(name)[0])
    command = [sys.executable, "-c", SCRIPT, *map(str, bombs)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    results = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert len(results) == len(bombs) >= 45
    for (code, kilobytes), name in zip(results, evil.HEADERS, strict=True):
        assert code == 0, name
        assert kilobytes <= 100 * 1024, (name, kilobytes)
