"""Every kernel is held to the laws, against the same plain loops, wherever it can be chosen.

`fused` and `plain` are what the laws' small sizes choose by themselves; here each is forced in turn, and the tiles
and blocks of the others are made so small that every edge of them is met.
"""

import math

import pytest
import torch

import regard
from regard.core import banded, biased, dispatch, tiled
from tests.contract import test_laws as laws
from tests.registry import SCORES, WEIGHS, WHERES, ScoreCase, Sizes, WhereCase, call, shared_call

SOFTMAX = WEIGHS[0]
LONG = Sizes(examples=2, heads=3, m=23, n=29, first=2)


def _window_lengths(sizes: Sizes):
    each = [[(11 * e + 7 * h) % (sizes.n + 1) for h in range(sizes.heads)] for e in range(sizes.examples)]
    tensor = torch.tensor(each, dtype=torch.long).reshape(sizes.batch)
    return regard.window(3, 2) & regard.lengths(
        tensor
    ), lambda at: -3 <= at.j - at.i <= 2 and at.j < each[at.example][at.head]


def _blocks_given(sizes: Sizes):
    mask = torch.rand(sizes.m, sizes.n, generator=torch.Generator().manual_seed(3)) > 0.3
    each = mask.tolist()
    return regard.blocks(5) & regard.given(mask), lambda at: at.i // 5 == at.j // 5 and each[at.row][at.column]


def _causal_blocks(sizes: Sizes):
    return regard.blocks(4) & regard.causal, lambda at: at.i // 4 == at.j // 4 and at.j <= at.i


def _far(sizes: Sizes):
    return regard.window(30, 0) & ~regard.window(3, 0), lambda at: at.j < at.i - 3 and at.j >= at.i - 30


BANDS = (
    *(where for where in WHERES if where.name in ("window", "causal_window", "blocks")),
    WhereCase("window_lengths", ("window", "lengths"), _window_lengths),
    WhereCase("blocks_given", ("blocks", "given"), _blocks_given),
    WhereCase("causal_blocks", ("blocks", "causal"), _causal_blocks, causal=True),
)
PRODUCTS = tuple(s for s in SCORES if s.name in ("dot", "scaled_dot", "cosine_by_head", "general", "location"))


@pytest.fixture
def chosen(monkeypatch):
    """Which kernels were run."""
    names: list[str] = []
    real = dispatch.choice

    def noted(made):
        kernel = real(made)
        names.append(kernel.name)
        return kernel

    monkeypatch.setattr(dispatch, "choice", noted)
    return names


@pytest.fixture
def in_blocks(monkeypatch, chosen):
    monkeypatch.setattr(banded, "ROWS", 2)
    yield
    assert set(chosen) <= {"banded"}
    assert chosen


@pytest.fixture
def in_tiles(monkeypatch, chosen):
    monkeypatch.setattr(tiled, "TILE", 2 * 3 * 7 * 2)  # two rows
    monkeypatch.setattr(dispatch, "choice", lambda made: chosen.append("tiled") or dispatch.TILED)
    yield
    assert chosen


@pytest.fixture
def as_table(monkeypatch, chosen):
    monkeypatch.setattr(dispatch, "choice", lambda made: chosen.append("plain") or dispatch.PLAIN)
    yield
    assert chosen


def held_to_the_laws(made: laws.Call, score: ScoreCase, where: WhereCase, weigh=SOFTMAX) -> None:
    chosen = laws.choices(made, weigh)
    expected = laws.expected_output(made, laws.expected_weights(made, weigh))
    output = regard.attend(made.query, made.key, made.value, **chosen)
    torch.testing.assert_close(output, expected, atol=laws.EXACT, rtol=0)


@pytest.mark.parametrize("where", BANDS, ids=str)
@pytest.mark.parametrize("score", PRODUCTS, ids=str)
@pytest.mark.usefixtures("in_blocks")
class TestBanded:
    def sizes(self, where: WhereCase, score: ScoreCase) -> list[Sizes]:
        most = {"m": 13, "n": 17} if score.name == "location" else {"m": 23, "n": 29}  # its longest is 17
        if "blocks" in where.name:
            firsts = (0, {"blocks": 3, "blocks_given": 5}.get(where.name, 4))
            return [Sizes(**most, first=first) for first in firsts]
        return [
            Sizes(**most, first=2),
            Sizes(examples=1, heads=2, m=most["n"] + 6, n=17, first=0),
            Sizes(examples=2, heads=1, m=7, n=most["n"], first=17),
        ]

    def test_meaning(self, score, where):
        for sizes in self.sizes(where, score):
            held_to_the_laws(shared_call(score, where, sizes), score, where)

    def test_inert_and_marked(self, score, where, monkeypatch):
        """Laws 3 and 4: hidden NaN changes no bit; what is seen marks its rows alone; no gradient leaks."""
        for sizes in self.sizes(where, score):
            monkeypatch.setattr(laws, "call", lambda s, w, sizes=sizes: call(s, w, sizes))
            monkeypatch.setattr(laws, "shared_call", lambda s, w, sizes=sizes: shared_call(s, w, sizes))
            laws.test_what_is_hidden_is_inert(score, where, SOFTMAX)
            laws.test_no_gradient_comes_from_where_a_row_may_not_look(score, where, SOFTMAX)
        if "lengths" not in where.name:
            monkeypatch.setattr(laws, "call", lambda s, w: call(s, w, self.sizes(w, s)[0]))
            laws.test_what_some_see_touches_only_them(score, where, SOFTMAX)

    def test_gradients_are_the_tables(self, score, where, monkeypatch):
        for sizes in self.sizes(where, score):
            made = call(score, where, sizes)
            fast = laws.run(made, SOFTMAX, made.key, made.value)
            with monkeypatch.context() as patch:
                patch.setattr(dispatch, "choice", lambda _: dispatch.PLAIN)
                slow = laws.run(made, SOFTMAX, made.key, made.value)
            for one, other in zip(fast, slow, strict=True):
                torch.testing.assert_close(one, other, atol=laws.EXACT, rtol=laws.EXACT)


def test_a_band_that_is_not_one_is_not_cut(chosen, monkeypatch):
    monkeypatch.setattr(banded, "ROWS", 2)
    far = WhereCase("far", ("window",), _far)
    held_to_the_laws(shared_call(PRODUCTS[0], far, LONG), PRODUCTS[0], far)
    assert chosen == ["fused"]


@pytest.mark.parametrize("weigh", [w for w in WEIGHS if w.name in ("softmax", "entmax_1.5", "hardmax")], ids=str)
@pytest.mark.parametrize("where", WHERES, ids=str)
@pytest.mark.parametrize("score", SCORES, ids=str)
@pytest.mark.usefixtures("in_tiles")
class TestTiled:
    def test_meaning(self, score, where, weigh):
        held_to_the_laws(shared_call(score, where), score, where, weigh)

    def test_inert(self, score, where, weigh):
        laws.test_what_is_hidden_is_inert(score, where, weigh)

    def test_gradients_are_the_tables(self, score, where, weigh, monkeypatch):
        made = call(score, where)
        fast = laws.run(made, weigh, made.key, made.value)
        with monkeypatch.context() as patch:
            patch.setattr(dispatch, "choice", lambda _: dispatch.PLAIN)
            slow = laws.run(made, weigh, made.key, made.value)
        for one, other in zip(fast, slow, strict=True):
            torch.testing.assert_close(one, other, atol=laws.EXACT, rtol=laws.EXACT)


@pytest.mark.parametrize("where", WHERES, ids=str)
@pytest.mark.parametrize("score", SCORES, ids=str)
@pytest.mark.usefixtures("as_table")
class TestPlain:
    """What the fused kernel computes by itself, as a table."""

    def test_laws(self, score, where):
        laws.test_meaning_and_weights(score, where, SOFTMAX)
        laws.test_what_is_hidden_is_inert(score, where, SOFTMAX)
        laws.test_what_some_see_touches_only_them(score, where, SOFTMAX)
        laws.test_no_gradient_comes_from_where_a_row_may_not_look(score, where, SOFTMAX)


FUSED = [s for s in SCORES if s.name not in ("additive", "softcap")]


@pytest.mark.parametrize("where", WHERES, ids=str)
@pytest.mark.parametrize("score", FUSED, ids=str)
def test_fused_gradients_are_the_tables(score, where, chosen, monkeypatch):
    made = call(score, where)
    fast = laws.run(made, SOFTMAX, made.key, made.value)
    assert set(chosen) <= {"fused", "biased"}
    assert chosen
    with monkeypatch.context() as patch:
        patch.setattr(dispatch, "choice", lambda _: dispatch.PLAIN)
        slow = laws.run(made, SOFTMAX, made.key, made.value)
    for one, other in zip(fast, slow, strict=True):
        torch.testing.assert_close(one, other, atol=laws.EXACT, rtol=laws.EXACT)


@pytest.mark.parametrize("axes", [(), (2,), (2, 3), (2, 3, 5), (1, 2, 1, 3)])
@pytest.mark.parametrize("widths", [(7, 7), (7, 3), (3, 7)])
def test_any_number_of_batch_axes_and_widths(axes, widths):
    query, key = torch.randn(*axes, 4, widths[0]).double(), torch.randn(*axes, 5, widths[0]).double()
    value = torch.randn(*axes, 5, widths[1]).double()
    shared = torch.randn(5, widths[1]).double()
    bias = torch.nn.Parameter(torch.randn(*axes, 4, 5).double())
    for score in (regard.scaled_dot, regard.scaled_dot + regard.Bias(bias)):
        for given in (value, shared):
            found = regard.attend(query, key, given, score=score, where=regard.causal)
            weights = regard.weights(query, key, score=score, where=regard.causal)
            torch.testing.assert_close(found, weights @ given, atol=laws.EXACT, rtol=0)
            assert found.shape == (*axes, 4, widths[1])


@pytest.mark.parametrize("shape", [(3, 5), (1, 5), (3, 1), (2, 1, 3, 5), (1, 3, 1, 1), (2, 3, 3, 5)])
def test_the_gradient_of_a_bias_of_any_shape(shape, monkeypatch):
    monkeypatch.setattr(biased, "BACK", biased.Tile(2, 2, 3))
    query, key, value = (torch.randn(2, 3, n, 7, dtype=torch.float64) for n in (3, 5, 5))
    bias = torch.nn.Parameter(torch.randn(shape, dtype=torch.float64))
    slope = torch.randn_like(query)
    found = []
    for kernel in (dispatch.BIASED, dispatch.PLAIN):
        monkeypatch.setattr(dispatch, "choice", lambda _, kernel=kernel: kernel)
        output = regard.attend(query, key, value, score=regard.dot + regard.Bias(bias))
        found.append(torch.autograd.grad(output, bias, slope)[0])
    torch.testing.assert_close(*found, atol=laws.EXACT, rtol=0)


def test_an_overflow_is_left_to_the_plain_form():
    """Finite vectors whose product is not: rows that see it are NaN, the others are what they were."""
    query = torch.full((1, 4, 2), 1e20)
    key = torch.full((1, 4, 2), 1.0)
    key[0, 2] = 1e20
    value = torch.randn(1, 4, 3)
    found = regard.attend(query, key, value, where=regard.causal)
    assert found[0, 2:].isnan().all()
    assert torch.equal(found[0, :2], regard.attend(query[:, :2], key[:, :2], value[:, :2], where=regard.causal)[0])


@pytest.mark.parametrize("where", [regard.everywhere, regard.causal], ids=str)
def test_an_infinite_key_marks_whoever_sees_it(where):
    """Its score is -inf, its weight 0 and the output finite; but a vector that is not finite marks its rows."""
    query, key, value = torch.rand(1, 4, 2) + 0.1, torch.rand(1, 4, 2), torch.randn(1, 4, 3)
    key[0, 1] = -torch.inf
    found = regard.attend(query, key, value, where=where)
    sees = regard.weights(query, torch.zeros_like(key), where=where)[0, :, 1] > 0
    assert found[0, sees].isnan().all()
    assert found[0, ~sees].isfinite().all()


def test_memory_of_tiles_does_not_grow_with_the_table():
    """Forward and backward of a capped score at 2,048 × 2,048, in a fraction of one table."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        cells = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            found = function(*args, **(kwargs or {}))
            if isinstance(found, torch.Tensor):
                self.cells = max(self.cells, found.untyped_storage().nbytes() // found.element_size())
            return found

    x = torch.randn(1, 4, 2048, 8, requires_grad=True)
    with Largest() as seen:
        regard.attend(x, x, x, score=regard.softcap(regard.scaled_dot, 5.0)).sum().backward()
    assert seen.cells <= tiled.TILE < 4 * 2048 * 2048 / 4
    assert math.isfinite(float(x.grad.sum()))


@pytest.mark.usefixtures("in_tiles")
def test_tiles_are_made_again_from_the_parameters_of_the_forward_pass():
    """`functional_call` lends other parameters for the forward pass alone."""
    look = regard.core.Look(regard.Additive(5, 5, hidden=3).double(), weigh=regard.sparsemax)
    x, lent = torch.randn(29, 5, dtype=torch.float64), torch.randn(3, dtype=torch.float64, requires_grad=True)
    found = torch.func.functional_call(look, {"score.vector": lent}, (x, x, x))
    one = torch.autograd.grad(found.square().sum(), lent)[0]
    look.score.vector = torch.nn.Parameter(lent.detach())
    other = torch.autograd.grad(look(x, x, x).square().sum(), look.score.vector)[0]
    torch.testing.assert_close(one, other, atol=laws.EXACT, rtol=0)


@pytest.mark.usefixtures("in_tiles")
@pytest.mark.parametrize("changed", ["vector", "query", "keys"])
def test_what_is_changed_before_the_backward_pass_is_refused(changed):
    score = regard.Additive(5, 5, hidden=3)
    query, key = torch.randn(29, 5, requires_grad=True), torch.randn(29, 5, requires_grad=True)
    output = regard.attend(query, key, key, score=score, weigh=regard.sparsemax)
    with torch.no_grad():
        {"vector": score.vector, "query": query, "keys": key}[changed].add_(1)
    with pytest.raises(
        RuntimeError,
        match=r"modified by an inplace operation|was changed in place between the forward and the backward pass",
    ):
        output.sum().backward()


def test_positions_are_told_in_a_part():
    """A score of one's own that answers by cell may be asked for some rows."""

    class Far(regard.core.Score):
        by_cell = True

        def forward(self, query, key, cells):
            return -(cells.row_position - cells.column_position).abs().to(query.dtype) + 0 * query[..., :1]

    x = torch.randn(3, 11, 5, dtype=torch.float64)
    whole = regard.attend(x, x, x, score=Far(), first=4)
    tiled.TILE, kept = 3 * 11 * 2, tiled.TILE
    try:
        assert (
            dispatch.choice(
                regard.core.operation.check_call(
                    "attend", x, x, x, score=Far(), where=regard.everywhere, weigh=regard.softmax, first=4
                )
            ).name
            == "tiled"
        )
        torch.testing.assert_close(regard.attend(x, x, x, score=Far(), first=4), whole, atol=laws.EXACT, rtol=0)
    finally:
        tiled.TILE = kept
