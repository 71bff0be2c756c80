"""Sampling: each token is drawn from the model's distribution, whole or cut to its head.

Sentence number `i` draws from a stream of random numbers that (seed, i) alone fixes, one number a step: what is
drawn for it depends neither on the batch that it stands in nor on how often anything was drawn before.

Axes: `rows` of hypotheses, `vocabulary`.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.errors import whole
from regard.decode.hypothesis import Hypothesis
from regard.decode.stepping import follow, limits
from regard.nn.stepwise import Stepwise


def sample(
    model: Stepwise,
    source: Int[Tensor, "batch n"],
    source_length: Int[Tensor, " batch"],
    *,
    longest: int | Tensor,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 0,
    numbers: Sequence[int] | None = None,
) -> list[Hypothesis]:
    """Draws one output for each sentence.

    The logits are divided by `temperature`; then, if `top_k` is given, only the `top_k` most probable tokens are
    left; then, if `top_p` is below 1, of these the fewest most probable ones whose share reaches `top_p`. What is
    left is normalised and drawn from. The hypothesis reports the model's own log-probabilities, before all this.
    PAD and BEGIN are never written. The model is used as it stands: call `model.eval()` before.

    Args:
        model: What writes.
        source: (batch, n), token ids; a sentence's padding stands after it.
        source_length: (batch,), the tokens of each sentence.
        longest: The most tokens to write, END included; one number, or (batch,), one for each sentence.
        temperature: Below 1 sharpens the distribution, above 1 flattens it.
        top_k: How many tokens to draw from; 0 for all.
        top_p: The share of the probability to draw from.
        seed: Fixes everything that is drawn.
        numbers: The number of each sentence; 0, 1, 2, … unless given. Give the sentences of a data set numbers
            of their own, so that no two share their random numbers.

    Returns:
        One hypothesis for each sentence, in their order.

    Raises:
        TypeError: if a number is not of its kind.
        ValueError: if shapes do not fit or a number is out of range.
        RegardError: if the model's logits are not numbers.
    """
    if not (temperature > 0 and math.isfinite(temperature)):
        raise ValueError(f"sample: temperature must be above 0 and finite, got {temperature}: its limit at 0 is greedy")
    if not 0 < top_p <= 1:
        raise ValueError(f"sample: top_p must be above 0 and at most 1, got {top_p}")
    whole(top_k, "sample: top_k", least=0)
    limit = limits("sample", source, source_length, longest)
    each = list(range(len(source))) if numbers is None else list(numbers)
    if len(each) != len(source):
        raise ValueError(f"sample: numbers must be one for each of {len(source)} sentences, got {len(each)}")
    for name, value in (("seed", seed), *(("numbers", number) for number in each)):
        if whole(value, f"sample: {name}", least=0) >= 2**63:
            raise ValueError(f"sample: {name} must be below 2**63, got {value}")
    streams = [_stream(seed, number) for number in each]

    def drawn(logs: Float[Tensor, "rows _"], example: Int[Tensor, " rows"], step: int) -> Int[Tensor, " rows"]:
        del step
        uniform = torch.tensor([_uniform(streams[row]) for row in example.tolist()], dtype=torch.float64)
        return draw(distribution(logs, temperature, top_k, top_p), uniform)

    return follow(model, source, source_length, limit, drawn)


def distribution(
    logs: Float[Tensor, "rows vocabulary"], temperature: float, top_k: int, top_p: float
) -> Float[Tensor, "rows vocabulary"]:
    """What is drawn from, in float64 on the CPU: 0 for every token that is left out. A row of -inf becomes zeros.

    >>> logs = torch.tensor([[0.5, 0.3, 0.2]]).log()
    >>> distribution(logs, temperature=1.0, top_k=0, top_p=0.6)
    tensor([[0.6250, 0.3750, 0.0000]], dtype=torch.float64)
    """
    logs = logs.cpu().double()
    above = logs.max(dim=-1, keepdim=True).values  # taken off first: a small temperature must not overflow
    probability = torch.softmax((logs - above) / temperature, dim=-1).nan_to_num(0.0)
    if 0 < top_k < probability.shape[1] or top_p < 1:
        value, token = probability.sort(dim=-1, descending=True, stable=True)
        if top_k:
            value[:, top_k:] = 0
        value = _normalised(value)
        before = value.cumsum(dim=-1) - value
        value = value.masked_fill(before >= top_p, 0.0)
        probability = torch.zeros_like(value).scatter(1, token, value)
    return _normalised(probability)


def draw(probability: Float[Tensor, "rows vocabulary"], uniform: Float[Tensor, " rows"]) -> Int[Tensor, " rows"]:
    """The token at which the summed probability passes `uniform`, a number in [0, 1); never one of probability 0.

    >>> draw(torch.tensor([[0.5, 0.0, 0.5]]), torch.tensor([0.5]))
    tensor([2])
    """
    total = probability.cumsum(dim=-1)
    everything = total[:, -1]
    # Rounding must not carry the product up to the whole sum, behind the last token.
    passed = torch.minimum(uniform * everything, torch.nextafter(everything, torch.zeros_like(everything)))
    return (total <= passed[:, None]).sum(dim=-1).clamp(max=probability.shape[1] - 1)


def _normalised(probability: Float[Tensor, "rows _"]) -> Float[Tensor, "rows _"]:
    return (probability / probability.sum(dim=-1, keepdim=True)).nan_to_num(0.0)


def _stream(seed: int, number: int) -> np.random.Philox:
    return np.random.Philox(key=np.array([seed, number], dtype=np.uint64))


def _uniform(stream: np.random.Philox) -> float:
    """A number in [0, 1) of 53 bits."""
    raw = stream.random_raw()
    return (int(raw) >> 11) * 2.0**-53
