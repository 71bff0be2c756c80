"""A sampled choice: its gradient estimates beside the exact gradient, from enumerating every choice.

A query chooses one of five keys; the reward is a function of the value it gets. With five choices the
expected reward and its gradient can be written out, so the bias and the spread of each estimator show.

    python examples/sampled.py
"""

from collections.abc import Callable

import torch
from torch import Tensor

from regard import Gumbel, Sample, StraightThrough, choose, weights
from regard.core import Choice

KEYS, WIDTH = 5, 4
Loss = Callable[[Choice], Tensor]


def reward(output: Tensor) -> Tensor:
    """Not linear in the output, so that looking at a mixture is not the same as looking at one."""
    return (2 * output.sum(-1)).sin() + output[..., 0] * output[..., 1]


def setting() -> tuple[Tensor, Tensor, Tensor]:
    """One query, five keys and values."""
    generator = torch.Generator().manual_seed(4)
    return tuple(torch.randn(size, WIDTH, generator=generator, dtype=torch.float64) for size in (1, KEYS, KEYS))


def exact() -> Tensor:
    """d/dq Σ_j p_j · reward(v_j)."""
    query, key, value = setting()
    query.requires_grad_()
    expected = (weights(query, key) * reward(value)).sum()
    return torch.autograd.grad(expected, query)[0][0]


def reinforce(choice: Choice, baseline: float = 0.0) -> Tensor:
    """The reward of the choice times the gradient of its log-probability."""
    return (reward(choice.output).detach() - baseline) * choice.log_probability


def pathwise(choice: Choice) -> Tensor:
    """The gradient through the weights of the choice."""
    return reward(choice.output)


def estimate(by: Sample | Gumbel | StraightThrough, loss: Loss, draws: int = 20_000) -> tuple[Tensor, Tensor]:
    """Mean and spread of many estimates of the gradient, one for each draw."""
    query, key, value = (t.expand(draws, *t.shape) for t in setting())
    query = query.clone().requires_grad_()
    choice = choose(query, key, value, by=by, generator=torch.Generator().manual_seed(0))
    each = torch.autograd.grad(loss(choice).sum(), query)[0][:, 0]
    return each.mean(0), each.std(0)


WAYS = {
    "REINFORCE": (Sample(), reinforce),
    "REINFORCE, baseline": (Sample(), lambda choice: reinforce(choice, reward(setting()[2]).mean().item())),
    "Gumbel, temperature 1": (Gumbel(1.0), pathwise),
    "Gumbel, temperature 0.1": (Gumbel(0.1), pathwise),
    "straight through a sample": (StraightThrough(Sample()), pathwise),
    "straight through Gumbel 1": (StraightThrough(Gumbel(1.0)), pathwise),
}


def table(draws: int = 20_000) -> dict[str, tuple[float, float, float]]:
    """For each way: the bias's length, its standard error, and the spread of one estimate."""
    rows = {}
    for name, (by, loss) in WAYS.items():
        mean, spread = estimate(by, loss, draws)
        error = spread.norm().item() / draws**0.5
        rows[name] = ((mean - exact()).norm().item(), error, spread.norm().item())
    return rows


if __name__ == "__main__":
    print(f"the exact gradient has length {exact().norm():.3f}\n")
    print(f"{'':28}{'bias':>8}{'± error':>9}{'spread':>9}")
    for name, (bias, error, spread) in table().items():
        print(f"{name:28}{bias:8.3f}{error:9.3f}{spread:9.3f}")
