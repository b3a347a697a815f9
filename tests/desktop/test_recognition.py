"""Who comes in: each port tells the two dialects apart by itself, and says no to who may not."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pytest

from master.callers import peer
from master.config.conf_file import DesktopClient as Access
from master.desktop import pushes
from master.edited_files.ownership import user_name
from tests.desktop.client import DesktopClient, Reader, form, request
from tests.desktop.place import SILENT_S, DesktopPlace, in_loop, with_client
from tests.master import in_process
from tests.master.in_process import LIMITS, eof, run
from tests.waiting import settled, until

pytestmark = pytest.mark.usefixtures("_quick_rounds")
PORTS = ("data_port", "monitor_port", "train_state_port")
OPENED = ("monitor_port", "data_port", "train_state_port")
"""In the order of the client."""
ASK = b'{"jsonrpc":"2.0","id":1,"method":"task.list"}\n'


def rpc(master: DesktopPlace, port: str, data: bytes) -> dict[str, Any]:
    """The answer that somebody gets who speaks JSON-RPC, and is not silent for a moment: see `begun`."""

    def asked() -> socket.socket:
        sock = socket.create_connection(master.address(port), timeout=60)
        sock.sendall(data)
        return sock

    sock: socket.socket = in_loop(master, asked)
    with sock:
        message: dict[str, Any] = json.loads(sock.makefile("rb").readline())
        return message


def begun(master: DesktopPlace) -> Reader:
    """Somebody who has begun to speak. To be called in the master's loop, which has no time for him between the two."""
    half = Reader(master.address("train_state_port"))
    half.send(b'{"jsonrpc"')
    return half


@pytest.mark.parametrize("port", PORTS)
def test_both_dialects_are_spoken_on_each_port(tmp_path: Path, port: str) -> None:
    def story(_client: DesktopClient, master: DesktopPlace) -> None:
        reader = Reader(master.address(port))
        reader.send(request("get_root", ""))
        while (frame := reader.next()).mode != "ret_root":
            pass
        assert frame.info == ["data", "envs"]
        assert reader.read_err == []
        reader.close()
        assert rpc(master, port, ASK)["result"]["tasks"] == []
        terminator = b'{"jsonrpc":"2.0","id":1,"method":"task.list","params":{"search":"_<END_SEND>_"}}\n'
        assert rpc(master, port, terminator)["result"]["tasks"] == []

    with_client(tmp_path, story)


def test_a_first_frame_may_come_byte_by_byte(tmp_path: Path) -> None:
    def story(_client: DesktopClient, master: DesktopPlace) -> None:
        reader = Reader(master.address("data_port"))
        for byte in request("add_task", form("echo _<END_SEND>_ x")):
            reader.send(bytes([byte]))
        assert reader.next().mode == "ret_add_task"
        assert master.core.tasks[1].command == "echo _<END_SEND>_ x"
        reader.close()

    with_client(tmp_path, story)


def test_silence_on_a_push_port_is_a_desktop_client_and_nothing_else_is(tmp_path: Path) -> None:
    def story(_client: DesktopClient, master: DesktopPlace) -> None:
        reader = Reader(master.address("train_state_port"))
        assert reader.next().mode == "task_mon"
        half = in_loop(master, lambda: begun(master))
        quiet = Reader(master.address("data_port"))
        assert not half.ended.wait(1.0)
        assert half.frames.empty()
        assert quiet.frames.empty()
        for one in (reader, half, quiet):
            one.close()

    with_client(tmp_path, story)


@pytest.mark.real
def test_silence_is_nobody_where_no_desktop_client_asks_for_things(tmp_path: Path) -> None:
    """Who says nothing may be about to speak HTTP. The client's own order: monitor, data, train_state, `get_root`."""

    async def story() -> None:
        async with DesktopPlace(tmp_path) as master:

            def meet() -> None:
                early = [Reader(master.address(port)) for port in ("monitor_port", "train_state_port")]
                loud = [Reader(master.address(port)) for port in ("data_port", "monitor_port", "data_port")]
                loud[0].send(b"\x00\x01_<END_SEND>_" + request("get_root", ""))
                loud[1].send(request("env_list", ""))
                loud[2].send(b"CLIEND_CLOSE_<END_SEND>_")
                assert loud[0].ended.wait(60), "what begins broken ends"
                assert loud[0].seen == []
                assert not early[0].ended.wait(2 * SILENT_S)
                assert [one.seen for one in early] == [[], []]
                monitor, data, train = (Reader(master.address(port)) for port in OPENED)
                data.send(request("get_root", ""))
                assert data.next().mode == "ret_root"
                assert train.next().mode == "task_mon"
                assert early[1].next().mode == "task_mon", "it may be the client's, and slow"
                for one in (monitor, data, train, *loud):
                    with suppress(OSError):
                        one.socket.shutdown(socket.SHUT_RDWR)
                    assert one.ended.wait(60)
                    one.close()
                until("nobody asks for things", lambda: in_loop(master, lambda: not master.port_server.desktop._open))
                late = Reader(master.address("train_state_port"))
                assert late.next().mode == "task_mon", "for a minute after the last request"
                in_loop(master, master.port_server.desktop._heard_at.clear)
                master.limit(handshake_s=8.0)
                later = Reader(master.address("train_state_port"))
                assert later.ended.wait(60)
                assert later.seen == []
                for one in (*early, late, later):
                    one.close()

            await asyncio.to_thread(meet)

    run(story())


BEGINNINGS = {
    "HTTP": b"POST / HTTP/1.1\r\nHost: x\r\n\r\n",
    "HTTP that has a terminator": b"POST /_<END_SEND>_ HTTP/1.1\r\nHost: x\r\n\r\n",
    "what is not text": b"\x00\x01\x00\x08!\x12\xa4B_<END_SEND>_",
    "a frame that is too large": b'{"mode":"add_task","info":"' + b"x" * LIMITS.frame_bytes + b'"}_<END_SEND>_',
}


@pytest.mark.parametrize("cut", [1, 7, None], ids=["a byte first", "some bytes first", "all at once"])
@pytest.mark.parametrize("beginning", BEGINNINGS.values(), ids=list(BEGINNINGS))
def test_a_session_that_begins_broken_ends_and_nothing_of_it_is_obeyed(
    tmp_path: Path, beginning: bytes, cut: int | None
) -> None:
    def story(_client: DesktopClient, master: DesktopPlace) -> None:
        for port in PORTS:
            page = Reader(master.address(port))
            if port != "data_port":
                in_loop(master, lambda: master.port_server.expect_desktop_clients("127.0.0.1"))
                if port == "train_state_port":
                    assert page.next().mode == "task_mon", "its silence was taken for a desktop client's"
            with suppress(OSError):
                page.send(beginning[:cut])
                if cut is not None:
                    page.send(beginning[cut:])
                page.send(request("add_task", form("echo")))
            assert page.ended.wait(60)
            assert {one.mode for one in page.seen} <= {"mon", "task_mon"}
            page.close()
        assert master.core.tasks == {}

    with_client(tmp_path, story)


GARBAGE = [
    b"hello_<END_SEND>_",
    b"_<END_SEND>_",
    b'{"jsonrpc":"2.0","id":1,"method":"task.list"}_<END_SEND>_',
    b'{"mode":"get_root","ui":"main"_<END_SEND>_',
    "垃圾_<END_SEND>_".encode("gbk"),
    "垃圾\n再来_<END_SEND>_".encode(),
    b"hello\nagain_<END_SEND>_",
    b"[1, 2\r\n_<END_SEND>_",
    b'"a string that is open_<END_SEND>_',
    b"<x>_<END_SEND>_",
    b"7" * 4000 + b"_<END_SEND>_",
]


@pytest.mark.parametrize("cut", [1, 7, None], ids=["a byte first", "some bytes first", "all at once"])
@pytest.mark.parametrize("beginning", GARBAGE, ids=lambda garbage: repr(garbage[:12]))
def test_garbage_that_a_client_begins_with_is_dropped_and_what_it_asks_for_then_is_answered(
    tmp_path: Path, beginning: bytes, cut: int | None
) -> None:
    def story(_client: DesktopClient, master: DesktopPlace) -> None:
        one = Reader(master.address("data_port"))
        one.send(beginning[:cut])
        in_loop(master, lambda: None)  # it was heard
        if cut is not None:
            one.send(beginning[cut:])
        one.send(request("get_root", ""))
        assert one.next().mode == "ret_root"
        assert [frame.mode for frame in one.seen] == ["ret_root"], "garbage gets no reply"
        one.close()
        assert master.core.tasks == {}

    with_client(tmp_path, story)


@pytest.mark.parametrize("line", [b"[1, 2]\n", b"7\n", b'"x"\r\n'])
def test_a_line_of_json_that_is_no_object_is_answered_at_once(tmp_path: Path, line: bytes) -> None:
    def story(_client: DesktopClient, master: DesktopPlace) -> None:
        assert rpc(master, "data_port", line)["error"]["data"]["code"] == "protocol"

    with_client(tmp_path, story)


@pytest.mark.parametrize("beginning", [b"hello\nagain", b"7" * 5000, b"\x01x"])
def test_garbage_without_an_end_is_given_up(tmp_path: Path, beginning: bytes) -> None:
    def story(_client: DesktopClient, master: DesktopPlace) -> None:
        in_loop(master, lambda: master.limit(handshake_s=0.5))
        one = Reader(master.address("data_port"))
        one.send(beginning)
        assert one.ended.wait(60)
        one.close()

    with_client(tmp_path, story)


def test_garbage_from_elsewhere_is_closed_as_soon_as_it_shows(tmp_path: Path) -> None:
    async def story() -> None:
        async with Elsewhere(tmp_path) as master:

            def meet() -> None:
                for beginning in ("垃".encode("gbk"), b"<x", b"hello\n"):
                    one = Reader(master.address("data_port"))
                    one.send(beginning)
                    assert one.ended.wait(60)
                    one.close()

            await asyncio.to_thread(meet)

    run(story())


def test_on_its_own_ports_too_garbage_is_dropped_and_the_next_request_answered(tmp_path: Path) -> None:
    async def story() -> None:
        async with OwnPorts(tmp_path) as master:

            def meet() -> None:
                for beginning in GARBAGE:
                    one = Reader(master.address("desktop data_port"))
                    one.send(beginning[:1])
                    in_loop(master, lambda: None)
                    one.send(beginning[1:])
                    one.send(request("get_root", ""))
                    assert one.next().mode == "ret_root"
                    one.close()

            await asyncio.to_thread(meet)

    run(story())


def test_a_request_inside_of_a_string_that_a_session_begins_with_is_not_obeyed(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        for port in PORTS:
            page = Reader(master.address(port))
            page.send(b'{"mode":"x","info":"_<END_SEND>_' + request("add_task", form("echo")))
            client.ask("get_root")
            page.send(b'"}_<END_SEND>_')
            assert page.ended.wait(60)
            page.close()
        assert master.core.tasks == {}

    with_client(tmp_path, story)


def test_after_its_first_frame_a_broken_one_is_dropped_and_the_client_goes_on(tmp_path: Path) -> None:
    def story(client: DesktopClient, _master: DesktopPlace) -> None:
        client.data.send(b'{"mode":"x_<END_SEND>_ hello_<END_SEND>_')
        assert client.ask("get_root") == ["data", "envs"]

    with_client(tmp_path, story)


class OwnPorts(DesktopPlace):
    """The desktop client has ports of its own."""

    async def __aenter__(self) -> Self:
        """Open these three too."""
        await super().__aenter__()
        for server in self.servers.values():
            server.close()
        for name in PORTS:
            self.servers[name] = await self.port_server.listen(name, "127.0.0.1", 0, 100, "ours")
            self.servers[f"desktop {name}"] = await self.port_server.listen(name, "127.0.0.1", 0, 100, "desktop")
        return self


def test_with_ports_of_its_own_the_dialect_is_spoken_there_and_nothing_else_is(tmp_path: Path) -> None:
    async def story() -> None:
        async with OwnPorts(tmp_path) as master:

            def meet() -> None:
                client = DesktopClient({name: master.address(f"desktop {name}") for name in PORTS})
                assert client.add("echo") == ""
                assert len(client.tasks()["wait"]) == 1
                for port in PORTS:
                    assert rpc(master, port, ASK)["result"]["total"] == 1
                    refused = rpc(master, f"desktop {port}", ASK)["error"]
                    assert (refused["data"]["code"], "desktop_client.ports" in refused["message"]) == ("protocol", True)
                    loud = Reader(master.address(port))
                    loud.send(request("add_task", form("echo")))
                    assert loud.ended.wait(60)
                    assert loud.seen == []
                    loud.close()
                quiet = Reader(master.address("train_state_port"))
                assert not quiet.ended.wait(2 * SILENT_S)
                assert quiet.seen == []
                quiet.close()
                with socket.create_connection(master.address("desktop data_port"), timeout=60) as sock:
                    sock.sendall(b"\x16\x03\x01\x02\x00\x01")
                    assert sock.recv(100) == b""
                assert client.read_err == []
                client.close()

            await asyncio.to_thread(meet)
            assert len(master.core.tasks) == 1

    run(story())


class Elsewhere(DesktopPlace):
    """Loopback is not among the networks."""

    networks: tuple[str, ...] = ("192.168.36.0/24",)


def test_who_comes_from_elsewhere_is_not_let_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with Elsewhere(tmp_path) as master:

            def meet() -> None:
                for _ in range(3):
                    loud = Reader(master.address("data_port"))
                    loud.send(request("add_task", form("echo")))
                    assert loud.ended.wait(60)
                    loud.close()
                master.limit(handshake_s=0.5)
                silent = Reader(master.address("train_state_port"))
                assert silent.ended.wait(60)
                assert silent.seen == []
                silent.close()
                master.limit(handshake_s=LIMITS.handshake_s)
                assert rpc(master, "data_port", ASK)["result"]["tasks"] == []

            await asyncio.to_thread(meet)

    with caplog.at_level(logging.WARNING):
        run(story())
    refused = [one for one in caplog.messages if "desktop_client.networks" in one]
    assert len(refused) == 1, "told once a minute"


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("192.168.36.7", True),
        ("::ffff:192.168.36.7", True),
        ("192.168.37.7", False),
        ("127.0.0.1", False),
        ("fe80::1%eth0", False),
        ("", False),
    ],
)
def test_the_networks_of_conf_json(tmp_path: Path, address: str, *, inside: bool) -> None:
    async def story() -> None:
        async with Elsewhere(tmp_path) as master:
            assert master.port_server.desktop.may_come_from(address) is inside

    run(story())


def test_another_user_of_this_machine_is_not_let_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with DesktopPlace(tmp_path) as master:

            def meet() -> None:
                monkeypatch.setattr(peer, "owner", lambda *_: 54321)
                master.port_server.desktop.asked("127.0.0.1")
                for port, said in (("data_port", request("add_task", form("echo"))), ("train_state_port", b"")):
                    stranger = Reader(master.address(port))
                    stranger.send(said)
                    assert stranger.ended.wait(60)
                    assert stranger.seen == []
                    stranger.close()
                assert rpc(master, "data_port", ASK)["error"]["data"]["code"] == "unauthenticated"
                assert master.core.tasks == {}

            await asyncio.to_thread(meet)

    with caplog.at_level(logging.WARNING):
        run(story())
    assert "on this machine only the user who runs the master, and root, may" in caplog.text


def test_tls_is_told_apart_and_refused(tmp_path: Path) -> None:
    def story(_client: DesktopClient, master: DesktopPlace) -> None:
        with socket.create_connection(master.address("data_port"), timeout=60) as sock:
            sock.sendall(b"\x16\x03\x01\x02\x00\x01")
            assert sock.recv(100) == b""

    with_client(tmp_path, story)


def test_closing_a_window_closes_its_connection_and_no_other(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        closing = Reader(master.address("data_port"))
        closing.send(request("add_task", form("echo")) + b"CLIEND_CLOSE_<END_SEND>_" + request("get_root", ""))
        assert closing.ended.wait(60)
        closing.close()
        resetting = Reader(master.address("data_port"))
        resetting.send(request("add_task", form("echo")))
        resetting.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        resetting.close()
        assert client.ask("get_root") == ["data", "envs"]
        client.tasks()

    with_client(tmp_path, story)


def test_what_was_asked_before_the_window_closed_still_happens(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        closing = Reader(master.address("data_port"))
        closing.send(b"".join(request("add_task", form(f"echo {number}")) for number in range(40)))
        closing.send(b"CLIEND_CLOSE_<END_SEND>_")
        assert closing.ended.wait(60)
        closing.close()
        until("all are filed", lambda: in_loop(master, lambda: len(master.core.tasks)) == 40)
        assert client.ask("get_root") == ["data", "envs"]

    with_client(tmp_path, story)


def test_silence_is_long_enough_for_our_own_clients() -> None:
    assert Access().silent_s == 1.5


def test_a_window_is_told_as_soon_as_it_can_hear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its readers are connected to its tables about 0.3 s after it connected; its first request tells who it is."""
    monkeypatch.setattr(DesktopPlace, "silent_s", 10_000.0)  # who waits for it is not told within this test

    def story(client: DesktopClient, master: DesktopPlace) -> None:
        half = in_loop(master, lambda: begun(master))
        client.ask("get_root")
        first = client.train.next()
        assert first.mode == "task_mon"
        assert first.at - client.train.began > pushes.FIRST_S * 0.99
        assert not half.ended.wait(0.5), "who has begun to speak is not taken for silent"
        assert half.frames.empty()
        half.close()

    with_client(tmp_path, story)


# -- limits ---------------------------------------------------------------------------------------------------------


def test_beyond_the_cap_on_connections_the_oldest_unknown_one_goes_and_known_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_process, "DESCRIPTORS", 4)

    async def story() -> None:
        async with DesktopPlace(tmp_path) as master:
            known = [await master.peer() for _ in range(3)]
            for peer in known:
                await peer.call("task.list")
            silent = await master.peer()
            await settled(lambda: len(master.port_server.connections) == 4)
            newer = await master.peer()
            assert await eof(silent) == b""
            assert (await newer.call("task.list"))["total"] == 0
            refused = await master.peer()
            refused.ask("task.list")
            error = (await refused.read())["error"]
            assert error["data"]["code"] == "limit"
            assert "limits.connections" in error["message"]
            window = await asyncio.to_thread(Reader, master.address("data_port"))
            window.send(request("get_root", ""))
            assert await asyncio.to_thread(window.ended.wait, 60)
            assert window.seen == []
            window.close()
            for peer in (*known, newer):
                assert (await peer.call("task.list"))["total"] == 0
            known[0].writer.close()
            await settled(lambda: len(master.port_server.connections) == 3)
            assert (await (await master.peer()).call("task.list"))["total"] == 0

    run(story())


def test_questions_to_environments_are_counted_by_who_asks_and_nobody_spends_anothers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        in_loop(master, lambda: master.limit(env_requests_per_minute=3))
        ask = b'{"jsonrpc":"2.0","id":1,"method":"env.python","params":{"env":"x"}}\n'
        with monkeypatch.context() as other_user:
            other_user.setattr(peer, "owner", lambda *_: 54321)
            for _ in range(5):
                assert rpc(master, "data_port", ask)["error"]["data"]["code"] == "unauthenticated"
        for _ in range(3):
            assert rpc(master, "data_port", ask)["error"]["data"]["code"] == "node_unreachable"
        error = rpc(master, "data_port", ask)["error"]
        assert error["data"]["code"] == "limit"
        assert error["data"]["key"] == "too_many_requests"
        assert {"most": 3, "kind": "env", "who": user_name(os.geteuid())}.items() <= error["data"]["args"].items()
        for _ in range(3):
            assert "没有在线的节点" in client.ask("py_v", "x")["msg"]
        box = "每分钟的 env.* 请求超过 3 次"
        for mode in ("py_v", "cuda_pt", "cuda_tf", "pkgs"):
            reply = client.ask(mode, "x")
            assert reply["res"] == "falied"
            assert reply["msg"].startswith(box)
        assert client.ask("test_env", "x").startswith(box)
        assert client.ask("env_list") == []
        assert client.add("true") == ""

    with_client(tmp_path, story)
