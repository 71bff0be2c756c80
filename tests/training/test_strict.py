"""JSON within bounds: what is refused, with which words, and that nothing large is made of it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import BadData
from regard.training import strict

WORDS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_written_is_read_back(value):
    assert strict.parse(strict.render(value, "a.json"), "a.json") == value


REFUSED = {
    "NaN": (b'{"a": NaN}', "NaN is not a number that JSON has"),
    "infinity": (b"[-Infinity]", "-Infinity is not a number that JSON has"),
    "too large for a float": (b"[1e999]", "the number 1e999 is beyond what a float holds"),
    "too large for 64 bits": (b"[18446744073709551616]", "a whole number beyond 64 bits"),
    "too small for 64 bits": (b"[-9223372036854775809]", "a whole number beyond 64 bits"),
    "a million digits": (b"9" * 10**6, "a whole number of 1,000,000 digits, more than 64 bits hold"),
    "a key twice": (b'{"a": 1, "b": 2, "a": 3}', "the key 'a' comes twice"),
    "a key twice, escaped": (b'{"a": 1, "\\u0061": 3}', "the key 'a' comes twice"),
    "a key twice, deep": (b'[{"x": {"a": 1, "a": 1}}]', "the key 'a' comes twice"),
    "not UTF-8": (b'["\xff"]', "byte 2 is not UTF-8"),
    "half a surrogate pair": (b'["\\ud800"]', "surrogates not allowed"),
    "half a pair in a key": (b'{"\\ud800": 1}', "surrogates not allowed"),
    "a mark of byte order": (b"\xef\xbb\xbf{}", "Unexpected UTF-8 BOM"),
    "two values": (b"{} {}", "Extra data"),
    "nothing": (b"", "Expecting value"),
    "a control sign": (b'["\x00"]', "Invalid control character"),
    "a comment": (b"{} // no", "Extra data"),
    "65 deep": (b"[" * 65 + b"1" + b"]" * 65, "nested deeper than 64"),
    "deep, mixed": (b'{"a":[' * 33 + b"1" + b"]}" * 33, "nested deeper than 64"),
    "a hundred thousand deep": (b"[" * 100_000 + b"]" * 100_000, "nested deeper than 64"),
    "never closed": (b"[" * 400_000, "nested deeper than 64"),
    "many values": (b"[" + b"1," * 500_000 + b"1]", "about 500,001 values, at most 500,000 are read"),
    "17 MB": (b'"' + b"a" * 17 * 2**20 + b'"', "17,825,794 bytes of JSON, at most 16,777,216 are read"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    data, told = REFUSED[name]
    with pytest.raises(BadData) as error:
        strict.parse(data, "a.json")
    assert str(error.value).startswith("a.json: ")
    assert told in str(error.value)
    assert len(str(error.value)) < 200


def test_the_bounds_themselves_are_accepted():
    assert strict.parse(b"[-9223372036854775808, 18446744073709551615, 1e308]", "a") == [-(2**63), 2**64 - 1, 1e308]
    deep = strict.parse(b"[" * 64 + b"]" * 64, "a")
    assert json.dumps(deep) == "[" * 64 + "]" * 64
    with pytest.raises(BadData, match="4 bytes of JSON, at most 3 are read"):
        strict.parse(b"[12]", "a", largest=3)


def test_an_object_is_told_from_other_values():
    assert strict.parse_object(b"{}", "a") == {}
    with pytest.raises(BadData, match="a: an object was expected, got a list"):
        strict.parse_object(b"[]", "a")


def test_what_cannot_be_written():
    deep: list = []
    for _ in range(70):
        deep = [deep]
    circle: list = []
    circle.append(circle)
    for value, told in (
        (float("nan"), "not JSON compliant"),
        ({1: 2}, "the key 1 is not text"),
        (2**64, "beyond 64 bits"),
        (deep, "nested deeper than 64"),
        (circle, "Circular reference"),
        ("\ud800", "surrogates not allowed"),
        ({1, 2}, "not JSON serializable"),
        ({"a": 1, 2: 3}, "not supported between instances"),
    ):
        with pytest.raises(BadData, match=f"a: cannot be written as JSON: .*{told}"):
            strict.render(value, "a")
    with pytest.raises(BadData, match=r"16,777,2\d\d bytes of JSON, at most 16,777,216 are read back"):
        strict.render("a" * 2**24, "a")
