"""A run's report: as lines for a terminal, and as the page that stands in the documents."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterator
from dataclasses import asdict

from tests.storm.plan import REFUSED
from tests.storm.run import CONVERGE_S, Outcome

WANTED = {
    "kill": "kills",
    "failpoint": "failpoint_kills",
    "agent": "agent_kills",
    "reboot": "reboots",
    "partition": "partitions",
    "full disk": "full_disks",
    "failing sync": "failing_syncs",
    "sick node": "sick_nodes",
    "damage": "damages",
}
NAMES = {
    "kill": "master killed at a random moment",
    "failpoint": "master killed at a failpoint",
    "agent": "agents and shims killed, by hand and at their failpoints",
    "reboot": "hosts that lost power and booted",
    "partition": "partitions of 1 to 60 s, half of them in one direction only",
    "full disk": "disks filled and freed: the queue's, and that of agents' state",
    "failing sync": "syncs that failed: the master ends and is started again",
    "sick node": "nodes that are up and can start nothing",
    "damage": "files torn, zeroed, changed, emptied, removed or overwritten",
}


def rows(outcome: Outcome) -> Iterator[tuple[str, int, int]]:
    """What was done, how often, how often it was wanted."""
    done = outcome.strikes
    for kind, wanted in WANTED.items():
        count = done["agent kill"] + done["agent failpoint"] if kind == "agent" else done[kind]
        yield NAMES[kind], count, asdict(outcome.plan.counts)[wanted]


def text(outcome: Outcome) -> str:
    """For a terminal."""
    lines = [f"seed {outcome.plan.seed}"]
    lines += [f"{count:>6} of {wanted:<6} {name}" for name, count, wanted in rows(outcome)]
    lines += [f"{value!s:>16}  {name}" for name, value in _figures(outcome)]
    lines += [
        f"{'ok' if not problems else len(problems):>6}  {name}" for name, problems in sorted(outcome.checks.items())
    ]
    return "\n".join(lines)


def figures(outcome: Outcome) -> dict[str, object]:
    """For a program."""
    return {
        "seed": outcome.plan.seed,
        "counts": asdict(outcome.plan.counts),
        "strikes": dict(outcome.strikes),
        "reached": dict(outcome.reached),
        "checks": outcome.checks,
        "figures": dict(_figures(outcome)),
    }


def page(outcome: Outcome) -> str:
    """In Markdown, as it stands in `docs/reliability.md`."""
    counts = outcome.plan.counts
    where = (
        f"{counts.tasks:,} tasks on {counts.hosts} hosts with 8 GPUs each, in network namespaces with a real sshd each"
    )
    done = [(name, f"{count:,}") for name, count, _ in rows(outcome)]
    found = [
        (name, f"**{len(problems)}**" if problems else "nothing") for name, problems in sorted(outcome.checks.items())
    ]
    figures = [(name, str(value)) for name, value in _figures(outcome)]
    parts = [
        f"{where}; seed {outcome.plan.seed}; {_machine()}.",
        _table("what was done", "times", done),
        _table("check", "what was found", found),
        _table("figure", "", figures),
        f"Failpoints, and how often the master died there: {_counted(outcome, refused=False)}.",
        f"Damages that were told or refused, each with its way out followed: {_counted(outcome, refused=True)}.",
        *(["Found:"] if outcome.problems else []),
        *("\n".join(f"* {problem}" for problem in outcome.problems).splitlines()),
    ]
    return "\n\n".join(parts) + "\n"


def _table(first: str, second: str, lines: list[tuple[str, str]]) -> str:
    return "\n".join([f"| {first} | {second} |", "| --- | ---: |", *(f"| {name} | {value} |" for name, value in lines)])


def _counted(outcome: Outcome, *, refused: bool) -> str:
    found = [
        f"`{name.removeprefix(REFUSED)}` {count}"
        for name, count in sorted(outcome.reached.items())
        if name.startswith(REFUSED) == refused
    ]
    return ", ".join(found) or "none"


def _figures(outcome: Outcome) -> Iterator[tuple[str, object]]:
    recovery = sorted(outcome.recovery_s) or [0.0]
    yield "from a start of the master to its first answer, median", f"{statistics.median(recovery):.2f} s"
    yield "the slowest", f"{recovery[-1]:.2f} s"
    yield (
        "from the end of the last fault until all was at rest",
        f"{outcome.converged_s:.1f} s; target {CONVERGE_S:.0f} s",
    )
    yield "the storm", f"{outcome.storm_s / 60:.1f} min"
    yield "all of it", f"{outcome.total_s / 60:.1f} min"
    yield "ends", ", ".join(f"{state} {count:,}" for state, count in outcome.states.most_common())
    for name, value in outcome.figures.items():
        yield name, f"{value:,}" if isinstance(value, int) else value


def _machine() -> str:
    return f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"
