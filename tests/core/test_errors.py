"""What a user reads when something does not fit: what came, what was expected, what to do. Text and numbers."""

import pytest
import torch

import regard
from regard import attend, causal, scores, weights
from regard.core import Misfit, Score, Weigh, Where

Q, K, V = (torch.zeros(2, 3, size, 11) for size in (5, 7, 7))


class Wide(Score):
    def forward(self, query, key, cells):
        return torch.zeros(3, 4)


class Tall(Where):
    def allowed(self, cells):
        return torch.ones(9, 1, dtype=torch.bool)


def integer(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, dtype=torch.long)


DO_NOT_FIT = {
    "widths": (
        lambda: attend(Q, K[..., :5], V),
        "attend: scaled_dot compares vectors of one width, got queries of width 11 and keys of width 5: use General(11, 5) "
        "or Additive(11, 5, hidden=…)",
    ),
    "shapes are shown": (
        lambda: attend(Q, K[..., :5], V),
        "called with query (2, 3, 5, 11) float32, key (2, 3, 7, 5) float32, value (2, 3, 7, 11) float32, score scaled_dot",
    ),
    "general's width": (
        lambda: weights(Q, K, score=regard.General(11, 4)),
        "General(query_width=11, key_width=4) was made for keys of width 4, got keys of width 11",
    ),
    "additive's width": (
        lambda: weights(Q, K, score=regard.Additive(6, 11, 4)),
        "Additive(query_width=6, key_width=11, hidden=4) was made for queries of width 6, got queries of width 11",
    ),
    "inside a sum": (
        lambda: weights(Q, K, score=regard.dot + regard.General(11, 4)),
        "General(query_width=11, key_width=4) was made for keys of width 4",
    ),
    "location's length": (
        lambda: weights(Q, K, score=regard.Location(11, 6)),
        "Location(query_width=11, longest=6) scores at most 6 keys, got 7: make it with longest=7",
    ),
    "values": (
        lambda: attend(Q, K, V[..., :6, :]),
        "attend: there are 7 keys but 6 values: each key needs one value",
    ),
    "batch": (
        lambda: attend(Q, K[:, :2], V[:, :2]),
        "the batch axes do not broadcast: query (2, 3), key (2, 2), value (2, 2). Heads that share keys go through "
        "Heads(…, key_heads=…)",
    ),
    "a length per example against heads": (
        lambda: attend(Q, K, V, where=regard.lengths(integer(3))),
        "lengths has shape (3,), which is 1 batch axes, but the call has 2 batch axes (2, 3): give none of them or all "
        "of them, with size 1 where it does not vary, for example (2, 1)",
    ),
    "lengths of another batch": (
        lambda: attend(Q, K, V, where=regard.lengths(integer(4, 1))),
        "lengths has shape (4, 1), but the call needs (2, 3) (or size 1 on any axis)",
    ),
    "a mask of other sizes": (
        lambda: attend(Q, K, V, where=causal & regard.given(torch.ones(5, 6).bool())),
        "the mask given has shape (5, 6), but the call needs (2, 3, 5, 7)",
    ),
    "a padding mask": (
        lambda: attend(Q, K, V, where=regard.given(torch.ones(2, 1, 7).bool())),
        "the mask given has shape (2, 1, 7), which is 1 batch axes and (m, n), but the call has 2 batch axes (2, 3)",
    ),
    "a bias of other sizes": (
        lambda: attend(Q, K, V, score=regard.dot + regard.Bias(torch.zeros(4, 7))),
        "the bias has shape (4, 7), but the call needs (2, 3, 5, 7)",
    ),
    "alibi's heads": (
        lambda: attend(Q, K, V, score=regard.dot + regard.Alibi(8)),
        "Alibi(heads=8) needs the last batch axis to be its 8 heads, but the call's batch axes are (2, 3): put heads "
        "before the last two axes",
    ),
    "no heads at all": (
        lambda: weights(Q[0, 0], K[0, 0], score=regard.dot + regard.RelativeBias(3)),
        "RelativeBias(heads=3, buckets=32, furthest=128, both_ways=True) needs the last batch axis to be its 3 heads, "
        "but the call's batch axes are ()",
    ),
    "grid": (
        lambda: attend(Q, K, V, score=regard.dot + regard.GridBias(3, 2, 3)),
        "GridBias(heads=3, height=2, width=3) has 6 cells, but the call reaches position 6: make it for a larger grid",
    ),
    "first": (
        lambda: attend(Q, K, V, first=integer(3)),
        "first has shape (3,), which is 1 batch axes, but the call has 2 batch axes (2, 3)",
    ),
    "after": (
        lambda: attend(Q, K, V, after=torch.ones(5, 8)),
        "after has shape (5, 8), but the call needs (2, 3, 5, 7)",
    ),
    "strength": (
        lambda: attend(Q, K, V, score=regard.Cosine(torch.ones(3))),
        "Cosine's strength has shape (3,), which is 1 batch axes, but the call has 2 batch axes (2, 3)",
    ),
    "types": (
        lambda: attend(Q, K.double(), V.double()),
        "attend: query is float32, key float64: convert one, key.to(query.dtype)",
    ),
    "devices": (
        lambda: attend(Q, K, V.to("meta")),
        "attend: query is on cpu, value on meta: move one with .to()",
    ),
    "one's own score": (
        lambda: attend(Q, K, V, score=Wide()),
        "Wide() gave shape (3, 4) for cells of shape (2, 3, 5, 7), to which it does not broadcast",
    ),
    "one's own predicate": (lambda: attend(Q, K, V, where=Tall()), "gave shape (9, 1) for cells of shape (2, 3, 5, 7)"),
    "axes of a vector": (
        lambda: attend(Q[0, 0, 0], K, V),
        "attend: query must have at least two axes, (*batch, m, d_q), got shape (11,)",
    ),
    "dropout": (lambda: attend(Q, K, V, dropout=1), "attend: dropout must be at least 0 and below 1, got 1"),
    "window": (lambda: regard.window(-1), "window: left must be at least 0, got -1"),
    "blocks": (lambda: regard.blocks(0), "blocks: size must be at least 1, got 0"),
    "entmax's alpha": (
        lambda: regard.Entmax(1),
        "Entmax: alpha must be finite and above 1, got 1: use softmax, which is its limit",
    ),
    "softcap's limit": (lambda: regard.softcap(regard.dot, 0), "softcap: limit must be above 0, got 0"),
    "odd buckets": (
        lambda: regard.RelativeBias(2, buckets=7),
        "RelativeBias: buckets must be even to tell both ways apart, got 7",
    ),
    "near furthest": (
        lambda: regard.RelativeBias(2, buckets=32, furthest=8),
        "RelativeBias: furthest must be above the 8 single offsets, got 8",
    ),
    "a flat mask": (
        lambda: regard.given(torch.ones(7).bool()),
        "given: mask needs its last two axes to be (m, n), got shape (7,): use mask[None, :]",
    ),
    "a flat bias": (
        lambda: regard.Bias(torch.ones(7)),
        "Bias: tensor needs its last two axes to be (m, n), got shape (7,)",
    ),
}

ARE_OF_THE_WRONG_KIND = {
    "a mask for where": (
        lambda: attend(Q, K, V, where=torch.ones(5, 7).bool()),
        "attend: where must be a predicate, got a Tensor: wrap a mask in given(mask), lengths in lengths(tensor)",
    ),
    "a predicate without its size": (
        lambda: attend(Q, K, V, where=regard.window),
        "attend: where must be a predicate such as everywhere, causal or window(3)",
    ),
    "a name for score": (
        lambda: attend(Q, K, V, score="additive"),
        "attend: score must be a score such as scaled_dot or Additive(…), got 'additive'",
    ),
    "a class for score": (
        lambda: attend(Q, K, V, score=regard.Additive),
        "attend: score must be a score, got the class Additive: make one, Additive(…)",
    ),
    "a tensor for score": (lambda: attend(Q, K, V, score=Q), "got a Tensor: a bias goes in as score + Bias(tensor)"),
    "a class for weigh": (
        lambda: attend(Q, K, V, weigh=regard.Entmax),
        "attend: weigh must be a normaliser, got the class Entmax: make one, Entmax(1.5)",
    ),
    "a function for weigh": (
        lambda: attend(Q, K, V, weigh=torch.softmax),
        "attend: weigh must be one of softmax, sparsemax, Entmax(alpha) and hardmax, got",
    ),
    "a list": (lambda: attend([1.0], K, V), "attend: query must be a tensor, got list"),
    "integers": (
        lambda: attend(Q.long(), K, V),
        "attend: query must hold real numbers, got int64: convert it with .float()",
    ),
    "a real position": (lambda: scores(Q, K, first=1.0), "first must be an int, got float: 1.0"),
    "a tensor of real positions": (
        lambda: scores(Q, K, first=torch.ones(2, 3)),
        "first must hold integers, got float32: convert it with .long()",
    ),
    "a name for after": (lambda: attend(Q, K, V, after="gaussian"), "after must be a tensor of factors or a Gaussian"),
    "a name for dropout": (lambda: attend(Q, K, V, dropout="0.1"), "dropout must be a number, got str: '0.1'"),
    "real lengths": (lambda: regard.lengths(torch.ones(2)), "lengths: tensor must hold integers, got float32"),
    "a list of lengths": (lambda: regard.lengths([1, 2]), "lengths: tensor must be a tensor of integers, got list"),
    "a list as mask": (lambda: regard.given([[True]]), "given: mask must be a tensor of booleans, got list"),
    "a mask of numbers": (
        lambda: regard.given(torch.zeros(2, 3)),
        "given: mask must hold booleans, True where a query may look, got float32: an additive mask goes into the score: "
        "score + Bias(mask)",
    ),
    "a mask of integers": (lambda: regard.given(integer(2, 3)), "got int64: use .bool()"),
    "a mask as bias": (
        lambda: regard.Bias(torch.ones(2, 3).bool()),
        "Bias: tensor must hold real numbers, got bool: a mask goes in as where=given(mask)",
    ),
    "a list as bias": (lambda: regard.Bias([[1.0]]), "Bias: tensor must be a tensor of numbers, got list"),
    "and": (lambda: causal and regard.window(2), "compose predicates with &, | and ~, not with and, or and not"),
    "a mask in a composition": (
        lambda: causal & torch.ones(2, 2).bool(),
        "a predicate & a Tensor: wrap a mask in given(mask)",
    ),
    "a tensor in a sum": (lambda: regard.dot + Q, "dot + Tensor: wrap a tensor in Bias(tensor)"),
    "a number in a sum": (lambda: regard.dot + 1, "dot + int: both sides must be scores"),
    "a real window": (lambda: regard.window(2.0), "window: left must be an int, got float: 2.0"),
    "lengths in prefix": (lambda: regard.prefix(integer(2)), "a length for each example is lengths(tensor)"),
    "a name for alpha": (lambda: regard.Entmax("1.5"), "Entmax: alpha must be a number, got str: '1.5'"),
    "a name for strength": (lambda: regard.Cosine("2"), "Cosine: strength must be a number or a tensor, got str: '2'"),
    "a name for softcap": (lambda: regard.softcap("dot", 3), "softcap: score must be a score such as"),
    "a name for limit": (lambda: regard.softcap(regard.dot, "3"), "softcap: limit must be a number, got str: '3'"),
    "a misspelt option": (lambda: attend(Q, K, V, wiegh=regard.softmax), "unexpected keyword argument 'wiegh'"),
}


@pytest.mark.parametrize("case", DO_NOT_FIT)
def test_what_does_not_fit(unchecked, case):
    act, text = DO_NOT_FIT[case]
    with pytest.raises(ValueError) as caught:
        act()
    assert text in str(caught.value)
    assert not isinstance(caught.value, Misfit), "the public function must re-raise the fact with its arguments"
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("case", ARE_OF_THE_WRONG_KIND)
def test_what_is_of_the_wrong_kind(unchecked, case):
    act, text = ARE_OF_THE_WRONG_KIND[case]
    with pytest.raises(TypeError) as caught:
        act()
    assert text in str(caught.value)


def test_nothing_is_computed_before_a_refusal(unchecked):
    """A score that would be noticed if it ran."""

    class Loud(Score):
        def forward(self, query, key, cells):
            raise AssertionError("it ran")

    for wrong in ({"where": regard.lengths(integer(3))}, {"first": integer(3)}, {"after": torch.ones(5, 8)}):
        with pytest.raises(ValueError, match="attend: "):
            attend(Q, K, V, score=Loud(), **wrong)


def test_the_shape_checks_of_the_test_run_are_on():
    """Without the fixture that switches them off, a wrong shape inside is caught where it enters."""
    import jaxtyping

    from regard.core.weigh import softmax

    class Short(Weigh):
        def over(self, scores, open_cells):
            return scores

    with pytest.raises(jaxtyping.TypeCheckError):
        softmax.over(torch.zeros(3, 4), torch.ones(3, 5, dtype=torch.bool))
