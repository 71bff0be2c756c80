"""The product scores with softmax, by PyTorch's fused kernel: no (m, n) table of scores is ever made.

It is `scaled_dot_product_attention`'s own kernel, for any number of batch axes and for values of another width; and
a second derivative goes the plain way instead of failing.

Axes: `b` batch and `h` heads (any batch axes, made two), `m` queries, `n` keys, `d` width.
"""

import math
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from regard.core.call import Ready
from regard.core.cells import Cells
from regard.core.compare import Product
from regard.core.twice import again
from regard.core.where import Where, everywhere

forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward

Queries = Float[Tensor, "b h m d"]
Keys = Float[Tensor, "b h n d"]


def output(ready: Ready) -> Float[Tensor, "*batch m d_v"]:
    """The output of a call whose score is one product, with softmax and nothing after it."""
    product, cells, where = ready.call.score, ready.cells, simplified(ready.call.where, ready.cells)
    if not isinstance(product, Product) or ready.value is None:
        raise TypeError(f"the fused kernel does not compute {product!r}")
    sides = product.sides(ready.query, ready.share, cells)
    is_causal = is_square_causal(where, cells)
    mask = None if is_causal or where is everywhere else additive_mask(allowed(where, cells), ready.query.dtype)
    return computed(sides.query, sides.key, ready.value, cells.batch, sides.scale, is_causal=is_causal, mask=mask)


def allowed(where: Where, cells: Cells) -> Bool[Tensor, "..."]:
    """What a predicate allows, checked."""
    found = where.allowed(cells)
    cells.check(repr(where), found)
    return found


def additive_mask(may_look: Bool[Tensor, "..."], dtype: torch.dtype) -> Float[Tensor, "..."]:
    """0 where a query may look, -inf elsewhere."""
    return torch.zeros((), dtype=dtype, device=may_look.device).where(may_look, -torch.inf)


def computed(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    batch: tuple[int, ...],
    scale: float,
    *,
    is_causal: bool = False,
    mask: Tensor | None = None,
) -> Float[Tensor, "*batch m d_v"]:
    """`softmax(scale · query @ key.mT + mask) @ value`, with batch axes of any number; the mask is a constant."""
    wide = value.shape[-1]
    kind = query.dtype
    query, key, value = alike(query, key, value, batch)
    mask = None if mask is None else mask_of_four(mask.to(query.dtype), batch)
    if query.device.type == "cpu" and learns(query, key, value):
        found: Tensor = _Fused.apply(query, key, value, mask, is_causal, scale)  # type: ignore[no-untyped-call]
    else:
        found = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=is_causal, scale=scale
        )
    if len(batch) != 2:
        found = found.reshape(*batch, *found.shape[-2:])
    if kind is torch.float16:
        found = found.to(kind)
    return found[..., :wide] if wide < found.shape[-1] else found


def alike(query: Tensor, key: Tensor, value: Tensor, batch: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """The three in four axes, of one width and, under autocast, of its type: as the kernel needs them.

    On the CPU, float16 is computed in float32: the kernel's own is two bits worse than the plain form.
    """
    device = query.device.type
    if query.dtype is torch.float16 and device == "cpu":
        query, key, value = query.float(), key.float(), value.float()
    if torch.is_autocast_enabled(device):
        kind = torch.get_autocast_dtype(device)
        query, key, value = query.to(kind), key.to(kind), value.to(kind)
    width, wide = query.shape[-1], value.shape[-1]
    if width == wide and query.ndim == 4 and query.shape[:2] == key.shape[:2] == value.shape[:2] == batch:
        return query, key, value
    if wide < width:
        value = functional.pad(value, (0, width - wide))
    elif width < wide:
        query, key = functional.pad(query, (0, wide - width)), functional.pad(key, (0, wide - width))
    return four(query, batch), four(key, batch), four(value, batch)


def learns(*tensors: Tensor | None) -> bool:
    """Whether a gradient will be asked for."""
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def four(tensor: Tensor, batch: tuple[int, ...]) -> Tensor:
    """The tensor with its batch axes broadcast and made two."""
    axes = len(batch)
    if tensor.shape[:-2] != batch:
        tensor = tensor.expand(*batch, *tensor.shape[-2:])
    if axes == 2:
        return tensor
    if axes < 2:
        return tensor.reshape(*batch, *(1,) * (2 - axes), *tensor.shape[-2:])
    return tensor.reshape(math.prod(batch[:-1]), *tensor.shape[-3:])


def mask_of_four(mask: Tensor, batch: tuple[int, ...]) -> Tensor:
    """A mask that broadcasts to the call's cells, in the four axes of the kernel, broadcast still where it can be."""
    axes = len(batch)
    if axes > 2 and mask.ndim > 2:
        return four(mask, batch)
    batch_axes = (*(1,) * (axes + 2 - mask.ndim), *mask.shape[:-2]) if axes <= 2 else ()
    return mask.reshape(*batch_axes, *(1,) * (2 - len(batch_axes)), *mask.shape[-2:])


def simplified(where: Where, cells: Cells) -> Where:
    """`everywhere` for a band that none of these cells lies outside of, as at a cached decoder's step."""
    if where is everywhere or not isinstance(cells.first, int) or not where.is_band():
        return where
    left, right = where.band()
    last = cells.first + cells.row + cells.rows - 1
    sees_first = left is None or last - left <= cells.column
    sees_last = right is None or cells.first + cells.row + right >= cells.column + cells.columns - 1
    return everywhere if sees_first and sees_last else where


def is_square_causal(where: Where, cells: Cells) -> bool:
    """Whether query i sees keys 0 … i, of as many."""
    square = isinstance(cells.first, int) and cells.first == 0 and cells.rows == cells.columns and cells.call is None
    return square and where.is_band() and where.band() == (None, 0)


class _Fused(torch.autograd.Function):
    """The kernel, with second derivatives by the plain way; its mask is a constant."""

    @staticmethod
    def forward(
        ctx: Any, query: Queries, key: Keys, value: Keys, mask: Tensor | None, is_causal: bool, scale: float
    ) -> Queries:
        found, total = forward(query, key, value, 0.0, is_causal, attn_mask=mask, scale=scale)
        ctx.save_for_backward(query, key, value, mask, found, total)
        ctx.is_causal, ctx.scale = is_causal, scale
        result: Queries = found
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, mask, found, total = ctx.saved_tensors
        slope = gradients[0]
        if torch.is_grad_enabled():
            plain = partial(as_table, is_causal=ctx.is_causal, scale=ctx.scale)
            needs = (*ctx.needs_input_grad[:3], False)
            return *again(plain, (query, key, value, mask), needs, slope), None, None
        sides = backward(slope, query, key, value, found, total, 0.0, ctx.is_causal, attn_mask=mask, scale=ctx.scale)
        return *sides, None, None, None


def as_table(
    query: Queries, key: Keys, value: Keys, mask: Tensor | None, *, is_causal: bool = False, scale: float
) -> Queries:
    """The same, with every derivative."""
    scores = scale * query @ key.mT
    if is_causal:
        past = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        return scores.masked_fill(~past, -torch.inf).softmax(-1) @ value
    if mask is None:
        return scores.softmax(-1) @ value
    scores, seen = scores + mask, (mask > -torch.inf).any(-1, keepdim=True)
    return torch.where(seen, torch.where(seen, scores, 0).softmax(-1), 0) @ value
