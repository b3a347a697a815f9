"""A lab in which everything happens at once: people, agents, samples, settings, time and crashes, step by step.

What happens is read off a text of bytes, two or three for each step: hypothesis makes them, and makes a failing one
short. After each step the lab checks what must hold whatever came before. The agents keep their promise (a launch is
begun at most once, its end told until it is heard); all else that can go wrong, does.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from master.core.attempts.exits import Exit, Seen
from master.core.core import Core
from master.core.effects import Ack, Kill, Pause, Rest, Resume, SeekCheckpoint, Start, WakeAt
from master.core.nodes.gpu_watch import GpuReport, Holder
from master.core.nodes.inventory import Facts, NodeSpec, NodeState
from master.core.outcome import Outcome
from master.core.people.quota import Quota
from master.core.planning.reservations import Reservation
from master.core.tasks.records import Change, merge_pieces
from master.core.tasks.task import ACTIVE, After, Task, TaskState
from master.core.tasks.transitions import State
from wire.agent import PROTOCOL
from wire.errors import MusterError
from wire.message import Message

HOUR, DAY = 3600.0, 86400.0
CARD_MIB = 10_000
SPECS = (
    NodeSpec(name="a", gpu_models=("A100",) * 2, gpu_memory_mib=(CARD_MIB,) * 2, slots=2),
    NodeSpec(name="b", gpu_models=("RTX4090",) * 2, slots=2),
    NodeSpec(name="c", gpu_models=("A100",) * 4, gpu_memory_mib=(CARD_MIB,) * 4, slots=2),
)
SMALLER = NodeSpec(name="c", gpu_models=("A100",) * 2, gpu_memory_mib=(CARD_MIB // 2,) * 2, slots=2)
LICENCES = {"solver": 2}
CPUS, MEMORY_MIB, DISK_MIB = 8, 16_000, 50_000
FORBIDS = frozenset(
    {
        "over_quota",
        "waits_for_allocation",
        "kept_for_it",
        "kept_for_it_until",
        "kept_for_another",
        "kept_for_another_until",
        "kept_for_it_free",
        "kept_for_another_free",
        "never",
    }
)
"""What may keep a task from GPUs that nobody uses."""

TERMS: tuple[dict[str, Any], ...] = (
    {"gpus": 1},
    {"gpus": 2},
    {"gpus": 4},
    {"gpus": 1, "gpus_max": 4},
    {"gpus": 2, "gpu_ids": [0, 1]},
    {"gpus": 1, "share": True, "gpu_memory_mib": 3000},
    {"gpus": 1, "share": True, "gpu_memory_mib": 6000},
    {"gpus": 1, "share": True},
    {"gpus": 2, "share": True, "gpu_memory_mib": 4000},
    {"gpus": 1, "gpu_ids": [1], "share": True, "gpu_memory_mib": 5000},
    {"gpus": 1, "gpus_max": 2, "share": True, "gpu_memory_mib": 2000},
    {"gpus": 1, "gpu_memory_mib": 8000},
    {"gpus": 1, "gpu_models": ["A100"]},
    {"gpus": 1, "min_free_util": 50.0},
    {"gpus": 1, "nodes": 2},
    {"gpus": 2, "nodes": 3},
    {"nodes": 2},
    {"gpus": 1, "nodes": 2, "share": True, "gpu_memory_mib": 4000},
    {"gpus": 0},
    {"gpus": 0, "cpus": 5, "tmp_disk_mib": 30_000},
    {"gpus": 1, "licences": {"solver": 1}},
    {"gpus": 1, "licences": {"solver": 2}},
    {"gpus": 1, "memory_mib": 10_000, "tmp_disk_mib": 30_000},
    {"gpus": 1, "node": "a"},
    {"gpus": 2, "exclude": ["c"]},
    {"gpus": 1, "node_list": ["b", "c"]},
    {"gpus": 2, "nodes": 2, "node_list": ["c", "a"]},
    {"gpus": 1, "nodes": 2, "gpus_on": {"c": [3], "a": [1]}},
    {"gpus": 1, "gpus_max": 4, "elastic": True, "checkpoint": "x"},
    {"gpus": 2, "gpus_max": 4, "elastic": True, "checkpoint": "x", "gpu_models": ["A100"]},
)
MORE: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"time_limit_s": HOUR},
    {"time_limit_s": 60.0},
    {"priority": 1},
    {"urgent": True},
    {"urgent": True},
    {"max_retries": 2},
    {"on_timeout": "requeue", "time_limit_s": 60.0},
    {"state": TaskState.HELD},
)

OF_TASKS = ("share", "cpus", "memory_mib", "tmp_disk_mib", "licences", "elastic", "checkpoint")
"""What an allocation cannot ask for: it holds GPUs as a whole, and runs nothing."""


def facts(node: str, boot: int = 1, folder: int = 1) -> Facts:
    """What a node's agent says of its machine, in its so many-th boot and with its so many-th folder."""
    return Facts(
        boot_id=f"boot-{node}-{boot}",
        state_id=f"state-{node}-{folder}",
        cpus=CPUS,
        memory_mib=MEMORY_MIB,
        tmp_disk_mib=DISK_MIB,
        hostname=node,
        protocol=PROTOCOL,
        runs_as="another",
    )


class Agent:
    """What lies and runs on one node, which outlives the master: of each launch that came, how it ended if it did."""

    def __init__(self) -> None:
        self.boot = self.folder = 1
        self.launches: dict[str, Exit | None] = {}
        self.running: set[str] = set()
        self.paused: set[str] = set()
        self.begun: set[str] = set()

    def lost(self, now: float, *, folder: bool) -> None:
        """The machine began anew: nothing runs there. Or its folder is another: nobody knows what ran."""
        if folder:
            self.folder += 1
            self.launches.clear()
        else:
            self.boot += 1
            for launch, exit_ in self.launches.items():
                self.launches[launch] = exit_ or Exit(launch, "rebooted", now)
        self.running.clear()
        self.paused.clear()

    def seen(self) -> list[Seen]:
        """The inventory, as the agent tells it."""
        return [
            Seen(launch, 2.0 if launch in self.running else None, exit_, pid=7, paused=launch in self.paused)
            for launch, exit_ in self.launches.items()
        ]


class Lab:
    """One folder, through many masters. `step` lets one thing happen, and checks."""

    def __init__(self, text: bytes) -> None:
        self._text = iter(text)
        self.now = 1_000_000.0
        self.agents = {spec.name: Agent() for spec in SPECS}
        self.specs: tuple[NodeSpec, ...] = SPECS
        self.disk: dict[int, bytes] = {}
        self.pieces: dict[str, msgspec.Raw] = {}
        self.next_id = 1
        self.wake_at: float | None = None
        self.ripe: set[tuple[int, float]] = set()
        self._launches = itertools.count(1)
        self.core = self._loaded()
        for name in ("ann", "bob"):
            self.core.people.add(name)
        for name in self.agents:
            self._connect(name)
        self.settle()

    # -- the engine ------------------------------------------------------------------------------------------------

    def _loaded(self) -> Core:
        core = Core(self.specs, lambda task, attempt: f"{task}.{attempt}.{next(self._launches)}", licences=LICENCES)
        tasks = {number: msgspec.json.decode(line, type=Task) for number, line in self.disk.items()}
        core.load(tasks, {}, self.next_id, dict(self.pieces))
        core.sanity_check()
        self.told: dict[int, State] = {number: task.state for number, task in tasks.items()}
        return core

    def settle(self) -> None:
        """The planner is asked if it should be, what came of it is written, and then leaves."""
        self._commit()
        self._ripen()
        for _ in range(20):
            if self.wake_at is not None and self.wake_at <= self.now:
                self.wake_at = None
                self.core.woken()
            if self.core.plan_needed:
                self.core.plan(self.now)
            if not self._commit():
                return
        raise AssertionError("it does not come to rest")

    def _ripen(self) -> None:
        """A time that has come has come, also if the clock is put back."""
        tasks = self.core.tasks.values()
        self.ripe |= {(one.id, one.not_before) for one in tasks if one.not_before and one.not_before <= self.now}

    def _commit(self) -> bool:
        outcome = self.core.take_outcome()
        if outcome is None:
            return False
        change = msgspec.json.decode(msgspec.json.encode(outcome.change), type=Change)
        self._check_moves(outcome)
        for task in change.tasks:
            self._check_record(task)
            self.disk[task.id] = msgspec.json.encode(task)
            self.next_id = max(self.next_id, task.id + 1)
        for number in change.gone:
            self.disk.pop(number, None)
        merge_pieces(self.pieces, change.state)
        for effect in outcome.effects:
            self._perform(effect)
        return True

    def _check_moves(self, outcome: Outcome) -> None:
        """Each move begins where the one before it ended, and whoever follows them knows the state of every task."""
        for task, before, after in outcome.moves:
            assert self.told.pop(task.id, None) is before, (task.id, before, after)
            if after is not None:
                self.told[task.id] = after
        assert {task.id for task in outcome.change.tasks} <= {task.id for task, _, _ in outcome.moves}
        assert self.told == {task.id: task.state for task in self.core.tasks.values()}

    def _perform(self, effect: object) -> None:
        if isinstance(effect, WakeAt):
            self.wake_at = effect.at
            return
        name = getattr(effect, "node", "")
        agent = self.agents.get(name)
        node = self.core.inventory.nodes.get(name)
        if agent is None or node is None or node.state is not NodeState.ONLINE:
            return
        if isinstance(effect, Start):
            launch = next(part.launch_id for part in effect.task.allocation if part.node == name)
            if launch not in agent.begun:
                agent.begun.add(launch)
                agent.launches[launch] = None
        elif isinstance(effect, Kill):
            if effect.launch_id not in agent.launches:  # claimed as killed
                agent.begun.add(effect.launch_id)
                agent.launches[effect.launch_id] = None
            if agent.launches[effect.launch_id] is None:
                agent.launches[effect.launch_id] = Exit(effect.launch_id, "killed", self.now)
            agent.running.discard(effect.launch_id)
        elif isinstance(effect, Ack):
            agent.launches.pop(effect.launch_id, None)
        elif isinstance(effect, Pause) and effect.launch_id in agent.running:
            agent.paused.add(effect.launch_id)
        elif isinstance(effect, Resume):
            agent.paused.discard(effect.launch_id)
        elif isinstance(effect, SeekCheckpoint):
            self.core.checkpoint_seen(effect.launch_id, self._of(self.now, self.now, None), self.now)
        elif isinstance(effect, Rest):
            self.core.rested(name)

    # -- what happens ----------------------------------------------------------------------------------------------

    def _byte(self) -> int:
        return next(self._text, 0)

    def _of(self, *choices: Any) -> Any:
        return choices[self._byte() % len(choices)]

    def step(self) -> bool:
        """One thing happens; False: the text is at its end."""
        what = next(self._text, None)
        if what is None:
            return False
        with suppress(MusterError):
            WHAT[what % len(WHAT)](self)
        self.settle()
        self.check()
        return True

    def submit(self) -> None:
        """Somebody submits."""
        wants = {**TERMS[self._byte() % len(TERMS)], **MORE[self._byte() % len(MORE)]}
        self.core.submit([Task(id=0, command=["x"], owner=self._of("ann", "bob"), **wants)], self.now)

    def submit_later(self) -> None:
        """Somebody submits what is to begin later, or behind another."""
        wants = TERMS[self._byte() % len(TERMS)]
        before = self._byte()
        if before % 2 and self.core.tasks:
            wants = wants | {"after": [After(self._some(before // 2).id, self._of("ok", "any"))]}
        else:
            wants = wants | {"begin_at": self.now + self._of(60.0, HOUR, DAY)}
        self.core.submit([Task(id=0, command=["x"], owner="ann", **wants)], self.now)

    def allocate(self) -> None:
        """Somebody asks for an allocation, gives one back, or wants another size of one."""
        what = self._byte()
        if what % 8 == 2 and (held := self.core.allocations.all()):
            self._of(self.core.grow_allocation, self.core.shrink_allocation)(self._of(*held).id, self._of(1, 2))
            return
        if what % 4 == 0 and (held := self.core.allocations.all()):
            self.core.release_allocation(self._of(*held).id, "ann", self.now, wait=what % 8 == 4)
            return
        wants: dict[str, Any] = {**TERMS[what % len(TERMS)], **self._of({}, {"time_limit_s": 60.0}, {"priority": 1})}
        plain = {key: value for key, value in wants.items() if key not in OF_TASKS}
        plain["gpus"] = max(1, plain.get("gpus", 0))
        name = self._of("x", "y", "z")
        self.core.submit(
            [Task(id=0, command="# x", owner=self._of("ann", "bob"), name=name, is_allocation=True, **plain)], self.now
        )

    def submit_within(self) -> None:
        """Somebody submits into an allocation of his."""
        held = self.core.allocations.all()
        if held:
            exp = self._of(*held)
            wants = {**TERMS[self._byte() % len(TERMS)], **MORE[self._byte() % len(MORE)]}
            self.core.submit([Task(id=0, command=["x"], owner=exp.owner, within=exp.id, **wants)], self.now)

    def _some(self, number: int | None = None) -> Task:
        tasks = list(self.core.tasks.values())
        if not tasks:
            raise MusterError(Message("no_task", id=0))
        return tasks[-1 - (self._byte() if number is None else number) % len(tasks)]

    def edit(self) -> None:
        """A task is to ask for something else, or to begin at another time."""
        task = self._some()
        wants: dict[str, Any] = {"gpus_max": None, "gpu_ids": None, "share": False, "gpu_memory_mib": None, "nodes": 1}
        wants |= {"node": None, "node_list": [], "gpus_on": {}, "elastic": False, "checkpoint": ""}
        wants |= TERMS[self._byte() % len(TERMS)] | {"begin_at": self._of(None, None, self.now + HOUR, self.now - DAY)}
        if task.is_allocation:  # the verb refuses what is of tasks
            wants = {key: value for key, value in wants.items() if key not in OF_TASKS}
            wants["gpus"] = max(1, wants.get("gpus", task.gpus))
        self.core.edit(msgspec.structs.replace(task, **wants))

    def person(self) -> None:
        """Somebody does something with a task."""
        task, core = self._some(), self.core
        what = self._byte() % 12
        if what < 3:
            core.force(task.id, over_quota=what == 2)
        elif what < 5:
            core.cancel(task.id, self.now, by="ann")
        else:
            events: tuple[Callable[[], object], ...] = (
                lambda: core.hold(task.id),
                lambda: core.release(task.id),
                lambda: core.retry(task.id),
                lambda: core.move(task.id, 1),
                lambda: core.pause(task.id, "ann", self.now),
                lambda: core.resume_task(task.id),
                lambda: core.remove(task.id, self.now, successors=True),
            )
            events[what - 5]()

    def _launch(self) -> tuple[str, Agent, str]:
        found = [(name, launch) for name, agent in self.agents.items() for launch in agent.launches]
        if not found:
            raise MusterError(Message("no_task", id=0))
        name, launch = found[self._byte() % len(found)]
        return name, self.agents[name], launch

    def _hears(self, name: str) -> bool:
        node = self.core.inventory.nodes.get(name)
        return node is not None and node.state is NodeState.ONLINE

    def begins(self) -> None:
        """Everything that was sent begins; or one is told by a node that it was not sent to."""
        if self._byte() % 8 == 7:
            name, _, launch = self._launch()
            other = next(one for one in self.agents if one != name)
            self.core.started(other, launch, self.now, self.now, pid=9)
            self.core.exited(other, Exit(launch, "exited", self.now, 0), self.now)
            return
        for name, agent in self.agents.items():
            for launch, exit_ in list(agent.launches.items()):
                if exit_ is None and launch not in agent.running:
                    agent.running.add(launch)
                    if self._hears(name):
                        self.core.started(name, launch, self.now, self.now, pid=7)

    def ends(self) -> None:
        """Something ends; it is told once or twice, and who began before that may be told after it."""
        name, agent, launch = self._launch()
        how = self._byte()
        if agent.launches[launch] is None:
            cause, code, fault = (
                ("exited", 0, ""), ("exited", 0, ""), ("exited", 1, ""), ("timed_out", None, ""),
                ("unknown", None, ""), ("not_started", None, "node"),
            )[how % 6]  # fmt: skip
            if launch in agent.running and cause == "not_started":
                cause, fault = "unknown", ""
            agent.launches[launch] = Exit(launch, cause, self.now, code, fault=fault)
            agent.running.discard(launch)
        exit_ = agent.launches[launch]
        if exit_ is not None and self._hears(name):
            self.core.exited(name, exit_, self.now)
            if how & 64:
                self.core.exited(name, exit_, self.now)
            if how & 128:
                self.core.started(name, launch, self.now, self.now, pid=7)

    def stands(self) -> None:
        """What stands still, or goes on, is told."""
        for name, agent in self.agents.items():
            for launch in sorted(agent.running):
                if self._hears(name):
                    self.core.stands(name, launch, stands=launch in agent.paused)

    def sample(self) -> None:
        """A node's samples say what its GPUs do; or nothing any more."""
        name, how = self._of(*self.agents), self._byte()
        if not self._hears(name):
            return
        if how % 8 == 7:
            self.core.gpus_unseen(name)
            return
        node = self.core.inventory.nodes[name]
        most = self._of(500, 2500, 9500)
        reports = []
        for gpu in range(len(node.spec.gpu_models)):
            ours = [
                Holder(7, "ann", most, part.launch_id)
                for task_id in sorted(node.gpu_holders.get(gpu, {}))
                for part in self.core.tasks[task_id].allocation
                if part.node == name and part.launch_id in self.agents[name].running
            ]
            foreign = [Holder(99, "eve", 4000)] if how % 8 == gpu + 1 else []
            used = sum(one.memory_mib or 0 for one in (*ours, *foreign))
            busy = float(self._of(0, 0, 90))
            reports.append(
                GpuReport(
                    gpu, utilization=busy, memory_total_mib=CARD_MIB, memory_used_mib=used, processes=(*ours, *foreign)
                )
            )
        self.core.gpus_seen(name, reports, self.now)

    def link(self) -> None:
        """A node's link breaks, or comes back: with the same, another boot, or another folder."""
        name, how = self._of(*self.agents), self._byte() % 6
        node = self.core.inventory.nodes.get(name)
        if node is None:
            return
        if how == 0:
            self.core.node_state(name, NodeState.UNREACHABLE, "gone")
        elif how == 1:
            self.core.node_state(name, NodeState.UNREACHABLE, "gone")
            self.core.give_up(name, "ann", self.now)
        else:
            if how > 3:
                self.agents[name].lost(self.now, folder=how == 5)
            self._connect(name)

    def _connect(self, name: str) -> None:
        if name in self.core.inventory.nodes:
            agent = self.agents[name]
            self.core.node_state(name, NodeState.CONNECTING, None, facts(name, agent.boot, agent.folder))
            self.core.reconcile(name, agent.seen(), self.now)
            self.core.node_state(name, NodeState.ONLINE)

    def decide(self) -> None:
        """An admin decides something about nodes or people."""
        name, core = self._of(*self.agents), self.core
        decisions: tuple[Callable[[], object], ...] = (
            lambda: core.drain(name, "why", "ann", self.now),
            lambda: core.resume(name),
            lambda: core.set_aside(name, 0, "set aside by ann"),
            lambda: core.return_gpu(name, 0),
            lambda: self._registry(SPECS),
            lambda: self._registry((*SPECS[:2], SMALLER)),
            lambda: self._registry(SPECS[1:]),
            lambda: core.people.edit("bob", quota=Quota(max_total_gpus=2)),
            lambda: core.people.edit("ann", quota=Quota(max_running=1)),
            lambda: core.people.edit("ann", quota=Quota(max_manual_gpus=2)),
            lambda: (core.people.edit("ann", quota=Quota()), core.people.edit("bob", quota=Quota())),
            lambda: core.disable_user("bob", "ann"),
            lambda: core.enable_user("bob"),
        )
        self._of(*decisions)()

    def _registry(self, specs: tuple[NodeSpec, ...]) -> None:
        self.specs = specs
        self.core.set_nodes(specs)
        for name, node in list(self.core.inventory.nodes.items()):
            if node.facts is None:
                self._connect(name)

    def set(self) -> None:
        """A setting changes."""
        name, value = self._of(
            ("scheduler.reservations", 1), ("scheduler.reservations", 4), ("scheduler.reserve_after", 60.0),
            ("scheduler.reserve_after", 6 * HOUR), ("scheduler.keep_gpu_memory", 0.1),
            ("scheduler.max_tasks_per_gpu", 1), ("scheduler.max_tasks_per_gpu", None), ("scheduler.max_running", 3),
            ("scheduler.max_running", None), ("scheduler.keep_gpu_memory", 0.0),
            ("scheduler.end_outgrown_after_s", 1.0), ("scheduler.end_outgrown_after_s", 0.0),
            ("scheduler.idle_action", "hold_next"), ("scheduler.idle_action", "end"),
            ("scheduler.stray_tasks", "end"), ("scheduler.stray_tasks", "tell"),
        )  # fmt: skip
        self.core.tuning.set(name, value, "ann", self.now)

    def pass_time(self) -> None:
        """Time passes, or the clock is set."""
        self.now += self._of(1.0, 11.0, 61.0, HOUR, 7 * HOUR, DAY, -DAY, -HOUR)
        self.core.woken()

    def crash(self) -> None:
        """The master dies behind a record, and the next one begins: what was told holds."""
        before, order = told(self.core), [task.id for task in self.core.queue()]
        self.core = self._loaded()
        assert told(self.core) == before
        assert [task.id for task in self.core.queue()] == order
        kept = self.core.reservations
        self.wake_at = None
        self.core.woken()
        for name in self.agents:
            self.settle()  # it plans while some nodes are not there yet
            self._connect(name)
        self.settle()
        self._check_kept(kept)

    # -- what must hold --------------------------------------------------------------------------------------------

    def _check_record(self, task: Task) -> None:
        line = self.disk.get(task.id)
        if task.state is TaskState.STARTING and line is not None:
            before = msgspec.json.decode(line, type=Task)
            if before.state is TaskState.WAITING and before.attempt < task.attempt and task.within is not None:
                self._check_within(task)
            elif before.state is TaskState.WAITING and before.attempt < task.attempt:
                due = before.not_before
                assert due is None or (task.id, due) in self.ripe, "it began before its time"
                self._check_room(task)

    def _check_kept(self, before: tuple[Reservation, ...]) -> None:
        """The only one that goes first, and waits still, has its reservation in its place, unless a better one was
        looked for: nobody knew when that would be free. Others may have given way to it."""
        waiting = [task for task in self.core.tasks.values() if task.state is TaskState.WAITING]
        first = [task.id for task in waiting if task.forced or task.urgent]
        after = {one.task: one for one in self.core.reservations}
        for one in before:
            if first == [one.task] and one.away_since is None:
                assert one.task in after, f"the reservation of task {one.task} was lost"
                there = {place.node for place in after[one.task].places}
                assert after[one.task].looked_at != one.looked_at or there == {place.node for place in one.places}

    def _check_within(self, task: Task) -> None:
        """What a task within an allocation got is that one's, and no other's there."""
        allocation = self.core.tasks[task.within or 0]
        assert allocation.owner == task.owner
        held = {part.node: part.gpus for part in allocation.allocation}
        for part in task.allocation:
            assert set(part.gpus) <= set(held[part.node]), "GPUs that its allocation does not hold"
            holders = self.core.inventory.nodes[part.node].leases[allocation.id].gpu_holders
            for gpu in part.gpus:
                assert part.gpu_mib is not None or list(holders[gpu]) == [task.id], "a GPU is used twice within"

    def _check_room(self, task: Task) -> None:
        """What has just been given out was there."""
        for part in task.allocation:
            node = self.core.inventory.nodes[part.node]
            for gpu in part.gpus:
                held = node.gpu_holders[gpu]
                if part.gpu_mib is None:
                    assert list(held) == [task.id], "a GPU is held twice"
                else:
                    assert None not in held.values(), "a share of what is held whole"
                    foreign = node.watch.foreign_mib(gpu)
                    assert sum(mib or 0 for mib in held.values()) + foreign <= CARD_MIB, "more memory than there is"

    def check(self) -> None:
        """What must hold behind each step."""
        core = self.core
        core.sanity_check()
        held: Counter[tuple[str, str]] = Counter()
        licences = 0
        for task in core.tasks.values():
            if task.state not in ACTIVE:
                continue
            assert len({part.node for part in task.allocation}) == task.nodes, "a gang that is not whole"
            assert task.resizing is None or task.asked_end is not None, "resized, and nobody asked for its end"
            for part in task.allocation:
                assert not task.is_allocation or part.gpus, "an allocation that holds nothing"
                assert not task.is_allocation or part.gpu_mib is None, "an allocation of a part of a GPU"
                most = max(task.gpus, task.gpus_max or 0)
                assert task.gpus <= len(part.gpus) <= most, "fewer GPUs, or more, than were asked for"
                assert not task.node_list or part.node in task.node_list, "where nobody wanted it"
                assert not task.gpus_on or part.gpus == task.gpus_on[part.node], "GPUs that nobody named"
            assert not task.waits_for
            licences += task.licences.get("solver", 0)
            for part in task.allocation:
                if not part.is_free:
                    if task.within is not None and core.tasks[task.within].state not in ACTIVE:
                        raise AssertionError(f"task {task.id} outlives allocation {task.within}")
                    held[part.node, "cpus"] += task.cpus or 0
                    held[part.node, "memory"] += task.memory_mib or 0
                    held[part.node, "disk"] += task.tmp_disk_mib or 0
                    held[part.node, "slots"] += task.gpus == 0 and task.cpus is None
        assert licences <= LICENCES["solver"]
        for (_, what), amount in held.items():
            assert amount <= {"cpus": CPUS, "memory": MEMORY_MIB, "disk": DISK_MIB, "slots": 2}[what]
        self._check_work()

    def _check_work(self) -> None:
        """Nobody waits for what nobody uses, unless he is told what forbids it."""
        core = self.core
        for task in core.tasks.values():
            if task.state is not TaskState.WAITING or task.id not in core.backlog:
                continue
            wait = core.wait(task)
            keys = {wait.brief.key, *(one.key for one in wait.obstacles)}
            assert "next" not in keys, f"task {task.id} is next, and nobody starts it"
            if not keys & FORBIDS and self._could_start(task):
                raise AssertionError(f"task {task.id} could start, and is told: {wait}")

    def _could_start(self, task: Task) -> bool:
        """Is there room by the plainest count? For whole GPUs of any kind, and nothing else of the cluster."""
        if task.within is not None:
            return self._could_start_within(task)
        plain = not (task.share or task.gpu_models or task.gpu_memory_mib or task.min_free_util or task.unstarted)
        exact = task.gpu_ids or task.gpus_on
        counted = task.licences or task.memory_mib or task.tmp_disk_mib or task.cpus
        if not plain or counted or exact or not task.gpus:
            return False
        nodes = 0
        for name, node in self.core.inventory.nodes.items():
            if not node.takes_tasks or name in task.exclude or name not in (task.node_list or [task.node or name]):
                continue
            free = [
                gpu
                for gpu in range(len(node.spec.gpu_models))
                if not node.gpu_holders.get(gpu) and node.why_closed(gpu) is None
            ]
            nodes += len(free) >= task.gpus
        return nodes >= task.nodes

    def _could_start_within(self, task: Task) -> bool:
        """The same, of the GPUs of its allocation."""
        leases = self.core.inventory.leases(task.within or 0)
        wants_more = task.share or task.gpu_models or task.gpu_memory_mib or task.min_free_util or task.unstarted
        counted = task.licences or task.memory_mib or task.tmp_disk_mib or task.cpus
        if not task.gpus or wants_more or counted or task.gpu_ids or task.gpus_on:
            return False
        able = [
            name
            for name, lease in leases.items()
            if self.core.inventory.nodes[name].takes_tasks
            and name not in task.exclude
            and name in (task.node_list or [task.node or name])
            and len(lease.free_gpus) >= task.gpus
        ]
        return len(able) >= task.nodes


def told(core: Core) -> object:
    """What people were told, or could ask for: no crash changes it."""
    tasks = {
        number: (
            task.state, task.attempt, task.retries, task.not_before, task.eligible_at, task.position, task.asked_end,
            task.allocation, task.first_end, task.learned_gpu_mib, task.forced, task.over_quota, task.waits_for,
            task.resizing, task.resizes, task.ran_s,
        )
        for number, task in core.tasks.items()
    }  # fmt: skip
    return tasks, core.reservations


WHAT: tuple[Callable[[Lab], None], ...] = (
    Lab.submit, Lab.submit, Lab.submit, Lab.allocate, Lab.submit_within, Lab.submit_within, Lab.submit_later,
    Lab.edit, Lab.person, Lab.person, Lab.begins, Lab.begins,
    Lab.ends, Lab.ends, Lab.stands, Lab.sample, Lab.link, Lab.decide, Lab.set, Lab.pass_time, Lab.crash,
)  # fmt: skip


def walk(text: bytes) -> Lab:
    """Let all of it happen."""
    lab = Lab(text)
    while lab.step():
        pass
    return lab
