"""Where a task may run, as it is said in a submit and changed by an edit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from master.core.nodes.inventory import NodeSpec
from tests.master.in_process import InProcess, Peer, run

LAB = tuple(NodeSpec(name=name, gpu_models=("GPU",) * 4) for name in "abc")
BOTH = {"a": [1, 0], "b": [2, 3]}


async def peer_of(master: InProcess) -> Peer:
    """Somebody in a lab of three nodes."""
    master.core.set_nodes(LAB)
    return await master.peer()


def said(task: dict[str, Any]) -> tuple[object, ...]:
    return tuple(task[field] for field in ("node", "node_list", "gpus_on", "nodes", "gpus", "gpu_ids"))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"node": "a", "node_list": ["b"]}, "node_list: node names a already"),
        ({"node": "a", "nodes": 2}, "nodes: 2 nodes are asked for, and node names a alone"),
        ({"node_list": ["a", "b"], "nodes": 3}, "nodes: 3 are asked for at once, and node_list names 2"),
        ({"node_list": ["a", "b", "a"]}, "node a is named twice"),
        ({"node_list": ["a", "b"], "exclude": ["b"]}, "exclude: b is named as one to run on"),
        ({"node_list": ["a", "bb"]}, "there is no node 'bb' (did you mean 'b'? nodes: a, b, c)"),
        ({"node_list": [""]}, "node_list"),
        ({"node_list": "a,b"}, "node_list"),
        ({"gpus_on": {"x": [0]}}, "there is no node 'x'"),
        ({"gpus_on": {"a": []}}, "gpus_on"),
        ({"gpus_on": {"a": [0, 0]}}, "gpus_on: of a, [0, 0] names a GPU twice"),
        ({"gpus_on": {"a": [0], "b": [0, 1]}}, "gpus_on: 1 GPU of a and 2 of b"),
        ({"gpus_on": {"a": [4]}}, "no GPU 4"),
        ({"gpus_on": BOTH, "gpus": 4}, "gpus is 4 and gpus_on names 2 on each node"),
        ({"gpus_on": BOTH, "nodes": 1}, "nodes is 1 and gpus_on names 2"),
        ({"gpus_on": BOTH, "node": "a"}, "node: gpus_on says which nodes"),
        ({"gpus_on": BOTH, "node_list": ["a"]}, "node_list: gpus_on says"),
        ({"gpus_on": BOTH, "gpu_ids": [0]}, "gpu_ids: gpus_on says"),
        ({"gpus_on": BOTH, "gpus_max": 3}, "gpus_max: gpus_on says"),
    ],
)
def test_what_contradicts_itself_is_refused_and_names_the_field(
    tmp_path: Path, spec: dict[str, Any], words: str
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await peer_of(master)
            code, message = await peer.refusal("task.submit", command="true", **spec)
            assert words in message, message
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
            for task, changes, words in (
                (named, {"nodes": 3}, "node_list names 2"),
                (named, {"node": "a"}, "node names a alone"),
                (named, {"exclude": ["a"]}, "a is named as one to run on"),
                (exact, {"nodes": 3}, "nodes is 3 and gpus_on names 2"),
                (exact, {"exclude": ["b"]}, "b is named as one to run on"),
            ):
                before = await peer.call("task.show", id=task)
                _, message = await peer.refusal("task.edit", id=task, changes=changes)
                assert words in message, message
                assert await peer.call("task.show", id=task) == before

    run(story())
