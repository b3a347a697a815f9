"""A long answer leaves in pieces, and as its reader takes them where the connection is encrypted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from master.sessions.send_buffer import PIECE, TLS_PIECE, SendBuffer
from master.sessions.streams import Streams
from master.verbs.base import Told
from master.views.sight import EVERYTHING
from tests.master.core.small_core import submit
from tests.master.in_process import InProcess, run
from tests.waiting import settled
from wire.message import Message

ROOM = 4 << 20
FRAMES = [b"a" * 10, b"b" * (3 * PIECE + 7), b"c" * TLS_PIECE, b"d"]


class Transport:
    """Takes what it is given; `written`: each write. It pauses its writer after each piece if `is_slow`."""

    def __init__(self, *, is_tls: bool, is_slow: bool) -> None:
        self._ssl_object = object() if is_tls else None
        self._is_slow = is_slow
        self.written: list[bytes] = []
        self.high = 0
        self.buffer: SendBuffer | None = None

    def get_extra_info(self, name: str) -> object:
        return self._ssl_object if name == "ssl_object" else None

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | memoryview) -> None:
        self.written.append(bytes(data))
        if self._is_slow and self.buffer is not None:
            self.buffer.pause()


@pytest.mark.parametrize("is_slow", [True, False])
@pytest.mark.parametrize(("is_tls", "piece", "high"), [(True, TLS_PIECE, TLS_PIECE), (False, PIECE, ROOM)])
def test_no_piece_is_longer_than_it_may_be_and_nothing_is_lost(
    *, is_tls: bool, piece: int, high: int, is_slow: bool
) -> None:
    async def story() -> None:
        transport = Transport(is_tls=is_tls, is_slow=is_slow)
        streams = SimpleNamespace(send_soon=lambda _buffer: None, forget=lambda _buffer: None)
        made: Any = {
            "port": "data",
            "address": "here",
            "tells": None,
            "room": lambda: ROOM,
            "freed": lambda: None,
            "instead": lambda *_: [],
        }
        buffer = SendBuffer(
            cast("asyncio.Transport", transport), cast("Streams", streams), sight=lambda: cast("Any", None), **made
        )
        transport.buffer = buffer
        assert transport.high == high
        for frame in FRAMES:
            buffer.send(frame)
        assert buffer.unread == sum(map(len, FRAMES))
        buffer.flush()
        while is_slow and buffer.unsent:
            buffer.resume()
        assert buffer.unsent == 0
        assert b"".join(transport.written) == b"".join(FRAMES)
        assert max(map(len, transport.written)) <= piece
        buffer.close()

    run(story())


@pytest.mark.parametrize(("tells", "heard"), [("nodes", b"node.changed"), ("tasks", b"task.changed")])
def test_what_is_told_is_what_the_session_can_tell_whatever_its_port(tmp_path: Path, tells: Told, heard: bytes) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            transport = Transport(is_tls=False, is_slow=False)
            streams, core = master.port_server.streams, master.core
            made: Any = {"port": "socket.of.another.kind", "address": "here", "room": lambda: ROOM}
            buffer = SendBuffer(
                cast("asyncio.Transport", transport),
                streams,
                tells=tells,
                sight=lambda: EVERYTHING,
                freed=lambda: None,
                instead=lambda *_: [],
                **made,
            )
            assert buffer.tells == tells
            buffer.begin(None, in_slices=False)
            master.engine.event(lambda: core.cordon("a", "drained", Message("not_schedulable")))
            master.engine.event(lambda: submit(core))
            await settled(lambda: transport.written, "it is told")
            assert all(heard in frame for frame in transport.written)
            buffer.close()

    run(story())
