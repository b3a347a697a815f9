"""The planner decides what the plain one does, word for word, whatever it kept of the plans before."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from master.config.settings import Scheduling, Settings
from master.core.attempts import dispatch
from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.nodes.facts import Facts, NodeState
from master.core.nodes.gpu_watch import GpuReport, Holder
from master.core.nodes.node import NodeSpec, Restriction
from master.core.people.quota import Quota
from master.core.planning.forecast import Hold
from master.core.planning.scheduler import Plan, PlanInput, explain, plan
from master.core.tasks.attempt import Part
from master.core.tasks.request import demand_of
from master.core.tasks.task import Task
from tests.master.core.mixed_walk import walk
from tests.master.core.plain_planner import Decided, plain_plan
from tests.walks import COMPARED, CROWDS, IN_TIME
from wire.agent import PROTOCOL
from wire.errors import MusterError
from wire.message import Message

HOUR_S, DAY_S = 3600.0, 86_400.0
pytestmark = IN_TIME


@pytest.fixture
def _compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "plan", compared)


def compared(plan_input: PlanInput, now: float) -> Plan:
    """A plan like any, which is what the plain planner decides, and what nothing kept would come to."""
    due = told(plain_plan(plan_input, now))
    anew = plan(msgspec.structs.replace(plan_input, free=None), now)
    made = plan(plan_input, now)
    assert told(made) == due
    assert told(anew) == due
    return made


def told(decided: Plan | Decided) -> dict[str, Any]:
    return {
        "starts": [(one.task_id, one.parts) for one in decided.starts],
        "resizes": decided.resizes,
        "reservations": decided.reservations,
        "holds": {name: told_of(hold) for name, hold in decided.holds.items()},
        "wake_at": decided.wake_at,
        "again": decided.again,
    }


def told_of(hold: Hold) -> tuple[Any, ...]:
    return hold.task, hold.gpus, hold.spare, hold.until, hold.holders


FEWER = bytes(17) + b"\xd0\x00\x00\x12" + bytes(5) + b"\xe3\x00\x1f\x00\x00\x00\x00\x08\x00\x004\x00=\x03"
"""A task is to give up GPUs of a node that by the registry has fewer by now."""
AWAY = (
    b"P\xcdB\xab\xf2wD\x8e\xe2\x7f\x96qc\xfaI\xad\x14\x05\xff;>\xc9\x83Y:\xc9\xc6\x7f\xf2\xbe\x93-?!\x818\x15\xcf\xd7\xd0"
    b"\xdd\x11\xd7\x8c\x8e:9\xff\xca\x92\xeag\xe3\xe8:\x10\xcc\xcc=t"
)
"""The node of a reservation is away for long, and there is no better place."""


@pytest.mark.usefixtures("_compared")
@settings(max_examples=COMPARED, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(FEWER)
@example(AWAY)
@given(st.binary(min_size=30, max_size=120))
def test_whatever_happens_between_two_plans_they_decide_as_if_everything_were_looked_at_anew(text: bytes) -> None:
    walk(text)


# -- a larger lab, with more who wait for the same ---------------------------------------------------------------

MAKES = (("A100", 80_000), ("A100", 40_000), ("V100", 32_000))
OWNERS = ("ann", "bob", "cem")
WISHES: tuple[dict[str, Any], ...] = (
    {"gpus": 1},
    {"gpus": 2},
    {"gpus": 4},
    {"gpus": 1, "gpu_models": ["A100"]},
    {"gpus": 2, "gpu_models": ["V100"], "cpus": 3},
    {"gpus": 1, "gpu_memory_mib": 50_000},
    {"gpus": 1, "gpu_memory_mib": 20_000, "share": True},
    {"gpus": 2, "gpu_memory_mib": 30_000, "share": True, "gpu_models": ["A100"]},
    {"gpus": 1, "share": True},
    {"gpus": 1, "min_free_util": 40.0},
    {"gpus": 2, "gpus_max": 4},
    {"gpus": 2, "nodes": 2},
    {"gpus": 4, "nodes": 3},
    {"gpus": 1, "nodes": 4, "exclude": ["n1"]},
    {"gpus": 1, "gpu_ids": [1]},
    {"gpus": 1, "exclude": ["n0", "n3"]},
    {"gpus": 2, "node": "n2"},
    {"gpus": 1, "node_list": ["n4", "n1", "n3"]},
    {"gpus": 2, "node_list": ["n5", "n0", "n2"], "nodes": 2},
    {"gpus": 2, "nodes": 2, "gpus_on": {"n3": [0, 2], "n1": [1, 2]}},
    {"gpus": 1, "token": "queue"},
    {"gpus": 0},
    {"cpus": 2},
    {"gpus": 1, "cpus": 2, "memory_mib": 5_000, "tmp_disk_mib": 20_000},
    {"gpus": 1, "licences": {"solver": 1}},
    {"gpus": 1, "gpus_max": 4, "elastic": True, "checkpoint": "x"},
    {"gpus": 2, "gpus_max": 3, "elastic": True, "checkpoint": "x", "gpu_models": ["A100"]},
)


class Crowd:
    """A core with six nodes of four GPUs, and many who wait. What happens is read off a text of bytes. `roots`: on
    these nodes the first owner's tasks are root; `by_admin`: of each batch in turn whether it counts as an admin's."""

    def __init__(self, text: bytes, roots: Collection[int] = (), by_admin: Sequence[bool] = ()) -> None:
        self._text = iter(text)
        self._by_admin = iter(by_admin)
        self.now = 10 * DAY_S
        numbers = itertools.count(1)
        self.core = Core(
            tuple(
                NodeSpec(name=f"n{at}", gpu_models=(model,) * 4, gpu_memory_mib=(mib,) * 4, slots=2)
                for at, (model, mib) in enumerate(MAKES * 2)
            ),
            lambda task, attempt: f"{task}.{attempt}.{next(numbers)}",
            Settings(scheduler=Scheduling(reserve_after=HOUR_S, reservations=2)),
            licences={"solver": 2},
        )
        for name in OWNERS:
            self.core.people.add(name)
        self.core.keep_from_root(OWNERS[0])
        for at, name in enumerate(self.core.inventory.nodes):
            uid = 0 if at in roots else 1000
            disk = 30_000 + 10_000 * at if at else None
            facts = Facts(
                boot_id="b",
                state_id="s",
                cpus=8,
                memory_mib=16_000,
                tmp_disk_mib=disk,
                protocol=PROTOCOL,
                uid=uid,
                runs_as="another",
            )
            self.core.node_state(name, NodeState.ONLINE, None, facts)

    def go(self, look: Callable[[Core], None] | None = None) -> None:
        """Until the text is at its end; somebody may look at the core after each step."""
        while (what := next(self._text, None)) is not None:
            with suppress(MusterError):
                STEPS[what % len(STEPS)](self)
            if look is not None:
                look(self.core)
            if what < PLANS:
                self.core.plan(self.now)
                self.core.take_outcome()
                self.core.sanity_check()

    def some(self, *choices: Any) -> Any:
        return choices[next(self._text, 0) % len(choices)]

    def submit(self) -> None:
        count, wish = self.some(1, 2, 3, 9), self.some(*WISHES)
        besides = self.some({}, {}, {"time_limit_s": 60.0}, {"time_limit_s": DAY_S}, {"priority": 1}, {"urgent": True},
            {"project": "p"}
        )  # fmt: skip
        besides = {**besides, "by_admin": next(self._by_admin, False)}
        drafts = [Task(id=0, command=["x"], owner=self.some(*OWNERS), **wish, **besides) for _ in range(count)]
        self.core.submit(drafts, self.now - self.some(0.0, 0.0, DAY_S))

    def running(self) -> list[tuple[Task, Part]]:
        tasks = self.core.active()
        return [(task, part) for task in tasks for part in task.allocation if part.ended_at is None]

    def end(self) -> None:
        for _ in range(self.some(1, 1, 4)):
            if running := self.running():
                _, part = self.some(*running)
                how = self.some("exited", "exited", "not_started")
                told = Exit(part.launch_id, how, self.now, 0, fault="node" if how == "not_started" else "")
                self.core.exited(part.node, told, self.now)

    def begin(self) -> None:
        for _, part in self.running():
            self.core.started(part.node, part.launch_id, self.now, self.now)

    def node(self) -> None:
        name, core = f"n{self.some(*range(6))}", self.core
        self.some(
            lambda: core.drain(name, "why", "ann", self.now),
            lambda: core.resume(name),
            lambda: core.rested(name),
            lambda: core.restrict(name, Restriction(frozenset(OWNERS[:2]), Message("node_is_online", node=name))),
            lambda: core.restrict(name, None),
            lambda: core.tokens_told(name, Message("node_is_online", node=name)),
            lambda: core.tokens_told(name, None),
            lambda: core.set_aside(name, 0, "set aside by ann"),
            lambda: core.return_gpu(name, 0),
        )()

    def sample(self) -> None:
        name, busy, foreign = f"n{self.some(*range(6))}", self.some(0.0, 90.0), self.some(0, 0, 15_000)
        strangers = (Holder(9, "eve", foreign),) if foreign else ()
        reports = [
            GpuReport(
                gpu,
                utilization=busy,
                memory_total_mib=MAKES[int(name[1]) % 3][1],
                memory_used_mib=foreign if gpu == 1 else 0,
                processes=strangers if gpu == 1 else (),
            )
            for gpu in range(4)
        ]
        self.core.gpus_seen(name, reports, self.now)

    def person(self) -> None:
        core, who = self.core, self.some(*OWNERS)
        waiting = core.queue()
        if waiting and self.some(0, 1):
            task = self.some(*waiting)
            self.some(
                lambda: core.force(task.id, over_quota=False),
                lambda: core.force(task.id, over_quota=True),
                lambda: core.cancel(task.id, self.now, by="ann"),
                lambda: core.move(task.id, 1),
                lambda: core.hold(task.id),
            )()
            return
        quota = self.some(
            Quota(), Quota(max_running=2), Quota(max_total_gpus=3), Quota(max_gpus_per_task=1), Quota(max_manual_gpus=1)
        )
        core.people.edit(who, quota=quota)
        if self.some(0, 0, 1):
            core.edit_project("p", quota=quota)
        core.tuning.set("scheduler.max_tasks_per_gpu", self.some(None, 1, 2), "ann", self.now)

    def pass_time(self) -> None:
        self.now += self.some(1.0, 61.0, HOUR_S, DAY_S)
        self.core.woken()

    def look(self) -> None:
        """Somebody looks for checkpoints, and sees the one of all, or of none; one that is to be resized ends."""
        newest = self.some(self.now, self.now, None)
        for task, part in self.running():
            if task.resizing is not None and self.some(0, 1):
                self.core.exited(part.node, Exit(part.launch_id, "killed", self.now), self.now)
            elif task.elastic:
                self.core.checkpoint_seen(part.launch_id, newest, self.now)


STEPS = (
    Crowd.submit, Crowd.submit, Crowd.submit, Crowd.end, Crowd.end, Crowd.begin, Crowd.node, Crowd.sample,
    Crowd.person, Crowd.pass_time, Crowd.look,
)  # fmt: skip
PLANS = 200
"""A step whose byte is below this is followed by a plan; behind others more happens first."""

STRANGER = (
    b"\x00\x00\x01" + bytes(40) + b"\x02\x1a" + bytes(17) + b"\x5d\xc4\x02" + bytes(13)
    + b"\x01\x8e\x00\x00\x00\x00\xac\x2d\x00\x14"
)  # fmt: skip
"""A task is to give up one of its GPUs for who would share two, and a stranger is on one that it keeps."""


@pytest.mark.usefixtures("_compared")
@settings(max_examples=CROWDS, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(STRANGER)
@given(st.binary(min_size=40, max_size=160))
def test_in_a_lab_where_many_wait_for_the_same_they_decide_so_too(text: bytes) -> None:
    Crowd(text).go()


@pytest.mark.usefixtures("_compared")
@settings(max_examples=CROWDS, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(min_size=40, max_size=160),
    st.sets(st.integers(0, 5), min_size=1),
    st.lists(st.booleans(), min_size=5, max_size=40),
)
def test_where_an_owners_tasks_would_be_root_they_decide_so_too_and_none_begins_there_but_an_admins(
    text: bytes, roots: set[int], by_admin: list[bool]
) -> None:
    def look(core: Core) -> None:
        there = {f"n{at}" for at in roots}
        for task in core.active():
            assert task.by_admin or task.owner != OWNERS[0] or not there & {part.node for part in task.allocation}

    Crowd(text, roots, by_admin).go(look)


@settings(max_examples=max(10, CROWDS // 2))
@given(st.binary(min_size=40, max_size=160), st.sets(st.integers(0, 5)), st.lists(st.booleans(), max_size=20))
def test_why_a_task_waits_is_what_looking_at_all_nodes_anew_would_tell(
    text: bytes, roots: set[int], by_admin: list[bool]
) -> None:
    Crowd(text, roots, by_admin).go(reasons_hold)


def reasons_hold(core: Core) -> None:
    """Of each that waits for room: what is told, of which something was kept from when others asked."""
    for task in core.queue():
        if task.id in core.backlog:
            told = core.wait(task)
            due = explain(demand_of(task), core.inventory, core.quotas, core.holds, task_id=task.id, tasks=core.tasks)
            besides = len(told.obstacles) - len(due.obstacles)  # what is said of it alone stands before
            assert (told[0], told.obstacles[besides:]) == (due[0], due.obstacles)
