"""Decoding that is told what to write: the probabilities and the attention of a given output.

An alignment error rate compares with alignments of given translations: it needs where the model looks while it
writes those, not its own.
"""

from jaxtyping import Float, Int
from torch import Tensor

from regard.decode.hypothesis import Hypothesis
from regard.decode.stepping import follow, limits
from regard.nn.stepwise import Stepwise


def forced(
    model: Stepwise,
    source: Int[Tensor, "batch n"],
    source_length: Int[Tensor, " batch"],
    target: Int[Tensor, "batch m"],
    target_length: Int[Tensor, " batch"],
) -> list[Hypothesis]:
    """Writes the given targets.

    Args:
        model: What writes, one step at a time.
        source: (batch, n), token ids; a sentence's padding stands after it.
        source_length: (batch,), the tokens of each sentence.
        target: (batch, m), what to write: each ends with END, without BEGIN; the padding stands after it.
        target_length: (batch,), the tokens of each target, END included.

    Returns:
        One hypothesis for each sentence, in their order. Where the target holds what can never be written (PAD,
        BEGIN, a token of probability 0), it ends before.

    Raises:
        ValueError: if shapes do not fit or a length is out of range.
        RegardError: if the model's logits are not numbers.
    """
    limit = limits("forced", source, source_length, target_length)
    if target.ndim != 2 or len(target) != len(source):
        raise ValueError(f"forced: target must be ({len(source)}, m) like source, got {tuple(target.shape)}")
    if len(limit) and int(limit.max()) > target.shape[1]:
        raise ValueError(
            f"forced: target_length must be at most {target.shape[1]}, the width of target, got {int(limit.max())}"
        )
    given = target.cpu()

    def told(logs: Float[Tensor, "rows _"], example: Int[Tensor, " rows"], step: int) -> Int[Tensor, " rows"]:
        del logs
        return given[example, step]

    return follow(model, source, source_length, limit, told)
