"""Measurements beside their targets: figures, and how they are shown as a table and as JSON. Measures nothing."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

WIDTH = 100
_NAME = 45
_LAYOUT = f"{{:<{_NAME}}} {{:>9}} {{:<5}} {{:>9}} {{:<6}} {{:>20}}"


@dataclass(frozen=True)
class Target:
    """A goal of PERFORMANCE.md. `at_most`: less is better, and the bound itself is met."""

    bound: float
    at_most: bool = True

    def is_met(self, value: float) -> bool:
        """Is the value good enough?"""
        return value <= self.bound if self.at_most else value >= self.bound

    def __str__(self) -> str:
        return ("≤ " if self.at_most else "≥ ") + number(self.bound)


def at_most(bound: float) -> Target:
    """Less is better."""
    return Target(bound)


def at_least(bound: float) -> Target:
    """More is better."""
    return Target(bound, at_most=False)


@dataclass(frozen=True)
class Figure:
    """One thing measured: the value of each run, all in `unit`. Without a target it is there to explain another. `at`:
    of what grows, how large it was."""

    subject: str
    name: str
    unit: str
    runs: tuple[float, ...]
    target: Target | None = None
    at: int | None = None

    @property
    def median(self) -> float:
        """The value that the report shows."""
        return statistics.median(self.runs)

    @property
    def met(self) -> bool | None:
        """Is the target met? None without one."""
        return None if self.target is None else self.target.is_met(self.median)

    def as_json(self) -> dict[str, Any]:
        """Everything, for machines."""
        return {
            "subject": self.subject,
            "name": self.name,
            "at": self.at,
            "unit": self.unit,
            "median": self.median,
            "runs": list(self.runs),
            "target": None if self.target is None else self.target.bound,
            "better": None if self.target is None else "lower" if self.target.at_most else "higher",
            "met": self.met,
        }


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest of the values that at least `share` (0 to 1) of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def number(value: float) -> str:
    """Three significant digits and no fewer than all of the integer part: 0.0123, 1.23, 12.3, 123, 12,345."""
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def table(figures: list[Figure]) -> str:
    """The figures by subject, at most WIDTH columns wide."""
    lines = [_row(("", "median", "", "target", "", "lowest … highest"))]
    subject = None
    for figure in figures:
        if figure.subject != subject:
            subject = figure.subject
            lines.append(subject)
        lines.append(_row(_cells(figure)))
    return "\n".join(lines) + "\n"


def verdict(figures: list[Figure]) -> str:
    """One line: how many targets are met."""
    judged = [figure for figure in figures if figure.met is not None]
    return f"{sum(bool(figure.met) for figure in judged)} of {len(judged)} targets met"


def _cells(figure: Figure) -> tuple[str, ...]:
    met = {None: "", True: "met", False: "missed"}[figure.met]
    target = "" if figure.target is None else str(figure.target)
    spread = f"{number(min(figure.runs))} … {number(max(figure.runs))}" if len(figure.runs) > 1 else ""
    name = figure.name if figure.at is None else f"{figure.at:>9,}: {figure.name}"
    return ("  " + name, number(figure.median), figure.unit, target, met, spread)


def _row(cells: tuple[str, ...]) -> str:
    name, *rest = cells
    fitted = [name if len(name) <= _NAME else name[: _NAME - 1] + "…", *rest]
    return _LAYOUT.format(*fitted).rstrip()
