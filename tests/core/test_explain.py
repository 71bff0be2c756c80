"""`explain` names what `attend` runs."""

import pytest
import torch

import regard
from regard.core import dispatch

LONG = (1, 2, 2048, 8)
FIRST, CAUSAL = regard.scaled_dot, regard.causal


def bias(shape=(2048, 2048)) -> regard.Bias:
    return regard.Bias(torch.nn.Parameter(torch.zeros(shape)))


CASES = [
    ("fused", (1, 2, 9, 8), {}, "a product with softmax"),
    ("fused", LONG, {"where": CAUSAL}, "a product with softmax"),
    ("banded", LONG, {"where": CAUSAL & regard.window(100)}, "holds few of 2048 keys"),
    ("banded", LONG, {"where": regard.blocks(64)}, "blocks(64)"),
    ("biased", LONG, {"where": CAUSAL & regard.window(1500)}, "its mask a view"),
    ("biased", LONG, {"score": FIRST + regard.Alibi(2), "where": CAUSAL}, "its mask a view"),
    ("biased", LONG, {"score": FIRST + bias()}, "or made by tile"),
    ("tiled", LONG, {"score": regard.softcap(FIRST, 5.0)}, "8,388,608 scores is made some rows at a time"),
    ("tiled", LONG, {"weigh": regard.sparsemax}, "some rows at a time"),
    ("plain", (1, 2, 9, 8), {"weigh": regard.sparsemax}, "sparsemax needs whole rows"),
    ("plain", (1, 2, 9, 8), {"dropout": 0.1}, "dropout acts on the weights"),
    ("plain", (64, 8, 1, 8), {}, "one query"),
    ("fused", (1, 2, 1, 8), {}, "a product with softmax"),
    ("plain", (1, 0, 9, 8), {}, "nothing to compute"),
    ("plain", (1, 2, 9, 8), {"after": torch.ones(9, 9)}, "multiplied once they are normalised"),
    ("plain", (1, 2, 9, 8), {"score": regard.softcap(FIRST, 5.0)}, "is not a product"),
]


@pytest.mark.parametrize(("kernel", "shape", "chosen", "reason"), CASES)
def test_it_names_the_kernel_and_the_reason(kernel, shape, chosen, reason, monkeypatch):
    x = torch.randn(shape)
    told = regard.explain(x, x, x, **chosen)
    assert told.kernel == kernel
    assert reason in told.reason
    assert str(told).startswith(kernel)
    run = []
    for name in ("PLAIN", "TILED", "FUSED", "BANDED", "BIASED"):
        real = getattr(dispatch, name)
        noted = real._replace(run=lambda ready, real=real: run.append(real.name) or real.run(ready))
        monkeypatch.setattr(dispatch, name, noted)
    regard.attend(x, x, x, **chosen)
    assert run == [kernel]


def test_memory_does_not_grow_with_the_table():
    def memory(n, **chosen):
        x = torch.empty(1, 2, n, 8)
        return regard.explain(x, x, x, **chosen).memory

    for chosen in ({}, {"where": CAUSAL}, {"where": CAUSAL & regard.window(1500)}, {"score": FIRST + regard.Alibi(2)}):
        assert memory(8192, **chosen) <= 2.1 * memory(4096, **chosen) < 2**21
    assert memory(8192, weigh=regard.sparsemax) == memory(4096, weigh=regard.sparsemax)


def test_it_says_what_is_compiled(monkeypatch):
    score, x = regard.Additive(8, 8, hidden=256), torch.empty(1, 2, 128, 8)
    monkeypatch.setenv("REGARD_COMPILE", "1")
    assert "plain, compiled" in str(regard.explain(x, x, x, score=score))
    monkeypatch.setenv("REGARD_COMPILE", "0")
    assert not regard.explain(x, x, x, score=score).compiled


def test_errors_are_those_of_attend():
    x = torch.empty(1, 2, 5, 8)
    with pytest.raises(ValueError, match=r"explain: there are 5 keys but 4 values"):
        regard.explain(x, x, x[..., :4, :])
