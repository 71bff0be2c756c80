"""Numbers that are not finite: met before they are applied or saved, and named by where they first arose."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import Diverged

_REMEDY = "Try a lower --train.rate or --train.clip, or --train.precision float32"
_SHOWN = 8


def check_step(
    model: nn.Module, step: int, likelihood: float, norm: float, places: list[list[int]], again: Callable[[], object]
) -> None:
    """Refuses a step whose loss or gradient is not finite.

    Args:
        model: What learns, with the gradient of the step.
        step: Its number.
        likelihood: Its loss, summed.
        norm: The norm of its gradient.
        places: The examples of each of its batches.
        again: Computes the loss once more, to see where it goes wrong.

    Raises:
        Diverged: with the parameter or the module where it begins, and the examples.
    """
    if math.isfinite(likelihood) and math.isfinite(norm):
        return
    bad = [name for name, p in model.named_parameters() if p.grad is not None and not p.grad.isfinite().all()]
    # What is not finite travels from the loss to the first layers: the last one that has it is where it began.
    gradient = f"gradient not finite in {bad[-1]}" if bad else f"the norm of the gradient is {norm}"
    where = _weight(model) or (_module(model, again) if not math.isfinite(likelihood) else gradient)
    shown = [place for part in places for place in part]
    raise Diverged(
        f"step {step}: the loss is {likelihood} ({where}); the step was not applied. Examples {shown[:_SHOWN]} of the "
        f"training data were in the batch. {_REMEDY}"
    )


def check_weights(model: nn.Module, averaged: Mapping[str, Tensor], step: int) -> None:
    """Refuses to validate or save weights or averages that are not finite: they would stay so for ever.

    Raises:
        Diverged: with the name of the first one.
    """
    where = _weight(model) or _first(averaged.items(), "average")
    if where:
        raise Diverged(f"step {step}: {where}; no state of this step was saved. {_REMEDY}")


def check_measures(found: Mapping[str, float], step: int) -> None:
    """Refuses a validation that gave no number: it is neither better nor worse than another.

    Raises:
        Diverged: with the name of the first measure.
    """
    for name, value in found.items():
        if not math.isfinite(value):
            raise Diverged(
                f"step {step}: the validation gave {name} {value}, with weights that are finite; no state of this step "
                f"was saved. Look at the validation data, or try a lower --train.rate"
            )


def _weight(model: nn.Module) -> str:
    return _first(model.named_parameters(), "weights")


def _first(named: Iterable[tuple[str, Tensor]], what: str) -> str:
    return next((f"{what} not finite in {name}" for name, tensor in named if not tensor.isfinite().all()), "")


def _module(model: nn.Module, again: Callable[[], object]) -> str:
    """The first module that gives what is not finite, in the order in which they are done; the loss if none does."""
    found: list[str] = []

    def look(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, given: Any, made: Any) -> None:
            del module, given
            if not found and isinstance(made, Tensor) and not made.isfinite().all():
                found.append(name)

        return hook

    hooks = [module.register_forward_hook(look(name)) for name, module in model.named_modules() if name]
    try:
        with torch.no_grad():
            again()
    finally:
        for each in hooks:
            each.remove()
    return f"first not finite in what {found[0]} gives" if found else "no module's output, the loss itself"
