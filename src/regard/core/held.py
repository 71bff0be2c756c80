"""References to tensors that cost no copy, and are refused once their tensor has been changed.

A reference is a detached view: it shares the storage and the counter that PyTorch raises at each change in place,
and keeps no graph alive. Where there is no such counter, as for a tensor made in inference mode, it is a copy. A
parameter is also known by the sum of its bits, since fused optimisers, and writes through `.data`, do not count.
A write through `.data` to anything else goes unnoticed here, as it does in autograd.
"""

import contextlib
import copy
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.core.local import Factor
from regard.core.weigh import Weigh
from regard.core.where import Where

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class _Reference(NamedTuple):
    tensor: Tensor
    version: int | None
    bits: Tensor | None


class Held:
    """The tensors that one call needs to be looked at again, by name; and the types that it was computed in.

    Args:
        call: What to call it in an error.
        device: The kind of device that it was made on.
    """

    def __init__(self, call: str, device: str) -> None:
        self._call, self._device = call, device
        self._autocast = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
        self._kept: dict[str, _Reference] = {}
        self._copies: dict[int, Any] = {}

    @property
    def tensors(self) -> MappingProxyType[str, Tensor]:
        """Every reference by its name."""
        return MappingProxyType({name: kept.tensor for name, kept in self._kept.items()})

    def keep(self, name: str, value: Any) -> Any:
        """The same value with references in the place of its tensors, however deep inside they are.

        Tensors, tuples, lists and dictionaries are looked into, and the operation's own choices: scores,
        predicates, normalisers and factors, of which a shallow copy is made.
        """
        if isinstance(value, Tensor):
            return self._reference(name, value)
        if isinstance(value, (nn.Module, Where, Weigh, Factor)):
            return self._copied(name, value)
        if isinstance(value, (tuple, list)):
            items = [self.keep(f"{name}.{number}", item) for number, item in enumerate(value)]
            if all(new is old for new, old in zip(items, value, strict=True)):
                return value
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if isinstance(value, dict):
            entries = {key: self.keep(f"{name}.{key}", item) for key, item in value.items()}
            return value if all(entries[key] is value[key] for key in value) else type(value)(entries)
        return value

    def check(self) -> None:
        """Refuses a look at what has been changed since.

        Raises:
            RuntimeError: with the name of what has changed, and the remedy.
        """
        for name, kept in self._kept.items():
            counted = kept.version is not None and kept.tensor._version != kept.version
            if counted or (kept.bits is not None and not torch.equal(_bits(kept.tensor), kept.bits)):
                raise RuntimeError(
                    f"{self._call}: {name!r} has been changed in place since, and what it was is gone: ask before it "
                    f"is changed (by an optimiser's step, or a cache that is written in place), or look again"
                )

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Looks again, as it was: in the same types, whoever asks, and without a graph.

        Raises:
            RuntimeError: if something has been changed since.
        """
        self.check()
        enabled, dtype = self._autocast
        with torch.no_grad(), torch.autocast(self._device, dtype=dtype, enabled=enabled):
            yield

    def _reference(self, name: str, tensor: Tensor) -> Tensor:
        if tensor.is_inference():
            kept = _Reference(tensor.clone(), None, None)
        else:
            view = tensor.detach()
            learned = isinstance(tensor, nn.Parameter) or (tensor.is_leaf and tensor.requires_grad)
            kept = _Reference(view, view._version, _bits(view) if learned else None)
        self._kept[name] = kept
        return kept.tensor

    def _copied(self, name: str, choice: Any) -> Any:
        """A shallow copy that holds references: a setting changed later does not reach it, nor a new parameter."""
        if id(choice) not in self._copies:
            own = self._copies[id(choice)] = copy.copy(choice)
            for key, value in vars(choice).items() if own is not choice else ():
                path = name if key in ("_parameters", "_buffers", "_modules") else f"{name}.{key}"
                if "hooks" not in key:
                    vars(own)[key] = self.keep(path, value)
        return self._copies[id(choice)]


def _bits(tensor: Tensor) -> Tensor:
    """A sum that changes with any number, and not with the order of summing."""
    return tensor.view(_INTEGERS[tensor.element_size()]).sum()
