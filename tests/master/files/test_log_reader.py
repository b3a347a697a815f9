"""Logs of every size and kind, read while they grow, by many at once."""

from __future__ import annotations

import asyncio
import base64
import os
import time
from pathlib import Path
from typing import Any

import pytest

from master.core.attempts.exits import Exit, Seen
from master.files import log_pieces
from tests.master.durable.storage import hanging
from tests.master.in_process import InProcess, Peer, run
from tests.waiting import settled
from wire.message import Message


async def piece(peer: Peer, **params: Any) -> tuple[bytes, dict[str, Any]]:
    """Ask for a piece of a log."""
    answer = await peer.call("log.read", **params)
    return base64.b64decode(answer.pop("data")), answer


async def logged(master: InProcess, peer: Peer, log: Path) -> int:
    """A task whose log is this file, and which runs."""
    master.online()
    task = await peer.call("task.submit", command="x", log=str(log), gpus=1)
    await settled(lambda: master.core.tasks[task["id"]].allocation)
    (part,) = master.core.tasks[task["id"]].allocation
    master.engine.event(lambda: master.core.reconcile("a", [Seen(part.launch_id, started_at=1.0)], 1.0))
    return int(task["id"])


def end(master: InProcess, task_id: int) -> None:
    (part,) = master.core.tasks[task_id].allocation
    exit_ = Exit(part.launch_id, "exited", at=2.0, code=0)
    master.engine.event(lambda: master.core.exited("a", exit_, 2.0))


def test_a_follower_is_answered_when_the_log_grows(tmp_path: Path) -> None:
    async def story() -> None:
        log = tmp_path / "1.log"
        log.write_bytes(b"one\n")
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            task_id = await logged(master, peer, log)
            assert await piece(peer, id=task_id, wait_s=20) == (
                b"one\n",
                {"offset": 0, "size": 4, "ended": False, "path": str(log), "warning": None, "missing": False},
            )
            waiting = asyncio.ensure_future(piece(peer, id=task_id, offset=4, wait_s=20))
            await settled(lambda: master.place.logs.followed)
            with log.open("ab") as file:
                file.write(b"two\n")
            data, answer = await waiting
            assert (data, answer["offset"], answer["size"]) == (b"two\n", 4, 8)

    run(story())


def test_a_follower_is_answered_when_the_task_ends_or_is_gone_and_not_by_its_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            task_id = await logged(master, peer, tmp_path / "1.log")
            logs = master.place.logs
            logs.look_every_s = 3600.0
            monkeypatch.setattr(asyncio, "timeout", lambda _wait_s: asyncio.Timeout(None))  # its patience has no end
            waiting = asyncio.ensure_future(piece(peer, id=task_id, wait_s=30))
            await settled(lambda: logs.followed)
            end(master, task_id)
            assert (await waiting)[1]["ended"]
            assert (await piece(peer, id=task_id, wait_s=30))[1]["ended"], "what has ended is not waited for"
            held = await peer.call("task.submit", command="x", hold=True, log=str(tmp_path / "2.log"))
            asked = peer.ask("log.read", id=held["id"], wait_s=30)
            await settled(lambda: logs.followed)
            other = await master.peer()
            await other.call("task.remove", id=held["id"])
            answer = await peer.answer(asked)
            assert answer["error"]["data"]["code"] == "not_found"
            assert not logs.followed
            assert not logs._by_task

    run(story())


def test_a_follower_waits_no_longer_than_it_said(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            task_id = await logged(master, peer, tmp_path / "1.log")
            begin = time.monotonic()
            data, answer = await piece(peer, id=task_id, wait_s=0.05)
            assert (data, answer["size"], answer["ended"]) == (b"", 0, False)
            assert time.monotonic() - begin >= 0.05

    run(story())


def test_all_who_follow_one_log_share_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    real = log_pieces.size

    def look(path: str, where: log_pieces.Where) -> int:
        looks.append(path)
        return real(path, where)

    monkeypatch.setattr(log_pieces, "size", look)

    async def story() -> None:
        log = tmp_path / "1.log"
        async with InProcess(tmp_path) as master:
            peers = [await master.peer() for _ in range(20)]
            task_id = await logged(master, peers[0], log)
            logs = master.place.logs
            logs.look_every_s = 0.01
            waiting = [asyncio.ensure_future(piece(peer, id=task_id, wait_s=20)) for peer in peers]
            await settled(lambda: logs.followed.get(str(log)) == len(peers))
            before = len(looks)
            lookers = [task for task in asyncio.all_tasks() if "LogReader._look" in repr(task)]
            assert len(lookers) == 1
            await settled(lambda: len(looks) >= before + 2)
            log.write_bytes(b"x")
            assert [data for data, _ in await asyncio.gather(*waiting)] == [b"x"] * 20
            await settled(lambda: not logs._looking)

    run(story())


def test_who_hangs_up_is_forgotten(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            task_id = await logged(master, peer, tmp_path / "1.log")
            logs = master.place.logs
            peer.ask("log.read", id=task_id, wait_s=30)
            await settled(lambda: logs.followed)
            peer.writer.close()
            await settled(lambda: not logs.followed and not logs._by_task)

    run(story())


def test_who_follows_a_log_with_other_rights_has_a_look_of_their_own(tmp_path: Path) -> None:
    class Theirs(log_pieces.LogsHere):
        looks = 0

        def size(self, path: str, where: log_pieces.Where) -> int:
            assert (path, where) == ("/x/1.log", (("/x",), None, None))
            self.looks += 1
            return 0

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            logs = master.place.logs
            logs.look_every_s = 0.01
            sources = [Theirs("ann"), Theirs("bob"), Theirs("bob")]
            where = (("/x",), None, None)
            waits = [logs.grown("/x/1.log", 0, None, 20, where=where, source=one) for one in sources]
            waiting = [asyncio.ensure_future(wait) for wait in waits]
            await settled(
                lambda: logs.followed.get("/x/1.log") == len(sources) and all(one.looks for one in sources[:2])
            )
            assert len(logs._looking) == 2
            for wait in waiting:
                wait.cancel()
            await settled(lambda: not logs._looking)

    run(story())


def test_a_log_is_followed_collapsed(tmp_path: Path) -> None:
    async def story() -> None:
        log = tmp_path / "1.log"
        log.write_bytes(b"begin\n\r 10%")
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            task_id = await logged(master, peer, log)
            how = {"id": task_id, "collapse": True, "wait_s": 20}
            data, answer = await piece(peer, **how)
            assert (data, base64.b64decode(answer["rest"]), answer["next"]) == (b"begin\n", b" 10%", 7)
            waiting = asyncio.ensure_future(piece(peer, **how, offset=7, seen=11))
            await settled(lambda: master.place.logs.followed)
            with log.open("ab") as file:
                file.write(b"\r 20%\r 30%")
            data, answer = await waiting
            assert (data, base64.b64decode(answer["rest"]), answer["next"]) == (b"", b" 30%", 17)

    run(story())


def test_a_large_log_of_bars_is_looked_through_in_parts(tmp_path: Path) -> None:
    async def story() -> None:
        log = tmp_path / "1.log"
        with log.open("wb") as file:
            for number in range(20):
                file.write(b"\r%7d" % number * (1 << 17))
            file.write(b"\nend\n")
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            task_id = await logged(master, peer, log)
            offset, lines, rounds = 0, b"", 0
            while True:
                data, answer = await piece(peer, id=task_id, collapse=True, offset=offset)
                lines, rounds = lines + data, rounds + 1
                if answer["next"] == offset:
                    break
                offset = answer["next"]
            assert lines == b"     19\nend\n"
            assert 3 <= rounds <= 4, "20 MiB, 8 in each answer, and one that finds nothing more"

    run(story())


@pytest.mark.parametrize("size", [100 << 20])
def test_a_line_of_a_hundred_megabytes_comes_in_pieces(tmp_path: Path, size: int) -> None:
    async def story() -> None:
        log = tmp_path / "1.log"
        with log.open("wb") as file:
            file.truncate(size)
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            task_id = await logged(master, peer, log)
            data, answer = await piece(peer, id=task_id, offset=-5)
            assert (data, answer["offset"], answer["size"]) == (b"\0" * 5, size - 5, size)
            data, answer = await piece(peer, id=task_id, offset=50 << 20, limit=1 << 20)
            assert len(data) == 1 << 20
            data, answer = await piece(peer, id=task_id, collapse=True, offset=90 << 20)
            assert 1 << 20 <= len(data) <= 4 << 20
            assert answer["next"] == (90 << 20) + len(data)

    run(story())


def make(log: Path, text: bytes) -> None:
    log.parent.mkdir(exist_ok=True)
    log.write_bytes(text)


@pytest.mark.parametrize("how", ["begins", "is removed"])
def test_what_lies_at_the_place_of_a_log_before_its_task_begins_is_not_followed(tmp_path: Path, how: str) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer, other = await master.peer(), await master.peer()
            held = (await peer.call("task.submit", command="x", gpus=1, hold=True))["id"]
            log = Path(master.core.tasks[held].log_path)
            make(log, b"a lie\n")
            assert (await peer.call("log.read", id=held, wait_s=0))["size"] == 0
            assert (await peer.call("log.search", id=held, pattern="lie"))["matches"] == []
            asked = peer.ask("log.read", id=held, wait_s=30)
            await settled(lambda: master.place.logs._by_task)
            if how == "begins":
                make(log, b"true\n")
                master.online()
                await other.call("task.release", id=held)
                await settled(lambda: master.core.tasks[held].allocation)
                (part,) = master.core.tasks[held].allocation
                master.engine.event(lambda: master.core.reconcile("a", [Seen(part.launch_id, started_at=1.0)], 1.0))
                assert base64.b64decode((await peer.answer(asked))["result"]["data"]) == b"true\n"
            else:
                await other.call("task.remove", id=held)
                assert (await peer.answer(asked))["error"]["data"]["code"] == "not_found"
            assert not master.place.logs._by_task

    run(story())


def test_a_log_that_is_no_file_is_refused_and_one_that_is_not_there_is_empty(tmp_path: Path) -> None:
    async def story() -> None:
        os.mkfifo(tmp_path / "fifo")
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            fifo, absent = [
                (await peer.call("task.submit", command="x", log=str(tmp_path / name), hold=True))["id"]
                for name in ("fifo", "folder/x")
            ]
            assert (await peer.told("log.read", id=fifo))[1] == Message("log_no_file", path=str(tmp_path / "fifo"))
            assert await peer.call("log.read", id=absent)

    run(story())


def test_a_log_on_a_storage_that_hangs_is_told_and_stops_nobody(tmp_path: Path) -> None:
    with hanging(tmp_path / "nfs") as folder:

        async def story() -> None:
            async with InProcess(tmp_path) as master:
                peer = await master.peer()
                master.place.logs.threads.patience_s = 0.1
                task = await peer.call("task.submit", command="x", log=str(folder / "1.log"), hold=True)
                asked = peer.ask("log.read", id=task["id"])
                other = await master.peer()
                await other.call("server.info")
                assert master.place.logs.threads.running, "it still hangs"
                answer = await peer.answer(asked)
                assert answer["error"]["data"]["code"] == "storage"
                assert str(folder) in answer["error"]["message"]

        run(story())
