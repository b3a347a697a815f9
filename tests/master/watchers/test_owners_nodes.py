"""Which nodes run tasks as their owners, here or elsewhere: by what an agent shows, not by what it says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from master.core.nodes.inventory import Facts, NodeState
from master.nodes.registry import NodeConfig
from master.watchers import owners_nodes
from master.watchers.owners_nodes import OwnersNodes
from tests.master.in_process import FACTS, InProcess, run
from tests.waiting import settled
from wire.errors import StorageError

CONFIG = NodeConfig(name="a", driver="report", gpu_count=8)
ROOT = msgspec.structs.replace(FACTS, uid=0, account="root", can_run_as=True)


class Up:
    """A link that is up."""

    node = "a"


async def seen(master: InProcess, watcher: OwnersNodes, facts: Facts) -> None:
    """The agent of node a says this."""
    master.engine.event(lambda: master.core.node_state("a", NodeState.ONLINE, None, facts))
    watcher.link_up(Up(), CONFIG)  # type: ignore[arg-type]


def noted(master: InProcess) -> str:
    note = master.core.notes.get("a")
    return "" if note is None else note.as_owners


@pytest.mark.parametrize(("shown", "where"), [(True, "here"), (False, "there"), (None, "there")])
def test_who_says_that_he_is_root_on_the_masters_machine_has_to_show_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shown: bool | None,  # noqa: FBT001
    where: str,
) -> None:
    monkeypatch.setattr(owners_nodes, "runs_as_us", lambda _facts: True)
    asked: list[str] = []

    async def shows(node: str) -> bool:
        asked.append(node)
        if shown is None:
            raise StorageError("it hangs")
        return shown

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            await seen(master, OwnersNodes(master.engine, shows), ROOT)
            assert noted(master) == ""
            await settled(lambda: noted(master) == where)
            assert asked == ["a"]

    run(story())


def test_one_elsewhere_is_not_asked_and_one_that_is_not_root_any_more_is_forgotten(tmp_path: Path) -> None:
    async def never(node: str) -> bool:
        raise AssertionError(node)

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            watcher = OwnersNodes(master.engine, never)
            await seen(master, watcher, ROOT)
            assert noted(master) == "there"
            await seen(master, watcher, FACTS)
            assert noted(master) == ""
            assert "a" not in master.core.notes, "of a node of which there is nothing to say nothing is kept"

    run(story())


def test_what_is_asked_of_a_link_that_is_gone_is_not_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners_nodes, "runs_as_us", lambda _facts: True)
    answer = asyncio.Event()

    async def shows(_node: str) -> bool:
        return await answer.wait()

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            watcher = OwnersNodes(master.engine, shows)
            await seen(master, watcher, ROOT)
            await asyncio.sleep(0)
            watcher.link_gone(Up())  # type: ignore[arg-type]
            answer.set()
            await asyncio.sleep(0)
            assert noted(master) == ""

    run(story())


def test_as_whom_all_tasks_run_on_the_masters_machine_is_noted_until_it_is_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_here = True
    monkeypatch.setattr(owners_nodes, "is_this_machine", lambda _facts: is_here)

    async def never(node: str) -> bool:
        raise AssertionError(node)

    async def story() -> None:
        nonlocal is_here
        async with InProcess(tmp_path) as master:
            watcher = OwnersNodes(master.engine, never)
            lab = msgspec.structs.replace(FACTS, uid=1005, account="lab", can_run_as=False)
            await seen(master, watcher, lab)
            assert master.core.notes["a"].account_here == "lab"
            is_here = False
            await seen(master, watcher, lab)
            assert "a" not in master.core.notes

    run(story())
