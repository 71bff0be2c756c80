"""What every benchmark shares: times taken in turn, ratios, and a record of where they were measured."""

import datetime
import json
import math
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from regard import __version__
from regard.claims.reproduce import processor


class Row(NamedTuple):
    """One comparison: ours beside a peer, in seconds; the goal for the ratio, where there is one."""

    name: str
    size: str
    peer: str
    ours: float
    theirs: float
    goal: str = ""

    @property
    def ratio(self) -> float:
        """How many times longer ours takes."""
        return self.ours / self.theirs


def best(*actions: Callable[[], object], repeats: int = 9, seconds: float = 2.0) -> list[float]:
    """Seconds of each action, the best of several rounds in which they take turns; fewer rounds of what takes long."""
    times = [math.inf] * len(actions)
    begin = time.perf_counter()
    for action in actions:
        action()
    once = time.perf_counter() - begin
    rounds = max(3, min(repeats, int(seconds / max(once, 1e-9)))) if once > 0.01 else 40 * repeats
    for _ in range(rounds):
        for place, action in enumerate(actions):
            begin = time.perf_counter()
            action()
            times[place] = min(times[place], time.perf_counter() - begin)
    return times


def both_ways(
    function: Callable[..., Tensor], *tensors: Tensor, learned: Sequence[Tensor] = ()
) -> Callable[[], object]:
    """Forward and backward, to the tensors and to what is learned."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    with torch.no_grad():
        slope = torch.randn_like(function(*leaves))
    return lambda: torch.autograd.grad(function(*leaves), [*leaves, *learned], slope)


def shown(rows: Sequence[Row]) -> str:
    """The rows as a table."""
    lines = [f"{'':38} {'size':>22} {'peer':>20} {'ours':>9} {'peer':>9} {'ratio':>7}  goal"]
    for row in rows:
        times = f"{_time(row.ours):>9} {_time(row.theirs):>9} {row.ratio:7.3f}"
        lines.append(f"{row.name:38} {row.size:>22} {row.peer:>20} {times}  {row.goal}")
    return "\n".join(lines)


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"


def kept(path: str, rows: Sequence[Row], command: str, **more: str) -> None:
    """Writes the rows beside what they were measured with."""
    record = {
        "command": command,
        "versions": {"regard": __version__, "torch": torch.__version__, "python": platform.python_version(), **more},
        "machine": {"processor": processor(), "threads": torch.get_num_threads()},
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "rows": [{**row._asdict(), "ratio": round(row.ratio, 4)} for row in rows],
    }
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
