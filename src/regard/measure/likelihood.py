"""How probable a model finds the right outputs: negative log-likelihood and perplexity.

Sums and counts are kept, in float64, and divided once at the end: a mean of the means of batches would depend on how
the examples were put into batches.

Axes: `batch` of examples, `m` target positions, `vocabulary`.
"""

import dataclasses
import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.errors import Misfit, explained
from regard.core.score import at_least_single


@dataclasses.dataclass(frozen=True)
class Likelihood:
    """Negative log-likelihood of real target tokens, END included. That of parts adds up: `+`.

    Attributes:
        total: The sum, in nats.
        tokens: How many tokens.
        skipped: How many examples were left out.
    """

    total: float = 0.0
    tokens: int = 0
    skipped: int = 0

    @property
    def loss(self) -> float:
        """The mean for each token, in nats, without label smoothing.

        Raises:
            ValueError: if there are no tokens.
        """
        if not self.tokens:
            raise ValueError("the likelihood of no tokens has no mean: the data set is empty")
        return self.total / self.tokens

    @property
    def perplexity(self) -> float:
        """`exp(loss)`; infinite where that is too great for a float.

        >>> round(Likelihood(total=8 * math.log(5), tokens=8).perplexity, 9)
        5.0
        """
        return math.exp(self.loss) if self.loss < 709 or math.isnan(self.loss) else math.inf

    @property
    def bits(self) -> float:
        """The mean for each token, in bits."""
        return self.loss / math.log(2)

    def __add__(self, other: "Likelihood") -> "Likelihood":
        return Likelihood(self.total + other.total, self.tokens + other.tokens, self.skipped + other.skipped)


@torch.no_grad()
def likelihood(
    logits: Float[Tensor, "batch m vocabulary"],
    target: Int[Tensor, "batch m"],
    target_length: Int[Tensor, " batch"],
) -> Likelihood:
    """The likelihood of one batch.

    Args:
        logits: (batch, m, vocabulary), those of a teacher-forced model: at t the logits of target token t.
        target: (batch, m), each ends with END; the padding stands after it.
        target_length: (batch,), the tokens of each target, END included. What stands behind does not count,
            whatever it is.

    Raises:
        ValueError: if the shapes do not fit each other.

    >>> uniform = torch.zeros(2, 3, 11)
    >>> found = likelihood(uniform, torch.tensor([[7, 8, 3], [3, 0, 0]]), torch.tensor([3, 1]))
    >>> (found.tokens, round(found.perplexity, 4))
    (4, 11.0)
    """
    with explained("likelihood", logits=logits, target=target, target_length=target_length):
        if logits.ndim != 3 or logits.shape[:2] != target.shape or target_length.shape != target.shape[:1]:
            raise Misfit("logits must be (batch, m, vocabulary), target (batch, m) and target_length (batch,)")
    real = torch.arange(target.shape[1], device=target.device) < target_length[:, None]
    chosen = torch.log_softmax(logits[real], dim=-1, dtype=at_least_single(logits.dtype))
    chosen = chosen.gather(1, target[real][:, None])
    return Likelihood(-float(chosen.cpu().double().sum()), int(real.sum()))
