"""Beam search: the few best hypotheses of each sentence side by side, all sentences together.

At each step every unfinished hypothesis offers each token. All offers of a sentence are ranked by their summed
log-probability; an END among the best `size` of them is a finished hypothesis, and the best `size` others go on.
At `longest` tokens they are cut short, and compete unfinished, by the same score. So `size` 1 is greedy decoding
(without a length penalty, with which it may look past the first END), and a beam that is wide enough to keep
everything is exhaustive search.

**When a sentence stops.** Not at its first END, but when no unfinished hypothesis can still beat the worst of the
`n_best` finished ones that are kept. A log-probability L ≤ 0 of t tokens can only fall, and what grows out of it
has t + 1 tokens at the least and `longest` at the most, END included, so that its score is not above

    L / max(length_penalty(t + 1), length_penalty(longest))

whichever sign the penalty's exponent has (the penalty is monotone in the length). Stopping there changes nothing
in what is returned.

Equal offers rank by their hypothesis, then by token id; equal scores by which was complete first.

Axes: `sentences` that are still being written, `width` hypotheses of each, `offers` of each.
"""

import dataclasses
import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.errors import whole
from regard.data.tokens import BEGIN, END
from regard.decode.history import Leaves, Written, hypotheses
from regard.decode.hypothesis import Hypothesis
from regard.decode.hypothesis import length_penalty as penalty_of
from regard.decode.stepping import best, limits, log_probabilities, picked
from regard.nn.stepwise import Stepwise


@torch.no_grad()
def beam(
    model: Stepwise,
    source: Int[Tensor, "batch n"],
    source_length: Int[Tensor, " batch"],
    *,
    size: int,
    longest: int | Tensor,
    length_penalty: float = 0.0,
    n_best: int = 1,
) -> list[list[Hypothesis]]:
    """Searches for the outputs of the highest score, `log_probability / ((5 + length) / 6) ** length_penalty`.

    PAD and BEGIN are never written. The model is used as it stands: call `model.eval()` before.

    Args:
        model: What writes.
        source: (batch, n), token ids; a sentence's padding stands after it.
        source_length: (batch,), the tokens of each sentence.
        size: How many hypotheses of a sentence are kept at each step. It may exceed the vocabulary.
        longest: The most tokens to write, END included; one number, or (batch,), one for each sentence.
        length_penalty: The exponent of the length penalty; 0 compares log-probabilities as they are, above 0
            favours longer outputs. The length counts END.
        n_best: How many hypotheses to return for a sentence, at most `size`.

    Returns:
        For each sentence, in their order, its hypotheses: at least one, at most `n_best`, best first. One that
        `longest` cut short is not finished, and ranks by its score like the others. A hypothesis that no token
        can follow is dropped, unless nothing else is there. What is found for a sentence does not depend on
        which others stand in the batch.

    Raises:
        TypeError: if a size is not a whole number.
        ValueError: if shapes do not fit or a number is out of range.
        RegardError: if the model's logits are not numbers.
    """
    whole(size, "beam: size", least=1)
    if whole(n_best, "beam: n_best", least=1) > size:
        raise ValueError(f"beam: n_best must be at most size, got n_best={n_best} and size={size}")
    if not math.isfinite(length_penalty):
        raise ValueError(f"beam: length_penalty must be finite, got {length_penalty}")
    limit = limits("beam", source, source_length, longest)
    last_penalty = torch.tensor([penalty_of(length, length_penalty) for length in limit.tolist()], dtype=torch.float64)
    history: list[Written] = []
    results = _Results(limit, n_best)
    example = (limit > 0).nonzero()[:, 0]
    if len(example):
        chosen = example.to(source.device)
        state = model.begin(source[chosen], source_length[chosen])
        token = torch.full_like(example, BEGIN)
        inputs = torch.arange(len(example))[:, None]
        total = torch.zeros(len(example), 1, dtype=torch.float64)
    while len(example):
        step = len(history)
        logits, state, weights = model.step(state, token.to(source.device))
        offers = _offers(log_probabilities(logits, step), total, size)
        history.append(offers.written(inputs, weights))
        live, live_total = _unfinished(offers, size)
        penalty = penalty_of(step + 1, length_penalty)
        results.take(example, step, offers.number[:, :size], offers.ended(size) / penalty)
        at_limit = step + 1 == limit[example]
        results.take(example[at_limit], step, live[at_limit], live_total[at_limit] / penalty)
        hope = live_total[:, 0] / last_penalty[example].clamp(min=penalty_of(step + 2, length_penalty))
        going = ~at_limit & (hope > results.score[example, -1])
        stuck = ~going & (results.score[example, 0] == -torch.inf)
        results.take(example[stuck], step - 1, inputs[stuck], total[stuck] / penalty_of(step, length_penalty))
        example, inputs, total = example[going], live[going], live_total[going]
        rows = inputs.flatten()
        token = offers.token.flatten()[rows]
        state = picked(state, offers.look.flatten()[rows], len(logits))
    leaves = results.leaves()
    found = hypotheses(history, leaves, source_length, length_penalty)
    ranked: list[list[Hypothesis]] = [[] for _ in range(len(source))]
    for sentence, hypothesis in zip(leaves.example.tolist(), found, strict=True):
        ranked[sentence].append(hypothesis)
    return ranked


@dataclasses.dataclass(frozen=True, eq=False)
class _Offers:
    """The best continuations of each sentence at one step, best first. One that is not possible has -inf.

    Attributes:
        look: Which row of the step each looked from.
        token: What it writes.
        log_probability: Of that token.
        total: Of the whole hypothesis with it.
        number: Its number among all of the step.
    """

    look: Int[Tensor, "sentences offers"]
    token: Int[Tensor, "sentences offers"]
    log_probability: Float[Tensor, "sentences offers"]
    total: Float[Tensor, "sentences offers"]
    number: Int[Tensor, "sentences offers"]

    def ended(self, size: int) -> Float[Tensor, "sentences _"]:
        """The totals of the best `size`, -inf for those that do not end."""
        return self.total[:, :size].masked_fill(self.token[:, :size] != END, -torch.inf)

    def written(self, inputs: Int[Tensor, "sentences width"], weights: Float[Tensor, "rows n"] | None) -> Written:
        """The step as the history keeps it."""
        seen = None if weights is None else weights.cpu()
        return Written(
            inputs.flatten(), self.look.flatten(), self.token.flatten(), self.log_probability.flatten(), seen
        )


def _offers(logs: Float[Tensor, "rows vocabulary"], total: Float[Tensor, "sentences width"], size: int) -> _Offers:
    """The best `2 · size`: `size` of them and more do not end, since each hypothesis has one END at most."""
    sentences, width = total.shape
    value, token = best(logs, size + 1)
    log = value.cpu().double().view(sentences, -1)
    each = value.shape[1]
    sums = total.repeat_interleave(each, dim=1) + log
    sums, order = (part[:, : 2 * size] for part in sums.sort(dim=1, descending=True, stable=True))
    return _Offers(
        look=order // each + width * torch.arange(sentences)[:, None],
        token=token.cpu().view(sentences, -1).gather(1, order),
        log_probability=log.gather(1, order),
        total=sums,
        number=torch.arange(order.numel()).view(order.shape),
    )


def _unfinished(offers: _Offers, size: int) -> tuple[Int[Tensor, "sentences width"], Float[Tensor, "sentences width"]]:
    """The numbers and totals of the best `size` offers that do not end.

    Where a sentence has fewer, its first one stands again with a total of -inf, from which nothing grows.
    """
    total = offers.total.masked_fill(offers.token == END, -torch.inf)
    order = (total == -torch.inf).byte().sort(dim=1, stable=True).indices[:, :size]
    total = total.gather(1, order)
    number = offers.number.gather(1, order)
    return torch.where(total > -torch.inf, number, number[:, :1]), total


class _Results:
    """The best outputs of every sentence so far; a place that none has taken yet has the score -inf."""

    def __init__(self, limit: Int[Tensor, " batch"], n_best: int) -> None:
        self.n_best = n_best
        self.score = torch.full((len(limit), n_best), -torch.inf, dtype=torch.float64)
        self.score[limit == 0, :1] = 0.0  # nothing may be written: the empty hypothesis
        self.step = torch.full((len(limit), n_best), -1)
        self.choice = torch.zeros(len(limit), n_best, dtype=torch.long)

    def take(
        self,
        example: Int[Tensor, " some"],
        step: int,
        choice: Int[Tensor, "some offers"],
        score: Float[Tensor, "some offers"],
    ) -> None:
        """Takes in more outputs of these sentences, whose last choices were made at this step."""
        if not len(example):
            return
        scores = torch.cat([self.score[example], score], dim=1)
        steps = torch.cat([self.step[example], torch.full_like(choice, step)], dim=1)
        scores, order = (part[:, : self.n_best] for part in scores.sort(dim=1, descending=True, stable=True))
        self.score[example] = scores
        self.step[example] = steps.gather(1, order)
        self.choice[example] = torch.cat([self.choice[example], choice], dim=1).gather(1, order)

    def leaves(self) -> Leaves:
        """All of them, by sentence, best first."""
        example, place = (self.score > -torch.inf).nonzero(as_tuple=True)
        return Leaves(example, self.step[example, place], self.choice[example, place])
