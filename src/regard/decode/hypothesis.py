"""What a decoder wrote for one sentence, and how hypotheses of different lengths are compared."""

import dataclasses

from jaxtyping import Float
from torch import Tensor


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """One output for one source sentence.

    The probabilities are the model's own (temperature 1, nothing renormalised), so that their sum is what the
    model gives for the same output when it is teacher forced.

    Attributes:
        tokens: What was written, without END.
        finished: Whether END was produced; otherwise the limit cut the output short, or no token was possible.
        log_probability: The sum of `token_log_probabilities`.
        score: By which hypotheses are ranked: `log_probability / length_penalty(…)`.
        token_log_probabilities: One for each token, and one for END if it was produced.
        weights: (steps, n), where each step looked in the source; a row for each of `token_log_probabilities`, a
            column for each real source token. None if the model does not look, or if no step was made.
    """

    tokens: list[int]
    finished: bool
    log_probability: float
    score: float
    token_log_probabilities: list[float]
    weights: Float[Tensor, "steps n"] | None = dataclasses.field(default=None, compare=False)


def length_penalty(length: int, alpha: float) -> float:
    """What a log-probability is divided by: `((5 + length) / 6) ** alpha` (Wu et al. 2016, equation 14).

    `length` counts the log-probabilities that were summed, that is, END too where it was produced. With `alpha`
    0 nothing is divided; above 0 longer outputs are favoured, below 0 shorter ones.

    >>> length_penalty(7, alpha=1.0)
    2.0
    >>> length_penalty(7, alpha=0.0)
    1.0
    """
    return float(((5 + length) / 6) ** alpha)
