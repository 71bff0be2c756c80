"""The one place that reads what PyTorch pickled: a child process with bounds, for `importing.py` alone.

    python -m regard.training.foreign OUTPUT SECONDS < FILE

It reads with `torch.load(weights_only=True)`, which makes tensors and plain containers and nothing else, and
writes safetensors. From before the reading on it may take no more memory and time than the file calls for,
start no process, open no connection, and write no file but OUTPUT. What goes wrong is one line on stderr.
"""

import os
import re
import resource
import sys
from collections.abc import Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import BadData, RegardError
from regard.training.tensors import pack

_WRAPPERS = ("state_dict", "model_state_dict", "model", "module")
_SPARE_MEMORY = 96 * 2**20
_SPARE_FILE = 16 * 2**20
_MOST_FILES = 64
_REFUSED = (
    "socket.",
    "subprocess.",
    "os.system",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.spawn",
    "pty.",
    "ctypes.",
)
_CHANGES = (
    "os.remove",
    "os.rename",
    "os.link",
    "os.symlink",
    "os.mkdir",
    "os.rmdir",
    "os.chmod",
    "os.chown",
    "os.truncate",
)


def convert(file: BufferedReader, size: int, output: Path) -> None:
    """Reads tensors from a file, and writes them as safetensors.

    Raises:
        BadData: if it holds anything but named tensors, or more than its size calls for.
    """
    try:
        found = torch.load(file, map_location="cpu", weights_only=True)
    except MemoryError:
        raise BadData(f"a file of {size:,} bytes asks for more memory than that calls for") from None
    except Exception as error:
        raise BadData(f"it cannot be read as weights alone: {_fact(str(error))}") from None
    tensors = named_tensors(found)
    total = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    if total > 4 * size:
        raise BadData(f"{total:,} bytes of tensors in a file of {size:,}: views that were blown up")
    output.write_bytes(pack(tensors))


def _fact(text: str) -> str:
    """What PyTorch found, without its advice on how to load it all the same."""
    if found := re.search(r"GLOBAL (\S+)", text):
        return f"it holds an object of the kind {found[1]}"
    lines = [line.strip() for line in text.rsplit("WeightsUnpickler error:", 1)[-1].splitlines() if line.strip()]
    return lines[0] if lines and "weights_only" not in lines[0] else "it is not what PyTorch writes of weights"


def named_tensors(found: Any) -> dict[str, Tensor]:
    """The tensors of a state dict, also of one that stands under a usual name within another dict.

    >>> named_tensors({"epoch": 3, "state_dict": {"weight": torch.ones(2)}})
    {'weight': tensor([1., 1.])}

    Raises:
        BadData: if there is none.
    """
    if not isinstance(found, Mapping):
        raise BadData(f"a {type(found).__name__} was stored, expected a dict of tensors")
    for name in _WRAPPERS:
        if isinstance(found.get(name), Mapping):
            found = found[name]
            break
    other = [key for key, value in found.items() if not isinstance(key, str) or not isinstance(value, Tensor)]
    if other or not found:
        first = f", the first other one at {str(other[0])[:40]!r}" if other and isinstance(other[0], str) else ""
        raise BadData(f"expected names and tensors alone, got {len(other)} other entries of {len(found)}{first}")
    return dict(found)


def limit(size: int, seconds: int) -> None:
    """Bounds this process for the rest of its life: memory, time, what it writes, what it opens."""
    try:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        raise RegardError("memory cannot be bounded on this system: turn the file into safetensors elsewhere") from None
    for what, most in (
        (resource.RLIMIT_AS, used + 8 * size + _SPARE_MEMORY),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 4 * size + _SPARE_FILE),
        (resource.RLIMIT_NOFILE, _MOST_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))


def forbid(output: Path) -> None:
    """Refuses, for the rest of this process, to start others, to connect, and to change files but one."""
    allowed = os.path.realpath(output)

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith((*_REFUSED, *_CHANGES)):
            raise RegardError(f"{event} was tried")
        if event == "open" and _writes(arguments) and os.path.realpath(arguments[0]) != allowed:
            raise RegardError("writing another file was tried")

    sys.addaudithook(refuse)


def _writes(arguments: tuple[Any, ...]) -> bool:
    path, mode, flags = arguments
    if isinstance(path, int):
        return False
    return (
        bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)) if mode is None else any(sign in mode for sign in "wax+")
    )


def main(arguments: list[str]) -> int:
    """Converts stdin, and returns the exit code."""
    output, seconds = Path(arguments[0]), int(arguments[1])
    size = os.fstat(0).st_size
    torch.set_num_threads(1)
    limit(size, seconds)
    forbid(output)
    try:
        with os.fdopen(0, "rb", closefd=False) as file:
            convert(file, size, output)
    except RegardError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except Exception as error:
        sys.stderr.write(f"it cannot be written as safetensors: {type(error).__name__}\n")
        return BadData.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
