"""Sampled attention: one key is chosen at random, with the probabilities that softmax gives.

    choice = choose(query, key, value, by=Sample(), generator=g)
    loss = -(reward - baseline).detach() * choice.log_probability - 0.01 * choice.entropy     REINFORCE

How to choose: `Sample` gives an unbiased gradient of high variance, and needs a reward for each choice;
`Gumbel(temperature)` gives a gradient of low variance through a relaxed choice, biased, and its output is a
mixture; `StraightThrough(…)` chooses one key forward and pretends that it was a mixture backward.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core import dispatch, plain
from regard.core.call import cleaned
from regard.core.compare import scaled_dot
from regard.core.operation import check_call, computed
from regard.core.score import Prepared, Score
from regard.core.weigh import softmax
from regard.core.where import Where, everywhere


class Choice(NamedTuple):
    """One key chosen for each query. A row that may see nothing chooses nothing: every field is 0 there.

    Attributes:
        output: (*batch, m, d_v), `weights @ value`.
        weights: (*batch, m, n), the choice as weights: one-hot, or relaxed.
        log_probability: (*batch, m), the logarithm of the probability of the chosen key, with its gradient.
        entropy: (*batch, m), of the distribution that was chosen from, in nats, with its gradient.
    """

    output: Float[Tensor, "*batch m d_v"]
    weights: Float[Tensor, "*batch m n"]
    log_probability: Float[Tensor, "*batch m"]
    entropy: Float[Tensor, "*batch m"]


class By(ABC):
    """A way to choose a key."""

    @abstractmethod
    def draw(
        self, log_p: Float[Tensor, "*batch m n"], generator: torch.Generator | None
    ) -> tuple[Float[Tensor, "*batch m n"], Int[Tensor, "*batch m 1"]]:
        """Draws once for each row.

        Args:
            log_p: The logarithms of the probabilities, -inf where not allowed, 0 in rows with nothing allowed.
            generator: Where random numbers come from.

        Returns:
            The weights, and the index of the chosen key.
        """


class Sample(By):
    """Chooses a key by its probability; the weights are one-hot and pass no gradient (Williams 1992).

    The gradient of an expected reward is that of `reward · log_probability`, without bias.
    """

    def draw(
        self, log_p: Float[Tensor, "*batch m n"], generator: torch.Generator | None
    ) -> tuple[Float[Tensor, "*batch m n"], Int[Tensor, "*batch m 1"]]:
        index = _perturbed(log_p, generator).argmax(-1, keepdim=True)
        return _one_hot(index, log_p), index

    def __repr__(self) -> str:
        return "Sample()"


class Gumbel(By):
    """A relaxed choice, `softmax((log p + g) / temperature)` with Gumbel noise g (arXiv:1611.01144, 1611.00712).

    The key with the largest weight is distributed as `Sample`'s. The gradient passes through the weights; it
    is biased, the more so the higher the temperature, and varies the more the lower it is.
    """

    def __init__(self, temperature: float = 1.0) -> None:
        if isinstance(temperature, bool) or not isinstance(temperature, (int, float)):
            raise TypeError(f"Gumbel: temperature must be a number, got {type(temperature).__name__}: {temperature!r}")
        if not temperature > 0:
            raise ValueError(f"Gumbel: temperature must be above 0, got {temperature}: to choose one key use Sample()")
        self.temperature = float(temperature)

    def draw(
        self, log_p: Float[Tensor, "*batch m n"], generator: torch.Generator | None
    ) -> tuple[Float[Tensor, "*batch m n"], Int[Tensor, "*batch m 1"]]:
        noisy = _perturbed(log_p, generator)
        return (noisy / self.temperature).softmax(-1), noisy.argmax(-1, keepdim=True)

    def __repr__(self) -> str:
        return f"Gumbel({self.temperature})"


class StraightThrough(By):
    """One key forward, another gradient backward (Bengio et al. 2013, arXiv:1308.3432).

    The weights are one-hot. Backward they are the probabilities with `StraightThrough(Sample())`, which is
    unbiased where what follows is linear in the output; and the relaxed weights with
    `StraightThrough(Gumbel(temperature))`.
    """

    def __init__(self, by: Sample | Gumbel) -> None:
        if not isinstance(by, (Sample, Gumbel)):
            raise TypeError(f"StraightThrough: give it Sample() or Gumbel(temperature), got {by!r}")
        self.by = by

    def draw(
        self, log_p: Float[Tensor, "*batch m n"], generator: torch.Generator | None
    ) -> tuple[Float[Tensor, "*batch m n"], Int[Tensor, "*batch m 1"]]:
        soft, index = self.by.draw(log_p, generator)
        soft = soft if isinstance(self.by, Gumbel) else log_p.exp()
        return _one_hot(index, log_p) + (soft - soft.detach()), index

    def __repr__(self) -> str:
        return f"StraightThrough({self.by!r})"


def choose(
    query: Tensor,
    key: Tensor | Prepared,
    value: Tensor,
    *,
    by: By,
    score: Score = scaled_dot,
    where: Where = everywhere,
    first: int | Tensor = 0,
    generator: torch.Generator | None = None,
) -> Choice:
    """Chooses one key for each query, with the probabilities `softmax` of the scores.

    Args:
        query: (*batch, m, d_q).
        key: (*batch, n, d_k), or what `score.prepare(key)` made of it.
        value: (*batch, n, d_v).
        by: `Sample()`, `Gumbel(temperature)` or `StraightThrough(…)`.
        score: How well a query matches a key.
        where: Which keys a query may see.
        first: The position of the first query.
        generator: Where random numbers come from; PyTorch's default generator otherwise.

    Raises:
        TypeError: if an argument is not of its kind.
        ValueError: if two arguments do not fit each other.

    >>> import torch
    >>> from regard import choose, Sample
    >>> x = torch.randn(2, 5, 8)
    >>> choice = choose(x, x, x, by=Sample(), generator=torch.Generator().manual_seed(0))
    >>> choice.weights.sum(-1).unique()
    tensor([1.])
    """
    if not isinstance(by, By):
        made = f": make one, {by.__name__}(…)" if isinstance(by, type) and issubclass(by, By) else ""
        raise TypeError(f"choose: by must be Sample(), Gumbel(temperature) or StraightThrough(…), got {by!r}{made}")
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(f"choose: generator must be a torch.Generator, got {type(generator).__name__}")
    call = check_call("choose", query, key, value, score=score, where=where, weigh=softmax, first=first)
    ready = cleaned(call)
    cells = computed("choose", lambda _: plain.table(ready), call)
    log_p = plain.log_weights(cells, softmax)
    if not log_p.shape[-1]:  # no keys at all: there is no index to choose
        zero = log_p.sum(-1)
        return Choice(plain.combine(log_p.to(value.dtype), ready, cells), log_p, zero, zero)
    some = cells.allowed.any(-1, keepdim=True)
    drawn, index = by.draw(torch.where(some, log_p, 0), generator)
    chosen = torch.where(cells.allowed, drawn, 0)
    marked = 0 if cells.broken_rows is None else cells.broken_rows
    return Choice(
        output=dispatch.marked(plain.combine(chosen.to(value.dtype), ready, cells), ready),
        weights=plain.marked(chosen, cells).to(query.dtype),
        log_probability=(torch.where(some, log_p, 0).gather(-1, index) + marked).squeeze(-1),
        entropy=(_entropy(log_p) + marked).squeeze(-1),
    )


def _perturbed(log_p: Float[Tensor, "*batch m n"], generator: torch.Generator | None) -> Float[Tensor, "*batch m n"]:
    """Adds Gumbel noise, -log E for an exponential E: the largest is then a sample."""
    noise = torch.empty_like(log_p, requires_grad=False).detach().exponential_(generator=generator)
    return log_p - noise.clamp_min(torch.finfo(log_p.dtype).tiny).log()


def _one_hot(index: Int[Tensor, "*batch m 1"], like: Float[Tensor, "*batch m n"]) -> Float[Tensor, "*batch m n"]:
    return torch.zeros_like(like).scatter(-1, index, 1)


def _entropy(log_p: Float[Tensor, "*batch m n"]) -> Float[Tensor, "*batch m 1"]:
    possible = log_p > -torch.inf
    log_p = torch.where(possible, log_p, 0)
    return -(torch.where(possible, log_p.exp(), 0) * log_p).sum(-1, keepdim=True)
