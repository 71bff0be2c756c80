"""The additive score without a tanh: every form of it, against the equation in float64."""

import math

import pytest
import torch

import regard
from regard.core import additive, compiling

ANYTHING = 1


@pytest.fixture(params=["compiled", "in tiles"])
def form(request, monkeypatch):
    for name in ("LEAST", "LEAST_ONCE"):
        monkeypatch.setattr(compiling, name, ANYTHING if request.param == "compiled" else 2**62)
    monkeypatch.setattr(additive, "TILE", 300)  # several tiles, of rows and of examples
    return request.param


def sides(reach: float, dtype: torch.dtype, m: int = 23, n: int = 29, h: int = 37) -> list[torch.Tensor]:
    scale = (reach, reach, 1.0)
    shapes = ((3, m, h), (3, n, h), (h,))
    return [(torch.randn(s, dtype=dtype) * c).requires_grad_() for s, c in zip(shapes, scale, strict=True)]


def with_gradients(scores, leaves, slope):
    found = scores(*leaves)
    return [found.detach(), *torch.autograd.grad(found, leaves, slope.to(found.dtype))]


def ours(query, key, vector):
    return additive.scores(query, additive.key_side(key), vector)


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("reach", [0.3, 1.0, 8.0, 60.0])
@pytest.mark.parametrize(("m", "n"), [(23, 29), (1, 29), (23, 1), (1, 1)])
def test_single_precision(reach, m, n):
    """N3: at most three times the error of the equation as most would write it, six times in the gradients."""
    leaves, slope = sides(reach, torch.float32, m, n), torch.randn(3, m, n)
    wide = [leaf.detach().double().requires_grad_() for leaf in leaves]
    exact = with_gradients(additive.plain_scores, wide, slope)
    plain = with_gradients(additive.plain_scores, leaves, slope)
    found = with_gradients(ours, leaves, slope)
    for number, (one, other, true) in enumerate(zip(found, plain, exact, strict=True)):
        bound = (6 if number else 3) * float((other - true).abs().max()) + 1e-6
        assert float((one - true).abs().max()) <= bound, ("scores", "query", "key", "vector")[number]


@pytest.mark.usefixtures("form")
def test_near_zero_the_error_is_absolute():
    """1 - 2r has the precision of 1 where the tangent is small: a cell's error is of the last bit of 1."""
    sizes = torch.logspace(-6, 0, 50)
    found = ours(sizes[None, :, None], torch.zeros(1, 1, 1), torch.ones(1))[0, :, 0]
    assert float((found - sizes.double().tanh()).abs().max()) <= 2.5 * 2**-24


@pytest.mark.parametrize("reach", [1.0, 60.0])
def test_double_precision(reach, monkeypatch):
    monkeypatch.setattr(additive, "TILE", 300)
    leaves, slope = sides(reach, torch.float64), torch.randn(3, 23, 29, dtype=torch.float64)
    for one, other in zip(
        with_gradients(ours, leaves, slope), with_gradients(additive.plain_scores, leaves, slope), strict=True
    ):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-12)


@pytest.mark.usefixtures("form")
def test_where_the_product_is_not_safe():
    """a = 60 and b = -45: clamped exponentials would give a wrong sign; so would infinity times 0."""
    query, key, vector = torch.full((1, 1, 1), 60.0), torch.full((1, 1, 1), -45.0), torch.ones(1)
    assert float(ours(query, key, vector)) == pytest.approx(math.tanh(15.0))
    assert float(ours(-query, -key, vector)) == pytest.approx(-math.tanh(15.0))
    assert float(ours(torch.full((1, 1, 1), 500.0), torch.full((1, 1, 1), -500.5), vector)) == pytest.approx(
        math.tanh(-0.5)
    )
    edge = torch.full((1, 1, 1), additive.SAFE)
    assert float(ours(edge, edge, vector)) == 1.0
    assert float(ours(-edge, -edge, vector)) == -1.0
    assert float(ours(edge, -edge, vector)) == 0.0


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_summed_in_single(dtype):
    query, key, vector = (t.detach().to(dtype) for t in sides(1.0, torch.float32))
    found = ours(query, key, vector)
    assert found.dtype is torch.float32
    torch.testing.assert_close(
        found, additive.plain_scores(query.float(), key.float(), vector.float()), atol=1e-5, rtol=1e-5
    )


def test_second_derivatives():
    leaves = sides(1.0, torch.float64, 2, 3, 4)
    assert torch.autograd.gradgradcheck(ours, leaves)


def test_no_table_of_hidden_units(monkeypatch):
    """Extra memory, forward and backward, is at most 5 % of the (m, n, hidden) tensor."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        bytes = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            found = function(*args, **(kwargs or {}))
            for tensor in found if isinstance(found, tuple) else (found,):
                if isinstance(tensor, torch.Tensor):
                    self.bytes = max(self.bytes, tensor.untyped_storage().nbytes())
            return found

    monkeypatch.setattr(compiling, "LEAST", 2**62)  # the mode sees into tiles; what is compiled makes nothing larger
    score, x = regard.Additive(16, 16, hidden=256), torch.randn(4, 128, 16, requires_grad=True)
    with Largest() as seen:
        regard.attend(x, x, x, score=score).sum().backward()
    assert seen.bytes <= 0.05 * 4 * 128 * 128 * 256 * 4


def test_keys_are_prepared_once(monkeypatch):
    """The exponentials of the keys are not made again at each step."""
    made = []
    real = additive.key_side
    monkeypatch.setattr(additive, "key_side", lambda projected: made.append(1) or real(projected))
    score, source, query = regard.Additive(4, 5, hidden=3), torch.randn(2, 7, 5), torch.randn(2, 1, 4)
    keys = score.prepare(source)
    for _ in range(3):
        regard.attend(query, keys, source, score=score)
    assert len(made) == 1
    torch.testing.assert_close(
        regard.attend(query, keys, source, score=score), regard.attend(query, source, source, score=score)
    )


def test_the_gradient_reaches_prepared_keys():
    score, source = regard.Additive(4, 5, hidden=3).double(), torch.randn(2, 7, 5, dtype=torch.float64)
    query = torch.randn(2, 3, 4, dtype=torch.float64)
    whole = torch.autograd.grad(regard.attend(query, source, source, score=score).sum(), score.key.weight)[0]
    keys = score.prepare(source)
    steps = sum(regard.attend(query[:, i : i + 1], keys, source, score=score).sum() for i in range(3))
    torch.testing.assert_close(torch.autograd.grad(steps, score.key.weight)[0], whole)
