"""The type checker of the test run: an int is accepted where a float is asked for, as Python's own types say."""

from collections.abc import Callable
from typing import Any

from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeDecorHintPep673Exception

_checked = beartype(conf=BeartypeConf(is_pep484_tower=True))


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    """Checks a function's arguments and result; one that returns `Self` is left alone, which needs its class."""
    try:
        return _checked(function)
    except BeartypeDecorHintPep673Exception:
        return function
