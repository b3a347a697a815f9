"""What `show` and `why` tell beside the task itself: its use of GPUs, and who has what it waits for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from master.core.attempts.exits import Exit
from master.core.nodes.gpu_watch import GpuReport, Holder
from master.core.nodes.inventory import NodeState
from master.verbs.tasks import NAMED
from tests.master.in_process import InProcess, Peer, run
from tests.master.verbs.test_people import people
from tests.waiting import settled
from wire.message import Message


async def runs(master: InProcess, peer: Peer, **spec: Any) -> int:
    """The id of a task that runs."""
    number: int = (await peer.call("task.submit", command="true", **spec))["id"]
    await settled(lambda: bool(master.core.tasks[number].allocation))
    launch = master.core.tasks[number].allocation[0].launch_id
    master.engine.event(lambda: master.core.started("a", launch, 1.0, 1.0))
    return number


def report(gpu: int, *holders: Holder, used: int = 0, busy: float | None = 0.0) -> GpuReport:
    return GpuReport(gpu, memory_total_mib=80_000, memory_used_mib=used, utilization=busy, processes=holders)


def test_a_page_tells_what_a_running_task_uses_of_its_gpus(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.online()
            peer = await master.peer()
            number = await runs(master, peer, gpus=2)
            none: dict[str, Any] = {"used_mib": None, "memory_used_mib": None, "utilization": None}
            blank = [{"node": "a", "gpu": gpu, "memory_mib": None, **none} for gpu in (0, 1)]
            order = ("node", "gpu", "used_mib", "memory_used_mib", "memory_mib", "utilization")
            shown = (await peer.call("task.show", id=number))["gpu_use"]
            assert shown == blank
            assert tuple(shown[0]) == order
            task = master.core.tasks[number]
            own = Holder(7, memory_mib=12_000, launch_id=task.allocation[0].launch_id)
            reports = [report(0, own, used=13_000, busy=97.0), *map(report, range(1, 8))]
            master.engine.event(lambda: master.core.gpus_seen("a", reports, 2.0))
            first, second = (await peer.call("task.show", id=number))["gpu_use"]
            assert first["memory_used_mib"] == 13_000
            assert (first["used_mib"], first["utilization"]) == (12_000, 97.0)
            assert (second["used_mib"], second["utilization"]) == (None, 0.0)
            listed = (await peer.call("task.list"))["tasks"]
            assert "gpu_use" not in listed[0], "it would change with each sample"
            master.engine.event(lambda: master.core.node_state("a", NodeState.UNREACHABLE, "gone", None))
            assert (await peer.call("task.show", id=number))["gpu_use"] == [], "what was so before is not so now"

    run(story())


def test_of_a_task_that_has_ended_nothing_is_in_use(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.online()
            peer = await master.peer()
            number = await runs(master, peer, gpus=1)
            launch = master.core.tasks[number].allocation[0].launch_id
            master.engine.event(lambda: master.core.exited("a", Exit(launch, "exited", 2.0, 3), 2.0))
            shown = await peer.call("task.show", id=number)
            assert (shown["state"], shown["gpu_use"], shown["held_by"], shown["holders"]) == ("failed", [], [], 0)

    run(story())


@pytest.mark.parametrize("privacy", ["open", "own"])
def test_who_waits_is_told_who_has_the_gpus_as_far_as_they_may_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, privacy: str
) -> None:
    async def story() -> None:
        async with people(tmp_path, monkeypatch) as here:
            master = here.master
            master.place.config = msgspec.structs.replace(master.place.config, privacy=privacy)
            master.online()
            ann, bob = await here.user("ann"), await here.user("bob")
            held = [await runs(master, ann, gpus=1, name="bert" if number else "") for number in range(6)]
            own = await runs(master, bob, gpus=1, name="mine")
            waits = (await bob.call("task.submit", command="true", gpus=8))["id"]
            seen = [{"id": own, "owner": "bob", "name": "mine"}]
            if privacy == "open":
                named = [{"id": number, "owner": "ann", "name": "bert"} for number in held[1:4]]
                seen = [{"id": held[0], "owner": "ann", "name": ""}, *named]
            shown = await bob.call("task.show", id=waits)
            assert (shown["held_by"], shown["holders"]) == (seen, 7 if privacy == "open" else 1)
            why = await bob.call("task.why", id=waits)
            first = Message("holder", id=held[0], owner="ann")
            named_ones = [Message("holder_named", id=one, owner="ann", name="bert") for one in (2, 3, 4)]
            line = str(
                Message("held_by_tasks", holders=(first, *named_ones), more=3)
                if privacy == "open"
                else Message(
                    "held_by_tasks", holders=(Message("holder_named", id=7, owner="bob", name="mine"),), more=0
                )
            )
            assert line in why["details"]
            (message,) = (one for one in why["detail_messages"] if one["key"] == "held_by_tasks")
            assert len(message["args"]["holders"]) == len(seen) <= NAMED
            if privacy == "own":
                assert "bert" not in str((shown, why))
                other = await bob.call("task.show", id=held[1])
                assert (other["gpu_use"], other["held_by"], other["name"]) == ([], [], "")

    run(story())


def test_nobody_is_named_where_no_room_would_help(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.online()
            peer = await master.peer()
            before = await runs(master, peer, gpus=8, name="all")
            for spec in ({"hold": True}, {"after": [{"id": before}]}, {"begin_at": 4e9}):
                number = (await peer.call("task.submit", command="true", gpus=1, **spec))["id"]
                shown = await peer.call("task.show", id=number)
                assert (shown["held_by"], shown["holders"]) == ([], 0), spec

    run(story())


def test_why_tells_of_a_task_that_is_cancelled_and_lives_that_it_is_to_end(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.online()
            peer = await master.peer()
            number = await runs(master, peer, gpus=1)
            assert (await peer.call("task.why", id=number))["brief"] is None
            await peer.call("task.cancel", ids=[number])
            why = await peer.call("task.why", id=number)
            assert why["brief"] == str(Message("being_cancelled", by="root"))
            assert why["reason"] is None

            launch = master.core.tasks[number].allocation[0].launch_id
            master.engine.event(lambda: master.core.unproven("a", launch, (7,)))
            why = await peer.call("task.why", id=number)
            assert "pid 7" in why["warning"]
            assert (why["brief"], [line["key"] for line in why["detail_messages"]]) == (None, ["being_cancelled"])

    run(story())
