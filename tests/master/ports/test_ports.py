"""The three ports on real sockets: frames of every kind, subscriptions, readers that do not read."""

from __future__ import annotations

import asyncio
import json
import select
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from master.callers.peer import Peer as Stranger
from master.core.attempts.agent_messages import EncodedSample, as_sample
from master.ports import port_server
from master.ports.port_server import NODES, TASKS
from master.sessions import send_buffer
from master.tls import entrance
from tests.master.in_process import DATA, LIMITS, InProcess, MoodyDisk, Peer, eof, run
from tests.waiting import settled

SUBMIT = b'{"jsonrpc":"2.0","id":8,"method":"task.submit","params":{"command":"true"}}\n'
INFO = b'{"jsonrpc":"2.0","id":7,"method":"server.info"}\n'

BROKEN = {
    "not JSON": b"hello\n",
    "half of JSON": b'{"jsonrpc":"2.0",\n',
    "bad UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}\n',
    "UTF-16": '{"jsonrpc":"2.0","id":1,"method":"server.info"}'.encode("utf-16").replace(b"\n", b"") + b"\n",
    "a key twice": b'{"jsonrpc":"2.0","id":1,"method":"server.info","method":"server.stop"}\n',
    "a key twice, deep": b'{"jsonrpc":"2.0","id":1,"method":"task.show","params":{"id":1,"id":2}}\n',
    "NaN": b'{"jsonrpc":"2.0","id":1,"method":"task.show","params":{"id":NaN}}\n',
    "infinity": b'{"jsonrpc":"2.0","id":1,"method":"task.show","params":{"id":-Infinity}}\n',
    "1e400": b'{"jsonrpc":"2.0","id":1,"method":"task.show","params":{"id":1e400}}\n',
    "an integer of 5,000 digits": b'{"jsonrpc":"2.0","id":1,"method":"task.show","params":' + b"9" * 5000 + b"}\n",
    "too deep": b'{"jsonrpc":"2.0","id":1,"method":"task.show","params":{"id":' + b"[" * 1500 + b"]" * 1500 + b"}}\n",
    "objects too deep": b'{"a":' * 2000 + b"1" + b"}" * 2000 + b"\n",
    "half of a surrogate pair": b'{"jsonrpc":"2.0","id":1,"method":"task.submit","params":{"command":"\\ud83d"}}\n',
    "a list": b"[1,2,3]\n",
    "a batch": b'[{"jsonrpc":"2.0","id":1,"method":"server.info"}]\n',
    "null": b"null\n",
    "JSON-RPC 1": b'{"jsonrpc":"1.0","id":1,"method":"server.info"}\n',
    "no method": b'{"jsonrpc":"2.0","id":1}\n',
    "an unknown key": b'{"jsonrpc":"2.0","id":1,"method":"server.info","auth":"x"}\n',
    "positional parameters": b'{"jsonrpc":"2.0","id":1,"method":"task.show","params":[1]}\n',
    "an object as id": b'{"jsonrpc":"2.0","id":{},"method":"server.info"}\n',
}


@pytest.mark.parametrize("frame", BROKEN.values(), ids=list(BROKEN))
def test_a_broken_frame_gets_an_error_and_the_connection_goes_on(tmp_path: Path, frame: bytes) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer, other = await master.peer(), await master.peer()
            await peer.call("server.info")
            peer.send(frame + INFO)
            first, second = await peer.read(), await peer.read()
            assert first["error"]["data"]["code"] == "protocol"
            assert "\n" not in first["error"]["message"]
            assert second["id"] == 7
            assert "result" in second
            assert (await other.call("task.list"))["tasks"] == []

    run(story())


@pytest.mark.parametrize("frame", BROKEN.values(), ids=list(BROKEN))
def test_who_begins_with_a_broken_frame_is_told_so_and_nothing_behind_it_is_obeyed(
    tmp_path: Path, frame: bytes
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            peer.send(frame + SUBMIT)
            said = (await eof(peer)).splitlines()
            assert [json.loads(line)["error"]["data"]["code"] for line in said] == ["protocol"]
            assert master.core.tasks == {}

    run(story())


HTTP = {
    "a form": b"POST / HTTP/1.1\r\nHost: localhost:63005\r\nContent-Type: text/plain\r\n\r\n",
    "a WebSocket": b"GET /x HTTP/1.1\r\nUpgrade: websocket\r\n\r\n",
    "a method of somebody's own": b"patch /a/b?c HTTP/1.1\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a proxy's": b"CONNECT localhost:63005 HTTP/1.1\r\n\r\n",
    "a proxy's with an address": b"POST http://localhost:63005/ HTTP/1.1\r\n\r\n",
    "a long address": b"POST /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
    "a terminator in the address": b"POST /_<END_SEND>_ HTTP/1.1\r\n\r\n",
    "blank lines before it": b"\r\n\n  POST / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("head", HTTP.values(), ids=list(HTTP))
def test_what_looks_like_http_gets_no_answer_and_its_body_is_not_obeyed(tmp_path: Path, head: bytes) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            for port in (DATA, TASKS, NODES):
                for cut in (len(head), 1, 5, len(head) - 1):
                    peer = await master.peer(port)
                    peer.send(head[:cut])
                    await peer.writer.drain()
                    await asyncio.sleep(0)
                    peer.send(head[cut:] + SUBMIT + b'{"mode":"get_root","ui":"main","info":""}_<END_SEND>_' + SUBMIT)
                    with suppress(ConnectionError):
                        assert await eof(peer) == b""
            await settled(lambda: not master.port_server.connections)
            assert master.core.tasks == {}

    run(story())


def test_half_of_a_surrogate_pair_leaves_no_task_behind_that_cannot_be_written(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            await peer.call("server.info")
            peer.send(BROKEN["half of a surrogate pair"])
            await peer.read()
            assert await peer.call("task.submit", command="echo 😀 \ud83d\ude00") == {"id": 1}
            assert (await peer.call("task.show", id=1))["command"] == "echo 😀 😀"

    run(story())


def test_a_frame_beyond_the_cap_closes_its_connection_and_no_other(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer, other = await master.peer(), await master.peer()
            # One byte too many, so that nothing is unread when the master closes and the end comes without a reset.
            peer.send(b"{" + b" " * LIMITS.frame_bytes)
            message = await peer.read()
            assert message["error"]["data"]["code"] == "protocol"
            assert str(LIMITS.frame_bytes) in message["error"]["message"]
            assert await eof(peer) == b""
            await other.call("server.info")

    run(story())


def test_a_known_peer_may_begin_with_a_large_frame(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            commands = [f"echo {number} {'x' * 50}" for number in range(4000)]
            assert (await peer.call("task.submit_batch", commands=commands)) == {"first": 1, "count": 4000}

    run(story())


def test_requests_may_come_in_halves_or_several_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            for at in range(len(INFO)):
                peer.send(INFO[at : at + 1])
                await peer.writer.drain()
                await asyncio.sleep(0)
            assert (await peer.read())["id"] == 7
            numbers = [peer.ask("server.info") for _ in range(50)]
            assert [(await peer.read())["id"] for _ in numbers] == numbers

    run(story())


def test_a_notification_is_carried_out_and_not_answered(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            peer.send(b'{"jsonrpc":"2.0","method":"task.submit","params":{"command":"true"}}\n' + INFO)
            assert (await peer.read())["id"] == 7
            assert (await peer.call("task.list"))["total"] == 1

    run(story())


def test_an_answer_reaches_the_wire_only_after_the_sync(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            sock = master.raw()
            at_sync: list[bool] = []
            master.disk.on_sync = lambda: at_sync.append(bool(select.select([sock], [], [], 0)[0]))
            sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"task.submit","params":{"command":"true"}}\n')
            sock.sendall(b'{"jsonrpc":"2.0","id":2,"method":"task.list"}\n')
            await settled(lambda: select.select([sock], [], [], 0)[0])
            assert at_sync
            assert not any(at_sync)
            master.disk.on_sync = lambda: None  # the end syncs, too
            sock.close()

    run(story())


def test_who_says_nothing_is_given_up(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            other = await master.peer()
            await other.call("server.info")
            master.limit(handshake_s=0.01)
            silent = await master.peer()
            assert await eof(silent) == b""
            await other.call("server.info")

    run(story())


def test_of_too_many_silent_connections_the_oldest_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            known = await master.peer()
            await known.call("server.info")
            monkeypatch.setattr(port_server, "identify", lambda _sock: Stranger("127.0.0.1", is_here=True))
            silent = [await master.peer() for _ in range(LIMITS.connections_unidentified + 1)]
            assert await eof(silent[0]) == b""
            assert (await silent[1].refusal("server.info"))[0] == "unauthenticated"
            await known.call("server.info")

    run(story())


def test_a_retried_request_gets_the_same_answer_also_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        for _ in range(2):
            async with InProcess(tmp_path) as master:
                peer, other = await master.peer(), await master.peer()
                first = peer.ask("task.submit", command="true", request_id="one")
                again = other.ask("task.submit", command="true", request_id="one")
                assert (await peer.answer(first))["result"] == {"id": 1}
                assert (await other.answer(again))["result"] == {"id": 1}
                batch = {"commands": ["a", "b"], "request_id": "two"}
                assert await peer.call("task.submit_batch", **batch) == {"first": 2, "count": 2}
                assert (await peer.call("task.list"))["total"] == 3

    run(story())


# -- subscriptions --------------------------------------------------------------------------------------------------


def test_a_snapshot_and_what_follows_it_add_up_to_the_truth_under_concurrent_changes(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            writer = await master.peer()
            watchers: list[tuple[Peer, int]] = []
            for number in range(60):
                writer.ask("task.submit", command=f"echo {number}")
                writer.ask("task.hold" if number % 3 else "task.remove", id=max(1, number // 2))
                if number % 10 == 0:
                    watcher = await master.peer(TASKS)
                    watchers.append((watcher, watcher.ask("subscribe")))
            last = writer.ask("task.submit", command="last")
            while (message := await writer.read())["id"] != last:
                pass
            for watcher, asked in watchers:
                seen = {task["id"]: task for task in (await watcher.answer(asked))["result"]["tasks"]}
                # The last submit is told to everybody, and nothing comes behind it.
                while message["result"]["id"] not in seen:
                    _apply(seen, await watcher.notification())
                truth = {task["id"]: task for task in (await writer.call("task.list"))["tasks"]}
                assert seen == truth

    run(story())


def _apply(seen: dict[int, Any], message: dict[str, Any]) -> None:
    assert message["method"] == "task.changed"
    params = message["params"]
    if "task" in params:
        seen[params["task"]["id"]] = params["task"]
    else:
        assert params["gone"] is True
        seen.pop(params["id"], None)


def test_a_change_is_told_only_when_it_is_durable(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            sock = master.raw(TASKS)
            sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"subscribe"}\n')
            await settled(lambda: master.port_server.streams.subscribers["tasks"])
            await settled(lambda: select.select([sock], [], [], 0)[0])
            sock.recv(65536)
            at_sync: list[bool] = []
            master.disk.on_sync = lambda: at_sync.append(bool(select.select([sock], [], [], 0)[0]))
            writer = await master.peer()
            await writer.call("task.submit", command="true")
            await settled(lambda: select.select([sock], [], [], 0)[0])
            assert at_sync
            assert not any(at_sync)
            master.disk.on_sync = lambda: None  # the end syncs, too
            sock.close()

    run(story())


def test_who_subscribes_to_some_tasks_hears_of_no_others(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            writer, watcher = await master.peer(), await master.peer(TASKS)
            for _ in range(3):
                await writer.call("task.submit", command="true")
            snapshot = await watcher.call("subscribe", ids=[2, 99])
            assert [task["id"] for task in snapshot["tasks"]] == [2]
            for number in (1, 2, 3):
                await writer.call("task.hold", id=number)
            await writer.call("task.remove", id=2)
            assert (await watcher.notification())["params"]["task"]["state"] == "held"
            assert (await watcher.notification())["params"] == {"id": 2, "gone": True}

    run(story())


def test_without_a_snapshot_only_what_changes_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            writer, watcher = await master.peer(), await master.peer(TASKS)
            await writer.call("task.submit", command="true")
            assert await watcher.call("subscribe", snapshot="none") == {}
            await writer.call("task.hold", id=1)
            assert (await watcher.notification())["params"]["task"]["id"] == 1

    run(story())


def test_nodes_and_their_samples_come_on_the_monitor_port(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            watcher = await master.peer(NODES)
            assert [node["state"] for node in (await watcher.call("subscribe"))["nodes"]] == ["connecting"]
            master.online()
            assert (await watcher.notification())["params"]["node"]["state"] == "online"
            sample = EncodedSample(as_sample(b'{"op":"sample","at":1,"node":"b","cpu_percent":5.0}'))
            told = sample.told()
            assert (told["cpu_percent"], "node" in told) == (5.0, False)
            master.port_server.sample("a", sample)
            message = await watcher.notification()
            assert (message["method"], message["params"]) == ("node.sample", {**told, "node": "a"})

    run(story())


def test_a_subscription_is_refused_where_there_is_nothing_to_subscribe_to(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            data, tasks = await master.peer(), await master.peer(TASKS)
            assert (await data.refusal("subscribe"))[0] == "bad_request"
            assert (await tasks.refusal("subscribe", snapshot="all"))[0] == "bad_request"
            assert (await tasks.refusal("subscribe", ids="1"))[0] == "bad_request"
            assert (await tasks.refusal("subscribe", unknown=1))[0] == "bad_request"

    run(story())


async def _stalled_reader(master: InProcess) -> tuple[socket.socket, Peer]:
    """A subscriber whose buffers are full, and a peer that goes on changing task 1 to 40."""
    slow = master.raw(TASKS, receive=4096)
    slow.sendall(b'{"jsonrpc":"2.0","id":1,"method":"subscribe"}\n')
    await settled(lambda: master.port_server.streams.subscribers["tasks"])
    writer = await master.peer()
    for number in range(40):
        await writer.call("task.submit", command=f"echo {number} {'x' * 20_000}")
    connection = master.connection_of(slow)
    while not connection.buffer.is_paused:
        await _flap(writer)
    return slow, writer


async def _flap(writer: Peer) -> None:
    for number in range(1, 41):
        await writer.call("task.hold", id=number)
    for number in range(1, 41):
        await writer.call("task.release", id=number)


def test_a_reader_that_does_not_read_stays_bounded_and_gets_the_newest_when_it_reads_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            slow, writer = await _stalled_reader(master)
            quick = await master.peer(TASKS)
            await quick.call("subscribe")
            connection = master.connection_of(slow)
            for _ in range(3):
                await _flap(writer)
                assert connection.transport.get_write_buffer_size() < 4 * LIMITS.outbox_bytes
                assert connection.buffer.missed <= 40
                assert connection.buffer.unsent < 4 * LIMITS.outbox_bytes
            for _ in range(3 * 80):
                assert (await quick.notification())["method"] == "task.changed"
            await writer.call("task.hold", id=17)
            seen = await asyncio.to_thread(_read_until_quiet, slow, master)
            assert {number for number, task in seen.items() if task["state"] == "held"} == {17}
            assert len(seen) == 40
            slow.close()

    run(story())


def _read_until_quiet(sock: socket.socket, master: InProcess) -> dict[int, Any]:
    """Read what there is, until the one held task was told and nothing is missed any more."""
    sock.settimeout(60)
    seen: dict[int, Any] = {}
    connection = master.connection_of(sock)
    with sock.makefile("rb") as lines:
        while True:
            message = json.loads(lines.readline())
            tasks = message["result"]["tasks"] if "result" in message else [message["params"]["task"]]
            seen.update({task["id"]: task for task in tasks})
            at_end = not connection.buffer.lags and not connection.transport.get_write_buffer_size()
            if at_end and seen[17]["state"] == "held" and not select.select([sock], [], [], 0.05)[0]:
                return seen


def test_a_reader_that_never_reads_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_buffer, "STALLED_S", 0.01)

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            slow, writer = await _stalled_reader(master)
            await settled(lambda: not master.port_server.streams.subscribers["tasks"])
            await _flap(writer)
            slow.close()

    run(story())


def test_a_connection_that_breaks_takes_nothing_with_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            sock = master.raw()
            sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"task.submit","params":{"command":"true"}}\n')
            await settled(lambda: master.core.tasks)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            sock.close()
            other = await master.peer()
            assert (await other.call("task.list"))["total"] == 1
        async with InProcess(tmp_path, MoodyDisk()) as master:
            assert master.core.tasks.keys() == {1}

    run(story())


def test_of_those_who_come_at_once_some_are_let_in_in_the_next_turn_of_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entrance, "ACCEPTING_S", -1.0)

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            socks = [master.raw() for _ in range(20)]  # nobody is let in before the loop's next turn
            for sock in socks:
                sock.sendall(INFO)
            assert [(await asyncio.to_thread(sock.recv, 1 << 16))[:1] for sock in socks] == [b"{"] * 20
            assert len(master.port_server.connections) == 20

    run(story())
