"""JSON that two programs cannot read in two ways, within bounds that hold before anything large is made.

Refused: more than 16 MB, nesting beyond 64, more than half a million values, a key that comes twice, NaN and
infinities, whole numbers beyond 64 bits, text that is not UTF-8 or holds half a surrogate pair.
"""

import json
import math
from typing import Any

from regard.errors import BadData

LARGEST = 16 * 2**20
"""How many bytes of JSON are read."""
DEEPEST = 64
MOST_VALUES = 500_000
_LEAST_INT, _MOST_INT = -(2**63), 2**64 - 1
_LONGEST_NUMBER = 40
_LONGEST_LINE = 120


def parse(data: bytes, what: str, *, largest: int = LARGEST) -> Any:
    """Reads one JSON value.

    Args:
        data: The text, UTF-8.
        what: The name of the file, for messages.
        largest: How many bytes are accepted.

    Raises:
        BadData: if it is not JSON or breaks one of the bounds.

    >>> parse(b'{"step": 3}', "record.json")
    {'step': 3}
    """
    if len(data) > largest:
        raise BadData(f"{len(data):,} bytes of JSON, at most {largest:,} are read", file=what)
    values = sum(data.count(sign) for sign in (b",", b"[", b"{"))
    if values > MOST_VALUES:
        raise BadData(f"about {values:,} values, at most {MOST_VALUES:,} are read", file=what)
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_int=_whole,
            parse_float=_real,
            parse_constant=_constant,
        )
        _check_tree(value)
    except UnicodeDecodeError as error:
        raise BadData(f"byte {error.start} is not UTF-8", file=what) from None
    except RecursionError:
        raise BadData(f"nested deeper than {DEEPEST}", file=what) from None
    except ValueError as error:
        raise BadData(str(error)[:_LONGEST_LINE], file=what) from None
    return value


def parse_object(data: bytes, what: str) -> dict[str, Any]:
    """Reads one JSON object, as `parse` does."""
    value = parse(data, what)
    if not isinstance(value, dict):
        raise BadData(f"an object was expected, got a {type(value).__name__}", file=what)
    return value


def render(value: Any, what: str) -> bytes:
    """Writes one JSON value such that `parse` gives it back, with sorted keys, for people to read.

    Raises:
        BadData: if `parse` would refuse it, or would give something else back.
    """
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, indent=1, sort_keys=True)
        _check_tree(value)
        data = (text + "\n").encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadData(f"cannot be written as JSON: {str(error)[:_LONGEST_LINE]}", file=what) from None
    if len(data) > LARGEST:
        raise BadData(f"{len(data):,} bytes of JSON, at most {LARGEST:,} are read back", file=what)
    return data


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:_LONGEST_NUMBER]!r} comes twice")
    return found


def _whole(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"a whole number of {len(text):,} digits, more than 64 bits hold")
    return int(text)


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:_LONGEST_NUMBER]} is beyond what a float holds")
    return value


def _constant(text: str) -> None:
    raise ValueError(f"{text} is not a number that JSON has")


def _check_tree(value: Any) -> None:
    """Depth, whole numbers and text of a value, without recursion."""
    level = [value]
    for _ in range(DEEPEST + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                for key in item:
                    _check_text(key)
                below.extend(item.values())
            elif isinstance(item, (list, tuple)):
                below.extend(item)
            elif isinstance(item, str):
                _check_text(item)
            elif isinstance(item, int) and not _LEAST_INT <= item <= _MOST_INT:
                raise ValueError("a whole number beyond 64 bits")
        if not below:
            return
        level = below
    raise ValueError(f"nested deeper than {DEEPEST}")


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(f"the key {text!r} is not text: it would come back as text")
    text.encode()
