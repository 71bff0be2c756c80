"""The header of a safetensors file, checked whole before any parser or allocation sees the file.

The format (safetensors, "Format"): 8 bytes, little endian, the length of the header; the header, JSON from a
tensor's name to its type, shape and place; then the numbers, without a gap. Nothing here needs PyTorch.
"""

import math
from collections.abc import Mapping
from io import BufferedIOBase
from typing import Annotated

import msgspec

from regard.errors import BadData
from regard.training import strict

LARGEST = 8 * 2**20
"""How many bytes of header are read."""
MOST_TENSORS = 20_000
LONGEST_NAME = 256
_MOST_AXES = 32
_METADATA = "__metadata__"

BITS = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
}
"""The bits of one number, by the name of its type."""

Expected = Mapping[str, tuple[tuple[int, ...], str]]
"""Names of tensors to their shapes and types, the types by their names in the file: `{"weight": ((3, 5), "F32")}`."""

Whole = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class Mismatch(BadData):
    """A sound file of another model: its tensors are not those that the configuration implies."""


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One tensor: type, shape, and from where to where its numbers stand after the header."""

    dtype: str
    shape: tuple[Whole, ...]
    data_offsets: tuple[Whole, Whole]


def read_header(file: BufferedIOBase, size: int, what: str, expect: Expected | None = None) -> dict[str, Place]:
    """Reads and checks the header of a safetensors file.

    Args:
        file: The file, open at its beginning. No more than the header is read.
        size: The bytes of the whole file.
        what: The name of the file, for messages.
        expect: The tensors that must be there, with shape and type, and no others; None to accept any.

    Raises:
        BadData: if it is not a sound safetensors file within the bounds.
        Mismatch: if it is one, but the tensors are not those expected.
    """
    if size < 8:
        raise BadData(f"{size} bytes are no safetensors file: at least 8 were expected", file=what)
    length = int.from_bytes(file.read(8), "little")
    if length > min(LARGEST, size - 8):
        raise BadData(
            f"not a safetensors file: a header of {length:,} bytes in a file of {size:,}; at most {LARGEST:,} are read",
            file=what,
        )
    fields = strict.parse_object(file.read(length), what)
    if len(fields) > MOST_TENSORS + 1:
        raise BadData(f"{len(fields):,} tensors, at most {MOST_TENSORS:,} are read", file=what)
    try:
        msgspec.convert(fields.pop(_METADATA, {}), dict[str, str])
        places = msgspec.convert(fields, dict[str, Place])
    except msgspec.ValidationError as error:
        raise BadData(f"not a sound safetensors header: {error}", file=what) from None
    _check_places(places, size - 8 - length, what)
    if expect is not None:
        check_expected(places, expect, what)
    return places


def check_expected(places: Mapping[str, Place], expect: Expected, what: str) -> None:
    """Raises `Mismatch` unless the tensors are those expected, by name, shape and type."""
    missing, strange = sorted(expect.keys() - places.keys()), sorted(places.keys() - expect.keys())
    if missing or strange:
        raise Mismatch(
            f"made for another model: {len(missing)} tensors are missing{_first(missing)}, "
            f"{len(strange)} are not expected{_first(strange)}",
            file=what,
        )
    for name, (shape, dtype) in expect.items():
        have = places[name]
        if (have.shape, have.dtype) != (tuple(shape), dtype):
            raise Mismatch(
                f"made for another model: {name} is {have.shape} {have.dtype}, expected {tuple(shape)} {dtype}",
                file=what,
            )


def largest_file(expect: Expected) -> int:
    """The most bytes that a file of the expected tensors can have."""
    return 8 + LARGEST + sum(_bytes(shape, dtype) for shape, dtype in expect.values())


def _check_places(places: Mapping[str, Place], room: int, what: str) -> None:
    end = 0
    for name, place in sorted(places.items(), key=lambda item: item[1].data_offsets):
        if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
            raise BadData(f"{name[:40]!r} is not a name of a tensor: 1 to {LONGEST_NAME} printable signs", file=what)
        if place.dtype not in BITS:
            raise BadData(f"{name} has the type {place.dtype[:20]!r}, known are {', '.join(BITS)}", file=what)
        if len(place.shape) > _MOST_AXES or math.prod(axis for axis in place.shape if axis) > 2**62:
            raise BadData(f"{name} has a shape that no tensor can have", file=what)
        first, last = place.data_offsets
        if first != end or last < first:
            raise BadData(
                f"{name} stands at {first} to {last}, expected to start at {end}: a gap or overlap", file=what
            )
        if last - first != _bytes(place.shape, place.dtype):
            raise BadData(
                f"{name} has {last - first} bytes, its shape and type need {_bytes(place.shape, place.dtype)}",
                file=what,
            )
        end = last
    if end != room:
        raise BadData(f"the tensors need {end:,} bytes, the file has {room:,} for them", file=what)


def _bytes(shape: tuple[int, ...], dtype: str) -> int:
    return math.prod(shape) * BITS[dtype] // 8


def _first(names: list[str]) -> str:
    return f" (the first is {names[0]!r})" if names else ""
