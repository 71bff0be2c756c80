"""Compiling: once, said once, for every length; off in one setting; never for little work."""

import logging
import os
import subprocess
import sys

import pytest
import torch

import regard
from regard.core import compiling


def test_little_work_is_not_compiled(monkeypatch):
    monkeypatch.setenv("REGARD_COMPILE", "1")
    cpu = torch.device("cpu")
    assert not compiling.worthwhile(compiling.LEAST - 1, cpu)
    assert compiling.worthwhile(compiling.LEAST, cpu)
    assert not compiling.worthwhile(compiling.LEAST_ONCE - 1, cpu, learns=False)
    assert compiling.worthwhile(compiling.LEAST_ONCE, cpu, learns=False)


def test_one_setting_switches_it_off(monkeypatch):
    monkeypatch.setenv("REGARD_COMPILE", "0")
    assert not compiling.worthwhile(2**40, torch.device("cpu"))


def test_without_a_compiler_nothing_is_compiled(monkeypatch):
    monkeypatch.setattr(compiling, "_compiler", lambda: None)
    assert not compiling.worthwhile(2**40, torch.device("cpu"))


@pytest.fixture
def counted(monkeypatch):
    """How often PyTorch compiled something."""
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()
    return lambda: counters["stats"]["unique_graphs"]


def test_a_new_length_is_not_compiled_again(counted, caplog):
    caplog.set_level(logging.INFO, "regard")

    def doubled(one, other):
        return one[:, :, None] * other[:, None, :] * 2

    kernel = compiling.Compiled(doubled, (17, 127), (17, 131))
    for b, m, n in ((4, 5, 7), (5, 5, 5), (16, 2, 9), (3, 300, 2), (7, 11, 400)):
        one, other = torch.randn(b, m), torch.randn(b, n)
        torch.testing.assert_close(kernel(one, other), doubled(one, other))
    assert counted() == 1
    assert [record.message for record in caplog.records] == [
        "compiling doubled for torch.float32 on cpu, once; REGARD_COMPILE=0 switches it off"
    ]


def test_transposed_and_sliced_tensors_use_the_same_code(counted):
    def added(one, other):
        return one + other

    kernel, x = compiling.Compiled(added, (127, 131), (127, 131)), torch.randn(9, 8, 7)
    for one, other in ((x[0], x[1]), (x[:, 0], x[:, 1]), (x[0].mT, x[1].mT), (x[::2, :, 0], x[::2, :, 1])):
        torch.testing.assert_close(kernel(one, other), one + other)
    assert counted() == 1


def test_the_same_bits_in_another_process():
    """Exact resume needs it: what is compiled again gives what it gave."""
    code = (
        "import torch, regard, hashlib; torch.manual_seed(0); torch.set_num_threads(1)\n"
        "s = regard.Additive(8, 8, hidden=64); x = torch.randn(4, 64, 8, requires_grad=True)\n"
        "o = regard.attend(x, x, x, score=s); o.sum().backward()\n"
        "print(hashlib.sha256(o.detach().numpy().tobytes() + x.grad.numpy().tobytes()).hexdigest())"
    )
    environment = {**os.environ, "REGARD_COMPILE": "1"}
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment).stdout
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert len(runs[0].strip()) == 64


def plain(x, score, **chosen):
    return regard.attend(x, x, x, score=score, **chosen)


CALLS = {
    "scaled_dot": (regard.scaled_dot, {}),
    "causal": (regard.scaled_dot, {"where": regard.causal}),
    "alibi": (regard.scaled_dot + regard.Alibi(3), {"where": regard.causal}),
    "additive": (regard.Additive(8, 8, hidden=5), {}),
    "sparsemax": (regard.scaled_dot, {"weigh": regard.sparsemax}),
}


@pytest.mark.parametrize("name", list(CALLS))
@pytest.mark.usefixtures("unchecked")
class TestInsideOfOthers:
    """What goes on around the operation: compilers, exports, transforms, checkpoints, autocast."""

    def made(self, name):
        score, chosen = CALLS[name]
        x = torch.randn(2, 3, 7, 8)
        return x, score, chosen, plain(x, score, **chosen)

    def test_vmap(self, name):
        x, score, chosen, _ = self.made(name)
        score = score.terms[0] if name == "alibi" else score
        found = torch.func.vmap(lambda each: plain(each, score, **chosen))(x)
        torch.testing.assert_close(found, plain(x, score, **chosen))
        only = torch.func.vmap(lambda key: regard.attend(x[0], key, key, score=score, **chosen))(x)
        torch.testing.assert_close(only[0], found[0])

    def test_checkpoint(self, name):
        x, score, chosen, _ = self.made(name)
        x.requires_grad_()
        found = torch.utils.checkpoint.checkpoint(lambda y: plain(y, score, **chosen), x, use_reentrant=False)
        one = torch.autograd.grad(found.sum(), x)[0]
        torch.testing.assert_close(one, torch.autograd.grad(plain(x, score, **chosen).sum(), x)[0])

    def test_autocast(self, name):
        x, score, chosen, expected = self.made(name)
        with torch.autocast("cpu", torch.bfloat16):
            found = plain(x, score, **chosen)
        torch.testing.assert_close(found.float(), expected, atol=0.06, rtol=0.06)

    def test_export(self, name):
        x, score, chosen, expected = self.made(name)

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.score = score

            def forward(self, y):
                return plain(y, self.score, **chosen)

        made = torch.export.export(Model(), (x,))
        torch.testing.assert_close(made.module()(x), expected)


COMPILED = """
import torch, warnings
import regard
from regard import *
warnings.simplefilter("error")
warnings.simplefilter("ignore", DeprecationWarning)
x = torch.randn(2, 3, 7, 8)
layer = Heads(8, 2, key_heads=1, where=causal, position=Rotary(4))
calls = {
    "scaled_dot": lambda y: attend(y, y, y),
    "causal": lambda y: attend(y, y, y, where=causal & window(3)),
    "alibi": lambda y: attend(y, y, y, score=scaled_dot + Alibi(3), where=causal),
    "additive": lambda y, score=Additive(8, 8, hidden=5): attend(y, y, y, score=score),
    "sparsemax": lambda y: attend(y, y, y, weigh=sparsemax),
    "heads": lambda y: layer(y),
}
for name, call in calls.items():
    leaves = [x.clone().requires_grad_() for _ in range(2)]
    compiled = torch.compile(call, fullgraph=True)
    found, expected = compiled(leaves[0]), call(leaves[1])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    (found**2).sum().backward()
    (expected**2).sum().backward()
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad, atol=1e-5, rtol=1e-5)
    print(name)
"""


def test_inside_of_an_outer_compiler():
    """With fullgraph=True, forward and backward: the plain form is compiled. (Without the test run's checks.)"""
    made = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False)
    assert made.stdout.split() == ["scaled_dot", "causal", "alibi", "additive", "sparsemax", "heads"], made.stderr[
        -3000:
    ]
