"""What the recorder tells of two streams: each start and end once, nothing of what is not known."""

from __future__ import annotations

from typing import Any

from monitor.influx import SECOND, Point
from monitor.influx_recorder import REMEMBERED, Recorder
from tests.monitor.test_influx import AT, GPU, SAMPLE, TASK

WAITING = {**TASK, "state": "waiting", "started_at": None, "allocation": []}
ENDED = {**TASK, "state": "succeeded", "ended_at": AT + 5}
NODE = {"name": "node1", "state": "online", "schedulable": True, "gpus": [], "tasks": []}


def snapshot(**what: Any) -> dict[str, Any]:
    return {"method": "snapshot", "params": what}


def changed(task: dict[str, Any]) -> dict[str, Any]:
    return {"method": "task.changed", "params": {"task": task}}


def sample(recorder: Recorder) -> list[Point]:
    return [
        point
        for point in recorder.handle({"method": "node.sample", "params": SAMPLE})
        if point.measurement == "task_gpu"
    ]


def told(points: list[Point]) -> list[str]:
    return [name for point in points for name in ("starts", "ends") if name in point.fields]


def queue(recorder: Recorder) -> dict[str, dict[str, Any]]:
    return {point.tags["user"]: dict(point.fields) for point in recorder.tick(1) if point.measurement == "task"}


def test_before_a_snapshot_nothing_is_told() -> None:
    recorder = Recorder()
    assert recorder.tick(1) == []
    assert recorder.handle(changed(TASK)) == []
    assert recorder.handle({"method": "node.changed", "params": {"node": NODE}}) == []
    assert recorder.tick(1) == []


def test_how_long_the_master_keeps_people_waiting_is_told_where_it_tells() -> None:
    loop = {
        "turns": 100, "wall": 9.5, "cpu": 3, "edges": [0.001, 0.02, 0.1, 0.5, 1.0], "by_wall": [90, 4, 3, 2, 0, 1],
        "minute_wall": 0.25, "minute_cpu": 0.125,
    }  # fmt: skip
    [point] = Recorder(hides=True).handle({"method": "server.info", "params": {"loop": loop}}, 7)
    assert (point.measurement, point.tags, point.at) == ("master", {}, 7)
    assert point.fields == {
        "turns": 100, "busy_s": 9.5, "cpu_s": 3.0, "longest": 0.25, "longest_cpu": 0.125,
        "over_20ms": 6, "over_100ms": 3, "over_500ms": 1,
    }  # fmt: skip
    assert Recorder().handle({"method": "server.info", "params": {"version": "1"}}, 7) == []  # an older one


def test_a_task_is_told_when_it_starts_and_when_it_ends_and_not_between() -> None:
    recorder = Recorder()
    assert recorder.handle(snapshot(tasks=[WAITING])) == []
    assert queue(recorder)["ada"]["waiting"] == 1
    assert told(recorder.handle(changed({**WAITING, "state": "starting", "allocation": TASK["allocation"]}))) == []
    assert told(recorder.handle(changed(TASK))) == ["starts"]
    assert told(recorder.handle(changed({**TASK, "priority": 5}))) == []
    assert queue(recorder)["ada"] == {"waiting": 0, "held": 0, "running": 1, "idle": 0, "gpus": 2, "gpus_wanted": 0}
    assert told(recorder.handle(changed(ENDED))) == ["ends"]
    assert queue(recorder)["ada"]["running"] == 0


def test_a_task_whose_start_was_not_seen_is_told_with_its_end() -> None:
    recorder = Recorder()
    recorder.handle(snapshot(tasks=[WAITING]))
    assert told(recorder.handle(changed(ENDED))) == ["starts", "ends"]


def test_a_second_attempt_is_a_second_start() -> None:
    recorder = Recorder()
    recorder.handle(snapshot(tasks=[TASK]))
    recorder.handle(changed(ENDED))
    assert told(recorder.handle(changed(WAITING))) == []
    assert told(recorder.handle(changed({**TASK, "attempt": 2, "started_at": AT + 9}))) == ["starts"]


def test_what_is_told_again_after_a_reconnect_is_the_same_point() -> None:
    recorder = Recorder()
    first = recorder.handle(snapshot(tasks=[TASK]))
    ended = recorder.handle(changed(ENDED))
    recorder.lost("tasks")
    assert recorder.handle(snapshot(tasks=[TASK])) == first
    history = recorder.handle({"method": "history", "params": {"tasks": [ENDED]}})
    assert history == [*first, *ended]


def test_the_use_of_a_gpu_is_told_for_who_holds_it_now() -> None:
    recorder = Recorder()
    assert sample(recorder) == []
    recorder.handle(snapshot(tasks=[TASK]))
    assert [(point.tags["task"], point.tags["gpu"]) for point in sample(recorder)] == [("7", f"gpu{GPU['index']}")]
    recorder.handle(changed(ENDED))
    assert sample(recorder) == []


def test_a_deleted_task_holds_nothing() -> None:
    recorder = Recorder()
    recorder.handle(snapshot(tasks=[TASK]))
    assert queue(recorder)["ada"]["running"] == 1
    recorder.handle({"method": "task.changed", "params": {"id": 7, "gone": True}})
    assert sample(recorder) == []
    assert queue(recorder)["ada"]["running"] == 0


def test_while_the_master_is_away_nothing_old_is_told_as_new() -> None:
    recorder = Recorder()
    recorder.handle(snapshot(tasks=[TASK]))
    recorder.handle(snapshot(nodes=[NODE]))
    assert {point.measurement for point in recorder.tick(1)} == {"task", "node"}
    recorder.lost("tasks")
    recorder.lost("nodes")
    assert recorder.tick(1) == []
    assert sample(recorder) == []


def test_all_nodes_and_users_are_told_at_one_time_so_that_a_sum_finds_each_of_them() -> None:
    recorder = Recorder()
    recorder.handle(snapshot(tasks=[TASK, {**WAITING, "id": 8, "owner": "bob"}]))
    recorder.handle(snapshot(nodes=[NODE, {**NODE, "name": "node2"}]))
    assert recorder.handle({"method": "node.changed", "params": {"node": NODE}}) == []
    assert {(point.measurement, point.at) for point in recorder.tick(5)} == {("task", 5), ("node", 5)}
    assert len(recorder.tick(5)) == 4


def test_a_user_without_tasks_is_told_as_zero_for_a_while_and_then_no_more() -> None:
    recorder = Recorder()
    recorder.handle(snapshot(tasks=[TASK, {**TASK, "id": 8, "owner": "bob"}]))
    recorder.tick(SECOND)
    recorder.handle(changed(ENDED))
    later = REMEMBERED + SECOND
    for at, users in ((later - 1, {"ada", "bob"}), (later, {"bob"})):
        points = recorder.tick(at)
        assert {point.tags["user"] for point in points} == users
        assert all(point.fields["running"] == (point.tags["user"] == "bob") for point in points)


def test_nodes_come_change_and_go() -> None:
    recorder = Recorder()
    recorder.handle(snapshot(nodes=[NODE]))
    lost = {**NODE, "name": "node2", "state": "unreachable"}
    assert recorder.handle({"method": "node.changed", "params": {"node": lost}}) == []
    online = {point.tags["host"]: point.fields["online"] for point in recorder.tick(1)}
    assert online == {"node1": 1, "node2": 0}
    recorder.handle({"method": "node.changed", "params": {"name": "node1", "gone": True}})
    assert [point.tags["host"] for point in recorder.tick(1)] == ["node2"]


def test_a_node_tells_how_long_it_has_been_silent_by_our_clock_whatever_its_own_says() -> None:
    recorder = Recorder()
    recorder.handle(snapshot(nodes=[NODE]))
    assert recorder.tick(SECOND)[0].fields["silent_s"] is None
    recorder.handle({"method": "node.sample", "params": {**SAMPLE, "node": "node1", "at": 5e9}}, 2 * SECOND)
    assert recorder.tick(32 * SECOND)[0].fields["silent_s"] == 30.0
    recorder.handle({"method": "node.changed", "params": {"name": "node1", "gone": True}})
    recorder.handle({"method": "node.changed", "params": {"node": NODE}})
    assert recorder.tick(33 * SECOND)[0].fields["silent_s"] is None


def test_where_tasks_are_their_owners_no_point_tells_whose_one_is_nor_which() -> None:
    open_, closed = Recorder(), Recorder(hides=True)
    told: dict[bool, list[Point]] = {}
    for recorder in (open_, closed):
        hides = recorder is closed
        other = {**TASK, "id": 8, "owner": "bob", "command": "secret", "allocation": []}
        points = recorder.handle(snapshot(tasks=[TASK, other]))
        points += recorder.handle({"method": "node.sample", "params": SAMPLE})
        points += recorder.handle({"method": "history", "params": {"tasks": [{**ENDED, "id": 9}]}})
        points += [*recorder.handle(changed(ENDED)), *recorder.tick(1)]
        told[hides] = points
    assert any({"user", "task"} <= point.tags.keys() for point in told[False])
    assert not any({"user", "task"} & point.tags.keys() for point in told[True])
    assert not any("secret" in str(point) or "ada" in str(point) or "bob" in str(point) for point in told[True])
    [whole] = [point for point in told[True] if "waiting" in point.fields and point.measurement == "task"]
    assert whole.fields["running"] == 1
    assert {point.measurement for point in told[True]} == {point.measurement for point in told[False]}
