"""What a decoder that goes step by step offers to whoever decodes, and nothing more.

Axes: `batch` of hypotheses, `n` source positions, `vocabulary`.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

BEGIN = 2
"""The token that stands before the first: the same number as `regard.data.tokens.BEGIN`."""


@runtime_checkable
class State(Protocol):
    """All that a decoder remembers between two steps; every tensor in it has the batch as its first axis."""

    def map(self, change: Callable[[Tensor], Tensor]) -> "State":
        """The same state after a change of the batch axis: a choice, an order, a repetition."""


class Step(NamedTuple):
    """What one step gives.

    Attributes:
        logits: (batch, vocabulary), of the next token.
        state: What to pass to the next step.
        weights: (batch, n), where the step looked in the source, or None for a model that does not look.
    """

    logits: Float[Tensor, "batch vocabulary"]
    state: State
    weights: Float[Tensor, "batch n"] | None


@runtime_checkable
class Stepwise(Protocol):
    """A model that writes one token at a time."""

    def begin(self, source: Int[Tensor, "batch n"], source_length: Int[Tensor, " batch"]) -> State:
        """Reads the sources."""

    def step(self, state: State, token: Int[Tensor, " batch"]) -> Step:
        """Takes the token before, BEGIN at first, and gives the logits of the next."""
