"""Which examples go together: every one once, within the bound, the same for the same (seed, epoch)."""

import itertools
import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.plan import Plan
from regard.errors import BadData, RegardError


def made(count, seed=0):
    draw = random.Random(seed)
    return [(n := draw.randint(2, 60), max(1, n + draw.randint(-5, 5))) for _ in range(count)]


def cost(lengths, batch):
    return len(batch) * sum(max(lengths[i][side] for i in batch) for side in (0, 1))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=1, max_size=80),
    st.integers(1, 200),
    st.integers(1, 30),
    st.integers(0, 3),
)
def test_every_example_once_within_the_bound(lengths, tokens, pool, epoch):
    batches = Plan(lengths, tokens, pool=pool).epoch(epoch)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert batch
        assert cost(lengths, batch) <= tokens or len(batch) == 1


def test_one_number_an_example():
    batches = Plan([5, 1, 1, 9, 1, 1], tokens=5).epoch(0)
    assert sorted(map(sorted, batches)) in ([[0], [1, 2, 4, 5], [3]],)


def test_a_fixed_number_of_examples():
    batches = Plan(made(103), examples=10, pool=1000).epoch(0)
    assert sorted(map(len, batches)) == [3, *[10] * 10]


def test_the_same_for_the_same_seed_and_epoch():
    lengths = made(2000)
    plan = Plan(lengths, 500, seed=3)
    first = plan.epoch(0)
    assert plan.epoch(1) != first
    assert plan.epoch(0) == first
    assert Plan(lengths, 500, seed=4).epoch(0) != first
    assert Plan(lengths, 500, seed=0).epoch(3) != Plan(lengths, 500, seed=3).epoch(0)
    assert list(Plan(lengths, 500, seed=3).batches(0)) == first


def test_the_same_in_another_process():
    code = "from regard.data.plan import Plan; print(Plan([i % 7 + 1 for i in range(50)], 20, seed=5).epoch(2))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    assert found.strip() == str(Plan([i % 7 + 1 for i in range(50)], 20, seed=5).epoch(2))


def test_batches_are_not_in_order_of_length():
    lengths = made(3000)
    widths = [lengths[batch[0]][0] for batch in Plan(lengths, 500).epoch(0)]
    rising = sum(a <= b for a, b in itertools.pairwise(widths)) / len(widths)
    assert 0.3 < rising < 0.7


def test_little_is_padding():
    lengths = made(8000)
    batches = Plan(lengths, 4096).epoch(0)
    padded, real = sum(cost(lengths, batch) for batch in batches), sum(map(sum, lengths))
    assert 1 - real / padded < 0.08, "in random order it is about half"
    assert padded / len(batches) / 4096 > 0.9


def test_a_lazy_split_is_asked_pool_by_pool(unchecked):
    asked = []

    class Lengths(list):
        def __getitem__(self, index):
            asked.append(index)
            return 3

    next(Plan(Lengths([0] * 10_000), 30, pool=100).batches(0))
    assert len(asked) == 100


def test_too_long():
    lengths = [(3, 3), (9, 2), (2, 12), (4, 4)]
    plan = Plan(lengths, 100, longest=8)
    with pytest.raises(BadData, match=r"example (1 has 9 and 2|2 has 2 and 12) tokens, more than longest=8: raise it"):
        plan.epoch(0)
    plan = Plan(lengths, 100, longest=8, too_long="skip")
    assert sorted(i for batch in plan.epoch(0) for i in batch) == [0, 3]
    assert plan.too_long == {1, 2}
    plan = Plan(lengths, 16, longest=8, too_long="truncate")
    assert sorted(i for batch in plan.epoch(0) for i in batch) == [0, 1, 2, 3]
    assert plan.too_long == {1, 2}


def test_what_does_not_fit():
    for name, value in {"tokens": 0, "examples": -1, "longest": 0, "pool": 0}.items():
        with pytest.raises(RegardError, match=f"{name}={value}: expected at least 1"):
            Plan([1], **{name: value})
    with pytest.raises(RegardError, match="seed=-1: expected at least 0"):
        Plan([1], seed=-1)
    with pytest.raises(RegardError, match="no examples: expected at least one"):
        Plan([])
