"""How errors are raised: the depth states the bare fact, the public function adds the call around it."""

import contextlib
import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor


class Misfit(ValueError):  # noqa: N818
    """Two things of one call do not fit each other. Raised before any arithmetic."""


@contextlib.contextmanager
def explained(call: str, **arguments: Any) -> Iterator[None]:
    """Re-raises a `Misfit` from inside as a `ValueError` that names the call and shows its arguments."""
    try:
        yield
    except Misfit as fact:
        raise ValueError(f"{call}: {fact}\n  called with {described(arguments)}") from None


def described(arguments: dict[str, Any]) -> str:
    """One line that shows what came: a tensor by its shape and type, everything else by its repr."""
    shown = [f"{name} {_described(value)}" for name, value in arguments.items() if value is not None]
    return ", ".join(shown)


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    return repr(value)


def nearest(word: str, known: Iterable[str]) -> str:
    """A closing hint for a misspelt word: the nearest known one, then all of them."""
    options = sorted(known)
    close = difflib.get_close_matches(word, options, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}one of: {', '.join(options)}"


def whole(value: object, name: str, *, least: int | None = None) -> int:
    """Checks a whole number: an int (not a bool), at least `least` if that is given."""
    if isinstance(value, bool) or not isinstance(value, (int, torch.SymInt)):
        raise TypeError(f"{name} must be an int, got {type(value).__name__}: {value!r}")
    if least is not None and value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    return cast(int, value)


def one_of(value: object, name: str, options: Sequence[str]) -> None:
    """Checks a named choice, and suggests the nearest name for one that is not there."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a name, got {type(value).__name__}: {value!r}; {nearest('', options)}")
    if value not in options:
        raise ValueError(f"{name}={value!r} is not known: {nearest(value, options)}")


def integers(tensor: object, name: str) -> Tensor:
    """Checks a tensor of whole numbers: a length for each example, a position for each example."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a tensor of integers, got {type(tensor).__name__}: {tensor!r}")
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool:
        dtype = str(tensor.dtype).removeprefix("torch.")
        raise TypeError(f"{name} must hold integers, got {dtype}: convert it with .long()")
    return tensor
