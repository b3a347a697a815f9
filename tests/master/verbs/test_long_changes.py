"""Changes of very many tasks: others are answered between their slices, and what is to be whole is whole."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from master.durable import compacting as compacting_module
from master.durable import journal, portions
from master.verbs import arrays, projects, task_places, tasks, turns
from tests.master.in_process import InProcess, Peer, run
from tests.waiting import settled

MANY = 3000
ARRAY: dict[str, Any] = {"command": ["true", "{index}"], "array": f"0-{MANY - 1}"}


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SHARE_S", 0.0)
    monkeypatch.setattr(arrays, "SLICE", 20)
    monkeypatch.setattr(arrays, "LOOKED_AT", 20)
    for module in (tasks, projects, task_places):
        monkeypatch.setattr(module, "SLICE", 20)


async def answered_beside(master: InProcess, peer: Peer, method: str, **params: Any) -> tuple[int, Any]:
    """How many calls of somebody else are answered before this one, and its answer."""
    other = await master.peer()
    await other.call("server.info")
    call = asyncio.create_task(peer.call(method, **params))
    count = 0
    while not call.done():
        await other.call("server.info")
        count += 1
    return count, await call


def test_others_are_answered_while_an_array_is_made_and_then_cancelled(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            count, made = await answered_beside(master, peer, "task.submit_array", **ARRAY)
            assert count > MANY // 20 // 4
            assert [task.command[1] for task in master.core.tasks.values()] == [str(index) for index in range(MANY)]
            assert {task.log_path.rpartition("/")[2] for task in master.core.tasks.values()} == {
                f"{task_id}.log" for task_id in master.core.tasks
            }
            ids = list(range(made["first"], made["first"] + made["count"]))
            count, done = await answered_beside(master, peer, "task.cancel", ids=[*ids, MANY + 7])
            assert count > MANY // 20 // 4
            assert done["cancelled"] == ids
            assert done["codes"] == {str(MANY + 7): "not_found"}

    run(story())


def test_large_tasks_are_cancelled_in_records_of_few_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SHARE_S", 60.0)  # whatever is left of it, what is large goes on in another turn
    size, count = 1 << 20, 30

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            made = [
                (await peer.call("task.submit", command=["true", *["x" * (size // 10)] * 9], hold=True))["id"]
                for _ in range(count)
            ]
            written: list[int] = []
            encode = journal.encode_record

            def encoded(*record: Any, **more: Any) -> bytes:
                line = encode(*record, **more)
                written.append(len(line))
                return line

            monkeypatch.setattr(journal, "encode_record", encoded)
            for params in ({"ids": made[: count // 2]}, {"mine": True}):
                done = await peer.call("task.cancel", **params)
                assert len(done["cancelled"]) == count // 2
            assert sum(written) > count * size * 9 // 10
            assert max(written) < portions.MOST_BYTES + 2 * size

    run(story())


LOOKS: dict[str, dict[str, Any]] = {
    "task.cancel": {"mine": True, "name": "nonesuch"},
    "project.list": {},
    "task.edit_array": {"id": 1, "cap": 5},
    "file.delete": {"path": "data/nothing"},
    "file.move": {"from": "data/nothing", "to": "data/other"},
}


@pytest.mark.parametrize("verb", LOOKS)
def test_others_are_answered_while_somebody_looks_through_all_tasks_again_and_again(tmp_path: Path, verb: str) -> None:
    async def story() -> None:
        (tmp_path / "data").mkdir(exist_ok=True)
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            await peer.call("task.submit_array", **ARRAY, hold=True)
            other = await master.peer()
            call = asyncio.create_task(peer.answer(peer.ask(verb, **LOOKS[verb])))
            count = 0
            while not call.done():
                await other.call("server.info")
                count += 1
            assert count > MANY // 20 // 4, await call

    run(story())


def test_tasks_that_others_file_meanwhile_do_not_come_between_those_of_an_array(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer, other = await master.peer(), await master.peer()
            call = asyncio.create_task(peer.call("task.submit_array", **ARRAY))
            filed = [(await other.call("task.submit", command="echo {index}", hold=True))["id"] for _ in range(20)]
            made = await call
            assert min(filed) < made["first"], "the array was made when the first of these came"
            of_array = [task for task in master.core.tasks.values() if task.array is not None]
            assert [task.id for task in of_array] == list(range(made["first"], made["first"] + MANY))
            assert {task.array.id for task in of_array if task.array is not None} == {made["first"]}
            assert all(task.log_path.endswith(f"/{task.id}.log") for task in of_array)

    run(story())


@pytest.mark.parametrize("more", [{}, {"strict": True, "cwd": "/"}], ids=["", "strict"])
def test_an_array_that_is_sent_again_while_it_is_made_is_made_once(tmp_path: Path, more: dict[str, Any]) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peers = [await master.peer(), await master.peer()]
            calls = [peer.call("task.submit_array", request_id="one", **ARRAY, **more) for peer in peers]
            first, second = await asyncio.gather(*calls)
            assert first == second
            assert len(master.core.tasks) == MANY

    run(story())


async def admin_no_more(master: InProcess, method: str, **params: Any) -> dict[str, Any]:
    """The answer to an admin who is none any more when it comes."""
    owner, ann = await master.peer(), await master.peer()
    await owner.call("user.add", name="ann", role="admin")
    made = await owner.call("token.new", name="ann", scopes=["read", "submit", "admin"])
    await ann.call("auth.token", token=made["token"])
    asked = ann.ask(method, **params)
    await settled(lambda: master.port_server.dispatcher.turns.busy)
    await owner.call("user.edit", name="ann", changes={"role": "user"})
    return await ann.answer(asked)


def test_rights_that_end_while_an_array_is_made_count_for_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            answer = await admin_no_more(master, "task.submit_array", **ARRAY, priority=10, hold=True)
            assert answer["error"]["data"]["key"] == "ahead_for_admins"
            assert not master.core.tasks

    run(story())


def test_rights_that_end_while_tasks_are_cancelled_count_for_the_rest(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            await (await master.peer()).call("task.submit_array", **ARRAY, hold=True)
            done = (await admin_no_more(master, "task.cancel", all=True))["result"]
            assert len(done["cancelled"]) < MANY
            assert len(done["cancelled"]) + len(done["codes"]) == MANY
            assert set(done["codes"].values()) == {"forbidden"}

    run(story())


def test_what_was_begun_is_finished_when_the_peer_goes(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            for method, params in (("task.submit_array", ARRAY), ("task.cancel", {"all": True})):
                peer = await master.peer()
                peer.ask(method, **params)
                await settled(lambda: master.port_server.dispatcher.turns.busy)
                peer.writer.transport.abort()
                await settled(lambda: not master.port_server.dispatcher.turns.busy)
                assert len(master.core.tasks) == MANY
            assert {task.state for task in master.core.tasks.values()} == {"cancelled"}

    run(story())


@pytest.mark.parametrize(
    ("more", "key"),
    [({"variables": {"A": "x" * 100_000}}, "array_too_long"), ({"after": 250}, "too_many_predecessors")],
    ids=["variables", "predecessors"],
)
def test_one_request_files_no_more_than_the_master_can_write_while_others_wait(
    tmp_path: Path, more: dict[str, Any], key: str
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            first = await peer.call("task.submit_batch", commands=["true"] * 250, hold=True)
            assert first["first"] == 1
            wishes = {**more, "after": [{"id": number} for number in range(1, 251)]} if "after" in more else more
            commands = {"commands": ["true"] * MANY, "hold": True, **wishes}
            for method, said in (
                ("task.submit_batch", commands),
                ("task.submit_array", {**ARRAY, "hold": True, **wishes}),
            ):
                answer = await peer.answer(peer.ask(method, **said))
                assert answer["error"]["data"]["key"] == key
            assert len(master.core.tasks) == 250

    run(story())


def test_a_compaction_waits_for_a_long_request_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            compacting, busy = master.engine.compacting, master.port_server.dispatcher.turns
            over: list[None] = []

            def work() -> turns.Work:
                while not over:
                    yield

            busy.begin(turns.Job(work(), lambda _result, _error: None))
            monkeypatch.setattr(master.engine.store, "should_compact", lambda: True)
            compacting.start_if_due()
            assert not compacting.is_running
            monkeypatch.setattr(compacting_module, "PATIENCE_S", 0.0)
            compacting.start_if_due()
            assert compacting.is_running
            over.append(None)
            await settled(lambda: not (compacting.is_running or busy.busy))

    run(story())
