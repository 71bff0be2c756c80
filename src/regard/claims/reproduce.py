"""Runs a claim, seed by seed, and writes what came out: one JSON result a claim, with its plot.

FOLDER/NAME/seed-0/…           what was trained, to go on with
FOLDER/NAME/seed-0.json        what the seed measured, written when it is done
RESULTS/NAME.json, NAME.svg    the result of all seeds
"""

import datetime
import json
import platform
import statistics
from pathlib import Path
from typing import Any

import torch

from regard import __version__
from regard.claims.claim import Claim, Measured, Tell
from regard.training import files
from regard.view.plots import chart


def reproduce(claim: Claim, folder: Path, results: Path, tell: Tell, *, command: str) -> dict[str, Any]:
    """Runs the seeds that are not done yet, then writes and returns the result.

    Args:
        claim: What is claimed.
        folder: Where runs lie.
        results: Where the result goes.
        tell: Is told how it goes.
        command: What was typed; it stands in the result.
    """
    found = [_seed(claim, seed, folder / claim.name, tell) for seed in claim.seeds]
    result = {
        "claim": claim.name,
        "says": claim.says,
        "source": claim.source,
        "goals": [_judged(goal, found) for goal in claim.goals],
        "seeds": list(claim.seeds),
        "measured": _spread(found),
        "plot": _plot(found),
        "command": command,
        "versions": {"regard": __version__, "torch": torch.__version__, "python": platform.python_version()},
        "machine": {"processor": processor(), "threads": torch.get_num_threads()},
        "minutes": round(sum(each["seconds"] for each in found) / 60, 2),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    files.make_folder(results)
    files.write_atomically(results / f"{claim.name}.json", (json.dumps(result, indent=1) + "\n").encode())
    if result["plot"] is not None:
        drawn = result["plot"]
        lines = [(name, [(x, y) for x, y in points]) for name, points in drawn["lines"]]
        picture = chart(drawn["across"], drawn["up"], lines, title=claim.says)
        files.write_atomically(results / f"{claim.name}.svg", picture.encode())
    return result


def _seed(claim: Claim, seed: int, folder: Path, tell: Tell) -> dict[str, Any]:
    """What one seed measured: read, if it is done."""
    path = folder / f"seed-{seed}.json"
    if path.exists():
        done: dict[str, Any] = json.loads(path.read_text())
        return done
    tell.say(f"{claim.name}, seed {seed}")
    measured: Measured = claim.measure(seed, folder / f"seed-{seed}", tell)
    seconds = sum(value for name, value in measured.numbers.items() if name.endswith("seconds of training"))
    found = {"seed": seed, "numbers": dict(measured.numbers), "plot": measured.plot, "seconds": seconds}
    files.make_folder(folder)
    files.write_atomically(path, json.dumps(found).encode())
    return json.loads(path.read_text())  # type: ignore[no-any-return]  # as a later call will read it


def _judged(goal: Any, found: list[dict[str, Any]]) -> dict[str, Any]:
    """A goal beside the median of the seeds, and how many of them reach it."""
    values = [each["numbers"][goal.measure] for each in found]
    middle = statistics.median(values)
    return {
        "measure": goal.measure,
        "goal": f"{goal.comparison} {goal.value:g}",
        "median": middle,
        "reached": goal.reached(middle),
        "seeds that reach it": sum(map(goal.reached, values)),
    }


def _spread(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Each measurement over the seeds: the median, the range, and all of them."""
    names = list(found[0]["numbers"])
    columns = {name: [each["numbers"][name] for each in found] for name in names}
    return {
        name: {"median": statistics.median(values), "least": min(values), "most": max(values), "each": values}
        for name, values in columns.items()
    }


def _plot(found: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The lines of all seeds: for each name the median at every x."""
    if found[0]["plot"] is None:
        return None
    across, up, _ = found[0]["plot"]
    lines: dict[str, dict[float, list[float]]] = {}
    for each in found:
        for name, points in each["plot"][2]:
            for x, y in points:
                lines.setdefault(name, {}).setdefault(x, []).append(y)
    drawn = [[name, [[x, statistics.median(ys)] for x, ys in sorted(at.items())]] for name, at in lines.items()]
    return {"across": across, "up": up, "lines": drawn}


def processor() -> str:
    """What the machine computes with, in words."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} × {names[0]}" if names else platform.machine()
