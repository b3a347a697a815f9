"""What `muster top` makes of the messages, and which rows a view gets of it: all of it without a screen."""

from __future__ import annotations

from typing import Any

import pytest

from client.live.gpus import ASIDE, AWAY, FREE, HELD, OTHERS, gpus_of
from client.live.state import ENDED_KEPT, State
from client.top.view import View, next_of, node_rows, task_rows
from tests.calls import instructions_of
from tests.client.fake_master import task
from tests.client.top_cluster import gpu, large, message, node, running, sample, sampled, state_of
from wire.errors import UnreachableError
from wire.message import Message


def told(state: State, method: str, params: Any, now: float = 1000.0) -> None:
    state.take(message(method, params), now)


def test_tasks_come_change_end_and_go() -> None:
    state = state_of([], [task(1), task(2)])
    told(state, "task.changed", {"task": running(1, "a", [0])})
    told(state, "task.changed", {"task": task(3)})
    told(state, "task.changed", {"task": task(2, "failed", ended_at=1001.0, exit_code=1)})
    assert {task_id: one["state"] for task_id, one in state.tasks.items()} == {1: "running", 3: "waiting"}
    assert list(state.ended) == [2]
    told(state, "task.changed", {"task": task(2, attempt=2)})
    assert (sorted(state.tasks), list(state.ended)) == ([1, 2, 3], [])
    told(state, "task.changed", {"id": 1, "gone": True})
    assert sorted(state.tasks) == [2, 3]


def test_what_was_sent_before_the_list_was_answered_does_not_turn_a_task_back() -> None:
    state = state_of([], [task(1, "running", seq=9, started_at=1.0)])
    told(state, "task.changed", {"task": task(1, "waiting", seq=8)})
    assert state.tasks[1]["state"] == "running"
    told(state, "task.changed", {"task": task(1, "succeeded", seq=10, ended_at=2.0)})
    assert state.tasks == {}


def test_only_so_many_ended_tasks_are_kept() -> None:
    state = state_of([], [])
    for number in range(ENDED_KEPT + 5):
        told(state, "task.changed", {"task": task(number + 1, "succeeded", ended_at=float(number))})
    assert (len(state.ended), min(state.ended)) == (ENDED_KEPT, 6)


def test_the_reasons_that_were_asked_for_replace_those_of_the_snapshot() -> None:
    state = state_of([], [task(1, reason="old")])
    told(state, "reasons", {1: {"reason": "new"}, 7: {"reason": "gone meanwhile"}})
    assert state.tasks[1]["reason"] == "new"


def test_a_node_that_goes_away_keeps_no_figures() -> None:
    state = state_of([node("a")], [], sample("a", sampled(0, 50.0, 1)))
    assert "a" in state.samples
    told(state, "node.changed", {"node": node("a", state="unreachable", reason="no route")})
    assert state.samples == {}
    told(state, "node.sample", sample("a"))
    assert state.samples == {}, "a sample that overtook the news is not believed"
    told(state, "node.changed", {"name": "a", "gone": True})
    assert state.nodes == {}


def test_a_lost_master_is_remembered_from_the_first_failure_on_until_the_next_snapshot() -> None:
    state = state_of([node("a")], [])
    first, again = (UnreachableError(Message("master_unreachable", at=at, detail="refused")) for at in ("a:1", "b:2"))
    told(state, "lost", {"feed": "nodes", "why": first}, now=5.0)
    told(state, "lost", {"feed": "nodes", "why": again}, now=9.0)
    assert state.lost == {"nodes": (again, 5.0)}
    assert "a" in state.nodes, "what was known stays to be looked at"
    told(state, "nodes", [node("b")])
    assert (state.lost, list(state.nodes)) == ({}, ["b"])


def test_a_word_of_a_newer_master_is_no_defect() -> None:
    state = state_of([node("a")], [])
    told(state, "weather.changed", {"sun": True})
    assert state.complete


def test_a_gpu_shows_who_has_it_whose_it_is_not_and_why_nobody_gets_it() -> None:
    gpus = [
        gpu(0, held_by=[7]),
        gpu(1),
        gpu(2, health="used by bob (pid 7)", foreign=[{"pid": 7, "user": "bob", "memory_mib": 5}]),
        gpu(3, health="Xid 79"),
    ]
    state = state_of([node("a", gpus)], [running(7, "a", [0], name="bert")], sample("a", sampled(0, 97.0, 4096)))
    seen = gpus_of(state.nodes["a"], state)
    assert [one.use for one in seen] == [HELD, FREE, OTHERS, ASIDE]
    assert (seen[0].task, seen[0].owner, seen[0].name, seen[0].utilization) == (7, "ada", "bert", 97.0)
    assert (seen[0].temperature, seen[0].power, seen[1].temperature) == (60.0, 300.0, None)
    assert (seen[2].others, seen[3].why) == (("bob",), "Xid 79")


def test_processes_in_the_sample_are_newer_than_the_node_and_ours_are_no_foreigners() -> None:
    ours = {"pid": 1, "user": "ada", "memory_mib": 1, "launch_id": "x"}
    theirs = {"pid": 2, "user": "", "memory_mib": 1, "launch_id": ""}
    machine = node("a", [gpu(0, foreign=[{"pid": 9, "user": "gone", "memory_mib": 1}])])
    state = state_of([machine], [], sample("a", sampled(0, 1.0, 1, processes=[ours, theirs, theirs])))
    assert gpus_of(state.nodes["a"], state)[0].others == ("somebody",)


def test_a_gpu_that_is_used_by_somebody_who_may_not_be_named_is_not_said_to_be_set_aside() -> None:
    machine = node("a", [gpu(0, health="used by others", condition="busy")])
    (seen,) = gpus_of(machine, state_of([machine], []))  # type: ignore[arg-type]
    assert (seen.use, seen.others) == (OTHERS, ())


def test_the_gpus_of_a_node_that_is_away_are_unknown_but_for_who_holds_them() -> None:
    machine = node("a", [gpu(0, held_by=[7], utilization=99.0), gpu(1)], state="unreachable")
    seen = gpus_of(machine, state_of([machine], []))  # type: ignore[arg-type]
    assert [one.use for one in seen] == [HELD, AWAY]
    assert seen[0].utilization is None


def test_the_queue_is_in_the_masters_order() -> None:
    tasks = [
        task(1), task(2, priority=5), task(3, urgent=True), task(4, forced=True), task(5, position=0.5),
        running(6, "a", [], name="late") | {"started_at": 20.0}, running(7, "a", []) | {"started_at": 10.0},
        task(8, "starting"),
    ]  # fmt: skip
    assert task_rows(state_of([], tasks), View()) == [7, 6, 8, 4, 3, 2, 5, 1]


def test_sorting_filtering_mine_and_ended() -> None:
    state = state_of([], [task(1, name="Bert-大"), task(2, owner="bob", gpus=4), task(3, command="make bert")])
    view = View()
    told(state, "task.changed", {"task": task(9, "lost", ended_at=3.0)})
    view.task_filter = "BERT"
    assert task_rows(state, view) == [1, 3]
    view.task_filter = "bert 大"
    assert task_rows(state, view) == [1]
    view.task_filter, view.mine = "", "bob"
    assert task_rows(state, view) == [2]
    view.mine, view.ended = None, True
    assert task_rows(state, view) == [1, 2, 3, 9]
    for sort, order in (("owner", [1, 3, 9, 2]), ("gpus", [2, 1, 3, 9]), ("newest", [9, 3, 2, 1])):
        view.task_sort = sort
        assert task_rows(state, view) == order, sort
    assert next_of(("a", "b"), "b") == "a"


def test_a_change_of_a_task_reaches_the_filter() -> None:
    state, view = state_of([], [task(1, name="old")]), View()
    view.task_filter = "new"
    assert task_rows(state, view) == []
    told(state, "task.changed", {"task": task(1, name="new")})
    assert task_rows(state, view) == [1]


def test_gpus_have_lines_of_their_own_where_there_is_room_and_as_asked() -> None:
    state, view = state_of([node("b"), node("a")], []), View()
    alone = [("b", None), ("a", None)]
    assert node_rows(state, view, 5) == alone
    assert node_rows(state, view, 6) == [("b", None), ("b", 0), ("b", 1), ("a", None), ("a", 0), ("a", 1)]
    view.opened = {"a"}
    assert node_rows(state, view, 5) == [("b", None), ("a", None), ("a", 0), ("a", 1)]
    view.gpus = "packed"
    view.opened = set()
    assert node_rows(state, view, 100) == alone
    view.node_sort = "name"
    assert node_rows(state, view, 100) == [("a", None), ("b", None)]


@pytest.mark.parametrize(("sort", "order"), [("busy", ["b", "c", "a"]), ("free", ["c", "a", "b"])])
def test_nodes_by_use(sort: str, order: list[str]) -> None:
    nodes = [node("a"), node("b", [gpu(0, held_by=[1])]), node("c", 3)]
    state = state_of(nodes, [], sample("b", sampled(0, 90.0, 1)), sample("c", sampled(0, 10.0, 1)))
    view = View()
    view.node_sort = sort
    assert [name for name, index in node_rows(state, view, 0) if index is None] == order


@pytest.mark.parametrize("text", ["ada", "xid", "bob", "unreach", "rack", "H200"])
def test_a_filter_finds_a_node_by_what_is_told_of_it(text: str) -> None:
    found = node("a", [gpu(0, held_by=[1])])
    found["gpus"][0]["health"] = "Xid 79"
    found["gpus"].append(gpu(1, model="H200", foreign=[{"pid": 1, "user": "bob", "memory_mib": 1}]))
    nodes = [found, node("x")]
    if text in ("unreach", "rack"):
        found.update(state="unreachable", reason="rack 3 is dark")
    state, view = state_of(nodes, [running(1, "a", [0])]), View()
    view.node_filter = text
    assert [name for name, index in node_rows(state, view, 0) if index is None] == ["a"]


def test_to_sort_and_filter_costs_as_little_for_each_of_ten_thousand_tasks_as_of_a_thousand() -> None:
    def cost(tasks: int) -> int:
        state, view = state_of(*large(tasks=tasks)), View()
        view.task_filter = "sweep"
        assert len(task_rows(state, view)) == tasks - 100
        assert len(node_rows(state, view, 20)) == 100
        return instructions_of(lambda: (task_rows(state, view), node_rows(state, view, 20)))

    few, many = cost(1000), cost(10_000)
    assert many < 10_000 * 300, "three times what it is"
    assert many < 12 * few
