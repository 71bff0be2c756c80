"""PyTorch's `nn.MultiheadAttention`, alone and inside its transformer layers.

What is kept are the inputs of a call; queries and keys are projected when somebody asks. The fused path of the
encoder layers runs no module inside, and is switched off.

Axes: `b` examples, `m` queries, `n` keys, `h` heads.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.adapters.foreign import Foreign, Part, causal_cells, narrowed
from regard.adapters.shared import Shared
from regard.core.record import Selection
from regard.core.watch import Hook, Watch, watches

_LEARNED = ("in_proj_weight", "in_proj_bias", "q_proj_weight", "k_proj_weight", "bias_k")


@contextlib.contextmanager
def seen_by(watch: Watch) -> Iterator[None]:
    """Records the calls of every `nn.MultiheadAttention` of a watched model."""
    with contextlib.ExitStack() as undo:
        modules = list(watch.model.modules())
        if any(isinstance(module, (nn.TransformerEncoder, nn.TransformerEncoderLayer)) for module in modules):
            undo.enter_context(_WITHOUT_FUSION)
        for module in modules:
            # A kind of its own, with another forward, may compute anything.
            if isinstance(module, nn.MultiheadAttention) and type(module).forward is nn.MultiheadAttention.forward:
                hook = Hook(module, partial(_note, watch, module))
                undo.callback(module.register_forward_hook(hook, with_kwargs=True).remove)
        yield


def _without_fusion() -> Callable[[], None]:
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    return partial(torch.backends.mha.set_fastpath_enabled, before)


_WITHOUT_FUSION = Shared(_without_fusion)


def _note(watch: Watch, layer: nn.MultiheadAttention, given: tuple[Any, ...], named: dict[str, Any], _: Any) -> None:
    if watch in watches():
        call = _call(*given, **named)
        if call["query"].is_nested:
            watch.remark("a call on nested tensors could not be seen: give padded ones, and a mask")
        else:
            watch.record(layer, partial(_record, layer, call))


def _call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> dict[str, Any]:
    """What the layer was called with; where it is told that its mask is causal, and is free to, it drops the mask."""
    del average_attn_weights
    hinted = is_causal and key_padding_mask is None and not need_weights
    masks = {"attn_mask": None if hinted else attn_mask, "key_padding_mask": key_padding_mask}
    return {"query": query, "key": key, "value": value, **masks, "causal": hinted}


def _record(layer: nn.MultiheadAttention, call: dict[str, Any], name: str) -> Foreign:
    learned = {part: getattr(layer, part) for part in _LEARNED}
    query, key = call["query"], call["key"]
    places = 1 if layer.batch_first and query.ndim == 3 else 0
    extra = (layer.bias_k is not None) + layer.add_zero_attn
    batch = (query.shape[1 - places],) if query.ndim == 3 else ()
    shape = (*batch, layer.num_heads, query.shape[places], key.shape[places] + extra)
    settings = _Settings(layer, places=places, causal=call.pop("causal"))
    return Foreign(name, shape, {**call, **learned}, partial(_cut, settings))


class _Settings:
    """What a call depends on besides tensors, as it was at the time."""

    def __init__(self, layer: nn.MultiheadAttention, *, places: int, causal: bool) -> None:
        self.width, self.heads, self.zero = layer.embed_dim, layer.num_heads, layer.add_zero_attn
        self.places, self.causal = places, causal


def _cut(settings: _Settings, kept: Mapping[str, Any], chosen: Selection) -> Part:
    size = settings.width // settings.heads
    head = chosen.batch[-1]
    example = chosen.batch[0] if len(chosen.batch) > 1 else slice(0, 1)

    def vectors(name: str) -> Tensor:
        """(b, places, width), of the examples that are asked for."""
        tensor: Tensor = kept[name]
        if tensor.ndim == 2:
            return tensor[None]
        return (tensor if settings.places else tensor.transpose(0, 1))[example]

    def projected(source: Tensor, part: int) -> Tensor:
        """(b, h, places, size), of the heads that are asked for."""
        own = slice(head.start * size, head.stop * size)
        whole = slice(part * settings.width, (part + 1) * settings.width)
        stacked, apart = kept["in_proj_weight"], kept[("q_proj_weight", "k_proj_weight")[part]]
        weight = (apart if stacked is None else stacked[whole])[own]
        bias = None if kept["in_proj_bias"] is None else kept["in_proj_bias"][whole][own]
        mapped: Tensor = functional.linear(source, weight, bias)
        if part == 1 and kept["bias_k"] is not None:
            mapped = torch.cat([mapped, kept["bias_k"][..., own].expand(len(mapped), 1, -1)], 1)
        if part == 1 and settings.zero:
            mapped = functional.pad(mapped, (0, 0, 0, 1))
        return mapped.reshape(*mapped.shape[:2], -1, size).transpose(1, 2)

    query = projected(vectors("query")[:, chosen.rows], 0)
    key = projected(vectors("key"), 1)
    columns = key.shape[-2]
    masks = []
    if kept["attn_mask"] is not None:
        mask: Tensor = kept["attn_mask"]
        by_head = mask[None, None] if mask.ndim == 2 else mask.reshape(-1, settings.heads, *mask.shape[1:])
        masks.append(narrowed(by_head, example, head, chosen.rows))
    if kept["key_padding_mask"] is not None:
        padding: Tensor = kept["key_padding_mask"]
        masks.append(padding[None, None, None] if padding.ndim == 1 else padding[example][:, None, None])
    opened, bias = _masked(masks, columns)
    if settings.causal:
        opened = causal_cells(chosen.rows, columns, query.device)
    return Part(query, key, size**-0.5, opened, bias)


def _masked(masks: list[Tensor], columns: int) -> tuple[Tensor | None, Tensor | None]:
    """Which cells are allowed, and what is added to the scores; keys that the layer adds are always allowed."""
    opened: Tensor | None = None
    bias: Tensor | None = None
    for mask in masks:
        missing = (0, columns - mask.shape[-1])
        if mask.dtype is torch.bool:
            here = functional.pad(~mask, missing, value=True)
            opened = here if opened is None else opened & here
        else:
            added = functional.pad(mask, missing)
            bias = added if bias is None else bias + added
    return opened, bias
