"""What a task tells the training loop of a batch."""

from typing import NamedTuple

from torch import Tensor


class Loss(NamedTuple):
    """Sums over the real tokens of a batch, so that the loop can form one mean over several batches.

    Attributes:
        objective: What is minimised.
        likelihood: The plain negative log-likelihood, which is reported; without gradient.
        tokens: Their number.
    """

    objective: Tensor
    likelihood: Tensor
    tokens: Tensor
