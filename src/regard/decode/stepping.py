"""What all ways to decode share: checks, the log-probabilities of what may be written, one path per sentence.

Axes: `batch` of sentences, `n` source positions, `rows` of hypotheses, `vocabulary`.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.errors import integers, whole
from regard.core.score import at_least_single
from regard.data.tokens import BEGIN, END, PAD
from regard.decode.history import Leaves, Written, hypotheses
from regard.decode.hypothesis import Hypothesis
from regard.errors import RegardError
from regard.nn.stepwise import State, Stepwise

Choose = Callable[[Float[Tensor, "rows vocabulary"], Int[Tensor, " rows"], int], Int[Tensor, " rows"]]
"""(log-probabilities, the sentence of each row, number of the step) -> a token for each row, on the CPU."""


def limits(call: str, source: Tensor, source_length: Tensor, longest: int | Tensor) -> Int[Tensor, " batch"]:
    """Checks what every decoder is given; the most tokens to write for each sentence, END included, on the CPU.

    Raises:
        TypeError: if a length is not a whole number.
        ValueError: if the shapes do not fit each other, or a length is out of range.
    """
    if source.ndim != 2 or source_length.shape != source.shape[:1]:
        raise ValueError(
            f"{call}: source must be (batch, n) and source_length (batch,), got {tuple(source.shape)} "
            f"and {tuple(source_length.shape)}"
        )
    size, n = source.shape
    if size and not 0 <= int(source_length.min()) <= int(source_length.max()) <= n:
        raise ValueError(
            f"{call}: source_length must be between 0 and {n}, the width of source, got "
            f"{int(source_length.min())} to {int(source_length.max())}"
        )
    if not isinstance(longest, Tensor):
        return torch.full((size,), whole(longest, f"{call}: longest", least=0))
    if integers(longest, f"{call}: longest").shape != (size,):
        raise ValueError(f"{call}: longest must be an int or a length for each of {size} sentences, got "
                         f"shape {tuple(longest.shape)}")  # fmt: skip
    if size and int(longest.min()) < 0:
        raise ValueError(f"{call}: longest must be at least 0, got {int(longest.min())}")
    return longest.long().cpu()


def log_probabilities(logits: Float[Tensor, "rows vocabulary"], step: int) -> Float[Tensor, "rows vocabulary"]:
    """The model's log-probabilities, in float32 at least; PAD and BEGIN, which are never written, are -inf.

    Raises:
        RegardError: if the logits of a row are not numbers.
    """
    logs = torch.log_softmax(logits, -1, dtype=at_least_single(logits.dtype))
    if logs[:, :1].isnan().any():  # one such logit makes its whole row NaN
        raise RegardError(
            f"the model's logits at step {step} hold NaN, +inf or nothing but -inf: its weights are not finite, or "
            "its arithmetic overflows in this precision; look at the loss, or load an earlier state"
        )
    for never in (PAD, BEGIN):
        logs[:, never : never + 1] = -torch.inf  # an empty slice where the vocabulary is smaller
    return logs


def best(values: Float[Tensor, "rows vocabulary"], count: int) -> tuple[Tensor, Int[Tensor, "rows _"]]:
    """The `count` greatest of each row (all, if there are fewer) with their ids: equal ones by id, ascending.

    >>> best(torch.tensor([[1.0, 3.0, 3.0, 3.0]]), 2)
    (tensor([[3., 3.]]), tensor([[1, 2]]))
    """
    if count >= values.shape[1]:
        ordered = values.sort(dim=-1, descending=True, stable=True)
        return ordered.values, ordered.indices
    top = values.topk(count + 1, dim=-1)
    token = top.indices[:, :count].sort(dim=-1).values
    value, order = values.gather(1, token).sort(dim=-1, descending=True, stable=True)
    token = token.gather(1, order)
    # Where the last one in equals the first one out, topk may have kept any of the equal ones.
    tied = (top.values[:, count - 1] == top.values[:, count]).nonzero()[:, 0]
    if len(tied):
        token[tied] = values[tied].sort(dim=-1, descending=True, stable=True).indices[:, :count]
        value = values.gather(1, token)
    return value, token


def picked(state: State, rows: Int[Tensor, " rows"], before: int) -> State:
    """The state of these rows, of `before` that there were; as it is, if that changes nothing or none is left."""
    unchanged = len(rows) == before and torch.equal(rows, torch.arange(before))
    if unchanged or not len(rows):
        return state
    return state.map(lambda tensor: tensor.index_select(0, rows.to(tensor.device)))


@torch.no_grad()
def follow(
    model: Stepwise,
    source: Int[Tensor, "batch n"],
    source_length: Int[Tensor, " batch"],
    limit: Int[Tensor, " batch"],
    choose: Choose,
) -> list[Hypothesis]:
    """Writes one path for each sentence. A sentence that is finished leaves the computation.

    A path ends with END, at its limit, or where no token is possible.
    """
    history: list[Written] = []
    last = Leaves(torch.arange(len(source)), torch.full_like(limit, -1), torch.zeros_like(limit))
    example = (limit > 0).nonzero()[:, 0]
    if len(example):
        chosen = example.to(source.device)
        state = model.begin(source[chosen], source_length[chosen])
        token = torch.full_like(example, BEGIN)
        rows = torch.arange(len(example))
    while len(example):
        step, count = len(history), len(example)
        logits, state, weights = model.step(state, token.to(source.device))
        logs = log_probabilities(logits, step)
        token = choose(logs, example, step)
        log = logs.gather(1, token.to(logs.device)[:, None])[:, 0].cpu().double()
        every = torch.arange(count)
        history.append(Written(rows, every, token, log, None if weights is None else weights.cpu()))
        possible = log > -torch.inf
        last.step[example[possible]] = step
        last.choice[example[possible]] = every[possible]
        rows = (possible & (token != END) & (step + 1 < limit[example])).nonzero()[:, 0]
        example, token, state = example[rows], token[rows], picked(state, rows, count)
    return hypotheses(history, last, source_length)
