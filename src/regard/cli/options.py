"""From the words of a command line to typed options, and errors that suggest the nearest name."""

import contextlib
import io
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import tyro

from regard.errors import RegardError
from regard.training.options import over

Options = TypeVar("Options")
Number = TypeVar("Number", int, float)


def taken(words: list[str], name: str, default: str | None = None) -> tuple[str | None, list[str]]:
    """Takes one `--name VALUE` or `--name=VALUE` out of the words, before the rest can be typed.

    >>> taken(["--model", "rnnsearch", "--model.width", "8"], "--model")
    ('rnnsearch', ['--model.width', '8'])
    """
    rest, value, place = [], default, 0
    while place < len(words):
        word = words[place]
        if word == name:
            if place + 1 == len(words) or words[place + 1].startswith("--"):
                raise RegardError(f"{name} needs a value")
            value, place = words[place + 1], place + 2
        elif word.startswith(f"{name}="):
            value, place = word[len(name) + 1 :], place + 1
        else:
            rest.append(word)
            place += 1
    return value, rest


def parsed(kind: Any, words: Sequence[str], *, default: Any, command: str) -> Any:
    """Typed options from words; help is printed and ends the program with 0.

    Raises:
        RegardError: if a word is not an option, or a value not of its type; the nearest option is named.
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(kind, args=list(words), default=default, prog=f"regard {command}")
    except SystemExit as end:
        if end.code in (0, None):
            raise
        raise RegardError(f"{command}:\n{said.getvalue().strip()}") from None


def from_file(path: str | Path, default: Options) -> Options:
    """Options from a TOML or JSON file, over defaults; a wrong key or type is named with its place.

    Raises:
        RegardError: if the file cannot be read, or does not fit.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text) if path.suffix == ".toml" else msgspec.json.decode(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.DecodeError) as fact:
        raise RegardError(f"{path}: {fact}") from None
    return over(default, found, str(path))


def flag(words: list[str], name: str) -> tuple[bool, list[str]]:
    """Takes a flag out of the words.

    >>> flag(["run", "--json"], "--json")
    (True, ['run'])
    """
    return name in words, [word for word in words if word != name]


def number(words: list[str], name: str, kind: type[Number]) -> tuple[Number | None, list[str]]:
    """Takes one `--name NUMBER` out of the words.

    Raises:
        RegardError: if it is not a number of that kind.
    """
    said, words = taken(words, name)
    try:
        return (None if said is None else kind(said)), words
    except ValueError:
        expected = "a whole number" if kind is int else "a number"
        raise RegardError(f"{name} must be {expected}, got {said}") from None
