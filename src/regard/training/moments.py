"""A training state as flat tensors, and back."""

from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import Damaged


def snapshot(model: nn.Module, optimizer: torch.optim.Optimizer, averaged: dict[str, Tensor]) -> dict[str, Tensor]:
    """The model's state, the optimiser's moments and the averages, each under a prefix of its own."""
    found = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    found |= {f"average.{name}": tensor for name, tensor in averaged.items()}
    for name, parameter in model.named_parameters():
        moments: dict[str, Any] = optimizer.state.get(parameter, {})
        found |= {f"optimizer.{name}.{key}": value for key, value in moments.items() if isinstance(value, Tensor)}
    return found


def restore(
    model: nn.Module, optimizer: torch.optim.Optimizer, averaged: dict[str, Tensor], tensors: dict[str, Tensor]
) -> None:
    """Puts a snapshot back, name by name.

    Raises:
        Damaged: if it is not of this model, or of training with other averages.
    """
    weights = _under(tensors, "model.")
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    came = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if expected != came:
        names = sorted(name for name in expected | came if expected.get(name) != came.get(name))
        first = names[0]
        raise Damaged(
            f"the state is of another model: {len(names)} tensors differ, first {first}, {came.get(first, 'absent')} "
            f"in the state and {expected.get(first, 'absent')} in the model"
        )
    kept = _under(tensors, "average.")
    if set(kept) != set(averaged):
        raise Damaged("the state was trained with another setting of --train.average: give the same")
    model.load_state_dict(weights)
    for name, tensor in kept.items():
        averaged[name].copy_(tensor)
    for name, parameter in model.named_parameters():
        moments = _under(tensors, f"optimizer.{name}.")
        moments = {key: value for key, value in moments.items() if "." not in key}
        if moments:
            optimizer.state[parameter] = moments


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
