"""The chaos runs: `python -m bench.soak`, with progress on stderr and a report on stdout.

Without options kills everywhere, on agents of this machine; `--ssh` on four machines, with outages; `--full`
everything at once on sixteen, with the audit that knows nothing of our code.

Owns the options and the report; what happens and what must hold is told in `tests/system`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.storm import report as telling
from tests.storm import run as storm
from tests.storm.plan import Counts
from tests.system import chaos, ssh_chaos

OUTAGES = ("cut:20", "power:10", "sshd:30", "frozen:8", "deaf:20", "mute:20")
"""What machines go through with --ssh, each once, and for so many seconds."""


def main(arguments: list[str] | None = None) -> int:
    """Run it; 0 when everything held."""
    options = _options(arguments)
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    if options.full:
        return _full(options, seed)
    plan = _plan(options, seed)
    where = "four machines over SSH" if options.ssh else "agents of this machine"
    print(f"seed {seed}: {plan.tasks} tasks on {where}, {plan.kills} kills of the master", file=sys.stderr)
    say = _speaker()
    folder = Path(tempfile.mkdtemp(prefix="muster-soak-"))
    report = (ssh_chaos.run_over_ssh if options.ssh else chaos.run)(folder, plan, say)
    if report.problems:
        print(f"everything is kept in {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    figures = _figures(report)
    print(json.dumps(figures) if options.json else _table(figures))
    problems = [*report.problems, *_fuzz(options.fuzz)]
    for problem in problems:
        print(f"PROBLEM: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _full(options: argparse.Namespace, seed: int) -> int:
    """Everything at once, at the size that `--scale` says."""
    counts = Counts().scaled(options.scale)
    master = f"{counts.kills} + {counts.failpoint_kills} kills of the master"
    print(f"seed {seed}: {counts.tasks} tasks on {counts.hosts} hosts, {master}", file=sys.stderr)
    folder = Path(tempfile.mkdtemp(prefix="muster-storm-"))
    outcome = storm.run(folder, counts, seed, _speaker())
    print(json.dumps(telling.figures(outcome)) if options.json else telling.text(outcome))
    if options.report:
        options.report.write_text(telling.page(outcome), encoding="utf-8")
    if not outcome.problems:
        shutil.rmtree(folder)
        return 0
    print(f"everything is kept in {folder}", file=sys.stderr)
    for problem in outcome.problems:
        print(f"PROBLEM: {problem}", file=sys.stderr)
    return 1


def _speaker() -> Callable[[str], None]:
    """Prints a line with the seconds since now."""
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {line}", file=sys.stderr, flush=True)

    return say


def _fuzz(cases: int) -> list[str]:
    """Broken requests to the three ports, many more of them than `make test` sends; what came of it."""
    if not cases:
        return []
    print(f"{cases:,} broken requests", file=sys.stderr)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/desktop/test_fuzz.py"]
    done = subprocess.run(command, env={**os.environ, "MUSTER_FUZZ": str(cases)}, check=False, stdout=sys.stderr)
    return [] if done.returncode == 0 else [f"{' '.join(command[1:])} with MUSTER_FUZZ={cases} failed"]


def _plan(options: argparse.Namespace, seed: int) -> chaos.Plan:
    if options.ssh:
        kills = (options.kills or 10, options.agent_kills or 1)
        return chaos.Plan(options.tasks, *kills, outages=OUTAGES, pace_s=(0.5, 4.0), seed=seed)
    return chaos.every_fault(options.tasks, options.kills or 30, options.agent_kills or 5, seed)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--tasks", type=int, default=2000, help="how many tasks (2000)")
    parser.add_argument("--kills", type=int, help="kills of the master at random moments (30; with --ssh 10)")
    parser.add_argument("--agent-kills", type=int, help="kills of an agent at random moments (5; with --ssh 1)")
    parser.add_argument(
        "--ssh", action="store_true", help="on four machines over SSH, with a link cut, a power loss, …"
    )
    parser.add_argument("--full", action="store_true", help="everything at once on sixteen machines over SSH")
    parser.add_argument("--scale", type=float, default=1.0, help="with --full: this part of it (1.0)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="with --full: also write the report, as Markdown")
    parser.add_argument("--seed", type=int, help="repeat the run of this seed")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--fuzz", type=int, default=50_000, help="afterwards, so many broken requests (50000; 0: none)")
    return parser.parse_args(arguments)


def _figures(report: chaos.Report) -> dict[str, Any]:
    recovery = sorted(report.recovery_s) or [0.0]
    return {
        "seed": report.plan.seed,
        "tasks": report.plan.tasks,
        "strikes": dict(report.strikes),
        "states": report.states,
        "submits asked again": report.repeated,
        "recovery of the master, median s": round(statistics.median(recovery), 3),
        "recovery of the master, longest s": round(recovery[-1], 3),
        "not ended at the last fault": report.backlog,
        "converged after the last fault, s": round(report.converged_s, 2),
        "total, s": round(report.total_s, 1),
        "problems": report.problems,
        "plan": asdict(report.plan),
    }


def _table(figures: dict[str, Any]) -> str:
    shown = {name: value for name, value in figures.items() if name not in ("plan", "problems")}
    shown["problems"] = len(figures["problems"])
    width = max(map(len, shown))
    return "\n".join(f"{name:<{width}}  {_told(value)}" for name, value in shown.items())


def _told(value: Any) -> str:
    return ", ".join(f"{key} {number}" for key, number in value.items()) if isinstance(value, dict) else str(value)


if __name__ == "__main__":
    sys.exit(main())
