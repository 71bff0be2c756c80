"""Directions: the compiled form is the plain one."""

import pytest
import torch

from regard.core import compiling
from regard.core.direction import _plain, direction


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    monkeypatch.setattr(compiling, "LEAST", 1)


@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (11, 7), (7,), (2, 1)])
def test_it_is_the_plain_form(shape):
    vectors = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    slope = torch.randn(shape, dtype=torch.float64)
    found, expected = direction(vectors), _plain(vectors)
    torch.testing.assert_close(found, expected, atol=1e-14, rtol=0)
    one, other = (torch.autograd.grad(each, vectors, slope)[0] for each in (found, expected))
    torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("size", [1e-30, 1e30, 0.0])
def test_the_largest_and_the_smallest(size):
    """Squares would overflow or vanish; a vector of zeros has no direction, and passes no gradient."""
    vectors = torch.tensor([[3.0, 4.0]]).mul(size).requires_grad_()
    found = direction(vectors)
    expected = torch.tensor([[0.6, 0.8]]) if size else torch.zeros(1, 2)
    torch.testing.assert_close(found, expected)
    gradient = torch.autograd.grad(found.sum(), vectors)[0]
    assert gradient.isfinite().all()
    assert (gradient == 0).all() or size


def test_second_derivatives():
    vectors = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(direction, vectors)
    assert torch.autograd.gradgradcheck(direction, vectors)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types(dtype):
    vectors = torch.randn(5, 7).to(dtype)
    found = direction(vectors)
    assert found.dtype is dtype
    torch.testing.assert_close(found.float(), _plain(vectors.float()), atol=4e-3, rtol=8e-3)
