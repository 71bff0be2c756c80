"""What the commands without typed options do with their words: numbers in a range, the end of options, mistakes."""

import math
from collections.abc import Iterable
from typing import TypeVar

from regard.cli.options import number
from regard.errors import RegardError, nearest

Number = TypeVar("Number", int, float)


def parted(words: list[str]) -> tuple[list[str], list[str]]:
    """The words before `--`, among which options stand, and those behind it, which are texts whatever they are.

    >>> parted(["run", "--beam", "2", "--", "--dashes", "--"])
    (['run', '--beam', '2'], ['--dashes', '--'])
    """
    place = words.index("--") if "--" in words else len(words)
    return words[:place], words[place + 1 :]


def within(
    words: list[str],
    name: str,
    kind: type[Number],
    *,
    least: float = -math.inf,
    above: float = -math.inf,
    most: float = math.inf,
) -> tuple[Number | None, list[str]]:
    """Takes one `--name NUMBER` out of the words; it is finite, and from `least` or above `above` up to `most`.

    Raises:
        RegardError: if it is no such number.
    """
    value, words = number(words, name, kind)
    if value is None or (math.isfinite(value) and above < value and least <= value <= most):
        return value, words
    parts = ["finite"] if kind is float else []
    parts += [f"at least {least:g}"] if least > -math.inf else []
    parts += [f"above {above:g}"] if above > -math.inf else []
    parts += [f"at most {most:.20g}"] if most < math.inf else []
    raise RegardError(f"{name} must be {' and '.join(parts)}, got {value}")


def no_more_options(command: str, words: Iterable[str], known: Iterable[str]) -> None:
    """Refuses what is left and begins as an option; the nearest one is suggested."""
    for word in words:
        if word.startswith("--"):
            name = word.partition("=")[0]
            raise RegardError(f"{command}: there is no option {name}: {nearest(name, known)}")
