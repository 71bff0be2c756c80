"""Normal forms agree with the standard library, and take linear time where it does not."""

import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.normal import normalised

MARKS = "a\u0300\u0323\u0344\u0f71\u0f72\u0f73\u0f75\u0f81\uff9e\uff9f\u3099\u05b0\ufb1e각é"


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from(MARKS), max_size=60), st.text(max_size=20), st.sampled_from(["nfc", "nfkc"]))
def test_the_standard_form(marks, text, how):
    whole = "x" * 256 + marks + text
    for each in (whole, marks + text):
        assert normalised(each, how) == unicodedata.normalize(how.upper(), each)


def test_none_changes_nothing():
    assert normalised("e\u0301ﬁ", "none") == "e\u0301ﬁ"


@pytest.mark.parametrize("how", ["nfc", "nfkc"])
@pytest.mark.parametrize("marks", ["\u0300\u0323", "\u0f73", "\u0300\uff9e", "\u0344\u0323"])
def test_linear_time(marks, how):
    text = marks * (200_000 // len(marks))
    started = time.perf_counter()
    normalised(text, how)
    assert time.perf_counter() - started < 2, "the plain form takes a minute"
