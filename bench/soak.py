"""The chaos runs: `python -m bench.soak`, with progress on stderr and a report on stdout.

Without options kills everywhere, on agents of this machine; `--ssh` on four machines, with outages; `--full`
everything at once on sixteen, with the audit that knows nothing of our code; `--hour` a lab's day on three, whose GPUs
are shared.

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
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tests.hour import audit as hour_audit
from tests.hour import plan as hour_plan
from tests.hour import report as hour_report
from tests.hour import run as hour
from tests.storm import report as telling
from tests.storm import run as storm
from tests.storm.plan import Counts
from tests.system import chaos, ssh_chaos

OUTAGES = ("cut:20", "power:10", "sshd:30", "frozen:8", "deaf:20", "mute:20")
"""The outages of the machines with --ssh, each once, and for so many seconds."""
WALKS = tuple(
    f"tests/master/core/test_{name}.py" for name in ("mixed_walk", "same_decisions", "why_names", "fair_play")
)
LONGEST_S = 3 * 3600
"""So many cases take longer than what a test that hangs is given."""


def main(arguments: list[str] | None = None) -> int:
    """Run it; 0 when everything held."""
    options = _options(arguments)
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    if options.full:
        return _full(options, seed)
    if options.hour:
        return _hour(options, seed)
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
    parts: list[Callable[[], list[str]]] = [
        lambda: report.problems,
        lambda: _families(seed) if options.families else [],
        lambda: _cases("broken requests", "MUSTER_FUZZ", options.fuzz, "tests/desktop/test_fuzz.py"),
        *(partial(_cases, "walks through the core", "MUSTER_WALKS", options.walks, tests) for tests in WALKS),
    ]
    found = [_tell(part()) for part in parts]  # each at once: the next part takes minutes
    return 1 if any(found) else 0


def _tell(problems: list[str]) -> int:
    """How many there are."""
    sys.stdout.flush()
    for problem in problems:
        print(f"PROBLEM: {problem}", file=sys.stderr)
    return len(problems)


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


def _hour(options: argparse.Namespace, seed: int) -> int:
    """So many minutes of a lab whose GPUs are shared."""
    plan = hour_plan.draw(options.hour * 60.0, seed)
    folder = Path(tempfile.mkdtemp(prefix="muster-hour-"))
    print(f"seed {seed}, {options.hour:g} minutes", file=sys.stderr)
    seen = hour.run(folder / "lab", plan, _speaker())
    print(hour_report.text(seen))
    if options.report:
        options.report.write_bytes(msgspec.json.encode(seen))
    shutil.rmtree(folder)
    found = hour_audit.problems(seen)
    return 1 if _tell([f"{rule}: {said}" for rule, broken in found.items() for said in broken]) else 0


def _speaker() -> Callable[[str], None]:
    """Prints a line with the seconds since now."""
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {line}", file=sys.stderr, flush=True)

    return say


def _cases(what: str, variable: str, cases: int, tests: str) -> list[str]:
    """Many more cases than `make test` tries, which read from this variable how many; what came of it."""
    if not cases:
        return []
    print(f"{cases:,} {what}", file=sys.stderr)
    patience = f"faulthandler_timeout={LONGEST_S}"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", patience, tests]
    done = subprocess.run(command, env={**os.environ, variable: str(cases)}, check=False, stdout=sys.stderr)
    return [] if done.returncode == 0 else [f"{' '.join(command[1:])} with {variable}={cases} failed"]


def _families(seed: int) -> list[str]:
    """The cases of which `make test` tries some of each kind; what came of them. The seed is that of their faults."""
    seeds = {"CHAOS_SEED": str(seed), "MUSTER_HANDS": str(seed)}
    told = " ".join(f"{name}={value}" for name, value in seeds.items())
    print(f"all cases of the families in tests/soak.py, with {told}", file=sys.stderr)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "soak", "--numprocesses", "3", "tests"]
    command = ["sh", "tests/as_root.sh", *command]
    done = subprocess.run(command, env={**os.environ, **seeds}, check=False, stdout=sys.stderr)
    return [] if done.returncode == 0 else [f"{' '.join(command)} with {told} failed"]


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
    parser.add_argument(
        "--hour", type=float, nargs="?", const=60.0, metavar="MINUTES", help="a lab's day in so many minutes (60)"
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="with --full: also write the report, as Markdown; with --hour: all that was seen, as JSON",
    )
    parser.add_argument("--seed", type=int, help="repeat the run of this seed")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--fuzz", type=int, default=50_000, help="afterwards, so many broken requests (50000; 0: none)")
    parser.add_argument("--walks", type=int, default=20_000, help="and so many walks through the core (20000; 0: none)")
    parser.add_argument(
        "--families",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="and all cases of tests/soak.py",
    )
    return parser.parse_args(arguments)


def _figures(report: chaos.Report) -> dict[str, Any]:
    recovery = sorted(report.recovery_s) or [0.0]
    return {
        "seed": report.plan.seed,
        "tasks": report.plan.tasks,
        "strikes": dict(report.strikes),
        "states": report.states,
        "tasks filed": report.filed,
        "submits asked again": report.repeated,
        "times that the books were read": report.looks,
        "seen at such a moment, at most": report.most,
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
