"""Chooses the kernel that computes a call, runs it, and sees to what is not finite.

The choice is a function of shapes, types, device and compiler, never of timing or of the numbers. Every kernel is
held to the plain form by the same laws.

Law 3, that what is hidden is inert even when it is NaN, costs a sum over what a kernel would not show: where the
sums are finite, and the output is, nothing was broken. Else the same kernel computes again from clean vectors, and
the rows that may see what was broken are marked. What overflows in between is left to the plain form.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core import banded, biased, fused, plain, tiled
from regard.core.call import Call, Doubt, Ready, cleaned, trusted
from regard.core.compare import Product
from regard.core.offsets import has_offsets
from regard.core.score import Prepared, has_finite_sum
from regard.core.weigh import Softmax
from regard.core.where import everywhere

WIDE = 2**18
"""Cells above which the mask of a band is a view of a table by offset, and is not made."""
MANY = 2**9
"""Keys, over all batches, above which a single query makes its table: a sum over the keys would cost as much."""


class Kernel(NamedTuple):
    """A way to compute a call.

    Attributes:
        name: As `explain` names it.
        run: The output of a call whose vectors are finite.
        hides: Whether it may leave out a value that nobody sees, so that its output is finite and a gradient is not.
    """

    name: str
    run: Callable[[Ready], Tensor]
    hides: bool


PLAIN = Kernel("plain", plain.output, hides=False)
TILED = Kernel("tiled", tiled.output, hides=False)
FUSED = Kernel("fused", fused.output, hides=True)
BIASED = Kernel("biased", biased.output, hides=True)
BANDED = Kernel("banded", banded.output, hides=True)


def choice(call: Call) -> Kernel:
    """The kernel for a call."""
    shape = call.shape
    if type(call.weigh) is Softmax and call.after is None and not call.dropout and not _is_plain_enough(call, shape):
        if isinstance(call.score, Product):
            if banded.band(call.where, call.cells) is not None:
                return BANDED
            is_cut = (call.where.by_cell and call.where.parts() is not None) or (
                shape[-2] * shape[-1] >= WIDE and _is_view(call)
            )
            return BIASED if is_cut else FUSED
        if call.score.by_cell and call.where.by_cell and biased.parts(call.score) is not None:
            return BIASED
    if call.dropout or shape[-2] <= tiled.rows_of(shape) or not (call.score.by_cell and call.where.by_cell):
        return PLAIN
    return TILED


def _is_plain_enough(call: Call, shape: tuple[int, ...]) -> bool:
    """Whether there is nothing at all to compute, or one query of many keys: its table shows what a look would cost."""
    return 0 in shape or (shape[-2] == 1 and math.prod(shape) >= MANY) or not call.query.shape[-1]


def _is_view(call: Call) -> bool:
    """Whether the mask is a band of which a view of a table by offset says all."""
    where, cells = fused.simplified(call.where, call.cells), call.cells
    if where is everywhere or fused.is_square_causal(where, cells):
        return False
    return where.is_band() and has_offsets(cells)


def output(call: Call) -> Tensor:
    """The output of a call, by the kernel chosen for it."""
    if not call.is_seen:
        ready = cleaned(call)
        return marked(plain.output(ready), ready)
    kernel = choice(call)
    if _inputs_are_finite(call, kernel):
        try:
            found = kernel.run(trusted(call))
            if has_finite_sum(found):
                return found
        except Doubt:
            pass
    ready = cleaned(call)
    if not ready.sound:
        found = kernel.run(ready)
        if has_finite_sum(found):
            return marked(found, ready)
    return marked(_exact(call)(ready), ready)


def marked(found: Tensor, ready: Ready) -> Tensor:
    """NaN in every row that may see a key or value that is not finite, or whose query is not."""
    if ready.sound:
        return found
    rows = tiled.rows_of(ready.shape) if ready.call.where.by_cell else max(ready.shape[-2], 1)
    parts = (ready.part(slice(start, start + rows)) for start in range(0, ready.shape[-2], rows))
    marks = [part.broken_rows() for part in parts]
    return found + plain.nan_where(torch.cat(marks, -1)[..., None], found) if marks else found


def table(call: Call) -> plain.Table:
    """The scores of a call."""
    return plain.table(cleaned(call))


def _inputs_are_finite(call: Call, kernel: Kernel) -> bool:
    """Whether everything is finite that could be otherwise without a trace in the output."""
    key = call.key
    if isinstance(key, Prepared):
        if key.sound is not None:
            return False
        unseen = [call.query]
    elif kernel is PLAIN and call.score.shows:
        unseen = []
    else:
        unseen = [call.query, key]
    if kernel.hides and call.where is not everywhere and call.value is not None:
        unseen.append(call.value)
    return has_finite_sum(*unseen)


def _exact(call: Call) -> Callable[[Ready], Tensor]:
    fits = call.shape[-2] <= tiled.rows_of(call.shape) or math.prod(call.shape) == 0
    return plain.output if fits or call.dropout or not (call.score.by_cell and call.where.by_cell) else tiled.output
