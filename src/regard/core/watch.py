"""Seeing what a model attends to, without slowing it down.

`attend` asks one question, whether anybody watches. Where somebody does, hooks on the modules of the watched model
say which of them is running, and the call is noted under the name of the innermost: references to its tensors, and
nothing else. What is watched, and what is running, belong to the thread (in truth, to the context of `contextvars`).

`regard.watch` is this, with the adapters for modules that others wrote.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.call import Call
from regard.core.compare import dot, scaled_dot
from regard.core.looked import Looked
from regard.core.record import Record
from regard.core.score import Score, is_transformed
from regard.core.seen import Seen

OPEN: set["Watch"] = set()
"""Every watch that is open, in any thread: what `attend` asks."""

_running: ContextVar[dict["Watch", tuple[str, ...]]] = ContextVar("regard_running", default={})  # noqa: B039
"""The watches of this context, each with the names of its modules that are running; never changed, only replaced."""

ROOT = "attention"
"""The name of an attention in the watched model itself."""


class Watch:
    """A model that is watched, and what was seen of it.

    Attributes:
        model: The model.
        seen: What was seen.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model, self.seen = model, Seen()
        self._modules = dict(model.named_modules())
        self._names = {id(module): name for name, module in self._modules.items()}
        self._owners = dict(_owners(self._modules))

    def name(self, module: nn.Module) -> str | None:
        """What a module of the model is called, or None for one of another."""
        name = self._names.get(id(module))
        return ROOT if name == "" and ROOT not in self._modules else name

    def record(self, module: nn.Module, make: Callable[[str], Record]) -> None:
        """Takes the record of a call of a module, if it is one of the model; `make` is told what to call it."""
        name = self.name(module)
        if name is not None:
            self.seen._add(name, make(f"{name}, call {len(self.seen.get(name, ()))}"))

    def remark(self, text: str) -> None:
        """Says what cannot be seen, and why."""
        self.seen._remark(text)

    def note(self, call: Call) -> None:
        """Takes a call of the operation, if it was made in the model."""
        stack = _running.get()[self]
        if stack:
            module = self._modules[stack[-1]]
        else:
            owners = [self._owners[id(part)] for part in call.score.modules() if id(part) in self._owners]
            if not owners:
                return
            module = owners[0]
        heads, batch = getattr(module, "heads", None), call.cells.batch
        last = batch[-1:] == (heads,) if isinstance(heads, int) else len(batch) > 1
        self.record(module, lambda name: Looked(name, call, heads=last))


def note(call: Call) -> None:
    """Takes a call of the operation for every watch of this context in whose model it was made.

    What cannot be looked at again is left out: calls inside of what is compiled or transformed by `torch.func`, and
    those that activation checkpointing repeats in the backward pass.
    """
    if torch.compiler.is_compiling():
        return
    vectors = [vector for vector in (call.query, call.key, call.value) if isinstance(vector, Tensor)]
    if not any(is_transformed(vector) for vector in vectors):
        for watch in watches():
            watch.note(call)


def watches() -> list[Watch]:
    """The open watches of this context; none in a backward pass, which only repeats what was seen."""
    repeated = torch._C._current_graph_task_id() != -1
    return [] if repeated else [watch for watch in _running.get() if watch in OPEN]


@contextlib.contextmanager
def watching(model: nn.Module) -> Iterator[Watch]:
    """Watches a model inside of the block, as `regard.watch` does, without the adapters."""
    _check(model)
    watch = Watch(model)
    with contextlib.ExitStack() as undo:
        for name, module in model.named_modules():
            # A score attends to nothing by itself, and the ready ones belong to every model of the process.
            if not isinstance(module, (Score, torch.jit.ScriptModule)):
                enter, leave = Hook(module, partial(_enter, watch, name)), Hook(module, partial(_leave, watch, name))
                undo.callback(module.register_forward_pre_hook(enter, prepend=True).remove)
                undo.callback(module.register_forward_hook(leave, always_call=True).remove)
        _running.set({**_running.get(), watch: ()})
        OPEN.add(watch)
        try:
            yield watch
        finally:
            OPEN.discard(watch)
            _running.set({other: stack for other, stack in _running.get().items() if other is not watch})


class Hook:
    """A hook of one module: a copy of the module carries one that does nothing.

    Args:
        module: The module.
        action: What to do when it is called, with what PyTorch gives a hook after the module.
    """

    def __init__(self, module: nn.Module, action: Callable[..., None]) -> None:
        self.module, self.action = module, action

    def __call__(self, module: nn.Module, *given: Any) -> None:
        if module is self.module and not torch.compiler.is_compiling():
            self.action(*given)

    def __reduce__(self) -> tuple[Callable[[], Callable[..., None]], tuple[()]]:
        return _no_hook, ()


def _no_hook() -> Callable[..., None]:
    return _nothing


def _nothing(*given: Any) -> None:
    del given


def _enter(watch: Watch, name: str, *given: Any) -> None:
    del given
    running = _running.get()
    if watch in running:
        _running.set({**running, watch: (*running[watch], name)})


def _leave(watch: Watch, name: str, *given: Any) -> None:
    """Also after an error, and whatever was left running inside."""
    del given
    running = _running.get()
    stack = running.get(watch, ())
    if name in stack:
        last = len(stack) - 1 - stack[::-1].index(name)
        _running.set({**running, watch: stack[:last]})


def _owners(modules: dict[str, nn.Module]) -> Iterator[tuple[int, nn.Module]]:
    """The module that each score belongs to, if it is not one that anybody may use."""
    owners: dict[str, nn.Module] = {}
    for name, module in modules.items():
        parent = name.rpartition(".")[0]
        owners[name] = owners[parent] if name and isinstance(module, (Score, nn.ModuleList)) else module
        if isinstance(module, Score) and module not in (dot, scaled_dot):
            yield id(module), owners[name]


def _check(model: object) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"watch: model must be a module, got {type(model).__name__}: {model!r}")
    compiler = sys.modules.get("torch._dynamo.eval_frame")
    for name, module in model.named_modules():
        wrapped = compiler is not None and isinstance(module, compiler.OptimizedModule)
        if wrapped or module._compiled_call_impl is not None:
            raise ValueError(
                f"watch: {name or 'the model'} is compiled, and nothing can be seen inside of what is compiled: "
                f"watch the model as it was before torch.compile"
            )
