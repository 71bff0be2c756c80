"""The embedded dates: unambiguous, the same for the same seed, and disjoint."""

import datetime
import time

import pytest

from regard.data.dates import FIRST, FORMS, LAST, LOCALES, dates, part_of, splits, written
from regard.errors import RegardError


def test_no_string_stands_for_two_dates_in_any_language():
    """All of a leap year and of a year after, together: a year is always written in four digits."""
    meant: dict[str, datetime.date] = {}
    for year in (2024, 2025):
        for number in range(366 if year == 2024 else 365):
            day = datetime.date(year, 1, 1) + datetime.timedelta(number)
            for locale in LOCALES:
                for form in FORMS:
                    assert meant.setdefault(written(day, locale, form), day) == day, (locale, form)


def digits(text: str) -> str:
    return "".join(str(int(c)) if c.isdecimal() else " " for c in text)


@pytest.mark.parametrize("locale", LOCALES)
def test_the_year_and_the_day_are_written(locale):
    """In the Gregorian calendar: also in languages whose own is another."""
    for day in (datetime.date(1900, 1, 31), datetime.date(2099, 12, 17)):
        for form in FORMS:
            numbers = digits(written(day, locale, form)).split()
            assert str(day.year) in numbers
            assert str(day.day) in numbers


def test_some_that_can_be_checked_by_eye():
    day = datetime.date(2026, 11, 18)
    assert written(day, "fr", "full") == "mercredi 18 novembre 2026"
    assert written(day, "en", "medium") == "Nov 18, 2026"
    assert written(day, "ja", "long") == "2026年11月18日"
    assert written(day, "fa", "long") == "۱۸ نوامبر ۲۰۲۶"
    assert written(day, "bn", "long").startswith("১৮ ")
    assert len(set(LOCALES)) == len(LOCALES) >= 40


def test_a_part_of_its_own_for_each_date():
    made = splits(0, train=5000, valid=800, test=800)
    sources = [{pair.source for pair in part} for part in (made.train, made.valid, made.test)]
    assert not sources[0] & sources[1]
    assert not sources[0] & sources[2]
    assert not sources[1] & sources[2]
    for name in ("train", "valid", "test"):
        for pair in getattr(made, name):
            assert part_of(datetime.date.fromisoformat(pair.target).toordinal()) == name
    assert len(sources[2]) > 780


def test_the_parts_do_not_depend_on_the_seed():
    valid = {pair.target for seed in range(5) for pair in splits(seed).valid[:500]}
    test = {pair.target for seed in range(5) for pair in splits(seed).test[:500]}
    train = {pair.target for pair in splits(9).train[:3000]}
    assert not valid & test
    assert not train & (valid | test)


def test_all_days_have_a_part():
    counts = {"train": 0, "valid": 0, "test": 0}
    for ordinal in range(FIRST, LAST + 1):
        counts[part_of(ordinal)] += 1
    assert sum(counts.values()) == 73_049
    assert 0.89 < counts["train"] / 73_049 < 0.92
    assert min(counts.values()) > 3000


def test_an_item_is_a_function_of_seed_and_index():
    long, short = dates(3, 10**9), dates(3, 20)
    assert [long[i] for i in (19, 3, 19)] == [short[19], short[3], short[19]]
    assert list(dates(4, 20)) != list(short)
    assert list(dates(3, 20, part="test")) != list(short)
    assert dates(0, 3)[:3][1] == dates(0, 3)[1]


def test_every_language_and_form_occurs():
    sources = "".join(pair.source for pair in dates(0, 2000))
    for letter in "年م১яłéη":
        assert letter in sources


def test_quick_enough():
    made = dates(0, 100_000)
    made[0]
    started = time.process_time()
    for i in range(5000):
        made[i]
    assert time.process_time() - started < 1


def test_a_size_of_nothing():
    with pytest.raises(RegardError, match="size=0: expected at least 1"):
        dates(0, 0)
