"""What a sample, a node and a task become: names, tags, units and types of points. No clock, no network."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from monitor.influx import (
    Holder,
    Point,
    end_point,
    node_point,
    queue_points,
    sample_points,
    start_point,
    to_text,
)

AT = 1_700_000_000.25
AT_NS = 1_700_000_000_250_000_000
GIB = 1 << 30
GPU: dict[str, Any] = {
    "index": 3,
    "uuid": "GPU-3",
    "model": "NVIDIA A100",
    "utilization": 75.0,
    "memory_utilization": 12.0,
    "memory_total_mib": 40960,
    "memory_used_mib": 10240,
    "temperature": 61.0,
    "power": 250.5,
    "ecc_errors": 0,
    "xid": 79,
    "mig": False,
    "processes": [
        {"pid": 11, "user": "ada", "memory_mib": 6000, "launch_id": "launch-7"},
        {"pid": 12, "user": "ada", "memory_mib": 2000, "launch_id": "launch-7"},
        {"pid": 13, "user": "eve", "memory_mib": 100, "launch_id": ""},
    ],
    "fault": "",
}
SAMPLE: dict[str, Any] = {
    "node": "node1",
    "op": "sample",
    "at": AT,
    "cpu_percent": 12.5,
    "cpu_percents": [10, 15.0],
    "load": [0.5, 0.4, 0.3],
    "memory_total_mib": 1024,
    "memory_available_mib": 256,
    "memory": {"total": float(GIB), "available": 268435456, "percent": 75, "used": 700000000},
    "network": [{"name": "eth0", "received_ps": 1000, "sent_ps": 2000.5, "bandwidth": 1e9}],
    "disks": [{"path": "/", "total_mib": 100, "free_mib": 50}],
    "gpus": [GPU],
    "gpu_source": "nvml",
    "gpu_fault": "",
}
TASK: dict[str, Any] = {
    "id": 7,
    "owner": "ada",
    "state": "running",
    "submitted_at": AT - 30,
    "started_at": AT,
    "ended_at": None,
    "attempt": 1,
    "gpus": 2,
    "allocation": [{"node": "node1", "gpus": [3, 4], "launch_id": "launch-7"}],
}


def nobody(_node: str, _gpu: int) -> list[Holder]:
    return []


def of(measurement: str, points: list[Point]) -> list[tuple[dict[str, str], dict[str, Any]]]:
    assert all(point.at == AT_NS for point in points)
    return [(dict(point.tags), dict(point.fields)) for point in points if point.measurement == measurement]


def same_with_types(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found == expected
    assert {name: type(value) for name, value in found.items()} == {
        name: type(value) for name, value in expected.items()
    }


def test_cpus_are_told_one_by_one_and_together_in_percent() -> None:
    assert of("cpu", sample_points(SAMPLE, nobody)) == [
        ({"host": "node1", "cpu": "cpu-total"}, {"value": 12.5}),
        ({"host": "node1", "cpu": "cpu0"}, {"value": 10.0}),
        ({"host": "node1", "cpu": "cpu1"}, {"value": 15.0}),
    ]


def test_memory_has_psutils_names_and_types() -> None:
    ((tags, fields),) = of("ram", sample_points(SAMPLE, nobody))
    assert tags == {"host": "node1"}
    same_with_types(fields, {"total": GIB, "available": 268435456, "percent": 75.0, "used": 700000000})


def test_a_name_that_a_node_makes_up_cannot_break_a_line() -> None:
    ((_, fields),) = of("ram", sample_points({**SAMPLE, "memory": {"free": 5, "a=1i 5\ncpu,host=x value": 9}}, nobody))
    assert fields == {"free": 5}


def test_an_older_agent_tells_less_of_the_memory_and_nothing_of_the_rest() -> None:
    old = {key: SAMPLE[key] for key in list(SAMPLE)[:8]}
    points = sample_points(old, nobody)
    ((_, fields),) = of("ram", points)
    same_with_types(fields, {"total": GIB, "available": GIB // 4, "used": GIB * 3 // 4, "percent": 75.0})
    assert {line.split(",")[0] for line in to_text(points)[0].splitlines()} == {"cpu", "ram", "load"}


def test_load_and_disks_are_told() -> None:
    points = sample_points(SAMPLE, nobody)
    assert of("load", points) == [({"host": "node1"}, {"load1": 0.5, "load5": 0.4, "load15": 0.3})]
    ((tags, fields),) = of("disk", points)
    assert tags == {"host": "node1", "path": "/"}
    same_with_types(fields, {"total": 100 << 20, "free": 50 << 20, "percent": 50.0})


def test_a_load_that_an_agent_does_not_tell_in_full_is_told_as_far_as_it_goes() -> None:
    assert of("load", sample_points({**SAMPLE, "load": [2]}, nobody)) == [({"host": "node1"}, {"load1": 2.0})]


def test_an_interface_has_its_bandwidth_in_mbit_and_its_traffic_in_bits_as_the_old_dashboards_show_it() -> None:
    ((tags, fields),) = of("net", sample_points(SAMPLE, nobody))
    assert tags == {"host": "node1", "net": "eth0"}
    same_with_types(fields, {"bandwidth": 1000, "recv_bytes_ps": 8000.0, "sent_bytes_ps": 16004.0})


def test_interfaces_of_containers_whose_names_never_come_back_are_left_out() -> None:
    passing = {**SAMPLE["network"][0], "name": "veth3f9a01c"}
    points = sample_points({**SAMPLE, "network": [passing, *SAMPLE["network"]]}, nobody)
    assert [tags["net"] for tags, _ in of("net", points)] == ["eth0"]


def test_a_gpu_has_the_fields_and_units_of_gputil_and_more() -> None:
    ((tags, fields),) = of("gpu", sample_points(SAMPLE, nobody))
    assert tags == {"host": "node1", "gpu": "gpu3"}
    same_with_types(
        fields,
        {
            "load": 0.75,
            "mem_used": 10240.0,
            "mem_total": 40960.0,
            "mem_util": 0.25,
            "mem_available": 30720.0,
            "temperature": 61.0,
            "power": 250.5,
            "ecc_errors": 0,
            "xid": 79,
            "processes": 3,
            "foreign": 1,
            "ill": 0,
        },
    )


def test_a_gpu_that_tells_nothing_is_still_seen_with_its_fault() -> None:
    dead = dict.fromkeys(GPU) | {"index": 0, "processes": [], "fault": "it fell off the bus"}
    text, count = to_text(sample_points({"node": "n", "at": AT, "gpus": [dead]}, nobody))
    assert (text, count) == (f"gpu,gpu=gpu0,host=n processes=0i,foreign=0i,ill=1i {AT_NS}\n", 1)


def test_the_gpu_use_of_a_task_counts_its_own_processes() -> None:
    points = sample_points(
        SAMPLE, lambda node, gpu: [Holder(7, "ada", "launch-7")] if (node, gpu) == ("node1", 3) else []
    )
    tags = {"host": "node1", "gpu": "gpu3", "task": "7", "user": "ada"}
    assert of("task_gpu", points) == [(tags, {"load": 0.75, "mem_used": 8000.0, "processes": 2})]


def test_the_memory_of_a_gpu_is_its_only_holders_where_processes_are_not_told() -> None:
    bare = copy.deepcopy(SAMPLE)
    bare["gpus"][0]["processes"] = []
    alone = of("task_gpu", sample_points(bare, lambda *_: [Holder(7, "ada", "l")]))
    shared = of("task_gpu", sample_points(bare, lambda *_: [Holder(7, "ada", "l"), Holder(8, "bob", "m")]))
    assert [fields["mem_used"] for _, fields in alone] == [10240.0]
    assert [fields["mem_used"] for _, fields in shared] == [None, None]


def test_a_node_tells_whether_it_is_there_and_how_many_gpus_are_held() -> None:
    conditions = {"ok": [7], "broken": [], "unknown": [7, 8], "busy": [], "clearing": [], "aside": []}
    gpus = [{"condition": condition, "held_by": held} for condition, held in conditions.items()]
    node = {"name": "node1", "state": "online", "schedulable": True, "gpus": gpus, "tasks": [7, 8]}
    kept = {"gpus_ill": 1, "gpus_busy": 1, "gpus_clearing": 1, "gpus_aside": 1}
    expected = {"online": 1, "schedulable": 1, "gpus": 6, "gpus_held": 2, **kept, "tasks": 2, "silent_s": 1.5}
    assert node_point(node, 5, 1.5) == Point("node", {"host": "node1"}, expected, 5)
    assert node_point({"name": "n", "state": "unreachable"}, 5).fields["online"] == 0


def test_the_queue_is_counted_by_user_and_a_user_without_tasks_is_told_as_zero() -> None:
    waiting = {"owner": "ada", "state": "waiting", "gpus": 4, "allocation": []}
    tasks = [
        {**TASK, "warning": "idle since 10:00"},
        waiting,
        {**waiting, "state": "held"},
        {**waiting, "owner": "", "gpus": 0},
    ]
    found = {point.tags["user"]: point.fields for point in queue_points(tasks, ["bob"], 5)}
    assert found == {
        "ada": {"waiting": 1, "held": 1, "running": 1, "idle": 1, "gpus": 2, "gpus_wanted": 4},
        "-": {"waiting": 1, "held": 0, "running": 0, "idle": 0, "gpus": 0, "gpus_wanted": 0},
        "bob": {"waiting": 0, "held": 0, "running": 0, "idle": 0, "gpus": 0, "gpus_wanted": 0},
    }


def test_a_start_tells_how_long_the_first_attempt_waited() -> None:
    tags = {"host": "node1", "user": "ada"}
    assert start_point(TASK) == Point("task", tags, {"starts": 1, "wait_s": 30.0}, AT_NS + 7)
    assert start_point({**TASK, "attempt": 2}) == Point("task", tags, {"starts": 1, "wait_s": None}, AT_NS + 7)
    assert start_point({**TASK, "started_at": None}) is None


def test_an_end_tells_how_and_how_long_the_task_ran() -> None:
    ended = {**TASK, "state": "failed", "ended_at": AT + 2}
    tags = {"host": "node1", "state": "failed", "user": "ada"}
    assert end_point(ended) == Point("task", tags, {"ends": 1, "lost": 0, "run_s": 2.0}, AT_NS + 2_000_000_000 + 7)
    never_ran = {**ended, "state": "cancelled", "started_at": None, "allocation": []}
    told = end_point(never_ran)
    assert told is not None
    assert (told.tags["host"], told.fields["run_s"]) == ("-", None)
    assert end_point(TASK) is None
    lost = end_point({**ended, "state": "lost"})
    assert lost is not None
    assert lost.fields["lost"] == 1


def test_two_ends_at_one_moment_are_two_points_and_one_told_twice_is_one() -> None:
    first = end_point({**TASK, "state": "failed", "ended_at": AT})
    second = end_point({**TASK, "state": "failed", "ended_at": AT, "id": 8})
    assert first is not None
    assert second is not None
    assert first.at != second.at
    assert first == end_point({**TASK, "state": "failed", "ended_at": AT})


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a b,c=d", r"a\ b\,c\=d"),
        ("LAB\\ada", "LAB\\ada"),
        ("ends\\", "ends/"),
        ("two\nlines", r"two\ lines"),
        ("中文", "中文"),
    ],
)
def test_the_text_of_a_tag_cannot_break_its_line(value: str, written: str) -> None:
    assert to_text([Point("m", {"t": value}, {"f": 1}, 5)]) == (f"m,t={written} f=1i 5\n", 1)


def test_numbers_that_are_none_are_left_out_and_a_point_without_any_is_none() -> None:
    points = [
        Point("m", {}, {"a": None, "b": float("nan"), "c": 0.5, "d": 2}, 5),
        Point("m", {"empty": ""}, {"a": float("inf")}, 5),
    ]
    assert to_text(points) == ("m c=0.5,d=2i 5\n", 1)
