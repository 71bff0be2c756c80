"""Greedy decoding: the most probable token at each step."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decode.hypothesis import Hypothesis
from regard.decode.stepping import follow, limits
from regard.nn.stepwise import Stepwise


def greedy(
    model: Stepwise, source: Int[Tensor, "batch n"], source_length: Int[Tensor, " batch"], *, longest: int | Tensor
) -> list[Hypothesis]:
    """Writes the most probable token at each step, the smallest id of equally probable ones.

    PAD and BEGIN are never written. The model is used as it stands: call `model.eval()` before.

    Args:
        model: What writes.
        source: (batch, n), token ids; a sentence's padding stands after it.
        source_length: (batch,), the tokens of each sentence.
        longest: The most tokens to write, END included; one number, or (batch,), one for each sentence.

    Returns:
        One hypothesis for each sentence, in their order. What is written for a sentence does not depend on
        which others stand in the batch.

    Raises:
        TypeError: if `longest` is not a whole number.
        ValueError: if shapes do not fit or a length is out of range.
        RegardError: if the model's logits are not numbers.
    """
    return follow(model, source, source_length, limits("greedy", source, source_length, longest), _most_probable)


def _most_probable(logs: Float[Tensor, "rows _"], example: Int[Tensor, " rows"], step: int) -> Int[Tensor, " rows"]:
    del example, step
    return torch.max(logs, dim=-1).indices.cpu()
