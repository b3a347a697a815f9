"""The chaos run: clients that submit without rest, and a storm that kills master, agents and shims meanwhile.

The run goes in phases, one per strike: a share of the jobs is let go, the strike falls among them, what died is
started again. So faults meet load however fast the machine is, and the seed fixes everything but the kernel's timing.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from client.api import Client
from master.durable import failpoint
from tests.system import books
from tests.system.lab import Lab
from tests.system.ledger import Ledger
from tests.system.lost_records import FAULTS, ended
from tests.system.oracle import CAP, FOREVER_S, NARROW, NARROW_GPUS, UNIT_MIB, UNITS, Job, Oracle, make_jobs
from tests.waiting import NeverError, until
from wire.errors import ConflictError, UnreachableError

AGENT_FAILPOINTS = (
    "agent.before_fork",
    "agent.after_fork",
    "shim.after_claim",
    "shim.after_start",
    "shim.before_exit_record",
    "shim.after_exit_record",
    "agent.before_exit_sent",
    "agent.after_exit_sent",
)
SHIM_KILLS = frozenset(name for name in AGENT_FAILPOINTS if name.startswith("shim."))
"""After these nobody may know the exit: that attempt may be lost, and its log may lack the last line."""
PREPARED = frozenset({"start.torn_kept", "compaction.archived"})
"""Nothing comes by here unless a tail is torn, or history is short."""
CLIENTS = 8
ANSWER_S = 180.0
"""A busy machine gives a master half a minute to begin, and the storm lets few of them live for long."""
CONVERGE_S = 90.0
BACKLOG_S = 0.1
"""More for each task that still has to run: that is load, not recovery."""
RUNS_S = 5.0
QUICK_S = (0.02, 0.6)
"""After how long a strike falls, within its phase."""

T = TypeVar("T")
Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How much load and how many faults. `lost_records`: how the records of a node's attempts are lost while its agent
    is dead, by names of `lost_records.FAULTS`. `outages`: what shall happen to whole machines, as the storm understands
    it; `pace_s`: seconds from the beginning of a phase to its strike, at least and at most."""

    tasks: int
    kills: int
    agent_kills: int
    failpoints: tuple[str, ...] = ()
    agent_failpoints: tuple[str, ...] = ()
    outages: tuple[str, ...] = ()
    lost_records: tuple[str, ...] = ()
    pace_s: tuple[float, float] = QUICK_S
    seed: int = 0

    def strikes(self, chance: random.Random) -> list[tuple[str, str]]:
        """All faults as (kind, name), shuffled."""
        found = [("master", "")] * self.kills + [("agent", "")] * self.agent_kills
        found += [("failpoint", name) for name in self.failpoints]
        found += [("agent failpoint", name) for name in self.agent_failpoints]
        found += [("outage", name) for name in self.outages]
        found += [("lost records", name) for name in self.lost_records]
        chance.shuffle(found)
        return found


@dataclass
class Report:
    """What a run did and found. Times in seconds; `recovery_s`: from a master's start to its first answer. `rebooted`:
    nodes that lost power. `unknown_ends`: attempts whose end was lost with their record. `filed`: how many tasks were
    submitted; `looks`: how often the books were read meanwhile, `most`: how much of each kind was under way then, at
    most. `backlog`: tasks not ended when all were submitted and the last fault was over; `converged_s`: until they
    were."""

    plan: Plan
    problems: list[str] = field(default_factory=list)
    strikes: Counter[str] = field(default_factory=Counter)
    states: dict[str, int] = field(default_factory=dict)
    repeated: int = 0
    recovery_s: list[float] = field(default_factory=list)
    rebooted: set[str] = field(default_factory=set)
    unknown_ends: int = 0
    filed: int = 0
    looks: int = 0
    most: dict[str, int] = field(default_factory=dict)
    backlog: int = 0
    converged_s: float = 0.0
    total_s: float = 0.0


class Gate:
    """Lets the jobs of a phase go when the storm has come to it. `end` lets everything go, also after a failure."""

    def __init__(self, phases: int) -> None:
        self.phases = phases
        self._open = -1
        self._changed = threading.Condition()

    def reach(self, phase: int) -> None:
        """Let the jobs of all phases up to this one go."""
        with self._changed:
            self._open = phase
            self._changed.notify_all()

    def end(self) -> None:
        """Let all go."""
        self.reach(self.phases)

    def wait(self, phase: int) -> None:
        """Wait for a phase."""
        with self._changed:
            self._changed.wait_for(lambda: self._open >= phase)


class Submitter(threading.Thread):
    """One client: submits its jobs, each until it is answered, and cancels the doomed ones."""

    def __init__(self, lab: Lab, oracle: Oracle, jobs: list[tuple[int, Job]], gate: Gate, seed: str) -> None:
        super().__init__(name=f"client {seed}", daemon=True)
        self.problems: list[str] = []
        self.repeated = 0
        self.siblings: list[Job] = []
        """What was filed as arrays besides the first task of each."""
        self._lab = lab
        self._oracle = oracle
        self._jobs = jobs
        self._gate = gate
        self._chance = random.Random(seed)
        self._seed = seed
        self._client: Client | None = None

    def run(self) -> None:
        """Everything; what goes wrong is kept for the report."""
        try:
            for phase, job in self._jobs:
                self._gate.wait(phase)
                time.sleep(self._chance.uniform(0.0, 0.1))
                self._submit(job)
        except Exception as error:  # noqa: BLE001  (a thread's end must be seen by the run, whatever it was)
            self.problems.append(f"{self.name} gave up: {error!r}")
        if self._client is not None:
            self._client.close()

    def _submit(self, job: Job) -> None:
        request_id = f"{self._seed}-{job.number}"
        command = self._oracle.command(job)

        def once(client: Client) -> int:
            spec = {**_spec(job, self._oracle.checkpoints), "request_id": request_id}
            if job.array:
                return client.submit_array(command, f"0-{job.array - 1}", cap=CAP, **spec)[0]
            return client.submit(command, **spec)

        job.id = self._insist(once)
        self.siblings += [replace(job, id=job.id + more) for more in range(1, job.array)]
        if self._chance.random() < 0.05 and self._insist(once) != job.id:
            self.problems.append(f"the repeated submit of job {job.number} got another id than {job.id}")
        if job.doomed:
            if job.number % 2 or not job.gpus:
                self._await_running(job.id)
            else:
                time.sleep(self._chance.uniform(0.0, 0.3))
            self._insist(lambda client: client.cancel([*range(job.id, job.id + max(1, job.array))]))
        if job.paused:
            time.sleep(self._chance.uniform(0.0, 0.3))
            self._insist(lambda client: _if_it_runs(client.pause, job.id))
            time.sleep(self._chance.uniform(0.0, 0.3))
            self._insist(lambda client: _if_it_runs(client.resume, job.id))

    def _await_running(self, task: int) -> None:
        """What is cancelled while it runs goes another way than what waits; unless it has to wait for too long."""
        deadline = time.monotonic() + RUNS_S
        while time.monotonic() < deadline:
            if self._insist(lambda client: client.show(task))["state"] not in ("waiting", "starting"):
                return
            time.sleep(0.05)

    def _insist(self, ask: Callable[[Client], T]) -> T:
        """Ask until there is an answer, as a person at a shell would who saw the master die."""
        deadline = time.monotonic() + ANSWER_S
        while True:
            try:
                if self._client is None:
                    self._client = self._lab.client()
                    self._client.session.patience = 0.0
                return ask(self._client)
            except UnreachableError:
                if self._client is not None:
                    self.repeated += 1
                    self._client.close()
                    self._client = None
                if time.monotonic() > deadline:
                    raise
                time.sleep(self._chance.uniform(0.01, 0.05))


def _spec(job: Job, checkpoints: str) -> dict[str, Any]:
    """What it asks for; a master of before knows no more than GPUs and a name."""
    spec: dict[str, Any] = {"gpus": job.gpus, "name": f"job {job.number}"}
    if job.nodes > 1:
        spec["nodes"] = job.nodes
    if job.project:
        spec["project"] = job.project
    if job.retries:
        spec |= {"max_retries": job.retries, "retry_on": ["fail"]}
    if job.elastic:
        spec |= {"gpus_max": job.gpus + 3, "elastic": True, "checkpoint": checkpoints}
    if job.units:
        spec |= {"share": True, "gpu_memory_mib": job.units * UNIT_MIB}
    return spec


def _if_it_runs(ask: Callable[[int], object], task: int) -> None:
    """It may not run yet, or have ended."""
    with suppress(ConflictError):
        ask(task)


class Storm:
    """The faults of one run, one after the other."""

    def __init__(self, lab: Lab, gate: Gate, report: Report, chance: random.Random, say: Say) -> None:
        self._lab = lab
        self._gate = gate
        self._report = report
        self._chance = chance
        self._say = say

    def rage(self, strikes: list[tuple[str, str]]) -> None:
        """Strike once per phase. Raises NeverError when something does not come back."""
        for phase, (kind, name) in enumerate(strikes):
            self._say(f"{phase + 1}/{len(strikes)} {kind} {name}".rstrip())
            if kind == "failpoint":
                self._at_failpoint(phase, name)
            elif kind == "agent failpoint":
                self._at_agent_failpoint(phase, name)
            else:
                self._gate.reach(phase)
                time.sleep(self._chance.uniform(*self._report.plan.pace_s))
                self._strike(kind, name)
            self._report.strikes[kind] += 1
        self.end()

    def end(self) -> None:
        """Wait for whatever a strike has begun and not ended. Raises NeverError."""

    def standing(self) -> list[str]:
        """The nodes that nothing is wrong with just now."""
        return self._lab.nodes

    def _strike(self, kind: str, name: str) -> None:
        if kind == "master":
            self._lab.kill_master()
            self._restart()
        elif kind == "agent":
            node = self._chance.choice(self.standing())
            until(f"an agent of {node} to kill", lambda: self._lab.kill_agent(node))
        elif kind == "lost records":
            self._lose_records(name)
        else:
            raise NeverError(f"nobody knows how to do this: {kind} {name}")

    def _lose_records(self, name: str) -> None:
        """Those of one node, while neither an agent nor a master that would begin one lives."""
        node = self._chance.choice(self.standing())
        fault = next(fault for fault in FAULTS if fault.__name__ == name)
        until(f"an agent of {node} to kill", lambda: self._lab.agent_pid(node) is not None)
        self._lab.kill_master()
        self._lab.kill_agent(node)
        until("it is dead", lambda: self._lab.agent_pid(node) is None)
        attempts = self._lab.agent_folder(node) / "attempts"
        with self._lab.standing_still():  # an end that is written between the two would be lost and not counted
            self._report.unknown_ends += ended(attempts)
            fault(attempts)
        self._restart()

    def _at_failpoint(self, phase: int, name: str) -> None:
        self._lab.kill_master()
        self._lab.start(f"{name}:{self._chance.randint(1, 4) if name in failpoint.TRAFFIC else 1}")
        self._gate.reach(phase)
        self._lab.await_failpoint()
        self._restart()

    def _at_agent_failpoint(self, phase: int, name: str) -> None:
        armed = self._lab.arm_agent(self._chance.choice(self.standing()), name)
        self._gate.reach(phase)
        until(f"the failpoint {name} is reached", lambda: not armed.exists())

    def _restart(self) -> None:
        self._report.problems += books.audit_crashed(self._lab)
        began = time.monotonic()
        self._lab.start()
        self._report.recovery_s.append(time.monotonic() - began)


class Stage(NamedTuple):
    """Where a run takes place, and what can befall it there."""

    lab: Lab
    oracle: Oracle
    storm: type[Storm] = Storm
    start: Callable[[], None] | None = None
    """What to call instead of the lab's `start`."""


def run(folder: Path, plan: Plan, say: Say = lambda _line: None, stage: Stage | None = None) -> Report:
    """One chaos run in `folder`, which is left for a look. The report's `problems` are empty when all held. Without a
    stage the nodes are agents of this machine."""
    began = time.monotonic()
    chance = random.Random(plan.seed)
    report = Report(plan)
    jobs = make_jobs(plan.tasks, chance)
    strikes = plan.strikes(chance)
    lab, oracle, storm_kind, start = stage or Stage(Lab(folder / "lab"), Oracle(folder / "oracle"))
    lab.write_conf(scheduler={**lab.keys["scheduler"], "retry_after_s": 0.2, "resize_after": 0.2})
    gate = Gate(len(strikes))
    share = max(1, -(-plan.tasks // (len(strikes) + 1)))
    _make_sure(jobs, share, strikes)
    timed = [(number // share, job) for number, job in enumerate(jobs)]
    clients = [Submitter(lab, oracle, timed[one::CLIENTS], gate, f"{plan.seed}.{one}") for one in range(CLIENTS)]
    storm, ledger = storm_kind(lab, gate, report, chance, say), Ledger(lab)
    let_share(lab)
    try:
        (start or lab.start)()
        with lab.client() as asking:
            asking.call("project.edit", {"name": NARROW, "changes": {"max_total_gpus": NARROW_GPUS}})
        ledger.start()
        for client in clients:
            client.start()
        try:
            storm.rage(strikes)
        finally:
            storm.end()
        say("the storm is over")
        _settle(lab, clients, gate, report)
        jobs += [sibling for client in clients for sibling in client.siblings]
        report.filed = len(jobs)
        lost = sum(name in SHIM_KILLS for name in plan.agent_failpoints) + report.unknown_ends
        report.problems += books.audit_running(lab, oracle, jobs, lost=lost, rebooted=report.rebooted)
        lab.stop_master()
        report.problems += books.audit_stopped(lab, jobs, folder, chance, prefixes=12)
    except NeverError as error:
        report.problems.append(str(error))
    finally:
        gate.end()
        if ledger.is_alive():
            ledger.stop()
        report.problems += ledger.problems
        report.looks, report.most = ledger.looks, dict(ledger.most)
        report.problems += [f"had to be killed at the end: {process}" for process in lab.close()]
    report.total_s = time.monotonic() - began
    return report


def let_share(lab: Lab) -> None:
    """Say in the registry how much memory the GPUs have, without which nobody shares them."""
    entries = json.loads(lab.registry.read_text(encoding="utf-8"))
    for entry in entries:
        entry["gpu_memory"] = [UNITS * UNIT_MIB] * entry["gpu_count"]
    lab.write_registry(entries)


def _settle(lab: Lab, clients: list[Submitter], gate: Gate, report: Report) -> None:
    calm = time.monotonic()
    gate.end()
    for client in clients:
        client.join(ANSWER_S)
        report.problems += client.problems
        report.repeated += client.repeated
        if client.is_alive():
            report.problems.append(f"{client.name} got no answer")
    with lab.client() as asking:
        report.backlog = len(asking.tasks(active=True))
        until("every task has ended", lambda: not asking.tasks(active=True), CONVERGE_S + BACKLOG_S * report.backlog)
        # A node whose sshd came back as the last fault of all is tried again within its back-off.
        until("every node is online", lambda: all(node["state"] == "online" for node in asking.nodes()), CONVERGE_S)
        report.converged_s = time.monotonic() - calm
        report.states = {state: count for state, count in asking.info()["tasks"].items() if count}


def _make_sure(jobs: list[Job], share: int, strikes: list[tuple[str, str]]) -> None:
    """Where the master is to die on a way that few tasks go, one in that phase goes it."""
    for phase, (kind, name) in enumerate(strikes):
        if kind == "failpoint" and name in failpoint.TURNS:
            job = next(job for job in jobs[phase * share :] if not job.array)
            job.gpus, job.nodes, job.units, job.paused, job.project, job.elastic = 0, 1, 0, False, "", False
            if name.startswith("again."):
                job.code, job.retries, job.doomed, job.nap_s = 1, 1, False, 0.01
            else:
                job.doomed, job.nap_s, job.leftover, job.retries = True, FOREVER_S, False, 0


def every_fault(tasks: int, kills: int, agent_kills: int, seed: int) -> Plan:
    """Random kills, and every failpoint that load alone leads to, once."""
    names = tuple(name for name in failpoint.NAMES if name not in PREPARED)
    lost_records = tuple(fault.__name__ for fault in FAULTS)
    return Plan(tasks, kills, agent_kills, names, AGENT_FAILPOINTS, lost_records=lost_records, seed=seed)
