"""What was written at each step, kept so that any hypothesis can be followed back to its beginning.

A step takes rows (*inputs*) and offers *choices*: a choice is an input row that it looked from, a token and its
log-probability. The inputs of the next step are some of these choices. Nothing is moved while the search runs:
a hypothesis is the number of its last step and of its choice there, and `trace` follows the back-pointers once,
at the end, for all hypotheses together, and picks the attention weights along them.

Axes: `inputs` of a step, `choices` of a step, `leaves` that are traced, `n` source positions. Everything is on
the CPU.
"""

import dataclasses

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.data.tokens import END
from regard.decode.hypothesis import Hypothesis, length_penalty


@dataclasses.dataclass(frozen=True, eq=False)
class Written:
    """One step.

    Attributes:
        inputs: (inputs,), which choice of the step before each input continues; not read at the first step.
        look: (choices,), the input that each choice looked from.
        token: (choices,), what it wrote.
        log_probability: (choices,), float64.
        weights: (inputs, n) or None.
    """

    inputs: Int[Tensor, " inputs"]
    look: Int[Tensor, " choices"]
    token: Int[Tensor, " choices"]
    log_probability: Float[Tensor, " choices"]
    weights: Float[Tensor, "inputs n"] | None


@dataclasses.dataclass(frozen=True, eq=False)
class Leaves:
    """The last choice of some hypotheses. A `step` of -1 is a hypothesis that has not begun.

    Attributes:
        example: (leaves,), the sentence of each.
        step: (leaves,), the number of its last step.
        choice: (leaves,), its choice at that step.
    """

    example: Int[Tensor, " leaves"]
    step: Int[Tensor, " leaves"]
    choice: Int[Tensor, " leaves"]


def hypotheses(
    history: list[Written], leaves: Leaves, source_length: Int[Tensor, " batch"], alpha: float = 0.0
) -> list[Hypothesis]:
    """The hypotheses that end in these leaves, in the order of the leaves."""
    token, log_probability, weights = _trace(history, leaves)
    tokens, logs, columns = token.tolist(), log_probability.tolist(), source_length.tolist()
    found = []
    for row, (example, last) in enumerate(zip(leaves.example.tolist(), leaves.step.tolist(), strict=True)):
        steps = last + 1
        finished = steps > 0 and tokens[row][last] == END
        each = logs[row][:steps]
        total = sum(each)
        looked = weights is not None and steps > 0
        found.append(
            Hypothesis(
                tokens=tokens[row][: steps - finished],
                finished=finished,
                log_probability=total,
                score=total / length_penalty(steps, alpha),
                token_log_probabilities=each,
                weights=weights[row, :steps, : columns[example]].clone() if looked and weights is not None else None,
            )
        )
    return found


def _trace(
    history: list[Written], leaves: Leaves
) -> tuple[Int[Tensor, "leaves steps"], Float[Tensor, "leaves steps"], Float[Tensor, "leaves steps n"] | None]:
    """Follows the back-pointers of all leaves at once; what lies past the end of a shorter one is 0."""
    count, steps = len(leaves.step), int(leaves.step.max()) + 1 if len(leaves.step) else 0
    token = torch.zeros(count, steps, dtype=torch.long)
    log_probability = torch.zeros(count, steps, dtype=torch.float64)
    first = history[0].weights if history else None
    weights = None if first is None else first.new_zeros(count, steps, first.shape[1])
    here = leaves.choice.clone()
    for step in reversed(range(steps)):
        written = history[step]
        reached = (leaves.step >= step).nonzero()[:, 0]
        choice = here[reached]
        look = written.look[choice]
        token[reached, step] = written.token[choice]
        log_probability[reached, step] = written.log_probability[choice]
        if weights is not None and written.weights is not None:
            weights[reached, step] = written.weights[look]
        here[reached] = written.inputs[look]
    return token, log_probability, weights
