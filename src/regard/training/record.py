"""What a run says of itself while it trains: lines of metrics.jsonl, and progress for whoever shows it."""

import json
import math
import time
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

from regard.errors import RegardError
from regard.training import files

NAME = "metrics.jsonl"


class Progress(NamedTuple):
    """How training goes.

    Attributes:
        step: The step just done.
        steps: The last one, or None while that is being found out.
        loss: The mean negative log-likelihood of a token, over the last steps.
        speed: Target tokens a second.
        left: Seconds left, or None.
        metrics: Of the best validation so far.
    """

    step: int
    steps: int | None
    loss: float
    speed: float
    left: float | None
    metrics: dict[str, float]

    def __str__(self) -> str:
        """Step, loss, speed, time left, and the best validation.

        >>> str(Progress(10, 200, 1.25, 5300.0, 75.0, {"exact": 0.5}))
        'step 10/200  loss 1.250  5,300 tokens/s  1:15 left  best exact 0.500'
        """
        parts = [f"step {self.step}/{self.steps or '?'}", f"loss {self.loss:.3f}"]
        if self.speed:
            parts.append(f"{self.speed:,.0f} tokens/s")
        if self.left is not None:
            minutes, seconds = divmod(int(self.left), 60)
            parts.append(f"{minutes}:{seconds:02} left")
        shown = [name for name in self.metrics if name not in ("loss", "perplexity", "step")]
        parts += [f"best {name} {self.metrics[name]:.3f}" for name in shown[:2]]
        return "  ".join(parts)


class Journal:
    """Keeps the lines of a run, one a step at most, in the order of the steps.

    Args:
        folder: The run folder.
        after: The step that training goes on from: lines of later steps are dropped, since they come again.
        every: Steps between two lines.
        tensorboard: Whether to write TensorBoard files too.
    """

    def __init__(self, folder: Path, *, after: int, every: int = 1, tensorboard: bool = False) -> None:
        self.path = folder / NAME
        lines = self.path.read_bytes().split(b"\n") if self.path.exists() else []
        kept = [line for line in lines if line and _step(line) <= after]
        files.write_atomically(self.path, b"".join(line + b"\n" for line in kept))
        self._lines: list[str] = []
        self._begin = time.perf_counter()
        self._recent: deque[tuple[float, int, float]] = deque(maxlen=50)
        self._every = every
        self._board = _board(folder) if tensorboard else None

    def step(self, step: int, *, loss: float, tokens: int, rate: float, norm: float) -> None:
        """Notes a step."""
        self._recent.append((time.perf_counter(), tokens, loss))
        if step % self._every == 0:
            self._note({"step": step, "loss": loss, "rate": rate, "norm": norm, "tokens": tokens})

    def validated(self, step: int, found: dict[str, float]) -> None:
        """Notes a validation."""
        self._note({"step": step, **{f"valid.{name}": value for name, value in found.items()}})
        self.flush()

    def progress(self, step: int, steps: int | None, metrics: dict[str, float]) -> Progress:
        """How it goes, from the last fifty steps."""
        times, tokens, losses = zip(*self._recent, strict=True)
        spent = max(times[-1] - times[0], 1e-9)
        speed = sum(tokens[1:]) / spent if len(times) > 1 else 0.0
        left = (steps - step) * spent / (len(times) - 1) if steps and len(times) > 1 else None
        return Progress(step, steps, sum(losses) / len(losses), speed, left, metrics)

    def flush(self) -> None:
        """Writes what was noted to the end of the file."""
        files.append(self.path, "".join(self._lines).encode())
        self._lines.clear()
        if self._board is not None:
            self._board.flush()

    def _note(self, line: dict[str, Any]) -> None:
        self._lines.append(json.dumps(line) + "\n")
        if self._board is not None:
            for name, value in line.items():
                if name != "step":
                    self._board.add_scalar(name, value, line["step"])


def _step(line: bytes) -> float:
    """The step of a line; a line that was cut short belongs to none."""
    try:
        step = json.loads(line)["step"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return math.inf
    return step if isinstance(step, int) else math.inf


def _board(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise RegardError('TensorBoard files need its package: pip install "regard[log]"') from None
    return SummaryWriter(str(folder / "tensorboard"))
