"""Generated lines: a pure function of the seed, the part and the place; the kinds; what may stand behind the colon."""

import pytest

from regard.data.specs import load
from regard.data.symbols import SYMBOLS, splits
from regard.errors import RegardError


def test_a_line_and_what_it_becomes():
    for name, change in (("copy", lambda line: line), ("reversal", lambda line: line[::-1])):
        made = load(name, seed=3)
        for part in (made.train, made.valid, made.test):
            for source, target in part[:50]:
                assert target == change(source)
                assert 1 <= len(source) <= 20
                assert set(source) <= set(SYMBOLS)


def test_the_same_place_is_the_same_line():
    first, again, other = splits("copy", 5), splits("copy", 5), splits("copy", 6)
    assert first.train[777] == again.train[777] != other.train[777]
    assert len({first.train[0], first.valid[0], first.test[0]}) == 3


def test_every_length_comes_as_often():
    lengths = [len(pair.source) for pair in splits("reversal:7", 0).train[:7000]]
    assert [900 < lengths.count(n) < 1100 for n in range(1, 8)] == [True] * 7
    assert max(lengths) == 7


@pytest.mark.parametrize("spec", ["copy:0", "copy:x", "reversal:1001", "copy:²", "copy:-3"])
def test_what_is_no_length_is_refused(spec):
    with pytest.raises(RegardError, match=r"behind (copy|reversal) stands the longest line, a number from 1 to 1,000"):
        load(spec)
