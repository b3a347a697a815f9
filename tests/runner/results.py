"""What came of the tests, what is wrong with the run, and the report at the end. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

MOST_RETRIES = 5
"""So many failed tests are tried again alone. If more fail, something is broken."""
SLOWEST = 30
_WIDTH = 80


@dataclass
class Case:
    """One test that a run selected: its layer, and what came of it."""

    layer: str
    outcome: str = ""
    """`passed`, `failed` or `skipped`; empty as long as it has not ended."""
    seconds: float = 0.0
    final: bool = False
    """Whether its failure must not be tried again."""


@dataclass
class Results:
    """What is known so far."""

    tests: dict[str, Case] = field(default_factory=dict)
    red: list[str] = field(default_factory=list)
    """What is wrong with the run of the tests, apart from failed tests."""
    beside: list[str] = field(default_factory=list)
    """The commands beside the first stage that failed. The tests go on all the same."""
    alone: list[str] = field(default_factory=list)
    """The tests that failed and then passed alone."""
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each stage took."""

    @property
    def failed(self) -> list[str]:
        """The tests whose last outcome is a failure."""
        return [name for name, test in self.tests.items() if test.outcome == "failed"]

    @property
    def is_broken(self) -> bool:
        """Whether the failed tests must not be tried again, alone."""
        return bool(self.red) or len(self.failed) > MOST_RETRIES or any(self.tests[name].final for name in self.failed)

    @property
    def is_green(self) -> bool:
        """Whether tests ran, and nothing is wrong."""
        return bool(self.tests) and not (self.red or self.beside or self.failed)

    def report(self) -> Iterator[str]:
        """The lines at the end. The last one has the form of pytest's own, which other programs read."""
        yield from self._slowest()
        yield "seconds per stage: " + ", ".join(f"{name} {seconds:.0f}" for name, seconds in self.seconds.items())
        yield "tests per layer: " + ", ".join(self._per_layer())
        yield from (f"passes alone: {name} (write cause and fix into tests/FLAKY.md)" for name in self.alone)
        failed = self.failed
        yield from (f"FAILED {name}{' (a verdict, not tried again)' * self.tests[name].final}" for name in failed)
        if len(failed) > MOST_RETRIES:
            yield f"RED {len(failed)} tests failed; only up to {MOST_RETRIES} are tried again"
        yield from (f"RED {told}" for told in (*self.beside, *self.red))
        yield self._last_line()

    def _slowest(self) -> Iterator[str]:
        slowest = sorted(self.tests.items(), key=lambda pair: -pair[1].seconds)[:SLOWEST]
        yield f"the {len(slowest)} slowest tests:"
        yield from (f"{test.seconds:7.1f} s  {name}" for name, test in slowest)

    def _per_layer(self) -> Iterator[str]:
        for layer, count in Counter(test.layer for test in self.tests.values()).items():
            seconds = sum(test.seconds for test in self.tests.values() if test.layer == layer)
            yield f"{layer} {count} ({seconds:.0f} s)"

    def _last_line(self) -> str:
        counts = Counter(test.outcome or "unreported" for test in self.tests.values())
        counts["error"] = len(self.beside) + len(self.red)
        kinds = ("failed", "passed", "skipped", "unreported", "error")
        told = ", ".join(f"{counts[kind]} {kind}" for kind in kinds if counts[kind]) or "no tests ran"
        took = sum(self.seconds.values())
        minutes, seconds = divmod(round(took), 60)
        return f" {told} in {took:.2f}s (0:{minutes:02}:{seconds:02}) ".center(_WIDTH, "=")
