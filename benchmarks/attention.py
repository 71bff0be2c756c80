"""The operation beside PyTorch's own ways to write the same, as ratios in one run: `make bench`.

A ratio above 1 says how many times longer ours takes. Times are the best of several, taken in turn, so that
what else the machine does touches both alike. The rows at the end are what a law costs on its own.
"""

import math
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

import regard
from regard.core.score import sound_rows

BATCH, HEADS, WIDTH, HIDDEN = 4, 4, 64, 64
LENGTHS, CACHED = (1, 32, 128, 512), 512


def best(*actions: Callable[[], object], repeats: int = 7) -> list[float]:
    """Seconds of each action, the best of several rounds in which they take turns."""
    times = [math.inf] * len(actions)
    for action in actions:
        action()
    for _ in range(repeats):
        for place, action in enumerate(actions):
            begin = time.perf_counter()
            action()
            times[place] = min(times[place], time.perf_counter() - begin)
    return times


def with_gradient(function: Callable[..., Tensor], *leaves: Tensor) -> Callable[[], object]:
    """Forward and backward."""
    leaves = tuple(leaf.clone().requires_grad_() for leaf in leaves)
    return lambda: torch.autograd.grad(function(*leaves).sum(), leaves)


def written_additive(score: regard.Additive) -> Callable[..., Tensor]:
    """Additive attention as most would write it."""

    def function(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        hidden = torch.tanh(score.query(query)[..., :, None, :] + score.key(key)[..., None, :, :])
        return (hidden @ score.vector).softmax(-1) @ value

    return function


def pairs() -> dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]]:
    """Ours and the peer's, by name."""
    fused = functional.scaled_dot_product_attention
    additive = regard.Additive(WIDTH, WIDTH, hidden=HIDDEN)
    return {
        "scaled dot / SDPA": (regard.attend, fused),
        "causal / SDPA": (
            lambda *t: regard.attend(*t, where=regard.causal, first=t[1].shape[-2] - t[0].shape[-2]),
            lambda *t: fused(*t, is_causal=t[0].shape[-2] > 1),
        ),
        "additive / plain PyTorch": (lambda *t: regard.attend(*t, score=additive), written_additive(additive)),
    }


def ratios(ours: Callable[..., Tensor], peer: Callable[..., Tensor], n: int) -> tuple[float, float]:
    """How many times longer ours takes: forward, and forward and backward."""
    query = torch.randn(BATCH, HEADS, n, WIDTH)
    key, value = (torch.randn(BATCH, HEADS, CACHED if n == 1 else n, WIDTH) for _ in range(2))
    with torch.no_grad():
        forward = best(lambda: ours(query, key, value), lambda: peer(query, key, value))
    both = best(with_gradient(ours, query, key, value), with_gradient(peer, query, key, value))
    return forward[0] / forward[1], both[0] / both[1]


def main() -> None:
    """Prints the table."""
    threads = torch.get_num_threads()
    print(f"torch {torch.__version__}, {threads} threads, batch {BATCH} × {HEADS} heads, width {WIDTH}\n")
    print(f"{'':26}" + "".join(f"{f'n = {n}':>20}" for n in LENGTHS))
    print(f"{'ours / peer':26}" + "".join(f"{'forward':>11}{'+ back':>9}" for _ in LENGTHS))
    for name, (ours, peer) in pairs().items():
        cells = (ratios(ours, peer, n) for n in LENGTHS)
        print(f"{name:26}" + "".join(f"{forward:11.2f}{both:9.2f}" for forward, both in cells))
    print(f"\nn = 1: one query, {CACHED} keys. Ours is the plain form, which forms the whole table.\n")
    x = torch.randn(BATCH, HEADS, 512, WIDTH)
    dot = x[:1, :1, :1, :1]
    with torch.no_grad():
        check, whole = best(lambda: sound_rows(x), lambda: regard.attend(x, x, x))
        smallest, _ = best(lambda: regard.attend(dot, dot, dot), lambda: None)
    print(f"the look for what is not finite (law 3): {check / whole:.1%} of a call at n = 512, for each tensor")
    print(f"the smallest call, 1 × 1 × 1: {smallest * 1e6:.0f} µs")


if __name__ == "__main__":
    main()
