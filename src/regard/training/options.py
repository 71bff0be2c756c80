"""Typed options from a tree of the same shape: that of a configuration file, or of a run that goes on."""

import dataclasses
import difflib
import typing
from typing import Any, TypeVar

import msgspec

from regard.errors import RegardError

Options = TypeVar("Options")


def over(default: Options, found: Any, place: str) -> Options:
    """A dataclass with some of its fields replaced.

    Args:
        default: What holds where nothing is found.
        found: Values by the names of fields; where a field is a dataclass, one of that type or a tree again.
        place: Where they were found, for messages.

    Raises:
        RegardError: if a name or a type does not fit; the nearest name is suggested.
    """
    if isinstance(found, type(default)):
        return found
    if not isinstance(found, dict):
        raise RegardError(f"{place}: expected a table of options, got {type(found).__name__}")
    fields = {field.name: field for field in dataclasses.fields(default)}  # type: ignore[arg-type]
    for key in found:
        if key not in fields:
            close = difflib.get_close_matches(key, fields, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise RegardError(f"{place}: there is no option {key!r}: {hint}one of {', '.join(fields)}")
    hints = typing.get_type_hints(type(default))
    values = {}
    for key, value in found.items():
        current = getattr(default, key)
        if dataclasses.is_dataclass(current):
            values[key] = over(current, value, f"{place}: {key}")
            continue
        try:
            values[key] = msgspec.convert(value, hints[key])
        except msgspec.ValidationError as fact:
            raise RegardError(f"{place}: {key}: {fact}") from None
    return dataclasses.replace(default, **values)  # type: ignore[type-var]
