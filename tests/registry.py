"""Every mechanism of the operation, each with a way to make it and its loop reference.

A public name that is not listed here fails `tests/contract/test_registry.py`. To add a mechanism, add an
entry: all laws then run on it, with every other.

Sizes are different primes, so that a swapped axis cannot pass. `At` is one cell: its example, head, row and
column in the call, and the positions i of the query and j of the key.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

import regard
from regard.core import Dot, Score, Weigh, Where
from tests import reference


class At(NamedTuple):
    example: int
    head: int
    row: int
    column: int
    i: int
    j: int


@dataclasses.dataclass(frozen=True)
class Sizes:
    """One call: examples, heads, m queries, n keys, position of the first query, widths."""

    examples: int = 2
    heads: int = 3
    m: int = 5
    n: int = 7
    first: int = 2
    width: int = 11
    value_width: int = 13

    @property
    def batch(self) -> tuple[int, int]:
        return self.examples, self.heads


Pair = Callable[[At, list[float], list[float]], float]
Cell = Callable[[At], bool]


@dataclasses.dataclass(frozen=True)
class ScoreCase:
    """`make` gives the score for one call and its loop reference, a function of cell, query and key."""

    name: str
    public: tuple[str, ...]
    make: Callable[[Sizes], tuple[Score, Pair]]
    key_width: int | None = None

    def __str__(self) -> str:
        return self.name


@dataclasses.dataclass(frozen=True)
class WhereCase:
    """`make` gives the predicate for one call and its loop reference, a function of the cell."""

    name: str
    public: tuple[str, ...]
    make: Callable[[Sizes], tuple[Where, Cell]]
    causal: bool = False

    def __str__(self) -> str:
        return self.name


@dataclasses.dataclass(frozen=True)
class WeighCase:
    name: str
    public: tuple[str, ...]
    weigh: Weigh
    reference: Callable[[reference.Row], list[float]]
    differentiable: bool = True

    def __str__(self) -> str:
        return self.name


def _random(*shape: int, seed: int = 7) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def _filled(score: Score) -> Score:
    """In float64, with random numbers in every parameter (biases start at zero, where a fault would hide)."""
    score = score.double()
    with torch.no_grad():
        for seed, parameter in enumerate(score.parameters()):
            parameter.copy_(_random(*parameter.shape, seed=seed) * 0.7)
    return score


def _dot(sizes: Sizes) -> tuple[Score, Pair]:
    return regard.dot, lambda at, q, k: reference.dot(q, k)


def _dot_with_a_learned_scale(sizes: Sizes) -> tuple[Score, Pair]:
    return Dot(nn.Parameter(torch.tensor(0.37, dtype=torch.float64))), lambda at, q, k: reference.dot(q, k) * 0.37


def _scaled(sizes: Sizes) -> tuple[Score, Pair]:
    return regard.scaled_dot, lambda at, q, k: reference.scaled_dot(q, k)


def _cosine(sizes: Sizes) -> tuple[Score, Pair]:
    return regard.Cosine(3.0), lambda at, q, k: reference.cosine(q, k, 3.0)


def _cosine_by_head(sizes: Sizes) -> tuple[Score, Pair]:
    strength = nn.Parameter(_random(1, sizes.heads).abs() + 1)
    each = strength.tolist()[0]
    return regard.Cosine(strength), lambda at, q, k: reference.cosine(q, k, each[at.head])


def _general(sizes: Sizes) -> tuple[Score, Pair]:
    score = _filled(regard.General(sizes.width, 5))
    weight = score.weight.tolist()
    return score, lambda at, q, k: reference.general(q, k, weight)


def _additive(sizes: Sizes) -> tuple[Score, Pair]:
    score = _filled(regard.Additive(sizes.width, 5, hidden=3))
    w, u, v = score.query.weight.tolist(), score.key.weight.tolist(), score.vector.tolist()
    return score, lambda at, q, k: reference.additive(q, k, w, u, v)


def _location(sizes: Sizes) -> tuple[Score, Pair]:
    score = _filled(regard.Location(sizes.width, longest=17))
    weight = score.weight.tolist()
    return score, lambda at, q, k: reference.location(q, weight, at.column)


def _bias(sizes: Sizes) -> tuple[Score, Pair]:
    table = _random(sizes.examples, 1, sizes.m, sizes.n)
    each = table.tolist()
    score = regard.scaled_dot + regard.Bias(nn.Parameter(table))
    return score, lambda at, q, k: reference.scaled_dot(q, k) + each[at.example][0][at.row][at.column]


def _forbidding_bias(sizes: Sizes) -> tuple[Score, Pair]:
    table = _random(sizes.m, sizes.n)
    table[table > 0.3] = -math.inf
    each = table.tolist()
    return regard.dot + regard.Bias(table), lambda at, q, k: reference.dot(q, k) + each[at.row][at.column]


def _alibi(sizes: Sizes) -> tuple[Score, Pair]:
    return (
        regard.scaled_dot + regard.Alibi(sizes.heads),
        lambda at, q, k: reference.scaled_dot(q, k) - reference.alibi_slope(sizes.heads, at.head) * abs(at.i - at.j),
    )


def _relative(both_ways: bool, sizes: Sizes) -> tuple[Score, Pair]:
    bias = _filled(regard.RelativeBias(sizes.heads, buckets=8, furthest=6, both_ways=both_ways))
    table = bias.weight.tolist()
    return (
        regard.dot + bias,
        lambda at, q, k: reference.dot(q, k) + table[reference.bucket(at.j - at.i, 8, 6, both_ways)][at.head],
    )


def _grid(sizes: Sizes) -> tuple[Score, Pair]:
    height, width = 4, 5
    bias = _filled(regard.GridBias(sizes.heads, height, width))
    table = bias.weight.tolist()

    def pair(at: At, q: list[float], k: list[float]) -> float:
        down = at.i // width - at.j // width
        right = at.i % width - at.j % width
        return reference.dot(q, k) + table[at.head][down + height - 1][right + width - 1]

    return regard.dot + bias, pair


def _softcap(sizes: Sizes) -> tuple[Score, Pair]:
    return (
        regard.softcap(regard.dot, 2.0) + regard.Alibi(sizes.heads),
        lambda at, q, k: (
            2.0 * math.tanh(reference.dot(q, k) / 2.0) - reference.alibi_slope(sizes.heads, at.head) * abs(at.i - at.j)
        ),
    )


SCORES = (
    ScoreCase("dot", ("dot",), _dot),
    ScoreCase("dot_with_a_learned_scale", ("dot",), _dot_with_a_learned_scale),
    ScoreCase("scaled_dot", ("scaled_dot",), _scaled),
    ScoreCase("cosine", ("Cosine",), _cosine),
    ScoreCase("cosine_by_head", ("Cosine",), _cosine_by_head),
    ScoreCase("general", ("General",), _general, key_width=5),
    ScoreCase("additive", ("Additive",), _additive, key_width=5),
    ScoreCase("location", ("Location",), _location, key_width=5),
    ScoreCase("bias", ("Bias",), _bias),
    ScoreCase("forbidding_bias", ("Bias",), _forbidding_bias),
    ScoreCase("alibi", ("Alibi",), _alibi),
    ScoreCase("relative_both_ways", ("RelativeBias",), functools.partial(_relative, True)),
    ScoreCase("relative_one_way", ("RelativeBias",), functools.partial(_relative, False)),
    ScoreCase("grid", ("GridBias",), _grid),
    ScoreCase("softcap", ("softcap",), _softcap),
)


def _everywhere(sizes: Sizes) -> tuple[Where, Cell]:
    return regard.everywhere, lambda at: True


def _causal(sizes: Sizes) -> tuple[Where, Cell]:
    return regard.causal, lambda at: at.j <= at.i


def _window(sizes: Sizes) -> tuple[Where, Cell]:
    return regard.window(2, 1), lambda at: at.i - 2 <= at.j <= at.i + 1


def _causal_window(sizes: Sizes) -> tuple[Where, Cell]:
    return regard.causal & regard.window(1), lambda at: at.j in (at.i - 1, at.i)


def _blocks(sizes: Sizes) -> tuple[Where, Cell]:
    return regard.blocks(3), lambda at: at.i // 3 == at.j // 3


def _prefix(sizes: Sizes) -> tuple[Where, Cell]:
    return regard.causal | regard.prefix(3), lambda at: at.j <= at.i or at.j < 3


def _lengths(sizes: Sizes) -> tuple[Where, Cell]:
    each = [[(5 * e + 3 * h) % (sizes.n + 1) for h in range(sizes.heads)] for e in range(sizes.examples)]
    tensor = torch.tensor(each, dtype=torch.long).reshape(sizes.batch)
    return regard.lengths(tensor), lambda at: at.j < each[at.example][at.head]


def _lengths_by_example(sizes: Sizes) -> tuple[Where, Cell]:
    each = [(4 * e + 1) % (sizes.n + 1) for e in range(sizes.examples)]
    tensor = torch.tensor(each, dtype=torch.long).reshape(-1, 1)
    return regard.causal & regard.lengths(tensor), lambda at: at.j < each[at.example] and at.j <= at.i


def _given(sizes: Sizes) -> tuple[Where, Cell]:
    mask = _random(*sizes.batch, sizes.m, sizes.n) > 0.4
    if sizes.m:
        mask[..., 0, :] = False  # a row that may see nothing
    each = mask.tolist()
    return regard.given(mask), lambda at: each[at.example][at.head][at.row][at.column]


def _given_flat(sizes: Sizes) -> tuple[Where, Cell]:
    mask = _random(sizes.m, sizes.n) > 0
    each = mask.tolist()
    return regard.given(mask) & ~regard.prefix(1), lambda at: each[at.row][at.column] and at.j >= 1


def _nowhere(sizes: Sizes) -> tuple[Where, Cell]:
    return ~regard.everywhere, lambda at: False


def _not_causal(sizes: Sizes) -> tuple[Where, Cell]:
    return ~regard.causal | regard.window(0), lambda at: at.j >= at.i


WHERES = (
    WhereCase("everywhere", ("everywhere",), _everywhere),
    WhereCase("causal", ("causal",), _causal, causal=True),
    WhereCase("window", ("window",), _window),
    WhereCase("causal_window", ("causal", "window"), _causal_window, causal=True),
    WhereCase("blocks", ("blocks",), _blocks),
    WhereCase("causal_or_prefix", ("prefix",), _prefix),
    WhereCase("lengths", ("lengths",), _lengths),
    WhereCase("causal_lengths", ("lengths", "causal"), _lengths_by_example, causal=True),
    WhereCase("given", ("given",), _given),
    WhereCase("given_not_prefix", ("given", "prefix"), _given_flat),
    WhereCase("nowhere", ("everywhere",), _nowhere),
    WhereCase("not_causal", ("causal", "window"), _not_causal),
)

WEIGHS = (
    WeighCase("softmax", ("softmax",), regard.softmax, reference.softmax),
    WeighCase("sparsemax", ("sparsemax",), regard.sparsemax, functools.partial(reference.entmax, alpha=2.0)),
    WeighCase("entmax_1.5", ("Entmax",), regard.Entmax(1.5), functools.partial(reference.entmax, alpha=1.5)),
    WeighCase("entmax_1.3", ("Entmax",), regard.Entmax(1.3), functools.partial(reference.entmax, alpha=1.3)),
    WeighCase("entmax_2.5", ("Entmax",), regard.Entmax(2.5), functools.partial(reference.entmax, alpha=2.5)),
    WeighCase("hardmax", ("hardmax",), regard.hardmax, reference.hardmax, differentiable=False),
)

OPERATIONS = ("attend", "weights", "log_weights", "scores", "choose")
CHOICES = ("Sample", "Gumbel", "StraightThrough")
"""Public names that are tested by files of their own, named beside each."""
PARTS = {
    "Addressing": "tests/core/test_addressing.py",
    "Cache": "tests/core/test_heads.py",
    "Heads": "tests/core/test_heads.py",
    "Learned": "tests/core/test_positions.py",
    "LocalMonotonic": "tests/core/test_local.py",
    "LocalPredictive": "tests/core/test_local.py",
    "Prepared": "tests/core/test_prepared.py",
    "Rotary": "tests/core/test_positions.py",
    "Sinusoid": "tests/core/test_positions.py",
    **dict.fromkeys(CHOICES, "tests/core/test_choice.py"),
    "choose": "tests/core/test_choice.py",
    "load": "tests/cli/test_commands.py",
    "train": "tests/cli/test_commands.py",
    "watch": "tests/core/test_watch.py",
    "explain": "tests/core/test_explain.py",
    "packed": "tests/core/test_packed.py",
}


@dataclasses.dataclass(frozen=True)
class Call:
    """One call, ready to run, beside its loop reference."""

    sizes: Sizes
    query: Tensor
    key: Tensor
    value: Tensor
    score: Score
    where: Where
    scores: list[reference.Row]
    """The reference's rows, over examples, heads, queries: None where not allowed."""


def call(score: ScoreCase, where: WhereCase, sizes: Sizes = Sizes()) -> Call:
    """Random vectors, and the reference's scores and mask for them."""
    key_width = score.key_width or sizes.width
    query = _random(*sizes.batch, sizes.m, sizes.width, seed=1)
    key = _random(*sizes.batch, sizes.n, key_width, seed=2)
    value = _random(*sizes.batch, sizes.n, sizes.value_width, seed=3)
    made_score, pair = score.make(sizes)
    made_where, cell = where.make(sizes)
    q, k = query.tolist(), key.tolist()
    rows: list[reference.Row] = []
    for example in range(sizes.examples):
        for head in range(sizes.heads):
            for row in range(sizes.m):
                cells = [At(example, head, row, j, sizes.first + row, j) for j in range(sizes.n)]
                rows.append(
                    [pair(at, q[example][head][row], k[example][head][at.j]) if cell(at) else None for at in cells]
                )
    return Call(sizes, query, key, value, made_score, made_where, rows)


@functools.cache
def shared_call(score: ScoreCase, where: WhereCase, sizes: Sizes = Sizes()) -> Call:
    """The same, made once: for tests that do not change it."""
    return call(score, where, sizes)
