"""ONNX's own test vectors for attention, answered by `regard`'s operation through `onnx_adapter`."""

import sys
from collections import Counter

import pytest
import torch

from tests.conformance import onnx_adapter
from tests.conformance.onnx_vectors import Vector, vectors

COUNTS = {"Attention": 93, "RotaryEmbedding": 8, "FlexAttention": 11}

RELATIVE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2**-6}
"""How close an answer must be, where that is not the vector's own 1e-3, which is about one unit of float16.

Single and double precision are held to more. bfloat16 has units of 2⁻⁸ to 2⁻⁷, and ONNX's reference rounds to them
at every step: two of them is what ONNX's own runner allows.
"""


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector.name)
def test_vector(vector: Vector) -> None:
    compare(vector)


def test_every_vector_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    conforming = Counter(vector.operator for vector in vectors() if _conforms(vector))
    told = ", ".join(f"{operator} {conforming[operator]}/{count}" for operator, count in COUNTS.items())
    with capsys.disabled():
        sys.stdout.write(f"\nconformance: ONNX {told}\n")
    assert Counter(vector.operator for vector in vectors()) == COUNTS
    assert conforming == COUNTS


def compare(vector: Vector) -> None:
    """Compares every output that a vector holds, its shape and its type."""
    answered = onnx_adapter.run(vector.operator, vector.inputs, vector.attributes)
    torch.testing.assert_close(
        {name: answered[name] for name in vector.outputs},
        vector.outputs,
        rtol=RELATIVE.get(vector.outputs["Y"].dtype, vector.rtol),
        atol=vector.atol,
    )


def _conforms(vector: Vector) -> bool:
    try:
        compare(vector)
    except AssertionError:
        return False
    return True
