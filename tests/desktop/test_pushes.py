"""What desktop clients are told without asking: the cadence, the rows of nodes that come and go, readers that do not
read."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import termios
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from master.callers.peer import Peer
from master.core.attempts.agent_messages import EncodedSample, as_sample
from master.core.nodes.inventory import Facts, NodeSpec, NodeState
from master.desktop import pushes
from master.desktop.pushes import NodePushes, Reader, TaskPushes
from master.desktop.session import DesktopSession
from master.ports import port_server
from tests.desktop.arrivals import TERMINATOR
from tests.desktop.client import DesktopClient, Frame, request
from tests.desktop.client import Reader as ClientReader
from tests.desktop.place import DesktopPlace, in_loop, with_client
from tests.master.in_process import InProcess, run
from tests.waiting import settled, until
from wire.desktop import frame_of

FACTS = Facts(boot_id="boot", state_id="state", cpus=4, memory_mib=1000)
GPU = {"gpu_used": "No data", "avail_vram": "No data"}
SAMPLE = {
    "cpu_percent": 17.26,
    "memory_available_mib": 23449,
    "network": [
        {"name": "lo", "sent_ps": 1e9, "received_ps": 1e9, "bandwidth": None},
        {"name": "eth0", "sent_ps": 16.0, "received_ps": 262144.0, "bandwidth": 1e9},
    ],
    "gpus": [
        {"index": 0, "utilization": 3.0, "memory_total_mib": 24576, "memory_used_mib": 205},
        {"index": 1, "utilization": None, "memory_total_mib": None, "memory_used_mib": None},
    ],
}


class Collected:
    """A send queue that sends at once what is pushed, and remembers it."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []
        self.held: dict[str, Callable[[], bytes | None]] | None = None

    def push(self, key: str, make: Callable[[], bytes | None]) -> None:
        """Send, or hold back while the reader does not read."""
        if self.held is not None:
            self.held[key] = make
        else:
            self._send(make)

    def read_again(self) -> None:
        """Send what was held back."""
        held, self.held = self.held or {}, None
        for make in held.values():
            self._send(make)

    def _send(self, make: Callable[[], bytes | None]) -> None:
        frame = make()
        if frame is not None:
            self.frames.append(json.loads(frame.decode().removesuffix(TERMINATOR))["info"])


class Table:
    """The rows of the client's monitor, kept as it keeps them."""

    def __init__(self) -> None:
        self.rows: list[str] = []

    def take(self, info: dict[str, Any]) -> None:
        """One frame: write its row, then delete those that are not online, of which there may be one."""
        if info["name"] not in self.rows:
            self.rows.append(info["name"])
        gone = [name for name in self.rows if name not in info["online"]]
        assert len(gone) <= 1, f"the client would delete wrong rows: {gone}"
        self.rows = [name for name in self.rows if name in info["online"]]


def nodes(master: DesktopPlace, names: str) -> None:
    """The registry says this."""
    specs = tuple(NodeSpec(name=name, gpu_models=("GPU",) * 2) for name in names)
    master.engine.event(lambda: master.core.set_nodes(specs))


def say(master: DesktopPlace, name: str, state: NodeState) -> None:
    master.engine.event(lambda: master.core.node_state(name, state, None, FACTS))


def test_a_row_has_every_key_with_its_type_and_spelling(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        def begin() -> None:
            nodes(master, "a")
            master.online()
            master.port_server.sample(
                "a", EncodedSample(as_sample(json.dumps({"op": "sample", "at": 1, **SAMPLE}).encode()))
            )
            master.submit("one", gpus=1)

        in_loop(master, begin)

        def frame_in_use() -> Frame | None:
            frame = client.monitor.next()
            return frame if any(frame.info["gpu_used"]) else None

        frame = until("its GPU is in use", frame_in_use)
        assert (frame.mode, frame.ui) == ("mon", "main")
        assert frame.info == {
            "name": "a",
            "cpu_usage": "17.3 %",
            "avail_ram": "22.9 GB",
            "web_up": "128.0 bps",
            "web_down": "2.0 Mbps",
            "gpus": [
                {"gpu_used": "3.0 %", "avail_vram": "23.8 GB", "mem_util": 0.008},
                {"gpu_used": "No data", "avail_vram": "No data"},
            ],
            "cpu_used": 0,
            "gpu_used": [1, 0],
            "online": ["a"],
        }

    with_client(tmp_path, story)


def test_nodes_come_and_go_one_row_at_a_time_also_for_who_reads_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushes, "EVERY_S", 0.02)
    monkeypatch.setattr(pushes, "NODE_GAP_S", 0.001)

    async def story() -> None:
        async with DesktopPlace(tmp_path) as master:
            nodes(master, "abcde")
            for name in "abcde":
                say(master, name, NodeState.ONLINE)
            quick, late = Collected(), Collected()
            told = NodePushes(master.engine)
            for send_queue in (quick, late):
                told.join(Reader(send_queue))  # type: ignore[arg-type]
            assert rows(quick) == list("abcde")
            late.held = {}
            for name in "bd":
                say(master, name, NodeState.UNREACHABLE)
            await settled(lambda: rows(quick) == list("ace"))
            nodes(master, "ac")
            await settled(lambda: rows(quick) == list("ac"))
            nodes(master, "acz")
            say(master, "z", NodeState.ONLINE)
            await settled(lambda: rows(quick) == list("acz"))
            late.read_again()
            await settled(lambda: rows(late) == list("acz"))
            gone = [info for info in quick.frames if info["name"] not in info["online"]]
            assert [info["name"] for info in gone] == ["b", "d", "e"]
            assert all(info.keys() == quick.frames[0].keys() for info in gone)
            told.close()

    run(story())


def rows(send_queue: Collected) -> list[str]:
    table = Table()
    for info in send_queue.frames:
        table.take(info)
    return table.rows


def test_the_tables_are_told_again_and_again_and_encoded_only_when_something_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushes, "EVERY_S", 0.4)
    encoded: list[str] = []

    def note(mode: str, info: bytes) -> bytes:
        encoded.append(mode)
        return frame_of(mode, info)

    monkeypatch.setattr(pushes, "frame_of", note)

    def with_task(frame: Frame) -> Frame | None:
        return frame if frame.info["wait"] else None

    def story(client: DesktopClient, master: DesktopPlace) -> None:
        others = [ClientReader(master.address("train_state_port")) for _ in range(5)]
        client.add("one")
        told = until("the tables with the task", lambda: with_task(client.train.next()))
        frames = [told, *(client.train.next() for _ in range(3))]
        assert frames[-1].at - frames[1].since > 2 * 0.3, "not more often than they should be"
        assert frames[-1].info == frames[-2].info
        assert 1 <= encoded.count("task_mon") <= 2
        for other in others:
            assert [other.next().mode for _ in range(3)] == ["task_mon"] * 3
            assert other.read_err == []
            other.close()

    with_client(tmp_path, story)


def test_many_frames_reach_the_reader_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushes, "EVERY_S", 0.4)

    def story(client: DesktopClient, master: DesktopPlace) -> None:
        def begin() -> None:
            nodes(master, "abcdefgh")
            for name in "abcdefgh":
                say(master, name, NodeState.ONLINE)

        in_loop(master, begin)
        table = Table()
        frames = [client.monitor.next() for _ in range(24)]
        for frame in frames:
            table.take(frame.info)
        assert table.rows == list("abcdefgh")
        assert client.read_err == []

    with_client(tmp_path, story)


def test_what_many_windows_of_one_address_do_not_read_has_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushes, "EVERY_S", 0.1)
    monkeypatch.setattr(port_server, "identify", lambda sock: Peer(str(sock.getpeername()[0])))
    held = 10 << 20

    async def story() -> None:
        async with DesktopPlace(tmp_path) as master:
            master.limit(held_bytes=held)
            for _ in range(1000):
                master.submit("字" * 700)  # a frame is ASCII: six bytes each
            windows = [master.raw("train_state_port", receive=4096) for _ in range(10)]

            connections = master.port_server.connections
            await settled(lambda: len(connections) == 10, "all ten are there before one of them asks for anything")
            for window in windows:
                window.sendall(request("get_root", ""))

            def kept() -> list[int]:
                told = [one for one in master.sessions() if isinstance(one, DesktopSession)]
                return [one.transport.get_write_buffer_size() for one in told]

            await settled(lambda: len(connections) < 10)
            await settled(lambda: len(kept()) == len(connections) and all(kept()))
            assert 0 < sum(kept()) <= held + max(kept())  # what one of them has not read is on top
            for window in windows:
                window.close()

    run(story())


def test_who_does_not_read_costs_little_and_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushes, "EVERY_S", 0.1)

    async def story() -> None:
        async with DesktopPlace(tmp_path) as master:
            for number in range(1000):
                master.submit(f"echo {number} {'x' * 300}")
            deaf = [master.raw("train_state_port", receive=4096) for _ in range(5)]
            client = await master.client()
            names = {sock.getsockname() for sock in deaf}
            await settled(lambda: sum(map(unread, told(master, names))) == 5)
            await asyncio.to_thread(listen, client, 10)
            assert sum(map(unread, told(master, names))) == 5, "all that time"
            assert len(told(master)) == 5 + 3
            for one in told(master):
                assert one.transport.get_write_buffer_size() < 2 << 20
            assert len(master.port_server.connections) == 5 + 3, "and nobody was disconnected"
            for sock in deaf:
                sock.close()
            client.close()

    def told(master: DesktopPlace, names: Collection[object] = ()) -> list[DesktopSession]:
        sessions = [one for one in master.sessions() if isinstance(one, DesktopSession)]
        return [one for one in sessions if not names or one.transport.get_extra_info("peername") in names]

    def unread(session: DesktopSession) -> bool:
        sock = session.transport.get_extra_info("socket")
        return fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)) != bytes(4)

    def listen(client: DesktopClient, count: int) -> None:
        for number in range(count):
            assert len(client.train.next().info["wait"]) == 1000, number
        assert client.read_err == []

    run(story())


def test_while_nothing_can_be_written_the_tables_stay_as_a_kill_would_leave_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushes, "EVERY_S", 0.0)

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            await peer.call("task.submit", command="saved", hold=True)
            tables = TaskPushes(master.engine, "/home")
            before = tables.frame()
            assert before is not None
            assert b"saved" in before
            master.disk.refuse = errno.EROFS
            await peer.refusal("task.submit", command="stalled", hold=True)
            tables.note([])
            assert (await peer.call("task.list"))["tasks"][1]["unsaved"] is True
            assert tables.frame() == before
            master.disk.refuse = None
            await settled(lambda: master.engine.is_saved)
            after = tables.frame()
            assert after is not None
            assert b"stalled" in after

    run(story())
