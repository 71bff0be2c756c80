"""Which kernel computes a call, what it holds in memory, and why: `regard.explain`.

The choice depends on shapes, types, device and compiler alone, so that an explanation holds for every call alike.
"""

import dataclasses
import math

from torch import Tensor

from regard.core import banded, compiling, dispatch, fused, tiled
from regard.core.call import Call
from regard.core.compare import Additive, Product, scaled_dot
from regard.core.local import Factor
from regard.core.operation import check_call, computed
from regard.core.score import Prepared, Score, Sum
from regard.core.weigh import Weigh, softmax
from regard.core.where import Where, everywhere


@dataclasses.dataclass(frozen=True)
class Explanation:
    """How a call is computed.

    Attributes:
        kernel: plain, fused, banded, biased or tiled.
        reason: Why this one.
        memory: About how many bytes the forward pass holds beside inputs and output.
        compiled: Whether a compiled kernel takes part.
    """

    kernel: str
    reason: str
    memory: int
    compiled: bool

    def __str__(self) -> str:
        how = ", compiled" if self.compiled else ""
        return f"{self.kernel}{how}, about {_readable(self.memory)}: {self.reason}"


def explain(
    query: Tensor,
    key: Tensor | Prepared,
    value: Tensor,
    *,
    score: Score = scaled_dot,
    where: Where = everywhere,
    weigh: Weigh = softmax,
    first: int | Tensor = 0,
    after: Tensor | Factor | None = None,
    dropout: float = 0.0,
) -> Explanation:
    """Names the kernel that `attend` would run for these arguments, without running it.

    >>> import torch
    >>> from regard import causal, explain, sparsemax
    >>> x = torch.randn(2, 4, 9, 16)
    >>> explain(x, x, x, where=causal).kernel
    'fused'
    >>> explain(x, x, x, weigh=sparsemax).kernel
    'plain'
    """
    call = check_call(
        "explain",
        *(query, key, value),
        score=score,
        where=where,
        weigh=weigh,
        first=first,
        after=after,
        dropout=dropout,
    )
    return computed("explain", _explained, call)


def _explained(call: Call) -> Explanation:
    kernel, (*batch, m, n) = dispatch.choice(call), call.shape
    table, each = math.prod(batch) * m * n, max(call.query.element_size(), 4)
    additive = next((term for term in _terms(call.score) if isinstance(term, Additive)), None)
    compiled = additive is not None and compiling.worthwhile(
        math.prod(batch) * min(m, tiled.rows_of(call.shape)) * n * additive.hidden,
        call.query.device,
        learns=fused.learns(call.query, call.value, *additive.parameters()),
    )
    memory = {
        "plain": 3 * table * each,
        "tiled": 3 * min(tiled.TILE, table) * each,
        "fused": math.prod(batch) * m * 4 + _mask_bytes(call, each),
        "banded": _band_bytes(call, each),
        "biased": math.prod(batch) * m * 4 + (m + n) * (batch[-1] if batch else 1) * each,
    }[kernel.name]
    return Explanation(kernel.name, _reason(call, kernel.name), memory, compiled)


def _terms(score: Score) -> list[Score]:
    return [t for t in score.terms if isinstance(t, Score)] if isinstance(score, Sum) else [score]


def _reason(call: Call, kernel: str) -> str:
    if kernel == "banded":
        return f"{call.where!r} holds few of {call.shape[-1]} keys for each query: its blocks are computed alone"
    if kernel == "biased":
        return "a product with what depends on position: PyTorch's fused kernel, its mask a view or made by tile"
    if kernel == "fused":
        return "a product with softmax: PyTorch's fused kernel"
    if kernel == "tiled":
        return f"the table of {math.prod(call.shape):,} scores is made some rows at a time"
    causes = [
        (0 in call.shape, "there is nothing to compute"),
        (call.dropout > 0, "dropout acts on the weights"),
        (not call.score.by_cell, f"{call.score!r} does not answer cell by cell"),
        (not call.where.by_cell, f"{call.where!r} does not answer cell by cell"),
        (call.shape[-2] == 1, "one query: its scores are as small as its output"),
        (call.after is not None, "the weights are multiplied once they are normalised"),
        (type(call.weigh) is not type(softmax), f"{call.weigh!r} needs whole rows of scores"),
        (not isinstance(call.score, Product), f"{call.score!r} is not a product"),
    ]
    return next((told for is_so, told in causes if is_so), "the table is small")


def _mask_bytes(call: Call, each: int) -> int:
    where = fused.simplified(call.where, call.cells)
    if where is everywhere or fused.is_square_causal(where, call.cells):
        return 0
    return math.prod(where.allowed(call.cells).shape) * each


def _band_bytes(call: Call, each: int) -> int:
    cut = banded.band(call.where, call.cells)
    return 0 if cut is None else cut.rows * cut.width * each + math.prod(call.cells.batch) * call.shape[-1] * each


def _readable(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
