"""One run, from the plan to the audit."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.storm import audit, copies
from tests.storm.clients import CLIENTS, PATIENCE_S, Client, Feed, make_jobs, read_books
from tests.storm.ground import Ground, ground
from tests.storm.host_lane import HostLane
from tests.storm.line import Line
from tests.storm.master_lane import MasterLane, queue_disk_strikes
from tests.storm.pace import Going, LastFault, Pace, Say
from tests.storm.plan import Counts, Plan, draw
from tests.storm.watchers import (
    FilesWatcher,
    LedgerWatcher,
    SecretsWatcher,
    StreamWatcher,
    Watcher,
    holders_of,
    wait_until,
)
from tests.testbed.host import Host

CONVERGE_S = 30.0
"""How soon after the last fault all is to be at rest. The report says it beside the figure, no check asks for it: the
load of the machine counts in it."""
PATIENT_S = 90.0
"""How long a run waits for rest."""
LOAD_SHARE = 0.9
"""The load comes in the first so much of the lives: what is at rest within 30 s of the last fault is the recovery, not
a queue that was longer than that before."""
PREFIXES = 12
MOST_THREADS, MOST_DESCRIPTORS = 8, 64
PER_NODE_THREADS, PER_NODE_DESCRIPTORS = 2, 4
AGENT_DESCRIPTORS = 40


@dataclass
class Outcome:
    """What a run did and found. `checks`: problems by check; a run is good when there are none."""

    plan: Plan
    checks: dict[str, list[str]] = field(default_factory=dict)
    strikes: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    figures: dict[str, Any] = field(default_factory=dict)
    recovery_s: list[float] = field(default_factory=list)
    converged_s: float = 0.0
    storm_s: float = 0.0
    total_s: float = 0.0

    @property
    def problems(self) -> list[str]:
        """All of them."""
        return [f"{name}: {problem}" for name, problems in self.checks.items() for problem in problems]


class Run:
    """The parts of one run on its ground."""

    def __init__(self, place: Ground, folder: Path, plan: Plan, say: Say) -> None:
        self.place = place
        self.folder = folder
        self.plan = plan
        self.outcome = Outcome(plan)
        self._say = say
        self._books = folder / "books"
        self._books.mkdir()
        chance = random.Random(f"{plan.seed}.jobs")
        self._feed = Feed(make_jobs(plan.counts.tasks, chance), chance)
        ports = place.lab.ports
        self._clients = [
            Client(number, ports["data_port"], self._feed, self._books / f"{number}.jsonl", plan.seed)
            for number in range(CLIENTS)
        ]
        self._pace = Pace(len(plan.lives))
        self._last = LastFault()
        files = FilesWatcher(place.lab.task_info)
        self._stream = StreamWatcher(ports["train_state_port"])
        self._ledger = LedgerWatcher(ports["data_port"])
        self._secrets = SecretsWatcher(Host.password)
        self._watchers: list[Watcher] = [files, self._stream, self._ledger, self._secrets]
        self._going = Going(self._feed, self._pace, self._last, plan.seed, say)
        self.master = MasterLane(place, self._going, files)
        self.hosts = HostLane(place, self._going, plan.hosts)
        self._disks = threading.Thread(target=self._fill_disks, name="queue disk lane", daemon=True)
        self._disks_filled = 0

    def _fill_disks(self) -> None:
        self._disks_filled = queue_disk_strikes(self.master, self.place, self._going, self.plan.disk)

    def go(self) -> None:
        """The storm, the rest after it, the audit."""
        began = time.monotonic()
        self.place.lab.start_trusted()
        self._say("the nodes are online")
        self.place.lab.kill_master()
        for thread in (*self._watchers, *self._clients, self.hosts, self._disks):
            thread.start()
        try:
            self.master.rage(self.plan.lives, self.plan.counts.tasks / (len(self.plan.lives) * LOAD_SHARE))
        finally:
            self._pace.end()
            self._feed.end()
        self._say("the master's last life begins; the hosts' outages end")
        self.master.start()
        self.hosts.join()
        self._disks.join()
        self.outcome.storm_s = time.monotonic() - began
        with Line(self.place.lab.ports["data_port"]) as line:
            self.outcome.figures["tasks not ended when the storm was over"] = line.call("task.list", limit=1)["total"]
        self._say("the storm is over")
        self._tell_strikes()
        self._rest()
        self._say(f"at rest {self.outcome.converged_s:.1f} s after the last fault")
        self._audit()
        self.outcome.total_s = time.monotonic() - began

    # -- after the storm --------------------------------------------------------------------------------------

    def _rest(self) -> None:
        problems = self.outcome.checks.setdefault("10. converged", [])
        for client in self._clients:
            client.join(max(1.0, PATIENCE_S - (time.monotonic() - self._last.at)))
            if client.is_alive():
                problems.append(f"{client.name} got no answer")
        late = wait_until("every task ended, every node online", self._is_at_rest, PATIENT_S)
        self.outcome.converged_s = time.monotonic() - self._last.at
        if late is not None:
            problems.append(f"{late}: {self._unrest()}")
        for watcher in self._watchers:
            watcher.stop()

    def _is_at_rest(self) -> bool:
        return not self._unrest()

    def _unrest(self) -> list[str]:
        with Line(self.place.lab.ports["data_port"]) as line:
            tasks = line.call("task.list", active=True)["tasks"]
            nodes = line.call("node.list")
        told = [f"task {task['id']} {task['state']} ({task['reason']})" for task in tasks[: audit.TOLD]]
        return told + [
            f"{node['name']} {node['state']} ({node['reason']})"
            for node in nodes
            if not (node["state"] == "online" and node["schedulable"])
        ]

    # -- the audit --------------------------------------------------------------------------------------------

    def _audit(self) -> None:
        lab, checks = self.place.lab, self.outcome.checks
        checks["8. nothing left"] = self._left()  # first: a shim may still be about to write a log's last line
        with Line(lab.ports["data_port"]) as line:
            nodes = line.call("node.list")
        evidence = audit.Evidence(
            read_books(self._books),
            copies.listed(lab.muster),
            audit.read_months(lab.task_info),
            self.place.witness.testimony(),
            self.hosts.excuses,
        )
        checks["1. nothing lost"] = audit.lost(evidence)
        checks["2, 3. nothing twice"] = audit.twice(evidence)
        checks["4. nothing double-booked"] = audit.double_booked(evidence, nodes) + self._ledger.problems
        checks["5. what is recorded is what happened"] = audit.ends(evidence) + audit.logs(evidence)
        checks["none burned"] = audit.burned(evidence)
        self._secrets.look()
        self._stop(checks)
        checks["6. only legal moves"] = self._stream.problems + audit.transitions(lab.task_info / copies.JOURNAL)
        checks["9. files parse, no secret shows"] = [
            *self._watchers[0].problems,
            *self._secrets.problems,
            *self._files_with_secrets(),
        ]
        chance = random.Random(f"{self.plan.seed}.prefixes")
        checks["7. a replay gives the same"] = copies.replays(lab.task_info, self.folder, chance, PREFIXES)
        checks["the storm itself"] = [
            *self.master.problems,
            *self.hosts.problems,
            *(problem for client in self._clients for problem in client.problems),
        ]
        self._count(evidence)

    def _stop(self, checks: dict[str, list[str]]) -> None:
        master = self.place.lab.master
        if master is not None:
            master.terminate()
            code = master.wait(60)
            self.place.lab.master = None
            if code != 0:
                checks["8. nothing left"].append(f"the master ended with {code} when it was asked to stop")

    def _left(self) -> list[str]:
        if wait_until("nothing is left", lambda: not self._still_there(), PATIENT_S) is None:
            return []
        return self._still_there()

    def _still_there(self) -> list[str]:
        """What a lab at rest has no more; the last fault may have been a moment ago."""
        lab = self.place.lab
        strays = lab.strays()
        problems = [f"left alive: {strays}"] if strays else []
        for name in lab.nodes:
            attempts = _remembered(lab.agent_folder(name) / "attempts")
            if attempts:
                problems.append(f"{name} still remembers {attempts}")
            pid = lab.agent_pid(name)
            if pid is None or _count(pid, "fd") > AGENT_DESCRIPTORS:
                problems.append(f"{name}: " + ("no agent" if pid is None else f"{_count(pid, 'fd')} descriptors"))
        if lab.master is not None:
            threads, descriptors = _count(lab.master.pid, "task"), _count(lab.master.pid, "fd")
            self.outcome.figures["threads and descriptors of the master at the end"] = f"{threads}, {descriptors}"
            nodes = len(lab.nodes)
            if threads > MOST_THREADS + nodes * PER_NODE_THREADS or (
                descriptors > MOST_DESCRIPTORS + nodes * PER_NODE_DESCRIPTORS
            ):
                problems.append(f"the master has {threads} threads and {descriptors} descriptors")
        return problems

    def _files_with_secrets(self) -> list[str]:
        lab = self.place.lab
        folders = [lab.folder, lab.task_info, lab.root, *(host.disk for host in self.place.bed.hosts)]
        found = holders_of(Host.password, folders, lambda path: path == lab.psw)
        return [f"a secret stands in {path}" for path in found]

    def _tell_strikes(self) -> None:
        outcome = self.outcome
        outcome.strikes = self.master.done + self.hosts.done + Counter({"full disk": self._disks_filled})
        outcome.reached = self.master.reached
        outcome.recovery_s = self.master.recovery_s

    def _count(self, evidence: audit.Evidence) -> None:
        outcome = self.outcome
        outcome.states = Counter(task["state"] for task in evidence.tasks.values())
        excuses = evidence.excuses
        outcome.figures |= {
            "submits answered": len(evidence.answered),
            "tasks whose command ran": len(evidence.told.launches),
            "starts that the tasks wrote down": sum(evidence.told.starts.values()),
            "tasks in the months' files": len({task["id"] for task in evidence.months}),
            "requests asked again after a lost connection": sum(client.asked_again for client in self._clients),
            "requests refused for the full disk, and asked again": sum(client.refused for client in self._clients),
            "starts of the master": self.master.starts,
            "starts refused while the disk was full": self.master.refused_starts,
            "states heard on the stream of tasks": self._stream.looks,
            "times that the books of nodes and tasks were compared": self._ledger.looks,
            "most GPUs held at such a moment": self._ledger.most_held,
            "published files read in the run": self._watchers[0].looks,
            "attempts that a reboot or a killed shim cost (state lost)": outcome.states["lost"],
            "of these, shims killed by hand": len(excuses.shims),
            "nodes that had been set aside for their faults and were resumed": self.hosts.set_aside,
            "tasks that could not take their own lock (shared folder gone)": evidence.told.unlocked,
        }


def _remembered(attempts: Path) -> list[str]:
    """Attempts that an agent has not forgotten. Which it could not remove while its folder was read-only it has told,
    and removes at its next start."""
    log = attempts.parent / "agent.log"
    said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return sorted(path.name for path in attempts.iterdir() if f"{path.name}: cannot be removed" not in said)


def _count(pid: int, what: str) -> int:
    """None are left of a process that is gone."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return sum(1 for _ in Path(f"/proc/{pid}/{what}").iterdir())
    return 0


def run(folder: Path, counts: Counts, seed: int, say: Say = lambda _line: None) -> Outcome:
    """A whole run; what is of use after a bad one is left in `folder`."""
    plan = draw(counts, seed)
    keep_history = max(5, counts.tasks // 5)
    with ground(counts.hosts, folder / "lab", keep_history) as place:
        going = Run(place, folder, plan, say)
        try:
            going.go()
        except AssertionError as error:
            going.outcome.checks.setdefault("the run", []).append(str(error))
        finally:
            with _kept(place, folder, going.outcome):
                left = place.lab.close()
        going.outcome.checks.setdefault("8. nothing left", []).extend(f"had to be killed: {one}" for one in left)
        return going.outcome


@contextmanager
def _kept(place: Ground, folder: Path, outcome: Outcome) -> Iterator[None]:
    """After a bad run: the queue's files, what the agents said, what the tasks wrote down."""
    yield
    if outcome.problems or not outcome.total_s:
        shutil.copytree(place.lab.task_info, folder / "task_info", ignore=shutil.ignore_patterns("reserve"))
        for host in place.bed.hosts:
            for log in (*host.home.glob(".local/state/muster/*/agent.log"), host.disk / "var/tmp/witness/told"):
                if log.exists():
                    shutil.copy(log, folder / f"{host.name}.{log.name}")
