"""N3, N4: every kernel, at sizes where it is chosen, is about as exact as plain attention in the same type."""

import copy
import math

import pytest
import torch

import regard

HEADS, LENGTH, WIDTH = 3, 613, 16


def table(seed: int) -> torch.Tensor:
    return torch.randn(1, HEADS, LENGTH, LENGTH, generator=torch.Generator().manual_seed(seed))


def distances() -> torch.Tensor:
    place = torch.arange(LENGTH)
    return place[None, :] - place[:, None]


def alibi() -> torch.Tensor:
    slopes = torch.tensor([2.0**-4, 2.0**-8, 2.0**-2])
    return -slopes[:, None, None] * distances().abs()


CAUSAL = distances() <= 0
CASES = {
    "fused": ("fused", regard.scaled_dot, regard.everywhere, None, None),
    "fused, causal": ("fused", regard.scaled_dot, regard.causal, None, CAUSAL),
    "biased by view": ("biased", regard.scaled_dot + regard.Alibi(HEADS), regard.causal, alibi(), CAUSAL),
    "biased by tile": (
        "biased",
        regard.scaled_dot + regard.Bias(torch.nn.Parameter(table(1))),
        regard.everywhere,
        table(1),
        None,
    ),
    "banded": (
        "banded",
        regard.scaled_dot,
        regard.causal & regard.window(40),
        None,
        CAUSAL & (distances() >= -40),
    ),
}


def written_plainly(query, key, value, bias, allowed):
    scores = query @ key.mT / math.sqrt(WIDTH)
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    return scores.softmax(-1) @ value


def with_gradients(function, leaves, slope):
    found = function(*leaves)
    return [found.detach(), *torch.autograd.grad(found, leaves, slope.to(found.dtype))]


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize(
    ("dtype", "factors"), [(torch.float32, (3, 6)), (torch.bfloat16, (2, 3)), (torch.float16, (2, 3))], ids=str
)
def test_a_kernel_is_about_as_exact_as_plain_attention(name, dtype, factors):
    kernel, score, where, bias, allowed = CASES[name]
    score = copy.deepcopy(score).to(dtype)
    draw = torch.Generator().manual_seed(5)
    leaves = [torch.randn(2, HEADS, LENGTH, WIDTH, generator=draw).to(dtype).requires_grad_() for _ in range(3)]
    slope = torch.randn(2, HEADS, LENGTH, WIDTH, generator=draw)
    assert regard.explain(*leaves, score=score, where=where).kernel == kernel
    wide = [leaf.detach().double().requires_grad_() for leaf in leaves]
    rounded = None if bias is None else bias.to(dtype)
    exact = with_gradients(lambda *t: written_plainly(*t, rounded, allowed), wide, slope)
    plain = with_gradients(lambda *t: written_plainly(*t, rounded, allowed), leaves, slope)
    found = with_gradients(lambda *t: regard.attend(*t, score=score, where=where), leaves, slope)
    for number, (one, other, true) in enumerate(zip(found, plain, exact, strict=True)):
        bound = factors[bool(number)] * float((other - true).abs().max()) + 1e-6
        assert float((one - true).abs().max()) <= bound, ("output", "query", "key", "value")[number]
