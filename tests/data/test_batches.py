"""Rectangles of ids."""

import pytest
import torch

from regard.data.batches import Examples, Plan, collate
from regard.data.pairs import Pair
from regard.data.tokens import END, Tokeniser

LETTERS = Tokeniser.train(["abc"], "characters")
PAIRS = [Pair("a" * (i % 5 + 1), "b" * (i % 3 + 1)) for i in range(17)]


def test_a_batch_is_padded_and_nothing_is_lost():
    batch = collate([([7, 5, END], [6, END]), ([END], [5, 6, 7, END])], [11, 3])
    assert batch.source.tolist() == [[7, 5, END], [END, 0, 0]]
    assert batch.target.tolist() == [[6, END, 0, 0], [5, 6, 7, END]]
    assert batch.source_length.tolist() == [3, 1]
    assert batch.target_length.tolist() == [2, 4]
    assert batch.index.tolist() == [11, 3]
    assert {tensor.dtype for tensor in batch} == {torch.int64}


def test_nothing_is_cut_unless_asked():
    example = ([5] * 9 + [END], [6] * 4 + [END])
    assert collate([example], [0]).source.shape == (1, 10)
    cut = collate([example], [0], longest=5)
    assert cut.source.tolist() == [[5, 5, 5, 5, END]]
    assert cut.target.tolist() == [[6, 6, 6, 6, END]]
    assert collate([example], [0], longest=1).source.tolist() == [[END]]


def test_examples_are_encoded_once(unchecked):
    asked = []

    class Counted(list):
        def __getitem__(self, index):
            asked.append(index)
            return PAIRS[index]

    examples = Examples(Counted(PAIRS), LETTERS, LETTERS)
    assert [examples[i] for i in (2, 2, -15)] == [(LETTERS.encode("aaa"), LETTERS.encode("bbb"))] * 3
    assert asked == [2]
    assert list(examples.lengths) == [(len(p.source) + 1, len(p.target) + 1) for p in PAIRS]
    assert len(asked) == len(PAIRS)
    assert examples[3:5] == [examples[3], examples[4]]
    with pytest.raises(IndexError):
        examples[17]


def test_only_so_many_are_kept():
    examples = Examples(PAIRS, LETTERS, LETTERS, keep=3)
    whole = [examples[i] for i in range(17)]
    assert len(examples._kept) == 3
    assert whole == list(Examples(PAIRS, LETTERS, LETTERS, keep=0))


def test_from_plan_to_batch():
    examples = Examples(PAIRS, LETTERS, LETTERS)
    seen = []
    for chosen in Plan(examples.lengths, tokens=30).epoch(0):
        batch = examples.batch(chosen)
        assert batch.source.numel() + batch.target.numel() <= 30
        for row, i in enumerate(batch.index.tolist()):
            assert LETTERS.decode(batch.source[row].tolist()) == PAIRS[i].source
            assert LETTERS.decode(batch.target[row].tolist()) == PAIRS[i].target
            seen.append(i)
    assert sorted(seen) == list(range(17))


def test_what_does_not_fit():
    with pytest.raises(ValueError, match="0 examples and 0 indices: expected as many, at least one"):
        collate([], [])
    with pytest.raises(ValueError, match="1 examples and 2 indices"):
        collate([([END], [END])], [1, 2])
    with pytest.raises(ValueError, match=r"the ids \[4, 5\] do not end with END \(3\)"):
        collate([([4, 5], [END])], [1])
    with pytest.raises(ValueError, match=r"the ids \[\] do not end with END"):
        collate([([END], [])], [1])
