"""`python -m bench [NAME…]`: measure, print the table, write the JSON. Exit 0: measured; 1: something broke."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import (
    connections,
    console,
    database,
    desktop_clients,
    growth,
    idle,
    large,
    latency,
    listing,
    logins,
    over_ssh,
    planner,
    readers,
    report_agents,
    restart,
    submits,
    throughput,
)
from bench.lab import IN_MEMORY, BenchError, Scale, file_system, workshop
from bench.report import Figure, table, verdict
from tests.testbed.errors import TestbedError
from wire.errors import MusterError

RUNS, QUICK = 3, Scale(runs=1, share=0.05)
SUBJECTS: dict[str, Callable[[Path, Scale], list[Figure]]] = {
    "submits": submits.measure,
    "latency": latency.measure,
    "throughput": throughput.measure,
    "listing": listing.measure,
    "planner": planner.measure,
    "readers": readers.measure,
    "restart": restart.measure,
    "idle": idle.measure,
    "ssh": over_ssh.measure,
    "report": report_agents.measure,
    "console": console.measure,
    "desktop": desktop_clients.measure,
    "influx": database.measure,
    "logins": logins.measure,
    "connections": connections.measure,
    "growth": growth.measure,
    "scale": large.measure,
}
NEEDS = {"ssh": ("sshd", "ip"), "influx": ("influxd",), "console": ("chromium",)}
"""Programs of the system's without which a subject cannot be measured; `make programs` installs them."""


def main(arguments: list[str]) -> int:
    """Run the command; give the exit code."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    scale = QUICK if options.quick else Scale(options.runs, options.share)
    try:
        with workshop() as folder:
            machine = _machine(folder, any_disk=options.quick)
            figures = _measure(options.names or _possible(), folder, scale)
    except (BenchError, MusterError, TestbedError) as error:
        print(f"error: bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: bench: interrupted", file=sys.stderr)
        return 130
    print(_headline(machine))
    print(table(figures))
    print(verdict(figures) + (" (quick: a trial, no measurement)" if options.quick else ""))
    if options.json:
        _write(options.json, {"quick": options.quick, **machine, "figures": [one.as_json() for one in figures]})
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Muster beside its targets.")
    parser.add_argument("names", nargs="*", metavar="NAME", type=_subject, help=", ".join(SUBJECTS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--runs", type=int, default=RUNS, metavar="N", help=f"the median is of so many ({RUNS})")
    parser.add_argument("--share", type=float, default=1.0, metavar="X", help="of the full sizes (1)")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the tasks, once: to see that it works")
    return parser


def _subject(name: str) -> str:
    """A name of SUBJECTS. Raises ArgumentTypeError. (`choices` would refuse to have none of them.)"""
    if name not in SUBJECTS:
        raise argparse.ArgumentTypeError(f"there is no benchmark {name!r}; there are {', '.join(SUBJECTS)}")
    return name


def _possible() -> list[str]:
    """Every subject but those whose programs are not here, which are told: who names one gets its error instead."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    lacking = {
        name: [program for program in programs if shutil.which(program, path=path) is None]
        for name, programs in NEEDS.items()
    }
    for name, programs in lacking.items():
        if programs:
            print(f"{name}: not measured, for it needs {', '.join(programs)} (make programs)", file=sys.stderr)
    return [name for name in SUBJECTS if not lacking.get(name)]


def _measure(names: list[str], folder: Path, scale: Scale) -> list[Figure]:
    figures: list[Figure] = []
    for name in names:
        begun = time.monotonic()
        print(f"{name} …", end=" ", file=sys.stderr, flush=True)
        figures += SUBJECTS[name](folder, scale)
        print(f"{time.monotonic() - begun:.0f} s", file=sys.stderr)
    return figures


def _machine(folder: Path, *, any_disk: bool) -> dict[str, Any]:
    """Return the facts about the machine that the figures depend on. Raises BenchError where a sync costs nothing,
    unless `any_disk`."""
    kind = file_system(folder)
    if kind in IN_MEMORY and not any_disk:
        raise BenchError(f"{folder} lies on {kind}, where a sync costs nothing: run it on a disk")
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cpus": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "file_system": kind,
    }


def _headline(machine: dict[str, Any]) -> str:
    return "Python {python}, Linux {kernel}, {cpus} CPUs, load {load} at the start, state on {file_system}\n".format(
        **machine
    )


def _write(path: Path, report: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
