"""What would fail at its start is told at the submit, and refused where that is asked for, over real connections."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from master.core.nodes.inventory import Facts, NodeSpec, NodeState
from master.files.owners import Owners
from master.files.service import Files
from master.verbs.place_look import Look
from tests.master.in_process import InProcess, Peer, comes_as, run
from wire.message import Message


async def keys(peer: Peer, **params: Any) -> list[str]:
    """What is told of a task, by its keys."""
    return [one["key"] for one in (await peer.call("task.places", **params))["missing_messages"]]


def let_all_search(place: Path) -> None:
    """Any account may look into this folder, as in most labs."""
    for folder in (place, *place.parents):
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o011)


def scripts(folder: Path) -> None:
    """One of each kind that can go wrong."""
    for name, text, mode in (
        ("good.sh", "#!/bin/sh\ntrue\n", 0o755),
        ("plain.sh", "#!/bin/sh\ntrue\n", 0o644),
        ("windows.sh", "#!/bin/sh\r\ntrue\r\n", 0o755),
        ("moved.sh", f"#!{folder}/gone/bin/python\n", 0o755),
    ):
        (folder / name).write_bytes(text.encode())
        (folder / name).chmod(mode)
    for name in ("sh", "train.py", "with blanks.sh"):
        (folder / name).touch(0o755)
    (folder / "folder").mkdir()
    (folder / "link.sh").symlink_to("plain.sh")


@pytest.mark.usefixtures("unhurried_look")
@pytest.mark.parametrize("place", ["data", "elsewhere"])
def test_what_a_command_names_is_looked_at_as_its_start_would(tmp_path: Path, place: str) -> None:
    async def story() -> None:
        folder = tmp_path / place
        folder.mkdir()
        scripts(folder)
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            cwd = str(folder)
            for command, expected in (
                (["./good.sh"], []),
                (["./plain.sh"], ["file_not_executable"]),
                (["./link.sh"], ["file_not_executable"]),
                (["bash", "plain.sh"], []),
                (["./windows.sh"], ["interpreter_with_line_end"]),
                (["./moved.sh"], ["interpreter_absent"]),
                (["./none.sh"], ["file_absent"]),
                (["python3", "none.py"], ["file_absent"]),
                (["python3", "folder"], ["file_is_folder"]),
                (["./folder"], ["file_is_folder"]),
                ("./none.sh", ["file_absent"]),
                (["/no/such/machine/s/own"], []),
                (["plain.sh", "x"], ["program_is_beside"]),
                ("plain.sh x", ["program_is_beside"]),
                (["link.sh"], ["program_is_beside"]),
                (["train.py"], ["script_is_beside"]),
                (["sh"], []),
                (["folder"], []),
                (["python train.py"], ["command_is_one_word"]),
                (["./plain.sh x"], ["command_is_one_word"]),
                (["./with blanks.sh"], []),
            ):
                assert await keys(peer, cwd=cwd, command=command) == expected, command
            assert await keys(peer, cwd=f"{cwd}/good.sh", command="true") == ["no_folder"]
            assert await keys(peer, cwd=cwd, command=["plain.sh"], variables={"PATH": "."}) == []
            assert await keys(peer, cwd=cwd, command=["plain.sh"], setup="PATH=$PATH:.") == []
            with_env = {"cwd": cwd, "command": ["plain.sh"], "env": f"{cwd}/venv"}
            (folder / "venv/bin").mkdir(parents=True)
            (folder / "venv/bin/activate").touch()
            assert await keys(peer, **with_env) == ["program_is_beside"]
            (folder / "venv/bin/plain.sh").touch()
            assert await keys(peer, **with_env) == []
            assert await keys(peer, cwd=cwd, commands=["./good.sh", "./plain.sh", "./none.sh", "./plain.sh"]) == [
                "file_not_executable",
                "file_absent",
            ]

    run(story())


@pytest.mark.usefixtures("unhurried_look")
def test_a_log_that_is_a_folder_and_braces_that_stand_for_nothing_are_told(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "folder").mkdir()
        (tmp_path / "file").touch()
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            for log, expected in (
                (str(tmp_path / "folder"), ["log_is_folder"]),
                ("folder", ["log_is_folder"]),
                ("file", []),
                ("none", []),
                ("folder/{id}", []),
                ("{ID}", ["log_as_it_stands"]),
                ("{id}-{index}.log", ["log_as_it_stands"]),
                ("out_%j.log", ["log_as_it_stands"]),
                ("50%_{}.log", []),
            ):
                assert await keys(peer, command="true", log=log) == expected, log
            assert await keys(peer, command="true", setup="true", log="folder") == ["log_is_folder"]
            code, message = await peer.refusal("task.submit", command="true", log="folder/")
            assert (code, "names a folder" in message) == ("bad_request", True)
            assert (await peer.refusal("task.submit", command="true", log="folder", strict=True))[0] == "conflict"
            filed = await peer.call("task.submit", command="true", log="{id}.log", hold=True)
            shown = await peer.call("task.show", id=filed["id"])
            assert shown["log_path"] == f"{master.place.root}/{filed['id']}.log"

    run(story())


@pytest.mark.usefixtures("unhurried_look")
def test_who_may_not_see_a_program_is_not_told_what_is_in_it(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "lab").mkdir()
        let_all_search(tmp_path / "lab")
        scripts(tmp_path / "lab")
        async with InProcess(tmp_path) as master:
            with comes_as("ann", master.core):
                peer = await master.peer()
                cwd = str(tmp_path / "lab")
                assert await keys(peer, cwd=cwd, command=["./moved.sh"]) == []
                assert await keys(peer, cwd=cwd, command=["./none.sh"]) == ["file_absent"]
                assert await keys(peer, cwd=str(tmp_path / "task_info"), command=["./none.sh"]) == []

    run(story())


@pytest.mark.usefixtures("unhurried_look")
def test_a_strict_submit_of_what_would_fail_is_refused_and_files_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "t.py").write_text("")
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            wrong: list[tuple[str, dict[str, Any]]] = [
                ("task.submit", {"command": ["python3", "none.py"]}),
                ("task.submit", {"command": ["python3", "none.py"], "dry_run": True}),
                ("task.submit", {"command": "true", "env": "none"}),
                ("task.submit_batch", {"commands": ["python3 t.py", "python3 none.py"]}),
                ("task.submit_array", {"command": ["python3", "none.py", "{index}"], "array": "0-9"}),
            ]
            for verb, params in wrong:
                code, text = await peer.refusal(verb, **params, strict=True)
                assert code == "conflict", verb
                assert "none" in text
            assert not master.core.tasks
            filed = await peer.call("task.submit", command=["python3", "t.py"], strict=True)
            assert filed == {"id": 1}
            assert await peer.call("task.submit_batch", commands=["python3 t.py"] * 3, strict=True) == {
                "first": 2,
                "count": 3,
            }
            assert (await peer.call("task.submit_array", command=["python3", "t.py"], array="0-4", strict=True))[
                "count"
            ] == 5
            assert (await peer.call("task.submit", command="true", strict=True, dry_run=True))["possible"] is True
            for verb, params in wrong[2:3]:
                assert await peer.call(verb, **params) == {"id": 10}

    run(story())


@pytest.mark.usefixtures("unhurried_look")
def test_a_strict_submit_that_is_sent_twice_at_once_is_one_submit(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peers = [await master.peer() for _ in range(4)]
            cwd = tmp_path / "data"
            cwd.mkdir()
            calls = (
                peer.call("task.submit", command="true", cwd=str(cwd), strict=True, request_id="x") for peer in peers
            )
            assert await asyncio.gather(*calls) == [{"id": 1}] * 4
            assert list(master.core.tasks) == [1]

    run(story())


def test_a_disk_that_hangs_keeps_a_submit_for_a_moment_only_and_nobody_else_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(Look, "findings", lambda *_: go_on.wait() and iter(()))

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer, other = await master.peer(), await master.peer()
            cwd = str(tmp_path / "data")
            try:
                asked = asyncio.ensure_future(keys(peer, cwd=cwd, command="true"))
                assert await other.call("task.submit", command="true", cwd=cwd) == {"id": 1}
                assert not asked.done()
                assert await asked == ["places_unseen"]
                for _ in range(10):  # more than there are threads for one disk
                    assert await keys(peer, cwd=cwd, command="true") == ["places_unseen"]
                assert (await peer.refusal("task.submit", command="true", cwd=cwd, strict=True))[0] == "conflict"
                assert master.place.files.quick.running.total() <= 8
            finally:
                go_on.set()

    run(story())


def test_a_machine_that_stops_for_a_moment_takes_the_answer_from_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on = threading.Event(), threading.Event()
    monkeypatch.setattr("master.verbs.places.PATIENCE_S", 6.0)

    def findings(*_: object) -> Iterator[Message]:
        began.set()
        go_on.wait()
        return iter(())

    monkeypatch.setattr(Look, "findings", findings)

    async def story() -> None:
        loop, stopped = asyncio.get_running_loop(), [0.0]
        clock = loop.time
        monkeypatch.setattr(loop, "time", lambda: clock() + stopped[0])
        async with InProcess(tmp_path) as master:
            asked = asyncio.ensure_future(keys(await master.peer(), cwd=str(tmp_path / "data"), command="true"))
            try:
                await asyncio.to_thread(began.wait)
                stopped[0] = 6.0
            finally:
                go_on.set()
            assert await asked == []

    run(story())


@pytest.mark.usefixtures("unhurried_look")
def test_a_wish_for_more_memory_than_any_gpu_is_known_to_have_is_told_and_no_more(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            assert await keys(peer, command="true", gpus=1, gpu_memory_mib=30_000) == ["gpu_memory_unknown"]
            assert (await peer.call("task.submit", command="true", gpus=1, gpu_memory_mib=30_000))["id"] == 1
            known = NodeSpec(name="b", gpu_models=("A",), gpu_memory_mib=(40_000,))
            master.engine.event(lambda: master.core.set_nodes((known,)))
            assert await keys(peer, command="true", gpus=1, gpu_memory_mib=30_000) == []

    run(story())


@pytest.mark.usefixtures("unhurried_look")
def test_where_tasks_run_as_their_owners_a_node_looks_as_he_and_nobody_else_does(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "lab").mkdir()
        let_all_search(tmp_path / "lab")
        asked: list[dict[str, Any]] = []

        async def probe(node: str, argv: list[str], **how: Any) -> Any:
            asked.append({"node": node, "wants": argv[4:], **how})
            return {"code": 0, "output": "0 absent\nend\n", "error": ""}

        async with InProcess(tmp_path) as master:
            master.place.fleet.probe = probe  # type: ignore[method-assign,assignment]
            master.place.run_as = lambda owner: owner
            with comes_as("ann", master.core):
                peer = await master.peer()
                path = str(tmp_path / "lab" / "none.sh")
                # No agent is root: tasks run as the agents' account, and the master looks as ever.
                assert await keys(peer, command=[path]) == ["file_absent"]
                assert asked == []
                root = Facts(boot_id="b", state_id="s", cpus=4, memory_mib=1, can_run_as=True, uid=0)
                master.engine.event(lambda: master.core.node_state("a", NodeState.ONLINE, None, root))
                assert await keys(peer, command=[path]) == ["file_absent"]
                assert [(one["node"], one["wants"], one["run_as"]) for one in asked] == [
                    ("a", ["program", path], "ann")
                ]
                assert asked[0]["asker"] == "ann"  # who asks much waits for their own answers
                assert await keys(peer, command=["/its/own"]) == []
                master.engine.event(lambda: master.core.node_state("a", NodeState.UNREACHABLE, "gone"))
                assert await keys(peer, command=[path]) == []
                assert len(asked) == 1

    run(story())


@pytest.mark.usefixtures("unhurried_look")
def test_places_of_others_stay_theirs_whatever_is_asked_of_them(tmp_path: Path) -> None:
    async def story() -> None:
        for name in ("ann", "bob"):
            (tmp_path / "data" / name).mkdir(parents=True)
        scripts(tmp_path / "data" / "bob")
        async with InProcess(tmp_path) as master:
            rules: Any = {"data/{user}": "own"}
            master.place.files = Files(tmp_path, ("data",), owners=Owners(rules))
            with comes_as("ann", master.core):
                peer = await master.peer()
                theirs = f"{tmp_path}/data/bob"
                for name in ("plain.sh", "none.sh", "moved.sh", "windows.sh", "folder"):
                    assert await keys(peer, command=[f"{theirs}/{name}"]) == []
                    assert await keys(peer, command=["bash", f"{theirs}/{name}"]) == []
                    assert "beside" not in "".join(await keys(peer, command=[name], cwd=theirs))
                (tmp_path / "data/ann/way").symlink_to("../bob")
                told = [
                    await keys(peer, command=[f"{tmp_path}/data/ann/way/{name}"]) for name in ("plain.sh", "none.sh")
                ]
                assert told[0] == told[1]

    run(story())
