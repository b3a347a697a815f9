"""Where a task may run, as it is said in a submit and changed by an edit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from master.core.nodes.inventory import NodeSpec
from tests.faults import says
from tests.master.in_process import InProcess, Peer, run
from wire.message import Message, names

LAB = tuple(NodeSpec(name=name, gpu_models=("GPU",) * 4) for name in "abc")
BOTH = {"a": [1, 0], "b": [2, 3]}


async def peer_of(master: InProcess) -> Peer:
    """Somebody in a lab of three nodes."""
    master.core.set_nodes(LAB)
    return await master.peer()


def said(task: dict[str, Any]) -> tuple[object, ...]:
    return tuple(task[field] for field in ("node", "node_list", "gpus_on", "nodes", "gpus", "gpu_ids"))


@pytest.mark.parametrize(
    ("spec", "key", "values"),
    [
        ({"node": "a", "node_list": ["b"]}, "node_said_twice", {"node": "a"}),
        ({"node": "a", "nodes": 2}, "nodes_and_node", {"nodes": 2, "node": "a"}),
        ({"node_list": ["a", "b"], "nodes": 3}, "too_few_named", {"nodes": 3, "named": 2}),
        ({"node_list": ["a", "b", "a"]}, "named_twice", {"node": "a"}),
        ({"node_list": ["a", "b"], "exclude": ["b"]}, "named_and_excluded", {"node": "b"}),
        ({"node_list": ["a", "bb"]}, "no_such_node_but", {"node": "bb", "meant": "b", "nodes": names("abc")}),
        ({"node_list": [""]}, "wrong_value", {"where": "node_list[0]"}),
        ({"node_list": "a,b"}, "wrong_value", {"where": "node_list"}),
        ({"gpus_on": {"x": [0]}}, "no_such_node", {"node": "x"}),
        ({"gpus_on": {"a": []}}, "wrong_value", {"where": "gpus_on.…"}),
        ({"gpus_on": {"a": [0, 0]}}, "bad_gpus_on", {"node": "a", "gpus": (0, 0)}),
        (
            {"gpus_on": {"a": [0], "b": [0, 1]}},
            "uneven_gpus_on",
            {"count": 1, "node": "a", "others": 2, "other": "b"},
        ),
        ({"gpus_on": {"a": [4]}}, "has_no_piece", {"number": 4}),
        ({"gpus_on": BOTH, "gpus": 4}, "gpus_and_gpus_on", {"gpus": 4, "named": 2}),
        ({"gpus_on": BOTH, "nodes": 1}, "nodes_and_gpus_on", {"nodes": 1, "named": 2}),
        ({"gpus_on": BOTH, "node": "a"}, "beside_gpus_on", {"field": "node"}),
        ({"gpus_on": BOTH, "node_list": ["a"]}, "beside_gpus_on", {"field": "node_list"}),
        ({"gpus_on": BOTH, "gpu_ids": [0]}, "beside_gpus_on", {"field": "gpu_ids"}),
        ({"gpus_on": BOTH, "gpus_max": 3}, "beside_gpus_on", {"field": "gpus_max"}),
    ],
)
def test_what_contradicts_itself_is_refused_and_names_the_field(
    tmp_path: Path, spec: dict[str, Any], key: str, values: dict[str, Any]
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await peer_of(master)
            code, why = await peer.told("task.submit", command="true", **spec)
            assert says(why, key, **values), repr(why)
            assert code in {"bad_request", "impossible"}
            assert not master.core.tasks

    run(story())


def test_gpus_of_each_node_say_how_many_nodes_and_gpus_there_are(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await peer_of(master)
            filed = await peer.call("task.submit", command="true", gpus_on=BOTH)
            task = await peer.call("task.show", id=filed["id"])
            assert said(task) == (None, [], {"a": [0, 1], "b": [2, 3]}, 2, 2, None)
            again = await peer.call("task.submit", command="true", gpus_on=BOTH, gpus=2, nodes=2)
            assert said(await peer.call("task.show", id=again["id"])) == said(task)

    run(story())


def test_who_says_where_says_it_anew(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await peer_of(master)
            task = (await peer.call("task.submit", command="true", gpus=1, node="c"))["id"]
            steps: list[tuple[dict[str, Any], tuple[object, ...]]] = [
                ({"node_list": ["a", "b"]}, (None, ["a", "b"], {}, 1, 1, None)),
                ({"nodes": 2}, (None, ["a", "b"], {}, 2, 1, None)),
                ({"gpus_on": BOTH}, (None, [], {"a": [0, 1], "b": [2, 3]}, 2, 2, None)),
                ({"share": True, "gpu_memory_mib": 10}, (None, [], {"a": [0, 1], "b": [2, 3]}, 2, 2, None)),
                ({"gpus": 3}, (None, [], {}, 2, 3, None)),
                ({"gpus_on": {"a": [3], "c": [0]}}, (None, [], {"a": [3], "c": [0]}, 2, 1, None)),
                ({"gpus_on": {}}, (None, [], {}, 2, 1, None)),
                ({"gpu_ids": [2]}, (None, [], {}, 2, 1, [2])),
                ({"gpu_ids": None}, (None, [], {}, 2, 1, None)),
                ({"node": "b", "nodes": 1}, ("b", [], {}, 1, 1, None)),
                ({"node": None}, (None, [], {}, 1, 1, None)),
            ]
            for changes, then in steps:
                assert said(await peer.call("task.edit", id=task, changes=changes)) == then, changes

    run(story())


def test_an_edit_is_looked_at_with_what_was_said_before(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await peer_of(master)
            named = (await peer.call("task.submit", command="true", gpus=1, node_list=["a", "b"], nodes=2))["id"]
            exact = (await peer.call("task.submit", command="true", gpus_on=BOTH))["id"]
            for task, changes, why in (
                (named, {"nodes": 3}, Message("too_few_named", nodes=3, named=2)),
                (named, {"node": "a"}, Message("nodes_and_node", nodes=2, node="a")),
                (named, {"exclude": ["a"]}, Message("named_and_excluded", node="a")),
                (exact, {"nodes": 3}, Message("nodes_and_gpus_on", nodes=3, named=2)),
                (exact, {"exclude": ["b"]}, Message("named_and_excluded", node="b")),
            ):
                before = await peer.call("task.show", id=task)
                assert (await peer.told("task.edit", id=task, changes=changes))[1] == why
                assert await peer.call("task.show", id=task) == before

    run(story())
