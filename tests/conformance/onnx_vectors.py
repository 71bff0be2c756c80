"""The test vectors that the `onnx` package ships for its three attention operators, as tensors.

A vector is one node with inputs and the outputs that ONNX expects of it. ONNX makes them, from fixed seeds, when
the module that holds them is imported; only the three modules needed are.
"""

import dataclasses
import functools
import importlib
from typing import Any

import numpy as np
import torch
from onnx import NodeProto, TensorProto, defs, helper
from onnx.backend.test.case import node as onnx_nodes
from torch import Tensor

_MODULES = {"Attention": "attention", "RotaryEmbedding": "rotaryembedding", "FlexAttention": "flexattention"}

DTYPES = {
    TensorProto.FLOAT: torch.float32,
    TensorProto.FLOAT16: torch.float16,
    TensorProto.DOUBLE: torch.float64,
    TensorProto.BFLOAT16: torch.bfloat16,
}
"""ONNX's numbers for the types of real numbers."""


@dataclasses.dataclass(frozen=True)
class Vector:
    """One case: inputs and outputs by their names in the operator's schema, and how close an answer must be."""

    name: str
    operator: str
    inputs: dict[str, Tensor]
    attributes: dict[str, Any]
    outputs: dict[str, Tensor]
    rtol: float
    atol: float


@functools.cache
def vectors() -> tuple[Vector, ...]:
    """Every vector of the three operators, without ONNX's expansions of the same nodes into simpler ones."""
    for module in _MODULES.values():
        importlib.import_module(f"{onnx_nodes.__name__}.{module}")
    return tuple(_vector(case) for case in onnx_nodes._NodeTestCases if case.model.graph.node[0].op_type in _MODULES)


def _vector(case: Any) -> Vector:
    (node,) = case.model.graph.node
    ((inputs, outputs),) = case.data_sets
    version = {opset.domain: opset.version for opset in case.model.opset_import}[node.domain]
    schema = defs.get_schema(node.op_type, version, node.domain)
    return Vector(
        name=case.name,
        operator=node.op_type,
        inputs=_named(schema.inputs, node.input, inputs),
        attributes=_attributes(node),
        outputs=_named(schema.outputs, node.output, outputs),
        rtol=case.rtol,
        atol=case.atol,
    )


def _named(formal: Any, given: Any, arrays: list[np.ndarray]) -> dict[str, Tensor]:
    """The arrays by the schema's names; an optional one that a node leaves out has an empty name there."""
    present = [parameter.name for parameter, name in zip(formal, given, strict=False) if name]
    return {name: _tensor(array) for name, array in zip(present, arrays, strict=True)}


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def _tensor(array: np.ndarray) -> Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())
