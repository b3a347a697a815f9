"""Whoever may use sudo is root: beside a master of another account root says in whose name it submits."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from master.callers.peer import Peer as KernelPeer
from master.ports import port_server
from tests.master.in_process import InProcess, Peer, run
from tests.waiting import settled

ROOT = KernelPeer("127.0.0.1", "root", is_ours=True, is_here=True, uid=0)
MASTER = KernelPeer("127.0.0.1", "muster", is_ours=True, is_here=True, uid=990)
SUBMITS: list[tuple[str, dict[str, Any]]] = [
    ("task.submit", {"command": "true", "hold": True}),
    ("task.submit_batch", {"commands": ["true", "false"], "hold": True}),
]
EITHER = pytest.mark.parametrize(("verb", "params"), SUBMITS)


@asynccontextmanager
async def beside(folder: Path, patched: pytest.MonkeyPatch, runs_as: int = 990) -> AsyncIterator[InProcess]:
    """A master that runs as this account."""
    async with InProcess(folder) as master:
        patched.setattr("master.verbs.access.geteuid", lambda: runs_as)
        yield master


async def come(master: InProcess, patched: pytest.MonkeyPatch, peer: KernelPeer) -> Peer:
    patched.setattr(port_server, "identify", lambda _sock: peer)
    made = await master.peer()
    await made.call("auth.whoami")
    return made


@EITHER
def test_root_submits_in_a_users_name_and_in_no_other_way_and_that_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, params: dict[str, Any]
) -> None:
    async def story() -> None:
        async with beside(tmp_path, monkeypatch) as master:
            root = await come(master, monkeypatch, ROOT)
            await root.call("user.add", name="ann")
            code, said = await root.refusal(verb, **params)
            assert (code, "--as NAME" in said) == ("bad_request", True)
            assert (await root.refusal(verb, **params, **{"as": "nobody"}))[0] == "not_found"
            await root.call(verb, **params, **{"as": "ann"})
            assert {task.owner for task in master.core.tasks.values()} == {"ann"}
            await root.call("user.disable", name="ann")
            assert (await root.refusal(verb, **params, **{"as": "ann"}))[0] == "conflict"

    run(story())
    lines = (tmp_path / "task_info" / "audit" / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    told = [json.loads(line) for line in lines]
    [done] = [line for line in told if line["verb"] == verb and line["result"] == "ok"]
    assert (done["user"], done["target"]) == ("root", "1 as ann" if verb == "task.submit" else "1-2 as ann")


@EITHER
def test_nobody_else_submits_in_anothers_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, params: dict[str, Any]
) -> None:
    async def story() -> None:
        async with beside(tmp_path, monkeypatch) as master:
            owner = await come(master, monkeypatch, MASTER)
            await owner.call("user.add", name="ann")
            await owner.call("user.add", name="eve", role="admin")
            made = await owner.call("token.new", name="eve")
            stranger = await come(master, monkeypatch, ROOT)
            await stranger.call("auth.token", token=made["token"])
            for peer in (owner, stranger):
                assert (await peer.refusal(verb, **params, **{"as": "ann"}))[0] == "forbidden"
                await peer.call(verb, **params)
            assert {task.owner for task in master.core.tasks.values()} == {"muster", "eve"}
            await settled(lambda: master.engine.is_settled)

    run(story())


@EITHER
def test_until_there_are_users_and_where_root_runs_the_master_it_submits_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, params: dict[str, Any]
) -> None:
    async def story() -> None:
        async with beside(tmp_path, monkeypatch) as master:
            root = await come(master, monkeypatch, ROOT)
            await root.call(verb, **params)
            assert {task.owner for task in master.core.tasks.values()} == {"root"}
        monkeypatch.undo()
        async with beside(tmp_path, monkeypatch, runs_as=0) as master:
            root = await come(master, monkeypatch, ROOT)
            await root.call("user.add", name="ann")
            await root.call(verb, **params)
            assert (await root.refusal(verb, **params, **{"as": "ann"}))[0] == "forbidden"

    run(story())
