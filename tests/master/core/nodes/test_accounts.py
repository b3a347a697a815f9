"""Nodes where tasks run over the SSH accounts of their owners: what is started over which, who has a word in it, and
what is kept apart when something goes wrong with one of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from master.core.attempts.exits import Exit, Seen
from master.core.core import Core
from master.core.effects import Ack, Effect, Kill, Pause, Rest, Start
from master.core.nodes.gpu_watch import GpuReport, Holder
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.tasks.task import Task, TaskState
from tests.faults import says
from tests.master.core.small_core import BOOT, core_with, launch_of, submit
from wire.message import Message

LAB = {"li": "li2", "wang": "wang", "deng": ""}
"""Whose tasks run over which account; deng's is the node's own."""
NODE = NodeSpec(name="a", address="lab@10.0.0.1:22", gpu_models=("GPU",) * 4, accounts=tuple(LAB.items()))
OTHER = NodeSpec(name="b", address="lab@10.0.0.2:22", gpu_models=("GPU",) * 4)
HERS = msgspec.structs.replace(BOOT, state_id="hers", account="li2", uid=2001)
HIS = msgspec.structs.replace(BOOT, state_id="his", account="wang", uid=2002)
AWAY = Message("link_said", said="the log-in failed")


def lab_with(*specs: NodeSpec) -> Core:
    """The node, and others. `chief` runs the master: his tasks are the node's own account's."""
    core = core_with(*(specs or (NODE,)))
    core.keep_apart(lambda owner: None if owner == "chief" else owner)
    return core


def up(core: Core, login: str, facts: Any = HERS) -> None:
    """The agent of an account is there, and has nothing."""
    core.account_state("a", login, NodeState.CONNECTING, None, facts)
    core.reconcile("a", [], 2.0, login)
    core.account_state("a", login, NodeState.ONLINE)
    core.plan(0.0)


def effects(core: Core) -> list[Effect]:
    outcome = core.take_outcome()
    return outcome.effects if outcome else []


def begun(core: Core, owner: str, login: str, facts: Any = HERS, **wants: object) -> Task:
    """A task of this owner's that runs over this account."""
    task = submit(core, owner=owner, gpus=1, **wants)
    core.plan(0.0)
    if login not in core.inventory.nodes["a"].accounts.agents or not task.allocation:
        up(core, login, facts)
    core.started("a", launch_of(task), 2.0, 2.0, pid=70 + task.id, login=login)
    assert task.state is TaskState.RUNNING
    return task


def test_nothing_is_written_down_as_sent_before_the_agent_of_the_account_is_there() -> None:
    core = lab_with()
    task = submit(core, owner="li", gpus=1)
    core.plan(0.0)
    assert (task.state, task.attempt, task.allocation) == (TaskState.WAITING, 0, [])
    assert core.inventory.nodes["a"].free_gpus == [0, 1, 2, 3]
    assert [*core.inventory.nodes["a"].accounts.agents] == ["li2"]
    assert says(core.why_it_waits(task), "account_begins", account="li2")
    up(core, "li2")
    part = task.allocation[0]
    assert (part.login, part.account, part.state_id, part.address) == ("li2", "li2", "hers", "li2@10.0.0.1:22")
    assert [effect for effect in effects(core) if isinstance(effect, Start)] == [Start("a", task)]


def test_while_an_agent_begins_others_take_the_room_and_other_nodes_are_not_passed_over() -> None:
    core = lab_with(NODE, OTHER)
    hers = submit(core, owner="li", gpus=4, node="a")
    core.plan(0.0)
    chiefs = submit(core, owner="chief", gpus=4, node="a")
    core.plan(0.0)
    assert [part.login for part in chiefs.allocation] == [""]
    assert hers.allocation == []
    another = submit(core, owner="li", gpus=4)
    core.plan(0.0)
    assert [(part.node, part.login) for part in another.allocation] == [("b", "")]


@pytest.mark.parametrize(("owner", "login"), [("chief", ""), ("deng", ""), ("li", "li2"), ("wang", "wang")])
def test_whose_account_is_the_node_s_own_needs_no_other_agent(owner: str, login: str) -> None:
    core = lab_with()
    task = submit(core, owner=owner)
    core.plan(0.0)
    assert [*core.inventory.nodes["a"].accounts.agents] == ([login] if login else [])
    assert [part.login for part in task.allocation] == ([] if login else [""])


def test_who_has_no_account_waits_with_the_cure_and_goes_elsewhere_where_he_may() -> None:
    core = lab_with(NODE, OTHER)
    here = submit(core, owner="carol", node="a")
    anywhere = submit(core, owner="carol")
    core.plan(0.0)
    assert says(core.why_it_waits(here), "no_account_there", owner="carol")
    assert [part.node for part in anywhere.allocation] == ["b"]
    core.set_nodes((msgspec.structs.replace(NODE, accounts=(("carol", "carol"),)), OTHER))
    core.plan(0.0)
    assert "is being begun" in str(core.why_it_waits(here))


@pytest.mark.parametrize("liar", ["", "wang"])
def test_no_other_agent_of_the_machine_has_a_word_in_an_attempt(liar: str) -> None:
    core = lab_with()
    hers = begun(core, "li", "li2")
    up(core, "wang", HIS)
    before = msgspec.json.encode(hers)
    core.exited("a", Exit(launch_of(hers), "exited", 3.0, 0), 3.0, liar)
    core.started("a", launch_of(hers), 9.0, 9.0, pid=1, run_as="root", log_path="/etc/shadow", login=liar)
    core.stands("a", launch_of(hers), stands=True, login=liar)
    core.log_grows("a", launch_of(hers), 9, 10, liar)
    assert msgspec.json.encode(hers) == before
    effects(core)
    core.reconcile("a", [Seen(launch_of(hers), exit=Exit(launch_of(hers), "exited", 3.0, 0))], 4.0, liar)
    assert hers.state is TaskState.RUNNING
    assert effects(core) == [Ack("a", launch_of(hers), liar)]


def test_its_own_agent_is_not_believed_that_it_runs_as_somebody_else() -> None:
    core = lab_with()
    hers = begun(core, "li", "li2")
    log = hers.log_path
    core.started("a", launch_of(hers), 2.0, 2.0, run_as="wang", log_path=f"/logs/wang/{hers.id}.log", login="li2")
    core.exited("a", Exit(launch_of(hers), "exited", 3.0, 0, run_as="wang", log_path="/logs/wang/1.log"), 3.0, "li2")
    assert hers.state is TaskState.SUCCEEDED
    assert (hers.log_path, hers.allocation[0].run_as) == (log, "")


def test_what_one_agent_has_says_nothing_of_the_attempts_of_another() -> None:
    core = lab_with()
    hers, his = begun(core, "li", "li2"), begun(core, "wang", "wang", HIS)
    chiefs = submit(core, owner="chief", gpus=1)
    core.plan(0.0)
    core.started("a", launch_of(chiefs), 2.0, 2.0)
    core.reconcile("a", [Seen(launch_of(chiefs), 2.0)], 5.0)
    core.reconcile("a", [Seen(launch_of(his), 2.0)], 5.0, "wang")
    assert {task.state for task in (hers, his, chiefs)} == {TaskState.RUNNING}
    core.reconcile("a", [], 5.0, "li2")  # its claim would be there, and is not: it ran
    assert [task.state for task in (hers, his, chiefs)] == [TaskState.LOST, TaskState.RUNNING, TaskState.RUNNING]


def test_a_launch_is_sent_again_to_its_own_agent_only_where_its_claim_could_be_seen() -> None:
    core = lab_with()
    task = submit(core, owner="li", gpus=1)
    core.plan(0.0)
    up(core, "li2")
    effects(core)
    core.account_state("a", "li2", NodeState.UNREACHABLE, AWAY)
    core.node_state("a", NodeState.UNREACHABLE, "away")
    core.node_state("a", NodeState.ONLINE, None, BOOT)
    core.reconcile("a", [], 5.0)
    assert effects(core) == []  # the node's own agent cannot know
    core.account_state("a", "li2", NodeState.CONNECTING, None, HERS)
    core.reconcile("a", [], 6.0, "li2")
    assert effects(core) == [Start("a", task)]
    core.account_state("a", "li2", NodeState.CONNECTING, None, msgspec.structs.replace(HERS, state_id="another"))
    core.reconcile("a", [], 7.0, "li2")
    assert task.state is TaskState.LOST


@pytest.mark.parametrize("boot", ["boot-1", "boot-2"])
def test_an_agent_with_another_folder_is_told_of_what_may_run_on_and_a_restart_ends_it(boot: str) -> None:
    core = lab_with()
    hers, his = begun(core, "li", "li2"), begun(core, "wang", "wang", HIS)
    facts = msgspec.structs.replace(HERS, boot_id=boot, state_id="another")
    told = [one.launch_id for one in core.adoptable("a", facts, "li2")]
    assert told == ([launch_of(hers)] if boot == "boot-1" else [])
    assert (core.stranger("a", facts, "li2") is None) == (boot == "boot-2")
    assert core.stranger("a", HIS, "wang") is None
    if told:
        core.adopted("a", facts, [Seen(launch_of(hers), 2.0), Seen(launch_of(his), 2.0)], "li2")
        assert [task.allocation[0].state_id for task in (hers, his)] == ["another", "his"]


def test_that_one_agent_is_away_closes_the_node_to_its_owner_alone() -> None:
    core = lab_with()
    hers = begun(core, "li", "li2")
    core.account_state("a", "li2", NodeState.UNREACHABLE, AWAY)
    waits, goes = submit(core, owner="li", gpus=1), submit(core, owner="chief", gpus=1)
    core.plan(0.0)
    assert hers.state is TaskState.RUNNING
    assert goes.allocation
    assert "li2 there is away: the log-in failed" in str(core.why_it_waits(waits))
    up(core, "li2")
    assert waits.allocation


def test_an_agent_from_before_a_restart_of_the_machine_gets_nothing() -> None:
    core = lab_with()
    begun(core, "li", "li2")
    core.node_state("a", NodeState.ONLINE, None, msgspec.structs.replace(BOOT, boot_id="boot-2"))
    task = submit(core, owner="li", gpus=1)
    core.plan(0.0)
    assert task.allocation == []
    assert "is being begun" in str(core.why_it_waits(task))


@pytest.mark.parametrize(
    "facts", [{"boot_id": "boot-2"}, {"machine": "another"}, {"hostname": "another"}], ids=["boot", "machine", "name"]
)
def test_an_agent_on_another_machine_than_the_node_s_is_none_of_its_accounts(facts: dict[str, str]) -> None:
    core = lab_with()
    assert core.account_elsewhere("a", HERS) is None
    assert "another machine" in str(core.account_elsewhere("a", msgspec.structs.replace(HERS, **facts)))
    core.node_state("a", NodeState.UNREACHABLE, "away")
    assert core.account_elsewhere("a", msgspec.structs.replace(HERS, **facts)) is None  # nobody can compare


def test_what_nobody_owns_is_ended_by_the_agent_that_has_it_and_keeps_what_is_its_closed_until_then() -> None:
    core = lab_with()
    begun(core, "li", "li2")
    core.remove(submit(core, owner="li").id, 2.0)
    core.reconcile("a", [Seen("2.1.x", 1.0)], 3.0)
    core.reconcile("a", [Seen("2.2.x", 1.0), *(Seen(launch_of(core.tasks[1]), 2.0),)], 3.0, "li2")
    assert [one for one in effects(core) if isinstance(one, Kill)] == [Kill("a", "2.1.x"), Kill("a", "2.2.x", "li2")]
    core.exited("a", Exit("2.2.x", "killed", 4.0), 4.0)  # it is not that agent's
    core.exited("a", Exit("2.1.x", "killed", 4.0), 4.0)
    assert not core.inventory.nodes["a"].cordons
    waits = submit(core, owner="li", gpus=1)
    core.plan(0.0)
    assert says(core.why_it_waits(waits), "remnants", count=1)
    core.exited("a", Exit("2.2.x", "killed", 4.0), 4.0, "li2")
    core.plan(0.0)
    assert waits.allocation


def test_what_is_asked_of_an_attempt_goes_to_its_agent() -> None:
    core = lab_with()
    hers = begun(core, "li", "li2")
    effects(core)
    core.pause(hers.id, "li", 3.0)
    core.cancel(hers.id, 3.0, by="li")
    assert [one for one in effects(core) if isinstance(one, Pause | Kill)] == [
        Pause("a", launch_of(hers), "li2"),
        Kill("a", launch_of(hers), "li2"),
    ]
    core.exited("a", Exit(launch_of(hers), "killed", 4.0), 4.0, "li2")
    assert hers.state is TaskState.CANCELLED
    assert effects(core)[-1] == Ack("a", launch_of(hers), "li2")


def test_an_account_that_can_start_nothing_rests_alone_and_the_node_is_not_sick_for_it() -> None:
    core = lab_with()
    tasks = [submit(core, owner="li", gpus=1) for _ in range(4)]
    core.plan(0.0)
    up(core, "li2")
    effects(core)
    for task in tasks:
        why = Exit(launch_of(task), "not_started", 3.0, None, "the disk is full", None, "node")
        core.exited("a", why, 3.0, "li2")
    assert [one for one in effects(core) if isinstance(one, Rest)] == [Rest("a", 2.0, "li2")]
    node = core.inventory.nodes["a"]
    assert (node.cordons, node.faulted) == ({}, {})
    goes = submit(core, owner="chief", gpus=1)
    core.plan(0.0)
    assert goes.allocation
    assert all(task.state is TaskState.WAITING for task in tasks)
    assert says(core.why_it_waits(tasks[0]), "account_rests", account="li2", task=1, said="the disk is full")
    core.rested("a", "li2")
    core.plan(0.0)
    assert all(task.allocation for task in tasks[:3])


def test_an_account_rests_longer_each_time_until_it_starts_something() -> None:
    core = lab_with(msgspec.structs.replace(NODE, slots=99))

    def fails(*tasks: Task) -> list[Effect]:
        effects(core)
        for task in tasks:
            why = Exit(launch_of(task), "not_started", 3.0, None, "the disk is full", None, "node")
            core.exited("a", why, 3.0, "li2")
        return [one for one in effects(core) if isinstance(one, Rest)]

    def begun_anew() -> Task:
        core.rested("a", "li2")
        task = submit(core, owner="li")
        core.plan(0.0)
        assert task.allocation
        return task

    first, lucky = submit(core, owner="li"), submit(core, owner="li")
    core.plan(0.0)
    up(core, "li2")
    assert fails(first) == [Rest("a", 2.0, "li2")]
    assert core.plan_needed
    core.plan(0.0)
    core.started("a", launch_of(lucky), 2.0, 2.0, login="li2")
    assert fails(begun_anew()) == [Rest("a", 4.0, "li2")], "that was under way before it failed"
    core.started("a", launch_of(begun_anew()), 2.0, 2.0, login="li2")
    assert fails(begun_anew()) == [Rest("a", 2.0, "li2")]
    assert core.inventory.nodes["a"].rests == 0
    core.plan(0.0)
    core.rested("a", "li2")
    assert core.plan_needed
    core.plan(0.0)
    core.take_outcome()
    core.rested("a", "li2")
    core.rested("a", "wang")
    assert (core.take_outcome(), core.plan_needed) == (None, False)


def test_processes_of_an_account_on_a_gpu_that_its_task_holds_are_the_task_s() -> None:
    core = lab_with()
    hers = begun(core, "li", "li2")
    (gpu,) = hers.allocation[0].gpus
    other = (gpu + 1) % 4

    def seen(*users: tuple[int, str]) -> dict[int, str]:
        reports = [
            GpuReport(
                index, memory_total_mib=1000, processes=tuple(Holder(9, who, 500) for at, who in users if at == index)
            )
            for index in range(4)
        ]
        core.gpus_seen("a", reports, 9.0)
        return {index: why.key for index, why in core.inventory.nodes["a"].kept_back.items()}

    assert seen((gpu, "li2")) == {}
    assert core.inventory.nodes["a"].watch.peak_mib == {hers.id: 500}
    assert seen((other, "li2")) == {other: "gpu_used"}
    assert seen((gpu, "wang")) == {gpu: "gpu_used"}
    core.exited("a", Exit(launch_of(hers), "exited", 10.0, 0), 10.0, "li2")
    assert seen((gpu, "li2")) == {gpu: "gpu_used"}


def test_a_process_that_nobody_owns_up_to_is_not_taken_for_a_task_of_the_node_s_own_account() -> None:
    core = lab_with()
    own = begun(core, "deng", "")
    (gpu,) = own.allocation[0].gpus
    core.gpus_seen("a", [GpuReport(index, memory_total_mib=1000) for index in range(4)], 8.0)
    stranger = GpuReport(gpu, memory_total_mib=1000, processes=(Holder(9, "", 500),))
    others = [GpuReport(index, memory_total_mib=1000) for index in range(4) if index != gpu]
    core.gpus_seen("a", [stranger, *others], 9.0)
    assert core.inventory.nodes["a"].kept_back[gpu].key == "gpu_used"
    assert core.inventory.nodes["a"].watch.peak_mib == {}


def test_a_process_that_says_whose_it_is_is_not_taken_for_another_task_of_its_account() -> None:
    core = lab_with()
    first, second = begun(core, "li", "li2"), begun(core, "li", "li2")
    (gpu,) = second.allocation[0].gpus
    stray = GpuReport(gpu, memory_total_mib=1000, processes=(Holder(9, "li2", 500, launch_of(first)),))
    others = [GpuReport(index, memory_total_mib=1000) for index in range(4) if index != gpu]
    core.gpus_seen("a", [stray, *others], 9.0)
    watch = core.inventory.nodes["a"].watch
    assert (watch.strays, watch.peak_mib) == ({first.id: [gpu]}, {}), "nor learned as the need of either"


def test_an_attempt_knows_its_account_over_a_restart_of_the_master() -> None:
    core = lab_with()
    hers = begun(core, "li", "li2")
    kept = msgspec.json.decode(msgspec.json.encode(hers), type=Task)
    again = core_with(msgspec.structs.replace(NODE, accounts=None))
    again.load({kept.id: kept}, {}, 2)
    again.exited("a", Exit(launch_of(hers), "exited", 3.0, 0), 3.0)
    assert kept.state is TaskState.RUNNING
    again.exited("a", Exit(launch_of(hers), "exited", 3.0, 0), 3.0, "li2")
    assert kept.state is TaskState.SUCCEEDED


def test_parts_of_one_attempt_wait_for_all_agents_before_any_is_sent() -> None:
    second = msgspec.structs.replace(NODE, name="b", address="lab@10.0.0.2:22")
    core = lab_with(NODE, second)
    task = submit(core, owner="li", gpus=4, nodes=2)
    core.plan(0.0)
    assert [*core.inventory.nodes["b"].accounts.agents] == ["li2"]
    up(core, "li2")
    assert task.allocation == []
    core.account_state("b", "li2", NodeState.CONNECTING, None, HERS)
    core.account_state("b", "li2", NodeState.ONLINE)
    core.plan(0.0)
    assert [(part.node, part.login) for part in task.allocation] == [("a", "li2"), ("b", "li2")]


def test_an_allocation_needs_no_agent_and_what_runs_within_it_runs_over_its_owner_s_account() -> None:
    core = lab_with()
    held = submit(core, owner="li", gpus=2, name="mine", is_allocation=True)
    core.plan(0.0)
    assert (held.state, held.allocation[0].login, [*core.inventory.nodes["a"].accounts.agents]) == ("running", "", [])
    step = submit(core, owner="li", gpus=1, within=held.id)
    core.plan(0.0)
    assert step.allocation == []
    assert says(core.why_it_waits(step), "account_begins", account="li2")
    up(core, "li2")
    assert [part.login for part in step.allocation] == ["li2"]
    core.reconcile("a", [], 3.0)
    assert (held.state, step.state) == ("running", "starting")


def test_a_task_waits_though_its_owners_account_could_start_nothing_on_many_nodes() -> None:
    """Its home may be full, which is the same on all of them."""
    nodes = [msgspec.structs.replace(NODE, name=name) for name in "abcd"]
    core = lab_with(*nodes)
    task = submit(core, owner="li", gpus=1)
    for _ in nodes:
        core.plan(0.0)
        for name, agent in ((node.name, core.inventory.nodes[node.name].accounts.agents) for node in nodes):
            if "li2" in agent and agent["li2"].facts is None:
                core.account_state(name, "li2", NodeState.CONNECTING, None, HERS)
                core.reconcile(name, [], 2.0, "li2")
                core.account_state(name, "li2", NodeState.ONLINE)
        core.plan(0.0)
        part = task.allocation[0]
        refused = Exit(part.launch_id, "not_started", 3.0, error="no space left", fault="node")
        core.exited(part.node, refused, 3.0, "li2")
    assert {entry.node for entry in task.unstarted} == set("abcd")
    assert (task.state, task.allocation) == (TaskState.WAITING, [])
    assert says(core.why_it_waits(task), "account_rests", account="li2")
