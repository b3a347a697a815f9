"""One connection that asks for a great deal at once: it is answered in order, costs no more memory than its buffer may
hold, and does not keep the others waiting."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from master.core.tasks.task import Task
from master.ports.connection import AcceptedConnection
from master.sessions import json_rpc
from master.sessions.json_rpc import JsonRpcSession
from master.verbs import turns
from master.verbs.base import Context, Nothing, Verb
from master.verbs.table import VERBS
from master.verbs.task_rows import WholeRows
from master.verbs.turns import Job, Turns
from tests.master.in_process import LIMITS, InProcess, run
from tests.waiting import settled

TASKS = 1000


def asks(numbers: range, method: str = "task.list") -> bytes:
    lines = ({"jsonrpc": "2.0", "id": number, "method": method} for number in numbers)
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


async def fill(master: InProcess) -> int:
    """Queue tasks; the size of a list of them in bytes."""
    peer = await master.peer()
    await peer.call("task.submit_batch", commands=[f"echo {number}" for number in range(TASKS)])
    peer.ask("task.list")
    return len(await peer.reader.readline())


def held(master: InProcess, sock: socket.socket) -> int:
    """What of its answers lies in the master."""
    one = master.connection_of(sock)
    return one.buffer.unsent + one.transport.get_write_buffer_size()


def test_lists_by_the_thousand_are_made_only_as_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows_made: list[int] = []
    add = WholeRows.add

    def noted(rows: WholeRows, tasks: Sequence[Task]) -> None:
        rows_made.append(len(tasks))
        add(rows, tasks)

    monkeypatch.setattr(WholeRows, "add", noted)

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            size = await fill(master)
            other = await master.peer()
            sock = master.raw(receive=4096)
            sock.sendall(asks(range(2000)))
            await settled(lambda: any(isinstance(one, JsonRpcSession) and one.waiting for one in master.sessions()))
            most = 0
            for _ in range(50):
                await other.call("server.info")
                most = max(most, held(master, sock))
            assert most < 2 * LIMITS.outbox_bytes + 2 * size
            waiting = master.connection_of(sock).waiting
            assert 1900 < waiting < 2000, "the others had their turns first"
            gone = master.connection_of(sock)
            numbers = await asyncio.to_thread(read_ids, sock, 60)
            assert numbers == list(range(60))
            assert master.connection_of(sock).waiting < waiting
            rows_made.clear()
            sock.close()
            await settled(lambda: not gone.waiting)
            assert sum(rows_made) < 100 * TASKS, "nobody is there any more whom these lists would tell something"

    run(story())


def test_in_a_turn_of_the_loop_that_is_old_each_connection_has_one_request_handled(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            greedy, other = master.raw(), await master.peer()
            master.port_server.dispatcher.turns.began = lambda: time.monotonic() - 1.0  # others took its time
            greedy.sendall(asks(range(100), "server.info"))
            await settled(lambda: any(isinstance(one, JsonRpcSession) and one.waiting for one in master.sessions()))
            await other.call("server.info")
            assert master.connection_of(greedy).waiting > 50
            assert await asyncio.to_thread(read_ids, greedy, 100) == list(range(100))

    run(story())


def read_ids(sock: socket.socket, count: int) -> list[int]:
    lines = sock.makefile("rb")
    return [json.loads(next(lines))["id"] for _ in range(count)]


def test_order_is_kept_and_nothing_is_lost_across_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_S", 0.0)

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            numbers = [peer.ask("task.submit", command=f"echo {number}") for number in range(300)]
            numbers += [peer.ask("task.show", id=number) for number in range(1, 301)]
            answers = [await peer.read() for _ in numbers]
            assert [one["id"] for one in answers] == numbers
            assert [one["result"]["id"] for one in answers] == [*range(1, 301)] * 2

    run(story())


def test_what_was_asked_for_in_turns_to_come_still_happens_when_the_peer_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "TURN_S", 0.0)

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            sock = master.raw()
            frame = b'{"jsonrpc":"2.0","method":"task.submit","params":{"command":"true"}}\n'
            sock.sendall(frame * 200)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            await settled(lambda: master.core.tasks)
            sock.close()
            await settled(lambda: len(master.core.tasks) == 200)

    run(story())


def test_so_many_slow_requests_of_one_connection_run_at_a_time_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: list[asyncio.Future[None]] = []

    async def slow(_context: Context, _params: Any) -> None:
        running.append(asyncio.get_running_loop().create_future())
        await running[-1]

    monkeypatch.setitem(VERBS.of("server"), "server.slow", Verb(Nothing, Any, slow, "user", "read", "none"))

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            peer.send(asks(range(200), "server.slow") + asks(range(200, 201)))
            await settled(lambda: len(running) == json_rpc.MOST_JOBS)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(running) == json_rpc.MOST_JOBS
            for number in range(200):
                await settled(partial(lambda number: len(running) > number, number))
                running[number].set_result(None)
            assert sorted([(await peer.read())["id"] for _ in range(201)]) == list(range(201))

    run(story())


def test_of_one_user_one_long_piece_of_work_is_done_after_the_other_and_others_have_their_turns_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "SHARE_S", 0.0)
    done: list[str] = []

    def work(name: str) -> turns.Work:
        for _ in range(3):
            done.append(name)
            yield

    async def story() -> None:
        work_of = Turns()
        work_of.began = lambda: time.monotonic() - 1.0
        for name in ("ann 1", "ann 2", "bob 1", "news", "news", "ann 3"):
            whose = None if name == "news" else name.split()[0]
            work_of.begin(Job(work(name), lambda _result, _error: None, whose=whose))
        assert work_of.busy
        await settled(lambda: not work_of.busy)

    run(story())
    assert done[:12] == ["ann 1", "bob 1", "news", "news"] * 3
    assert done[12:] == ["ann 2"] * 3 + ["ann 3"] * 3


def test_unread_answers_and_requests_that_are_worked_on_are_kept_until_they_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[AcceptedConnection, int] = {}
    hold = AcceptedConnection.hold

    def noted(one: AcceptedConnection, size: int) -> bool:
        told[one] = size
        return hold(one, size)

    running: list[asyncio.Future[None]] = []

    async def slow(_context: Context, _params: Any) -> None:
        running.append(asyncio.get_running_loop().create_future())
        await running[-1]

    monkeypatch.setitem(VERBS.of("server"), "server.slow", Verb(Nothing, Any, slow, "user", "read", "none"))
    monkeypatch.setattr(AcceptedConnection, "hold", noted)

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            await fill(master)
            sock = master.raw(receive=4096)
            sock.sendall(asks(range(60)))
            await settled(lambda: any(isinstance(one, JsonRpcSession) and one.waiting for one in master.sessions()))
            session = master.connection_of(sock)
            [one] = [one for one in master.port_server.connections if one.session is session]
            await settled(lambda: told[one] > held(master, sock) > LIMITS.outbox_bytes)
            await asyncio.to_thread(read_ids, sock, 60)
            await settled(lambda: one.keeps() == 0)
            sock.sendall(asks(range(1), "server.slow"))
            await settled(lambda: bool(running))
            assert one.keeps() == len(asks(range(1), "server.slow")) - 1
            running[0].set_result(None)
            await asyncio.to_thread(read_ids, sock, 1)
            await settled(lambda: one.keeps() == 0)

    run(story())
