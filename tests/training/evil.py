"""Files that attack whoever reads them: bombs, and programs in place of numbers, all made on the spot."""

import ctypes
import functools
import importlib
import io
import json
import operator
import os
import pathlib
import pickle
import runpy
import shutil
import socket
import struct
import subprocess
import zipfile
from collections.abc import Callable

import numpy
import torch

ONE = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}


def safetensors(header: object, numbers: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file with any header; with a false length where one is given."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + numbers


def with_one(**changes: object) -> bytes:
    """A file of one tensor, changed."""
    return safetensors({"w": ONE | changes}, bytes(24))


def tensor(begin: int, end: int) -> dict[str, object]:
    """An entry for bytes from here to there."""
    return {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]}


def empty_tensors(count: int) -> bytes:
    """A header of many tensors, each of which is sound."""
    return b"{" + b",".join(b'"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % i for i in range(count)) + b"}"


HEADERS: dict[str, tuple[bytes | Callable[[], bytes], str]] = {
    "empty": (b"", "0 bytes are no safetensors file"),
    "seven bytes": (bytes(7), "7 bytes are no safetensors file"),
    "a header beyond the end": (
        safetensors({"w": ONE}, bytes(24), length=10**4),
        "a header of 10,000 bytes in a file of",
    ),
    "a header of 2^64": (b"\xff" * 64, "a header of 18,446,744,073,709,551,615 bytes in a file of 64"),
    "a header of 2^63": (bytes(7) + b"\x80" + bytes(64), "a header of 9,223,372,036,854,775,808 bytes"),
    "a header of 99 MB": (
        lambda: safetensors(b'{"a":"' + b" " * 99_000_000 + b'"}'),
        "a header of 99,000,008 bytes in a file of 99,000,016; at most 8,388,608 are read",
    ),
    "a million tensors": (
        lambda: safetensors(
            b"{" + b",".join(b'"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % i for i in range(10**6)) + b"}"
        ),
        "at most 8,388,608 are read",
    ),
    "140,000 tensors in 8 MB": (
        lambda: safetensors(
            b"{" + b",".join(b'"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % i for i in range(140_000)) + b"}"
        ),
        "at most 500,000 are read",
    ),
    "20,002 tensors": (safetensors(empty_tensors(20_002)), "20,002 tensors, at most 20,000"),
    "overlapping": (
        safetensors({"a": tensor(0, 16), "b": tensor(8, 24)}, bytes(24)),
        "b stands at 8 to 24, expected",
    ),
    "one place twice": (safetensors({"a": tensor(0, 16), "b": tensor(0, 16)}, bytes(16)), "expected to start at 16"),
    "a gap": (
        safetensors({"a": tensor(0, 8), "b": tensor(9, 16)}, bytes(16)),
        "b stands at 9 to 16, expected",
    ),
    "a gap first": (safetensors({"a": tensor(8, 16)}, bytes(16)), "a stands at 8 to 16, expected to start at 0"),
    "backwards": (with_one(data_offsets=[24, 0]), "expected to start at 0"),
    "beyond the end": (
        safetensors({"a": tensor(0, 10**12)}, bytes(16)),
        "need 1,000,000,000,000 bytes, the fil",
    ),
    "bytes left over": (safetensors({"a": tensor(0, 8)}, bytes(16)), "need 8 bytes, the file has 16"),
    "negative offsets": (with_one(data_offsets=[-24, 0]), "Expected `int` >= 0"),
    "an offset of 2^63": (with_one(data_offsets=[0, 2**63]), "Expected `int` <= 4611686018427387904"),
    "three offsets": (with_one(data_offsets=[0, 24, 48]), "Expected `array` of length 2"),
    "a shape that overflows": (with_one(shape=[2**32, 2**32 + 1, 6]), "w has a shape that no tensor can have"),
    "an overflow to the right length": (with_one(shape=[2**62, 4, 6]), "w has a shape that no tensor can have"),
    "an overflow hidden by 0": (
        with_one(shape=[0, 2**62, 2**62], data_offsets=[0, 0]),
        "a shape that no tensor can have",
    ),
    "a negative axis": (with_one(shape=[-2, -3]), "Expected `int` >= 0"),
    "an axis that is no number": (with_one(shape=["2", 3]), "Expected `int`, got `str`"),
    "an axis that is true": (with_one(shape=[True, 6]), "Expected `int`, got `bool`"),
    "a fraction of an axis": (with_one(shape=[1.5, 4]), "Expected `int`, got `float`"),
    "too many axes": (with_one(shape=[1] * 33 + [6]), "w has a shape that no tensor can have"),
    "a shape of another size": (with_one(shape=[2, 4]), "w has 24 bytes, its shape and type need 32"),
    "a type of another size": (with_one(dtype="F64"), "w has 24 bytes, its shape and type need 48"),
    "a type that is not known": (with_one(dtype="O"), "w has the type 'O', known are BOOL, U8"),
    "a long type": (with_one(dtype="x" * 10**5), "w has the type 'xxxxxxxxxxxxxxxxxxxx', known are"),
    "no type": (
        safetensors({"w": {"shape": [6], "data_offsets": [0, 24]}}, bytes(24)),
        "required field `dtype`",
    ),
    "a strange field": (with_one(pickle="cos\nsystem"), "contains unknown field `pickle`"),
    "a name twice": (
        safetensors(b'{"w":%b,"w":%b}' % ((json.dumps(ONE).encode(),) * 2), bytes(24)),
        "the key 'w' comes twice",
    ),
    "no name": (safetensors({"": ONE}, bytes(24)), "'' is not a name of a tensor"),
    "a long name": (safetensors({"w" * 257: ONE}, bytes(24)), "is not a name of a tensor: 1 to 256 printable signs"),
    "a name with a control sign": (safetensors({"w\x1b[2J": ONE}, bytes(24)), "is not a name of a tensor"),
    "a name that turns the text": (safetensors({"w\u202e": ONE}, bytes(24)), "is not a name of a tensor"),
    "metadata of numbers": (safetensors({"__metadata__": {"a": 1}, "w": ONE}, bytes(24)), "Expected `str`, got `int`"),
    "metadata that is none": (
        safetensors({"__metadata__": ["a"], "w": ONE}, bytes(24)),
        "Expected `object`, got",
    ),
    "a list": (safetensors([ONE]), "an object was expected, got a list"),
    "a tensor that is none": (safetensors({"w": 3}), "Expected `object`, got `int`"),
    "deep": (safetensors(b"[" * 10**6 + b"]" * 10**6), "values, at most 500,000 are read"),
    "deep within the count": (safetensors(b'{"a":' * 10**5 + b"1" + b"}" * 10**5), "nested deeper than 64"),
    "a huge number": (safetensors(b'{"w":{"shape":[' + b"9" * 10**6 + b"]}}"), "of 1,000,000 digits"),
    "NaN": (safetensors(b'{"w":{"shape":[NaN]}}'), "NaN is not a number"),
    "not UTF-8": (safetensors(b'{"\xff":1}'), "is not UTF-8"),
    "half a surrogate pair": (safetensors(b'{"\\ud800":{}}'), "surrogates not allowed"),
    "two values": (safetensors(b"{}{}"), "Extra data"),
}
"""Bad safetensors files, the large ones made when asked, each with what is said of it."""


def bad_header(name: str) -> tuple[bytes, str]:
    """One of the bad files, and what is said of it."""
    data, told = HEADERS[name]
    return data if isinstance(data, bytes) else data(), told


class Calls:
    """What a pickle can do: any call, at the moment that it is read."""

    def __init__(self, what: Callable[..., object], *arguments: object) -> None:
        self.what, self.arguments = what, arguments

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.what, self.arguments


def calls(canary: str) -> dict[str, Calls]:
    """Ways to make a file that should not be there, or to reach out."""
    write = f"open({canary!r}, 'w').close()"
    return {
        "os.system": Calls(os.system, f"touch {canary}"),
        "os.popen": Calls(os.popen, f"touch {canary}"),
        "subprocess": Calls(subprocess.check_output, ["touch", canary]),
        "Popen": Calls(subprocess.Popen, ["touch", canary]),
        "eval": Calls(eval, write),
        "exec": Calls(exec, write),
        "compile": Calls(compile, write, "x", "exec"),
        "open": Calls(open, canary, "w"),
        "write_bytes": Calls(pathlib.Path.write_bytes, pathlib.Path(canary), b"x"),
        "mkdir": Calls(os.mkdir, canary),
        "copy": Calls(shutil.copy, "/etc/hostname", canary),
        "socket": Calls(socket.create_connection, ("127.0.0.1", 9)),
        "import": Calls(__import__, "antigravity"),
        "import_module": Calls(importlib.import_module, "this"),
        "runpy": Calls(runpy.run_path, canary),
        "getattr": Calls(getattr, os, "system"),
        "attrgetter": Calls(operator.attrgetter("system"), os),
        "partial": Calls(functools.partial(os.system, f"touch {canary}")),
        "spawn": Calls(os.posix_spawn, "/bin/touch", ["touch", canary], {}),
        "pickle in a pickle": Calls(pickle.loads, pickle.dumps(Calls(os.system, f"touch {canary}"))),
        "the library": Calls(ctypes.CDLL, "libc.so.6"),
        "torch.load": Calls(torch.load, canary),
        "safe globals": Calls(torch.serialization.add_safe_globals, [os.system]),
        "numpy": Calls(numpy.load, canary, None, True),
    }


def corpus(canary: str) -> dict[str, bytes]:
    """Evil files by name, whose suffix says where each would be taken for granted."""
    made: dict[str, bytes] = {}
    for name, call in calls(canary).items():
        try:
            pickled = pickle.dumps({"weight": call}, protocol=2)
        except (TypeError, AttributeError, pickle.PicklingError):
            continue
        new, old = io.BytesIO(), io.BytesIO()
        torch.save({"weight": call, "good": torch.ones(3)}, new)
        torch.save({"weight": call}, old, _use_new_zipfile_serialization=False)
        made |= {f"{name}.zip.pt": new.getvalue(), f"{name}.old.bin": old.getvalue(), f"{name}.raw.pth": pickled}
    system = Calls(os.system, f"touch {canary}")
    objects, table = io.BytesIO(), io.BytesIO()
    numpy.save(objects, numpy.array([system], dtype=object), allow_pickle=True)
    numpy.savez(table, a=numpy.array([system], dtype=object))
    reduce = {"__reduce__": ["os.system", [f"touch {canary}"]], "py/reduce": [{"py/function": "os.system"}, {}]}
    target = {"_target_": "os.system", "command": f"touch {canary}", "auto_map": {"AutoModel": "evil.Model"}}
    entries = {"archive/data.pkl": pickle.dumps({"weight": system}, 2), "archive/version": b"3\n"}
    return made | {
        "objects.npy.pt": objects.getvalue(),
        "objects.npz.bin": table.getvalue(),
        "objects.npy.safetensors": objects.getvalue(),
        "yaml.ckpt": f"!!python/object/apply:os.system ['touch {canary}']".encode(),
        "reduce.json": json.dumps(reduce).encode(),
        "target.json": json.dumps(target).encode(),
        "template.json": json.dumps({"chat": "{{ ''.__class__.__mro__[1].__subclasses__() }}"}).encode(),
        "reduce.safetensors": safetensors({"w": ONE | reduce}, bytes(24)),
        "metadata.safetensors": safetensors({"__metadata__": {"a": json.dumps(target)}, "w": ONE}, bytes(24)),
        "nested.pt": archive({"inner.pt": archive(entries)}),
        "packed.pt": archive(entries, zipfile.ZIP_DEFLATED),
        "by hand.pt": archive(entries),
        "by hand, old protocol.pt": archive(
            {"archive/data.pkl": b"cos\nsystem\n(S'touch " + canary.encode() + b"'\ntR."}
        ),
        "by hand, opcodes.pt": archive({"archive/data.pkl": b"\x80\x02ios\nsystem\n."}),
        "traversal.pt": archive({"../../canary": b"x", **entries}),
        "script.pt": archive({"archive/code/__torch__.py": b"import os", "archive/constants.pkl": b"\x80\x02]."}),
        "program.pt": f"#!/bin/sh\ntouch {canary}\n".encode(),
    }


def archive(entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """A zip file."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as made:
        for name, data in entries.items():
            made.writestr(name, data)
    return out.getvalue()


def many_entries(count: int) -> bytes:
    """An archive whose list of entries is long, each of them empty."""
    return archive({f"a/{i}": b"" for i in range(count)})
