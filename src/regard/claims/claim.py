"""What a claim is: a paper's sentence, a goal, and a function that measures."""

import dataclasses
import importlib
import operator
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from regard.training.record import Progress

COMPARISONS = {">=": operator.ge, "<=": operator.le}


class Tell(NamedTuple):
    """Whoever is told how it goes: of what stays to be read, and of every step."""

    say: Callable[[str], None]
    report: "Callable[[Progress], None]"


@dataclasses.dataclass(frozen=True)
class Goal:
    """One figure to reach.

    Attributes:
        measure: The name of a measurement.
        comparison: How it must stand to the value.
        value: The figure.
    """

    measure: str
    comparison: Literal[">=", "<="]
    value: float

    def reached(self, measured: float) -> bool:
        """Whether a measurement reaches it."""
        return bool(COMPARISONS[self.comparison](measured, self.value))


class Line(NamedTuple):
    """One line of a plot: its name, and points (x, y)."""

    name: str
    points: list[tuple[float, float]]


class Plot(NamedTuple):
    """A figure: what its axes are, and its lines."""

    across: str
    up: str
    lines: list[Line]


class Measured(NamedTuple):
    """What one seed gave: numbers by name, and a figure if the claim has one."""

    numbers: Mapping[str, float]
    plot: Plot | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim of a paper, as a run that anyone can repeat.

    Attributes:
        name: As the command line knows it.
        says: What is claimed, in one line.
        source: The paper and what it reports.
        goals: What must be measured here.
        seeds: The seeds it is run with. The median of them is held against each goal.
        minutes: About how long all of them take on two cores.
        place: The module and the function that measures: (seed, folder, tell) -> Measured. What it trains lies in
            the folder, and is gone on with if the function is called again.
        data: The public sets that it needs.
    """

    name: str
    says: str
    source: str
    goals: tuple[Goal, ...]
    seeds: tuple[int, ...]
    minutes: float
    place: tuple[str, str]
    data: tuple[str, ...] = ()

    def measure(self, seed: int, folder: Path, tell: Tell) -> Measured:
        """Runs one seed."""
        function: Any = getattr(importlib.import_module(self.place[0]), self.place[1])
        found: Measured = function(seed, folder, tell)
        return found
