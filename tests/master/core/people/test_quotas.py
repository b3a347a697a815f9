"""Quotas: whose tasks may have how much, that it holds at every moment, and what is said of it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.people.quota import Quota, Use
from master.core.tasks.task import ACTIVE, Task, TaskState
from tests.faults import said
from tests.master.core.small_core import BOOT, core_with, launch_of, submit
from tests.walks import some
from wire.errors import ConflictError, ImpossibleError
from wire.message import Message, ids

TWO = (NodeSpec(name="a", gpu_models=("GPU",) * 8), NodeSpec(name="b", gpu_models=("GPU",) * 8))


def lab(*specs: NodeSpec) -> Core:
    """Ann and Bob of the group nlp, Cid of none."""
    core = core_with(*(specs or TWO))
    for name in ("ann", "bob", "cid"):
        core.people.add(name)
    core.people.add_group("nlp")
    core.people.edit_group("nlp", [core.people.find("ann"), core.people.find("bob")], [])
    return core


def quota(core: Core, kind: str, name: str, **most: int) -> None:
    said = Quota(**most)
    if kind == "user":
        core.people.edit(name, quota=said)
    elif kind == "group":
        group = core.people.group(name)
        core.people.edit_group(name, [core.people.users[one] for one in group.members], [], said)
    else:
        core.edit_project(name, quota=said)


def over(*obstacles: Message) -> Message:
    """Return the reason of a task that waits for these quotas."""
    return Message("over_quota", obstacles=obstacles)


def tasks(*numbers: int) -> Message:
    return Message("used_by_tasks", tasks=ids(numbers))


def owners(**counts: int) -> Message:
    by = tuple(Message("used_by_one", name=name, count=count) for name, count in counts.items())
    return Message("used_by", owners=by, more=0)


def end(core: Core, task: Task) -> None:
    assert task.allocation
    core.exited(task.allocation[0].node, Exit(launch_of(task), "exited", 3.0, 0), 3.0)


def running(core: Core) -> list[int]:
    core.plan(0.0)
    return sorted(task.id for task in core.tasks.values() if task.state in ACTIVE)


def after_a_restart(core: Core) -> Core:
    outcome = core.take_outcome()
    assert outcome is not None
    again = core_with(*TWO, online=False)
    tasks = {task.id: task for task in outcome.change.tasks}
    state = {name: raw for name, raw in outcome.change.state.items() if bytes(raw) != b"null"}
    again.load(tasks, {}, max(tasks, default=0) + 1, state)
    for spec in TWO:
        again.node_state(spec.name, NodeState.ONLINE, None, BOOT)
    return again


def test_beyond_a_quota_tasks_wait_and_go_on_when_one_ends() -> None:
    core = lab()
    quota(core, "user", "ann", max_total_gpus=4)
    first, second, third = (submit(core, owner="ann", gpus=2) for _ in range(3))
    other = submit(core, owner="bob", gpus=2)
    assert running(core) == [first.id, second.id, other.id]
    assert core.why_it_waits(third) == over(
        Message("quota_reached", limit="max_total_gpus", kind="user", name="ann", most=4, used=4, by=tasks(1, 2))
    )
    end(core, first)
    assert third.id in running(core)


def test_a_blocked_owner_blocks_nobody_and_what_asks_for_no_gpu_goes_on() -> None:
    core = lab()
    quota(core, "user", "ann", max_total_gpus=0)
    with pytest.raises(ImpossibleError):
        submit(core, owner="ann", gpus=1)
    cpu, same = submit(core, owner="ann", cpus=1), submit(core, owner="cid", gpus=1)
    assert running(core) == [cpu.id, same.id]


def test_the_number_of_running_tasks_has_a_quota_too_for_one_and_for_all() -> None:
    core = lab()
    quota(core, "user", "ann", max_running=1)
    core.tuning.set("scheduler.max_running", 2, "chen", 1.0)
    first, second = submit(core, owner="ann", cpus=1), submit(core, owner="ann", cpus=1)
    third, fourth = submit(core, owner="bob", cpus=1), submit(core, owner="cid", cpus=1)
    assert running(core) == [first.id, third.id]
    anns = Message("runs_enough", kind="user", name="ann", most=1, used=1, by=tasks(1))
    alls = Message("cluster_runs_enough", most=2, used=2, by=owners(ann=1, bob=1))
    assert core.why_it_waits(fourth) == over(alls)
    assert core.wait(second).obstacles == [anns, alls]
    core.tuning.set("scheduler.max_running", None, "chen", 1.0)
    assert running(core) == [first.id, third.id, fourth.id]


def test_members_share_the_quota_of_their_group_and_the_reason_says_who_uses_it() -> None:
    core = lab()
    quota(core, "group", "nlp", max_total_gpus=4)
    first, second = submit(core, owner="ann", gpus=3), submit(core, owner="bob", gpus=2)
    third = submit(core, owner="cid", gpus=2)
    assert running(core) == [first.id, third.id]
    assert core.why_it_waits(second) == over(
        Message("quota_reached", limit="max_total_gpus", kind="group", name="nlp", most=4, used=3, by=owners(ann=3))
    )
    core.people.edit_group("nlp", [core.people.find("bob")], [])
    assert second.id in running(core), "ann's tasks count for the group no more"


def test_a_task_of_a_project_counts_for_its_group_and_not_for_the_owners_other_groups() -> None:
    core = lab()
    core.people.add_group("vision")
    core.people.edit_group("vision", [core.people.find("ann")], [], Quota(max_total_gpus=2))
    core.edit_project("crawl", group=core.people.group("nlp").id)
    mine, its = submit(core, owner="ann", gpus=2), submit(core, owner="ann", gpus=2, project="crawl")
    third = submit(core, owner="ann", gpus=1)
    assert running(core) == [mine.id, its.id]
    assert "group vision" in (core.reason(third) or "")
    assert core.quotas.uses()["group", "nlp"] == Use(gpus=4, running=2)
    assert core.quotas.uses()["project", "crawl"] == Use(gpus=2, running=1)


def test_a_quota_of_a_project_that_is_said_later_holds_for_what_waits_already() -> None:
    core = lab()
    full = submit(core, owner="cid", gpus=8), submit(core, owner="cid", gpus=8)
    tasks = [submit(core, owner="ann", gpus=1, project=name) for name in ("crawl", "crawl", "other", "")]
    assert running(core) == [one.id for one in full]
    quota(core, "project", "crawl", max_running=1)
    end(core, full[0])
    assert running(core) == [full[1].id, tasks[0].id, tasks[2].id, tasks[3].id]
    assert "max_running of project crawl is 1" in (core.reason(tasks[1]) or "")
    core.edit_project("crawl", quota=Quota())
    assert core.projects == {}
    assert tasks[1].id in running(core)


def test_what_a_quota_never_lets_start_is_refused_with_the_cure_and_told_where_it_waits_already() -> None:
    core = lab()
    waits = submit(core, owner="ann", gpus=8)
    core.hold(waits.id)
    quota(core, "user", "ann", max_gpus_per_task=2)
    cure = Message("beyond_quota", gpus=8, limit="max_gpus_per_task", kind="user", name="ann", most=2)
    with pytest.raises(ImpossibleError) as refused:
        submit(core, owner="ann", gpus=8)
    assert said(refused.value) == cure
    with pytest.raises(ImpossibleError):
        core.submit_many(Task(id=0, command="", owner="ann", gpus=3), ["true"], str, 1.0)
    core.release(waits.id)
    assert running(core) == []
    assert core.reason(waits) == f"can never start: {cure}"
    core.edit(Task(id=waits.id, command="true", owner="ann", gpus=2))
    assert running(core) == [waits.id]


def test_a_lower_quota_ends_nothing_and_a_higher_one_plans_at_once() -> None:
    core = lab()
    tasks = [submit(core, owner="ann", gpus=2) for _ in range(3)]
    quota(core, "user", "ann", max_total_gpus=4)
    assert running(core) == [1, 2]
    quota(core, "user", "ann", max_total_gpus=2)
    assert core.plan_needed
    assert running(core) == [1, 2]
    end(core, tasks[0])
    assert running(core) == [2]
    quota(core, "user", "ann", max_total_gpus=6)
    assert core.plan_needed
    assert running(core) == [2, 3]


def test_start_passes_no_quota_but_an_admins_which_holds_for_what_was_asked_for_then() -> None:
    core = lab()
    quota(core, "user", "ann", max_total_gpus=2)
    running_one, forced, meant, grown = (submit(core, owner="ann", gpus=2) for _ in range(4))
    core.force(forced.id)
    core.force(meant.id, over_quota=True)
    core.cancel(running_one.id, 1.0)
    assert running(core) == [forced.id, meant.id]
    assert (meant.over_quota, meant.forced) == (False, False)
    core.force(grown.id, over_quota=True)
    core.edit(Task(id=grown.id, command="true", owner="ann", gpus=1))
    assert running(core) == [forced.id, meant.id]
    assert (core.reason(grown) or "").endswith("4 GPUs are in use (tasks 2-3)")
    assert core.quotas.uses()["user", "ann"] == Use(gpus=4, running=2)


def test_up_to_so_many_gpus_are_no_more_than_the_quota_leaves() -> None:
    core = lab()
    quota(core, "user", "ann", max_total_gpus=4)
    first = submit(core, owner="ann", gpus=1)
    ranged = submit(core, owner="ann", gpus=1, gpus_max=8)
    assert running(core) == [first.id, ranged.id]
    assert sum(len(part.gpus) for part in ranged.allocation) == 3


def test_of_a_task_on_several_nodes_the_gpus_of_all_count() -> None:
    core = lab()
    quota(core, "user", "ann", max_total_gpus=6)
    with pytest.raises(ImpossibleError, match="it asks for 8 GPUs"):
        submit(core, owner="ann", nodes=2, gpus=4)
    both, ranged = submit(core, owner="ann", nodes=2, gpus=1), submit(core, owner="ann", nodes=2, gpus=1, gpus_max=8)
    waits = submit(core, owner="ann", gpus=1)
    assert running(core) == [both.id, ranged.id]
    assert [len(part.gpus) for part in ranged.allocation] == [2, 2]
    assert core.quotas.uses()["user", "ann"] == Use(gpus=6, running=2)
    assert "6 GPUs are in use (tasks 1-2)" in (core.reason(waits) or "")


def test_quotas_and_what_counts_for_them_are_there_after_a_restart() -> None:
    core = lab()
    quota(core, "user", "ann", max_total_gpus=4)
    quota(core, "group", "nlp", max_total_gpus=5)
    quota(core, "project", "crawl", max_running=1)
    for _ in range(3):
        submit(core, owner="ann", gpus=2)
    submit(core, owner="bob", gpus=2, project="crawl")
    before = running(core)
    again = after_a_restart(core)
    assert again.quotas.uses() == core.quotas.uses()
    assert running(again) == before
    assert again.people.find("ann").quota == Quota(max_total_gpus=4)
    assert again.projects["crawl"].quota == Quota(max_running=1)


def test_a_task_that_changes_hands_counts_for_its_new_owner() -> None:
    core = lab()
    task = submit(core, owner="ann", gpus=2)
    core.plan(0.0)
    core.give_to(task.id, "bob")
    assert core.quotas.uses()["user", "bob"] == Use(gpus=2, running=1)
    assert ("user", "ann") not in core.quotas.uses()


def test_a_user_who_is_gone_leaves_no_quota_behind_for_one_of_his_name() -> None:
    core = lab()
    quota(core, "user", "cid", max_running=0)
    core.remove_user("cid")
    core.people.add("cid")
    task = submit(core, owner="cid", gpus=1)
    assert running(core) == [task.id]


def test_who_may_use_what_is_told_apart_by_whom_it_counts_for() -> None:
    core = lab()
    quota(core, "user", "ann", max_running=9)
    quota(core, "group", "nlp", max_running=9)
    quota(core, "project", "free", max_running=9)
    quota(core, "project", "closed", max_running=9)
    core.people.add_group("vision")
    core.edit_project("closed", group=core.people.group("vision").id)
    found = core.quotas.accounts_of(core.people.find("ann"))
    assert {(one.kind, one.name) for one in found} == {("user", "ann"), ("group", "nlp"), ("project", "free")}
    core.people.remove_group("vision")
    found = core.quotas.accounts_of(core.people.find("ann"))
    assert ("project", "closed") in {(one.kind, one.name) for one in found}, "its group is no more"


def test_gpus_held_by_name_have_a_quota_of_their_own_and_tasks_none_of_it() -> None:
    core = lab()
    quota(core, "user", "ann", max_manual_gpus=3)
    with pytest.raises(ImpossibleError, match="it asks for 4 GPUs, and max_manual_gpus of user ann is 3"):
        submit(core, owner="ann", gpus=4, name="big", is_allocation=True)
    first, second = (submit(core, owner="ann", gpus=2, name=name, is_allocation=True) for name in ("x", "y"))
    ranged = submit(core, owner="ann", gpus=1, gpus_max=4, name="z", is_allocation=True)
    task, within = submit(core, owner="ann", gpus=4), submit(core, owner="ann", gpus=2, within=first.id)
    assert running(core) == [first.id, ranged.id, task.id, within.id]
    assert len(ranged.allocation[0].gpus) == 1, "no more than the quota leaves"
    assert core.quotas.uses()["user", "ann"] == Use(gpus=7, running=2, manual=3)
    held = Message("allocated_enough", kind="user", name="ann", most=3, used=3, by=tasks(1, 3))
    assert core.why_it_waits(second) == over(held)
    with pytest.raises(ConflictError):
        core.grow_allocation(ranged.id, 1)
    core.release_allocation(ranged.id, "ann", 1.0)
    quota(core, "user", "ann", max_manual_gpus=4)
    assert second.id in running(core)
    assert core.quotas.discrepancies() == []


def test_an_allocation_is_no_task_that_runs() -> None:
    core = lab()
    quota(core, "user", "ann", max_running=1)
    held, first = submit(core, owner="ann", gpus=1, name="x", is_allocation=True), submit(core, owner="ann", gpus=1)
    assert running(core) == [held.id, first.id], "in one plan"
    assert core.quotas.uses()["user", "ann"] == Use(gpus=2, running=1, manual=1)
    more, second = submit(core, owner="ann", gpus=1, name="y", is_allocation=True), submit(core, owner="ann", gpus=1)
    assert running(core) == [held.id, first.id, more.id], "where one runs already"
    held_by = Message("runs_enough", kind="user", name="ann", most=1, used=1, by=tasks(2))
    assert core.why_it_waits(second) == over(held_by)


OWNERS, PROJECTS, GROUPS = ("ann", "bob", "cid"), ("", "crawl", "other"), ("nlp", "vision")


def _limits(core: Core) -> dict[tuple[str, str], tuple[Quota, Use]]:
    """Counted without what is tested: of everybody the quota, and what is in use now."""
    people, found = core.people, {}
    for kind, names in (("user", OWNERS), ("project", PROJECTS[1:]), ("group", GROUPS)):
        for name in names:
            use = Use()
            for task in core.tasks.values():
                if task.state in ACTIVE and _counts(core, kind, name, task):
                    gpus = sum(len(part.gpus) for part in task.allocation)
                    use.add(Use(gpus, int(not task.is_allocation), gpus if task.is_allocation else 0))
            if kind == "user":
                said = people.find(name).quota
            elif kind == "group":
                said = people.group(name).quota
            else:
                said = core.projects[name].quota if name in core.projects else Quota()
            found[kind, name] = (said, use)
    return found


def _counts(core: Core, kind: str, name: str, task: Task) -> bool:
    if kind == "user":
        return task.owner == name
    if kind == "project":
        return task.project == name
    project = core.projects.get(task.project)
    group = core.people.group(name)
    if project is not None and project.group in core.people.groups:
        return project.group == group.id
    return core.people.find(task.owner).id in group.members


def _happens(core: Core, chance: random.Random) -> bool:
    """Something; whether an admin started something whatever the quotas."""
    waiting = [task.id for task in core.tasks.values() if task.state is TaskState.WAITING]
    active = [task for task in core.tasks.values() if task.state in ACTIVE]
    some: dict[str, Any] = {key: chance.randrange(5) for key in Quota.__struct_fields__ if chance.random() < 0.3}
    what = chance.randrange(9)
    if what <= 2:
        low = chance.randrange(4)
        most = chance.choice((None, low + 3)) if low else None
        nodes = chance.choice((1, 1, 2))
        wants: dict[str, Any] = {"gpus": low, "gpus_max": most, "nodes": nodes}
        if low and chance.random() < 0.3:
            wants |= {"is_allocation": True, "name": f"exp{core.next_id}"}
        submit(core, owner=chance.choice(OWNERS), project=chance.choice(PROJECTS), **wants)
    elif what == 3 and active:
        task = chance.choice(active)
        if task.is_allocation:
            core.release_allocation(task.id, task.owner, 3.0)
        else:
            end(core, task)
    elif what == 4:
        quota(core, *chance.choice([*(("user", one) for one in OWNERS), *(("group", one) for one in GROUPS),
                                    *(("project", one) for one in PROJECTS[1:])]), **some)  # fmt: skip
    elif what == 5:
        group = core.people.group(chance.choice(GROUPS))
        members = [core.people.find(name) for name in OWNERS if chance.random() < 0.5]
        core.people.edit_group(group.name, members, [])
    elif what == 6:
        group_id = chance.choice([None, *(core.people.group(name).id for name in GROUPS)])
        core.edit_project(chance.choice(PROJECTS[1:]), group=group_id)
    elif what == 7 and waiting:
        over_quota = chance.random() < 0.3
        core.force(chance.choice(waiting), over_quota=over_quota)
    elif what == 8 and (active or waiting):
        number = chance.choice([*waiting, *(task.id for task in active)])
        core.give_to(number, chance.choice(OWNERS))
    return any(core.tasks[number].over_quota for number in waiting)


@settings(max_examples=some(150), deadline=None)
@given(st.integers(0, 2**32), st.integers(10, 40))
def test_quotas_hold_whatever_happens_and_what_they_stop_is_told_and_nothing_else_is_stopped(
    seed: int, steps: int
) -> None:
    chance = random.Random(seed)
    core = lab()
    core.people.add_group("vision")
    for _ in range(steps):
        try:
            is_admins = _happens(core, chance)
        except (ImpossibleError, ConflictError):
            continue
        before = _limits(core)
        core.plan(0.0)
        for key, (limit, use) in _limits(core).items():
            was = before[key][1]
            grew = use.gpus > was.gpus, use.running > was.running, use.manual > was.manual
            if is_admins:
                continue
            assert not grew[0] or limit.max_total_gpus is None or use.gpus <= limit.max_total_gpus, key
            assert not grew[1] or limit.max_running is None or use.running <= limit.max_running, key
            assert not grew[2] or limit.max_manual_gpus is None or use.manual <= limit.max_manual_gpus, key
        assert core.quotas.discrepancies() == []
        for task in core.tasks.values():
            wait = core.wait(task) if task.state is TaskState.WAITING else None
            if wait is not None and wait.brief.key == "over_quota":
                assert wait.obstacles, "whose quota it is"
            assert wait is None or wait.brief != Message("next"), f"task {task.id} could have started"


def test_what_why_names_lets_the_task_start_once_it_is_away() -> None:
    core = lab(TWO[0])
    quota(core, "user", "ann", max_total_gpus=2)
    first, big = submit(core, owner="ann", gpus=2), submit(core, owner="cid", gpus=6)
    waits = submit(core, owner="ann", gpus=2)
    assert running(core) == [first.id, big.id]
    told = [str(line) for line in core.wait(waits).obstacles]
    assert told[0] == "max_total_gpus of user ann is 2, and 2 GPUs are in use (task 1)"
    assert told[1].startswith("a: 0 of 8 GPUs free")
    quota(core, "user", "ann")
    assert running(core) == [first.id, big.id]
    end(core, big)
    assert waits.id in running(core)
