"""Ten thousand slow senders, of fifty accounts of this machine and of one: how long another user's calls take beside
them.

Half of the connections have not logged in. With raised limits the master admits all of them, and the calls are
compared with those to a second, idle master, by turns; the crowd is stopped during the idle ones. With the usual
limits the master refuses most of the connections; the figures say how many, and that another user still gets in.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from bench import loop_times
from bench.lab import ROOT, BenchError, Lab, Scale, resident_mib
from bench.loop_times import LoopTimes, watched
from bench.report import Figure, at_least, at_most, percentile

CONNECTIONS, ACCOUNTS = 10_000, 50
USERS = 7
"""The connections of one account log in as so many users: no user gets more than a quarter of the places."""
CALLS, TURNS = 200, 10
FIRST_ACCOUNT = 61_000
"""The uids of the crowd begin here, those of the other user stand before it. None needs an account."""
WAITING = 200
TIMES_IDLE, STALL_MS = 2, 250
_MS = 1000


class CrowdedLab(Lab):
    """A master with limits that admit the whole crowd."""

    def _keys(self) -> dict[str, Any]:
        many = 4 * CONNECTIONS
        names = ("connections", "connections_unidentified", "connections_per_address", "connections_per_user")
        return {"limits": {**dict.fromkeys(names, many), "handshake_s": 3600}}


def measure(workshop: Path, scale: Scale) -> list[Figure]:
    """Measure both crowds; each run has fresh masters. Raises BenchError where too few files may be open."""
    count = scale.of(CONNECTIONS)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 1000:
        raise BenchError(f"a process may open {hard} files here (ulimit -Hn): {count + 1000} are needed")
    figures = []
    for accounts in _crowds():
        whose = f"{count:,} slow senders of {accounts} account" + "s" * (accounts > 1)
        figures += _raised(f"{whose}, raised limits", [_one(workshop, accounts, scale) for _ in range(scale.runs)])
        usual = [_usual(workshop, accounts, scale) for _ in range(scale.runs)]
        figures += _refused(f"{whose}, the usual limits", usual)
    return figures


def _crowds() -> tuple[int, ...]:
    """Return how many accounts each crowd has."""
    if os.geteuid() == 0:
        return ACCOUNTS, 1
    print("connections: a crowd of many accounts is not measured, for it needs root", file=sys.stderr)
    return (1,)


# -- with raised limits -------------------------------------------------------------------------------------------


class _Run(NamedTuple):
    """Milliseconds of the calls, and KiB that the master uses for each connection."""

    idle: list[float]
    beside: list[float]
    coming: LoopTimes
    there: LoopTimes
    memory: float


def _one(workshop: Path, accounts: int, scale: Scale) -> _Run:
    count, each = scale.of(CONNECTIONS), max(4, scale.of(CALLS) // TURNS)
    with ExitStack() as stack:
        crowded, calm = stack.enter_context(CrowdedLab(workshop)), stack.enter_context(CrowdedLab(workshop))
        jobs, tokens = _people(crowded, accounts, count)
        caller = stack.enter_context(_caller({crowded: tokens, calm: _people(calm, 0, 0)[1]}))
        caller.calls(calm, each), caller.calls(crowded, each)  # the first calls of a master load modules
        before = resident_mib(crowded.pid)
        with watched(crowded) as coming:
            crowd = stack.enter_context(_process("crowd", jobs))
            held = crowd.ask("come")
        if held["before_login"] + held["logged_in"] < count:
            raise BenchError(f"the master admits not all of {count} connections: {held}")
        memory = (resident_mib(crowded.pid) - before) * 1024 / count
        idle, beside = [], []
        with watched(crowded) as there:
            for _ in range(TURNS):
                with crowd.stopped():
                    idle += caller.calls(calm, each)
                beside += caller.calls(crowded, each)
    return _Run(idle, beside, coming, there, memory)


def _raised(subject: str, runs: list[_Run]) -> list[Figure]:
    idle, beside = (tuple(percentile(times, 0.95) for times in column) for column in list(zip(*runs, strict=True))[:2])
    ratios = tuple(much / little for much, little in zip(beside, idle, strict=True))
    stalls = tuple(max(run.coming.wall, run.there.wall) * _MS for run in runs)
    return [
        Figure(subject, "another user's call, idle, p95", "ms", idle),
        Figure(subject, "another user's call beside them, p95", "ms", beside),
        Figure(subject, "the same, times idle", "", ratios, at_most(TIMES_IDLE)),
        Figure(subject, "the same, worst", "ms", tuple(max(run.beside) for run in runs)),
        Figure(subject, "the loop's longest stall", "ms", stalls, at_most(STALL_MS)),
        Figure(subject, "memory of the master a connection", "KiB", tuple(run.memory for run in runs)),
        *loop_times.figures(f"{subject}: they come", [run.coming for run in runs], at_most(50)),
        *loop_times.figures(f"{subject}: they stay", [run.there for run in runs], at_most(50)),
    ]


# -- with the usual limits ----------------------------------------------------------------------------------------


class _Refused(NamedTuple):
    """How many connections the master holds, and how many of the other user's calls of `asked` it answers."""

    before_login: int
    logged_in: int
    refused: int
    answered: int
    asked: int
    p95: float
    loop: LoopTimes


def _usual(workshop: Path, accounts: int, scale: Scale) -> _Refused:
    count, asked = scale.of(CONNECTIONS), scale.of(CALLS)
    with Lab(workshop) as lab, ExitStack() as stack:
        jobs, tokens = _people(lab, accounts, count)
        caller = stack.enter_context(_caller({lab: tokens}))
        with watched(lab) as loop:
            crowd = stack.enter_context(_process("crowd", jobs))
            crowd.ask("come")
            times = caller.times(lab, asked)
            held = crowd.ask("count")
    answered = [time for time in times if time is not None]
    here = held["before_login"], held["logged_in"]
    return _Refused(*here, count - sum(here), len(answered), asked, percentile(answered or [0.0], 0.95), loop)


def _refused(subject: str, runs: list[_Refused]) -> list[Figure]:
    return [
        Figure(subject, "admitted and logged in", "", tuple(run.logged_in for run in runs)),
        Figure(subject, "admitted, before log-in", "", tuple(run.before_login for run in runs)),
        Figure(subject, "refused or closed", "", tuple(run.refused for run in runs)),
        Figure(
            subject,
            f"another user's calls of {runs[0].asked} answered",
            "",
            tuple(run.answered for run in runs),
            at_least(runs[0].asked),
        ),
        Figure(subject, "another user's call, p95", "ms", tuple(run.p95 for run in runs)),
        *loop_times.figures(subject, [run.loop for run in runs], at_most(50)),
    ]


# -- users and processes ------------------------------------------------------------------------------------------


def _people(lab: Lab, accounts: int, count: int) -> tuple[list[dict[str, Any]], str]:
    """Add the users and some tasks. Return the jobs of the crowd's processes, and the token of the other user."""
    with lab.client() as client:

        def token(name: str) -> str:
            client.call("user.add", {"name": name})
            made: str = client.call("token.new", {"name": name})["token"]
            return made

        client.submit_batch([f"python train.py --seed {seed}" for seed in range(WAITING)], hold=True)
        jobs = [
            {
                "account": FIRST_ACCOUNT + number,
                "port": lab.data_port,
                "count": count // accounts + (number < count % accounts),
                "tokens": [token(f"crowd{number}-{user}") for user in range(-(-USERS // accounts))],
            }
            for number in range(accounts)
        ]
        return jobs, token("other")


class _Process:
    """A process of `crowd_side`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, command: str) -> Any:
        """Return the answer to one command. Raises BenchError if the process has ended."""
        if self._process.stdin is None or self._process.stdout is None:
            raise BenchError("the process has no pipes")
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise BenchError(f"a process of the crowd ended with {self._process.wait()}")
        return json.loads(line)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """None of its processes run during this."""
        os.killpg(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self._process.pid, signal.SIGCONT)


class _Caller(_Process):
    """The other user."""

    def times(self, lab: Lab, count: int) -> list[float | None]:
        """Return the milliseconds of so many calls; None stands for one that the master refused."""
        return [time and time * _MS for time in self.ask(f"call {lab.data_port} {count}")]

    def calls(self, lab: Lab, count: int) -> list[float]:
        """Return the milliseconds of so many calls. Raises BenchError if the master refuses one."""
        times = [time for time in self.times(lab, count) if time is not None]
        if len(times) < count:
            raise BenchError(f"the master refused {count - len(times)} calls of the other user")
        return times


@contextmanager
def _caller(tokens: dict[Lab, str]) -> Iterator[_Caller]:
    by_port = {str(lab.data_port): token for lab, token in tokens.items()}
    with _started("caller", {"account": FIRST_ACCOUNT - 1, "tokens": by_port}) as process:
        yield _Caller(process)


@contextmanager
def _process(kind: str, job: object) -> Iterator[_Process]:
    with _started(kind, job) as process:
        yield _Process(process)


@contextmanager
def _started(kind: str, job: object) -> Iterator[subprocess.Popen[str]]:
    """Start one in a session of its own, so that its whole process group can be stopped and killed."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.crowd_side", kind],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            if process.stdin is not None:
                process.stdin.write(json.dumps(job) + "\n")
                process.stdin.flush()
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
