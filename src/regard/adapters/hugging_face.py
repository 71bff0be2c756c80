"""Hugging Face models, on the attention function that they use by default.

Their modules look up a function by a key of their configuration, "sdpa" unless told otherwise, and pass it what they
have projected. In the block that function is wrapped under the same key: a key of our own would lose the mask, which
is made for the key. It is never imported here; where nobody has, there is no such model.

Axes: `b` examples, `h` heads, `g` key heads, `m` queries, `n` keys, `d` of one head.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor, nn

from regard.adapters.foreign import Foreign, Part, causal_cells, narrowed
from regard.adapters.shared import Shared
from regard.core.record import Selection
from regard.core.watch import Watch, watches

KEY = "sdpa"
"""The key that can be seen: its function's arguments say all that it computes."""

_HOME = "transformers.modeling_utils"
_FUNCTIONS = "ALL_ATTENTION_FUNCTIONS"
_wrapped: dict[int, Shared] = {}


@contextlib.contextmanager
def seen_by(watch: Watch) -> Iterator[None]:
    """Records the calls of every Hugging Face attention of a watched model."""
    with contextlib.ExitStack() as undo:
        for functions in _tables(watch):
            undo.enter_context(_wrapped.setdefault(id(functions), Shared(partial(_wrap, functions))))
        yield


def _tables(watch: Watch) -> list[Any]:
    """The tables of functions that the model's modules look into; most models share one."""
    if _HOME not in sys.modules:
        return []
    tables: dict[int, Any] = {}
    unseen: dict[str, str] = {}
    for module in watch.model.modules():
        key = getattr(getattr(module, "config", None), "_attn_implementation", None)
        if key == KEY:
            for place in (_HOME, type(module).__module__):
                table = getattr(sys.modules.get(place), _FUNCTIONS, None)
                if table is not None:
                    tables[id(table)] = table
        elif isinstance(key, str):
            unseen.setdefault(key, type(module).__name__)
    for key, name in unseen.items():
        watch.remark(
            f"{name} attends by {key!r}, which cannot be seen: use model.set_attn_implementation({KEY!r}), "
            f"or its own output_attentions"
        )
    return list(tables.values())


def _wrap(functions: Any) -> Callable[[], None]:
    """Puts a function that also records in the place of the one that is there; returns what undoes it."""
    own = functions._local_mapping
    before = own.get(KEY)
    inner = functions[KEY]

    @wraps(inner)
    def recording(module: nn.Module, *given: Any, **named: Any) -> Any:
        result = inner(module, *given, **named)
        for watch in watches():
            if named.get("cache") is not None:
                watch.remark("a call on a paged cache could not be seen: its keys are not among the arguments")
                continue
            watch.record(module, lambda name: _record(name, module, *given, **named))
        return result

    def undo() -> None:
        if own.get(KEY) is recording:
            if before is None:
                del own[KEY]
            else:
                own[KEY] = before

    own[KEY] = recording
    return undo


def _record(
    name: str,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    *_given: Any,
    **_named: Any,
) -> Foreign:
    """What the function was called with, and what it makes of it by itself: the scale, and whether it is causal."""
    del dropout
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    causal = bool(causal) and attention_mask is None and query.shape[2] > 1
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    shape = (*query.shape[:3], key.shape[2])
    tensors = {"query": query, "key": key, "value": value, "mask": attention_mask, "bias": position_bias}
    return Foreign(name, shape, tensors, partial(_cut, scale, causal))


def _cut(scale: float, causal: bool, kept: Mapping[str, Any], chosen: Selection) -> Part:
    (example, head), rows = chosen.batch, chosen.rows
    query = narrowed(kept["query"], example, head, rows)
    mask, bias = (
        None if t is None else narrowed(_by_head(t), example, head, rows) for t in (kept["mask"], kept["bias"])
    )
    shared = kept["query"].shape[1] // kept["key"].shape[1]
    own = torch.arange(head.start, head.stop, device=query.device) // shared
    keys = narrowed(kept["key"], example)
    key = keys[:, head] if shared == 1 else keys[:, own]
    opened = causal_cells(rows, key.shape[2], query.device) if causal else None
    if mask is None:
        return Part(query, key, scale, opened, bias)
    if mask.dtype is torch.bool:
        if bias is None:
            return Part(query, key, scale, mask, None)
        # Beside a bias the function forbids by the lowest number, with which a row that may see nothing is uniform.
        return Part(query, key, scale, None, torch.where(mask, bias, torch.finfo(key.dtype).min))
    return Part(query, key, scale, None, mask if bias is None else mask + bias)


def _by_head(mask: Tensor) -> Tensor:
    return mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
