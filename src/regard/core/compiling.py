"""When a kernel is compiled, and how it is kept from being compiled twice.

Compiling is on above fixed sizes of work, and off with `REGARD_COMPILE=0` or where there is no C++ compiler. A
kernel is compiled on first use, in a second or two, and says so in one log line (`logging.getLogger("regard")`); a
later length, batch or width uses the same code. A size of 1 is the exception: PyTorch compiles for it apart.

Which form computes is decided by sizes, types, device and compiler alone, so that a run that is resumed on the
same machine goes on with the same bits.
"""

import functools
import inspect
import logging
import os
import shutil
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

LOG = logging.getLogger("regard")
LEAST, LEAST_ONCE = 2**18, 2**22
"""Cells times width below which nothing is compiled: where a gradient is asked for, as thousands of times in training;
and where none is, since decoding a few lines takes less time than compiling."""


@functools.cache
def _compiler() -> str | None:
    """The C++ compiler that PyTorch would call."""
    return next(
        (name for name in (os.environ.get("CXX"), "g++", "clang++", "c++") if name and shutil.which(name)), None
    )


def worthwhile(work: int, device: torch.device, *, learns: bool = True) -> bool:
    """Whether a call of that much work is given to a compiled kernel."""
    if work < (LEAST if learns else LEAST_ONCE) or os.environ.get("REGARD_COMPILE", "1") == "0":
        return False
    return _compiler() is not None if device.type == "cpu" else device.type == "cuda"


class Compiled:
    """A function of tensors that is compiled on first use, for all sizes at once.

    Args:
        function: What to compile; it takes tensors only.
        example: Shapes of its arguments in which no two sizes are equal by accident, so that the compiler takes
            none for another's. They should be large, for its guesses about loops.
    """

    def __init__(self, function: Callable[..., Any], *example: Sequence[int]) -> None:
        self._function = inspect.unwrap(function)  # without the shape checks of the test run, which do not compile
        self._example = example
        self._made: dict[tuple[torch.dtype, str], Callable[..., Any]] = {}

    def __call__(self, *tensors: Tensor) -> Any:
        kind = (tensors[0].dtype, tensors[0].device.type)
        with torch.no_grad(), torch.autocast(kind[1], enabled=False):
            made = self._made.get(kind) or self._first(*kind)
            return made(*(tensor.detach().contiguous() for tensor in tensors))

    def _first(self, dtype: torch.dtype, device: str) -> Callable[..., Any]:
        LOG.info(
            "compiling %s for %s on %s, once; REGARD_COMPILE=0 switches it off", self._function.__name__, dtype, device
        )
        with warnings.catch_warnings():  # the compiler's own, about its own parts
            warnings.simplefilter("ignore", DeprecationWarning)
            made: Callable[..., Any] = torch.compile(self._function, dynamic=True)
            made(*(torch.zeros(*shape, dtype=dtype, device=device) for shape in self._example))
        self._made[dtype, device] = made
        return made
