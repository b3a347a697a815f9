"""The largest lab at once: 2,000 nodes that run tasks, 2,000 clients, 1,000 users, 100,000 waiting tasks.

The nodes' agents speak their real wire (TLS, samples of 8 GPUs every 2 s, launches, exits until they are acknowledged)
and start no process; they are in one process (`far_agents`), the clients in another (`far_clients`): 1,000 follow tasks
of their own, as `muster wait` does, 50 are told of everything, as `muster top` is, and the others ask for their tasks
now and then. Beside them a user submits, one task after the other. At the end the books are compared: each attempt
began once, and each end was acknowledged.
"""

from __future__ import annotations

import itertools
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bench import people
from bench.far_agents import GPUS, Seen
from bench.far_lab import Agents, FarLab, How
from bench.lab import BenchError, RawConnection, Scale, cpu_seconds, eventually, request, resident_mib
from bench.loop_times import LoopTimes, figures, watched
from bench.pushes import pushes
from bench.report import Figure, at_most, percentile

NODES, USERS, WAITING = 2_000, 1_000, 100_000
WATCHERS, FOLLOWERS, ASKERS = 50, 1_000, 950
RUN_S = (60.0, 180.0)
SETTLE_S, WATCH_S = 75.0, 40.0
"""It is watched from when the first tasks have ended."""
PAUSE_S = 0.1
PUSHES = 20
_MS = 1000


class _Run(NamedTuple):
    """Of one master. Milliseconds: a submit's p99 and worst, an asker's answer's p99, a push's median; of a core in
    percent: the master's, the agents', the clients'; MiB; of all GPUs those that tasks have, in percent; ends a second;
    attempts that began twice or were not acknowledged; connections of agents that broke; the loop."""

    submit_p99: float
    submit_worst: float
    asked_p99: float
    push: float
    master: float
    agents: float
    clients: float
    memory: float
    held: float
    ends: float
    amiss: float
    cut: float
    loop: LoopTimes


def measure(workshop: Path, scale: Scale) -> list[Figure]:
    """Each run has a fresh master."""
    runs = [_one(workshop, scale) for _ in range(scale.runs)]
    nodes, users, waiting = scale.of(NODES), scale.of(USERS), scale.of(WAITING)
    everybody = sum(map(scale.of, (WATCHERS, FOLLOWERS, ASKERS)))
    subject = f"{nodes:,} nodes, {everybody:,} clients, {users:,} users, {waiting:,} waiting"

    def column(name: str) -> tuple[float, ...]:
        return tuple(getattr(run, name) for run in runs)

    return [
        Figure(subject, "attempts begun twice, ends not acknowledged", "", column("amiss"), at_most(0)),
        Figure(subject, "agents' connections that broke", "", column("cut")),
        Figure(subject, "GPUs that tasks have, of all", "%", column("held")),
        Figure(subject, "tasks that end and are acknowledged", "/s", column("ends")),
        Figure(subject, "others' submits, p99", "ms", column("submit_p99"), at_most(100)),
        Figure(subject, "others' submits, worst", "ms", column("submit_worst")),
        Figure(subject, "a list of one's own tasks, p99", "ms", column("asked_p99"), at_most(100)),
        Figure(subject, f"a push to {scale.of(WATCHERS)} who see all, median", "ms", column("push"), at_most(250)),
        *figures(subject, [run.loop for run in runs], at_most(250)),
        Figure(subject, "the master's share of one CPU", "%", column("master")),
        Figure(subject, "that of all agents, in one process", "%", column("agents")),
        Figure(subject, "that of all clients, in one process", "%", column("clients")),
        Figure(subject, "memory of the master", "MiB", column("memory")),
    ]


def _one(workshop: Path, scale: Scale) -> _Run:
    low, high = (seconds * max(scale.share, 0.1) for seconds in RUN_S)
    with FarLab(workshop, scale.of(NODES), How(run_s=(low, high))) as lab:
        tokens = people.users(lab, scale.of(USERS))
        people.tasks(lab, tokens, scale.of(WAITING), gpus=1)
        with lab.agents() as agents:
            turns = itertools.cycle(tokens)
            with people.clients(
                lab,
                everything=list(itertools.islice(turns, scale.of(WATCHERS))),
                own=[[token, [1 + number]] for number, token in zip(range(scale.of(FOLLOWERS)), turns, strict=False)],
                askers=list(itertools.islice(turns, scale.of(ASKERS))),
            ) as crowd:
                time.sleep(SETTLE_S * scale.share)
                crowd.heard()
                pids = lab.pid, agents.pid, crowd.pid
                before, seen, begun = [cpu_seconds([pid]) for pid in pids], agents.seen(), time.monotonic()
                with watched(lab) as loop:
                    waits = _submits(lab, tokens[0], WATCH_S * scale.share)
                took = time.monotonic() - begun
                shares = [100 * (cpu_seconds([pid]) - early) / took for pid, early in zip(pids, before, strict=True)]
                ends = (agents.seen().acknowledged - seen.acknowledged) / took
                asked, _ = crowd.heard()
                push = percentile(pushes(lab, crowd, range(PUSHES), scale.of(WATCHERS)), 0.5)
                memory = resident_mib(lab.pid)
                held = _held(lab) / (scale.of(NODES) * GPUS)
            last = _last(lab, agents)
    return _Run(
        submit_p99=percentile(waits, 0.99),
        submit_worst=max(waits),
        asked_p99=percentile(asked, 0.99),
        push=push,
        master=shares[0],
        agents=shares[1],
        clients=shares[2],
        memory=memory,
        held=100 * held,
        ends=ends,
        cut=float(last.cut),
        amiss=float(last.again + last.launched - last.acknowledged),
        loop=loop,
    )


def _submits(lab: FarLab, token: str, seconds: float) -> list[float]:
    """Milliseconds that each submit of one user takes; they are held."""
    waits: list[float] = []
    with RawConnection(lab.data_port) as connection:
        connection.exchange(request(0, "auth.token", {"token": token}))
        end = time.monotonic() + seconds
        for number in itertools.count(1):
            if time.monotonic() > end:
                return waits
            frame = request(number, "task.submit", {"command": "true", "gpus": 1, "hold": True})
            begun = time.perf_counter()
            [answer] = connection.exchange(frame)
            waits.append((time.perf_counter() - begun) * _MS)
            if b'"error"' in answer:
                raise BenchError(f"a submit was refused: {answer[:200]!r}")
            time.sleep(PAUSE_S)
    return waits


def _held(lab: FarLab) -> int:
    """So many GPUs tasks have."""
    with lab.client() as client:
        return sum(len(part["gpus"]) for task in client.tasks(states=["running"]) for part in task["allocation"])


def _last(lab: FarLab, agents: Agents) -> Seen:
    """Cancel everything, and wait until nothing runs any more and each end was acknowledged; the agents' last word."""
    with lab.client() as client:
        client.cancel(everything=True)

    def all_over() -> bool:
        seen = agents.seen()
        return seen.alive == 0 and seen.acknowledged >= seen.launched

    with suppress(BenchError):  # what is missing is told as a figure
        eventually(all_over, "the acknowledgement of each end", 0.5)
    return agents.seen()
