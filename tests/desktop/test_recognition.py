"""Who comes in: each port tells the two dialects apart by itself, and says no to who may not."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from master import peer
from master.ports import hub
from tests.desktop.client import DesktopClient, Reader, form, request
from tests.desktop.place import DesktopPlace, in_loop, with_client
from tests.master.in_process import LIMITS, eof, run, settled

pytestmark = pytest.mark.usefixtures("_quick_rounds")
PORTS = ("data_port", "monitor_port", "train_state_port")
ASK = b'{"jsonrpc":"2.0","id":1,"method":"task.list"}\n'


def rpc(master: DesktopPlace, port: str, data: bytes) -> dict[str, Any]:
    """The answer that somebody gets who speaks JSON-RPC."""
    with socket.create_connection(master.address(port), timeout=10) as sock:
        sock.sendall(data)
        message: dict[str, Any] = json.loads(sock.makefile("rb").readline())
        return message


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
        assert reader.next(5).mode == "task_mon"
        reader.close()
        half = Reader(master.address("train_state_port"))
        half.send(b'{"jsonrpc"')
        quiet = Reader(master.address("data_port"))
        assert not half.ended.wait(1.0)
        assert half.frames.empty()
        assert quiet.frames.empty()
        for one in (half, quiet):
            one.close()

    with_client(tmp_path, story)


class Elsewhere(DesktopPlace):
    """Loopback is not among the networks."""

    networks: tuple[str, ...] = ("192.168.36.0/24",)


def test_who_comes_from_elsewhere_is_not_let_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        limits = msgspec.structs.replace(LIMITS, handshake_s=0.5)
        async with Elsewhere(tmp_path, limits=limits) as master:

            def meet() -> None:
                for _ in range(3):
                    loud = Reader(master.address("data_port"))
                    loud.send(request("add_task", form("echo")))
                    assert loud.ended.wait(5)
                    loud.close()
                silent = Reader(master.address("train_state_port"))
                assert silent.ended.wait(5)
                assert silent.seen == []
                silent.close()
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
            assert master.hub.desktop.may_come_from(address) is inside

    run(story())


def test_another_user_of_this_machine_is_not_let_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with DesktopPlace(tmp_path) as master:

            def meet() -> None:
                monkeypatch.setattr(peer, "_owner", lambda *_: 54321)
                for port, said in (("data_port", request("add_task", form("echo"))), ("train_state_port", b"")):
                    stranger = Reader(master.address(port))
                    stranger.send(said)
                    assert stranger.ended.wait(5)
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
        with socket.create_connection(master.address("data_port"), timeout=10) as sock:
            sock.sendall(b"\x16\x03\x01\x02\x00\x01")
            assert sock.recv(100) == b""

    with_client(tmp_path, story)


def test_closing_a_window_closes_its_connection_and_no_other(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        closing = Reader(master.address("data_port"))
        closing.send(request("add_task", form("echo")) + b"CLIEND_CLOSE_<END_SEND>_" + request("get_root", ""))
        assert closing.ended.wait(5)
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
        assert closing.ended.wait(5)
        closing.close()
        done = threading.Event()
        for _ in range(200):
            if in_loop(master, lambda: len(master.core.tasks)) == 40 or done.wait(0.05):
                break
        assert len(master.core.tasks) == 40
        assert client.ask("get_root") == ["data", "envs"]

    with_client(tmp_path, story)


def test_silence_is_long_enough_for_our_own_clients() -> None:
    assert hub.SILENT_S <= 1.5


def test_a_window_is_told_as_soon_as_it_can_hear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its readers are connected to its tables about 0.3 s after it connected; its first request tells who it is."""
    monkeypatch.setattr(hub, "SILENT_S", 100.0)

    def story(client: DesktopClient, master: DesktopPlace) -> None:
        half = Reader(master.address("train_state_port"))
        half.send(b'{"jsonrpc"')
        began = time.monotonic()
        client.ask("get_root")
        assert client.train.next(5).mode == "task_mon"
        assert 0.2 < time.monotonic() - began < 1.5
        assert not half.ended.wait(0.5), "who has begun to speak is not taken for silent"
        assert half.frames.empty()
        half.close()

    with_client(tmp_path, story)


# -- limits ---------------------------------------------------------------------------------------------------------


def test_beyond_the_cap_on_connections_the_oldest_unknown_one_goes_and_known_ones_stay(tmp_path: Path) -> None:
    async def story() -> None:
        async with DesktopPlace(tmp_path) as master:
            known = [await master.peer() for _ in range(3)]
            for peer in known:
                await peer.call("task.list")
            master.hub.most = 4
            silent = await master.peer()
            await settled(lambda: len(master.hub.connections) == 4)
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
            assert await asyncio.to_thread(window.ended.wait, 5)
            assert window.seen == []
            window.close()
            for peer in (*known, newer):
                assert (await peer.call("task.list"))["total"] == 0
            known[0].writer.close()
            await settled(lambda: len(master.hub.connections) == 3)
            assert (await (await master.peer()).call("task.list"))["total"] == 0

    run(story())


def test_questions_to_environments_are_counted_for_both_dialects_together(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        master.hub.rates._per_minute["env"] = 3
        ask = b'{"jsonrpc":"2.0","id":1,"method":"env.python","params":{"env":"x"}}\n'
        told = rpc(master, "data_port", ask * 2)["error"]["data"]["code"]
        assert told == "node_unreachable"
        assert "online" in client.ask("py_v", "x")["msg"]
        text = "more than 3 env.* requests a minute from 127.0.0.1 (conf.json: limits.env_requests_per_minute)"
        for mode in ("py_v", "cuda_pt", "cuda_tf", "pkgs"):
            reply = client.ask(mode, "x")
            assert reply["res"] == "falied"
            assert reply["msg"].startswith(text)
        assert client.ask("test_env", "x").startswith(text)
        assert client.ask("env_list") == []
        error = rpc(master, "data_port", ask)["error"]
        assert error["data"]["code"] == "limit"
        assert error["message"].startswith(text)
        assert client.add("true") == ""

    with_client(tmp_path, story)
