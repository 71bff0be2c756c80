"""Mutants of a run folder through the loaders: each loads, or is refused with an error of ours, within a second.

    python -m tests.training.fuzzing RUN published|state COUNT SEED

Half of the mutants stand as they are: what a damaged disk gives. For the other half the manifest is made anew
around them, as an attacker would: only what is behind the hashes can refuse those.
"""

import json
import random
import sys
import tempfile
import time
from pathlib import Path

import torch

import regard
from regard.errors import RegardError
from regard.training.manifest import NAME, manifest_of
from regard.training.store import Store
from tests.conftest import MEMORY

TOKENS = [
    *(b"null", b"true", b"-1", b"0", b"1e999", b"NaN", b"9" * 30, b"1048577", b'""', b'"../../x"', b"[]", b"{}"),
    *(b"[[[[", b"}", b'"\\ud800"', b"\xff", b"\0", b"2147483648", b"0.5", b'"model_name"', b",", b":"),
]
VALUES = [
    *(None, True, False, -1, 0, 1, 2**20 + 1, 2**31, 2**63, 10**15, 0.5, -0.5, 1e308, "", "x", "../x", "\0", "é"),
    *([], [1], ["a", "b"], {}, {"a": 1}, "cos\nsystem", "<pad>", "\u202e", "a" * 5000, [[]] * 50),
]


def bytes_changed(draw: random.Random, data: bytes) -> bytes:
    """A few bits, bytes, pieces or ends of it are other."""
    changed = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 5])):
        place = draw.randrange(len(changed) + 1)
        kind = draw.randrange(6)
        if kind == 0 and place < len(changed):
            changed[place] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del changed[place : place + draw.choice([1, 2, 8, 1000])]
        elif kind == 2:
            changed[place:place] = draw.randbytes(draw.choice([1, 4, 8]))
        elif kind == 3:
            token = draw.choice(TOKENS)
            changed[place : place + draw.choice([0, len(token)])] = token
        elif kind == 4:
            del changed[place:]
        else:
            start = draw.randrange(len(changed) + 1)
            changed[place:place] = changed[start : start + draw.choice([1, 8, 100])]
    return bytes(changed)


def tree_changed(draw: random.Random, data: bytes) -> bytes:
    """One value of a JSON text, anywhere in it, is other, gone, or there under another name."""
    tree = json.loads(data)
    at = tree
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            break
        key = draw.choice(keys)
        if isinstance(at[key], (dict, list)) and at[key] and draw.random() < 0.8:
            at = at[key]
            continue
        kind = draw.randrange(4)
        if kind == 0 and isinstance(at, dict):
            del at[key]
        elif kind == 1 and isinstance(at, dict):
            at[draw.choice(["", "x", "\0", "layers", key + "x"])] = at.pop(key)
        else:
            at[key] = draw.choice(VALUES)
        break
    return json.dumps(tree).encode()


def header_changed(draw: random.Random, data: bytes) -> bytes:
    """A safetensors file whose header is a changed tree, with a length that fits it or not."""
    length = int.from_bytes(data[:8], "little")
    header = tree_changed(draw, data[8 : 8 + length])
    told = len(header) if draw.random() < 0.8 else draw.choice([0, 1, 2**20, 2**63, 2**64 - 1])
    return told.to_bytes(8, "little") + header + data[8 + length :]


def mutant(draw: random.Random, name: str, data: bytes) -> bytes:
    if draw.random() < 0.4:
        return bytes_changed(draw, data)
    return header_changed(draw, data) if name.endswith(".safetensors") else tree_changed(draw, data)


def tried(folder: Path, kind: str, count: int, seed: int) -> dict:
    """Loads mutants of one folder, written where the original would stand.

    Returns:
        How many loaded and how many were refused, the longest message, and the CPU seconds of the slowest.
    """
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.exists() else None) as made_in:
        run = Path(made_in)
        inside = Path() if kind == "published" else Path("state", "step-00000001")
        place = run / inside
        place.mkdir(parents=True, exist_ok=True)
        contents = {
            name: (folder / inside / name).read_bytes()
            for name in json.loads((folder / inside / NAME).read_text())["files"]
        }
        whole = {**contents, NAME: (folder / inside / NAME).read_bytes()}
        load = (lambda: regard.load(run)) if kind == "published" else (lambda: Store(run).load_state())
        for name, data in whole.items():
            (place / name).write_bytes(data)
        load()
        found = {"loaded": 0, "refused": 0, "longest": 0, "slowest": 0.0}
        for number in range(count):
            name = list(whole)[number % len(whole)]
            changed = {name: mutant(draw, name, whole[name])}
            if draw.random() < 0.5 and name != NAME:
                changed[NAME] = manifest_of(kind, 1, contents | changed).render()
            for path, data in changed.items():
                (place / path).write_bytes(data)
            begin = time.process_time()
            try:
                load()
                found["loaded"] += 1
            except RegardError as error:
                found["refused"] += 1
                found["longest"] = max(found["longest"], len(str(error)))
            found["slowest"] = max(found["slowest"], time.process_time() - begin)
            for path in changed:
                (place / path).write_bytes(whole[path])
        load()
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(tried(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))  # noqa: T201
