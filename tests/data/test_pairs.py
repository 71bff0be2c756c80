"""Sequences of pairs behave as lists do."""

import pytest

from regard.data.pairs import Chain, Chosen, Pair

ALL = [Pair(c, c.upper()) for c in "abcdefg"]


def test_a_choice_is_a_sequence():
    chosen = Chosen(ALL, [5, 0, 3])
    assert list(chosen) == [ALL[5], ALL[0], ALL[3]]
    assert chosen[-1] == ALL[3]
    assert list(chosen[1:]) == [ALL[0], ALL[3]]
    assert list(chosen[::-1]) == [ALL[3], ALL[0], ALL[5]]
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"index {index}: there are 3 pairs"):
            chosen[index]


def test_a_chain_is_its_parts_in_order():
    chain = Chain([Chosen(ALL, [0, 1, 2]), Chosen(ALL, []), Chosen(ALL, [3]), Chosen(ALL, [4, 5, 6])])
    assert list(chain) == ALL
    assert len(Chain([])) == 0
