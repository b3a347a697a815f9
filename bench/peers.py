"""`python -m bench.peers`: us beside HyperQueue, task-spooler and Slurm, in turn, in one run, at the same work.

Same work: `true`, a log of its own each; what is the product's own way stays in (bash and a session of its own, and a
durable exit, with us only). Owns getting the peers, from PyPI and from the distribution's packages into a folder of its
own, and saying plainly which could not be had. How we are measured alone is the other subjects' matter.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from bench import hyperqueue_side, slurm_side
from bench.lab import DEADLINE_S, BenchError, Lab, clean_environment, eventually, workshop
from bench.report import Figure, at_least, at_most, table, verdict
from bench.throughput import end_to_end

SUBJECT = "beside its peers"
HYPERQUEUE = "hyperqueue==0.27.0"
SLOTS = (2, 64)
SHARES = {2: 1.0, 64: 0.8}
"""At least so many no-ops a second for each of HyperQueue's."""
NO_OPS, STARTS, RUNS = 600, 100, 3
WARM = 20
FEWER = {"Slurm": {2: 0.05, 64: 0.5}}
"""The share of the tasks, by slots, for a queue that takes a second for each round of its slots: the rate stays the
same."""


class Peer(Protocol):
    """A queue that is measured."""

    def no_ops(self, count: int) -> float:
        """So many no-ops from the submit to the end of the last: seconds."""

    def starts(self, count: int) -> list[float]:
        """From each submit to its process, one after the other on an idle node: milliseconds."""


class Ours:
    """Muster with one local node."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def no_ops(self, count: int) -> float:
        """See `Peer`."""
        return count / end_to_end(self._lab, count)

    def starts(self, count: int) -> list[float]:
        """See `Peer`."""
        with self._lab.client() as client:
            return [
                _start(self._lab.folder, lambda command: client.wait([client.submit(command)])) for _ in range(count)
            ]


class HyperQueue:
    """Its Python package in an interpreter of its own: server and worker in one process, without a journal."""

    def __init__(self, python: Path, slots: int, folder: Path) -> None:
        words = [str(python), str(Path(hyperqueue_side.__file__)), str(slots), str(folder)]
        self._side = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def no_ops(self, count: int) -> float:
        """See `Peer`."""
        return float(self._ask(f"no_ops {count}"))

    def starts(self, count: int) -> list[float]:
        """See `Peer`."""
        return [float(value) for value in self._ask(f"starts {count}")]

    def close(self) -> None:
        """End it."""
        self._side.kill()
        self._side.wait()

    def _ask(self, what: str) -> Any:
        if self._side.stdin is None or self._side.stdout is None:
            raise AssertionError("it was started with pipes")
        self._side.stdin.write(what + "\n")
        self._side.stdin.flush()
        line = self._side.stdout.readline()
        if not line:
            raise BenchError("HyperQueue ended before it answered")
        return json.loads(line)


class TaskSpooler:
    """`tsp`: a server of its own that the first call starts, and a process a submit."""

    def __init__(self, program: Path, slots: int, folder: Path) -> None:
        self._program = str(program)
        self._folder = folder
        self._env = {
            **os.environ,
            "TS_SOCKET": str(folder / "socket"),
            "TMPDIR": str(folder),
            "TS_MAXFINISHED": "1000000",
        }
        self._run("-S", str(slots))

    def no_ops(self, count: int) -> float:
        """See `Peer`."""
        begun = time.perf_counter()
        ids = [self._run("true") for _ in range(count)]
        for one in ids:
            self._run("-w", one)
        return time.perf_counter() - begun

    def starts(self, count: int) -> list[float]:
        """See `Peer`."""
        return [_start(self._folder, lambda command: self._run("-w", self._run(*command))) for _ in range(count)]

    def close(self) -> None:
        """End it."""
        self._run("-K")

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            [self._program, *words], env=self._env, capture_output=True, text=True, check=False, timeout=DEADLINE_S
        )
        return done.stdout.strip()


def _start(folder: Path, run: Callable[[list[str]], object]) -> float:
    """Milliseconds from the submit of a command to its own word that it runs."""
    told = folder / "start"
    told.unlink(missing_ok=True)
    begun = time.time()
    run(["bash", "-c", f"echo $EPOCHREALTIME > {told}"])
    eventually(lambda: told.exists() and bool(told.read_text(encoding="ascii")), "the word of a process")
    return (float(told.read_text(encoding="ascii")) - begun) * 1000


Open = Callable[[int, Path], Any]
"""Gives a context manager of a peer with so many slots, which may use this new folder."""


def hyperqueue(tools: Path) -> Open:
    """From PyPI, into an environment of its own. Raises BenchError where it cannot be had."""
    python = tools / "hyperqueue/bin/python"
    if not python.exists():
        _get([sys.executable, "-m", "venv", str(tools / "hyperqueue")])
        _get([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", HYPERQUEUE])
    _get([str(python), "-c", "import hyperqueue"])
    return lambda slots, folder: _closing(HyperQueue(python, slots, folder))


def task_spooler(tools: Path) -> Open:
    """From the PATH, or the distribution's package, unpacked and not installed. Raises BenchError."""
    found = shutil.which("tsp")
    program = Path(found) if found else tools / "task-spooler/usr/bin/tsp"
    if not program.exists():
        tools.mkdir(parents=True, exist_ok=True)
        _get(["apt-get", "download", "task-spooler"], tools)
        [package] = tools.glob("task-spooler_*.deb")
        _get(["dpkg", "-x", str(package), str(tools / "task-spooler")])
    return lambda slots, folder: _closing(TaskSpooler(program, slots, folder))


def slurm(tools: Path) -> Open:
    """As it is installed, or from the distribution's packages, unpacked. Raises BenchError where it cannot be had."""
    programs = slurm_side.programs(tools, _get)
    return lambda slots, folder: _closing(slurm_side.Slurm(programs, slots, folder))


def ours(workshop_: Path) -> Open:
    """Return Muster, from this tree, as a peer."""

    @contextmanager
    def opened(slots: int, _folder: Path) -> Iterator[Peer]:
        with Lab(workshop_, slots=slots) as lab:
            yield Ours(lab)

    return opened


@contextmanager
def _closing(peer: Any) -> Iterator[Peer]:
    try:
        yield peer
    finally:
        peer.close()


def _get(words: list[str], folder: Path | None = None) -> str:
    """Run a command that gets something; what it printed. Raises BenchError."""
    try:
        done = subprocess.run(
            words, cwd=folder, env=clean_environment(), capture_output=True, text=True, check=False, timeout=300
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchError(f"{words[0]}: {error}") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
        raise BenchError(f"{' '.join(words[:4])}: {said}")
    return done.stdout


def measure(peers: dict[str, Open], folder: Path, runs: int) -> list[Figure]:
    """Each run asks all of them, one after the other."""
    seen: dict[tuple[str, str], list[float]] = {}
    for run in range(runs):
        for slots in SLOTS:
            for name, opened in peers.items():
                own = folder / f"{run}-{slots}-{name}"
                own.mkdir()
                share = FEWER.get(name, {}).get(slots, 1.0)
                no_ops, starts, warm = (max(2, round(count * share)) for count in (NO_OPS, STARTS, WARM))
                with opened(slots, own) as peer:
                    peer.no_ops(warm)
                    seen.setdefault((name, f"{slots} slots"), []).append(no_ops / peer.no_ops(no_ops))
                    if slots == SLOTS[0]:
                        peer.starts(warm)
                        median = statistics.median(peer.starts(starts))
                        seen.setdefault((name, "submit to process"), []).append(median)
                print(".", end="", file=sys.stderr, flush=True)
    return [figure for name in peers for figure in _figures(name, seen)]


def _figures(name: str, seen: dict[tuple[str, str], list[float]]) -> list[Figure]:
    figures = []
    for slots in SLOTS:
        rates, mine = seen[name, f"{slots} slots"], seen["Muster", f"{slots} slots"]
        figures.append(Figure(name, f"{slots} slots: no-ops, own log each", "/s", tuple(rates)))
        if name != "Muster":
            ratio = tuple(our / its for our, its in zip(mine, rates, strict=True))
            goal = at_least(SHARES[slots]) if name == "HyperQueue" else None
            figures.append(Figure(name, f"{slots} slots: ours for each of its", "", ratio, goal))
    times, mine = seen[name, "submit to process"], seen["Muster", "submit to process"]
    figures.append(Figure(name, "submit to process, median", "ms", tuple(times)))
    if name != "Muster":
        ratio = tuple(our / its for our, its in zip(mine, times, strict=True))
        figures.append(
            Figure(name, "submit to process: ours to its", "", ratio, at_most(1) if name == "HyperQueue" else None)
        )
    return figures


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0: measured beside at least one peer, 1: none could be had, or something broke."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description="Measure Muster beside its peers.")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"how often each is asked ({RUNS})")
    parser.add_argument(
        "--tools", type=Path, default=Path("build/peers"), help="where the peers are kept (build/peers)"
    )
    options = parser.parse_args(arguments)
    peers: dict[str, Open] = {}
    for name, get in (("HyperQueue", hyperqueue), ("task-spooler", task_spooler), ("Slurm", slurm)):
        try:
            peers[name] = get(options.tools.resolve())
        except BenchError as error:
            print(f"{name} could not be had, so it is not measured: {error}", file=sys.stderr)
    if not peers:
        return 1
    with ExitStack() as stack:
        folder = stack.enter_context(workshop())
        figures = measure({"Muster": ours(folder), **peers}, folder, options.runs)
    print(f"\nload {os.getloadavg()[0]:.1f} at the end, {len(os.sched_getaffinity(0))} CPUs")
    print(table(figures))
    print(verdict(figures))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
