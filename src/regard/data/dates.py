"""The embedded data set: dates as forty languages write them, to ISO 8601. Endless, real, and checked by eye.

    mercredi 18 novembre 2026  →  2026-11-18

Babel writes them from CLDR, in the full, long and medium form, in the Gregorian calendar, from 1900 to 2099, with the
digits that the language uses by default. Item `i` is a pure function of (seed, part, i). A date belongs to one part,
by a hash of its number and of nothing else; as no string stands for two dates, no source is in two parts.
"""

import datetime
import functools
import hashlib
from typing import Literal, final

from regard.data.pairs import Pair, Pairs, Splits
from regard.errors import RegardError

LOCALES = (
    *("am", "ar", "be", "bg", "bn", "ca", "cs", "cy", "da", "de", "el", "en", "es", "et", "eu", "fa", "fi", "fr"),
    *("ga", "he", "hi", "hr", "hu", "id", "is", "it", "ja", "ka", "ko", "lt", "lv", "mr", "nb", "nl", "pl", "pt"),
    *("ro", "ru", "sv", "ta", "th", "tr", "uk", "vi", "zh"),
)
FORMS: tuple[Literal["full", "long", "medium"], ...] = ("full", "long", "medium")
FIRST, LAST = datetime.date(1900, 1, 1).toordinal(), datetime.date(2099, 12, 31).toordinal()
LICENCE = "Unicode License v3 (CLDR)"
DIGITS = {"arab": 0x660, "arabext": 0x6F0, "beng": 0x9E6, "deva": 0x966}

Part = Literal["train", "valid", "test"]


def splits(seed: int = 0, *, train: int = 200_000, valid: int = 2000, test: int = 2000) -> Splits:
    """The three parts, lazily.

    >>> [pair.target[:2] in ("19", "20") for pair in splits(0).test[:2]]
    [True, True]
    """
    description = f"Dates in {len(LOCALES)} languages to ISO 8601, written by Babel from CLDR"
    parts = dates(seed, train, part="train"), dates(seed, valid, part="valid"), dates(seed, test, part="test")
    return Splits(*parts, name="dates", licence=LICENCE, description=description)


def dates(seed: int, size: int, *, part: Part = "train") -> Pairs:
    """`size` dates of one part: nine days in ten are in `train`, one in twenty in each of the others."""
    if size < 1:
        raise RegardError(f"size={size}: expected at least 1")
    return Dates(seed, size, part)


@final
class Dates(Pairs):
    """Dates, each made when it is asked for."""

    def __init__(self, seed: int, size: int, part: Part) -> None:
        self.seed, self.size, self.part = seed, size, part

    def __len__(self) -> int:
        return self.size

    def pair(self, index: int) -> Pair:
        digest = hashlib.blake2b(f"{self.seed}:{self.part}:{index}".encode(), digest_size=16).digest()
        number = int.from_bytes(digest, "big")
        number, locale = divmod(number, len(LOCALES))
        number, form = divmod(number, len(FORMS))
        days = _days()[self.part]
        day = datetime.date.fromordinal(days[number % len(days)])
        return Pair(written(day, LOCALES[locale], FORMS[form]), day.isoformat())


def written(day: datetime.date, locale: str, form: Literal["full", "long", "medium"]) -> str:
    """A date as a language writes it.

    >>> written(datetime.date(2026, 11, 18), "fr", "full")
    'mercredi 18 novembre 2026'
    """
    pattern, place, digits = _pattern(locale, form)
    return str(pattern.apply(day, place)).translate(digits)  # type: ignore[attr-defined]


def part_of(ordinal: int) -> Part:
    """The part that a day belongs to, by its number."""
    share = hashlib.blake2b(f"day {ordinal}".encode(), digest_size=1).digest()[0] / 256
    return "test" if share < 0.05 else "valid" if share < 0.1 else "train"


@functools.cache
def _days() -> dict[Part, list[int]]:
    days: dict[Part, list[int]] = {"train": [], "valid": [], "test": []}
    for ordinal in range(FIRST, LAST + 1):
        days[part_of(ordinal)].append(ordinal)
    return days


@functools.cache
def _pattern(locale: str, form: Literal["full", "long", "medium"]) -> tuple[object, object, dict[int, int]]:
    from babel import Locale  # half a second, and only the dates need it
    from babel.dates import parse_pattern

    place = Locale.parse(locale)
    zero = DIGITS.get(place.default_numbering_system)
    digits = {} if zero is None else {ord("0") + i: zero + i for i in range(10)}
    return parse_pattern(place.date_formats[form].pattern), place, digits
