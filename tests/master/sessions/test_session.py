"""The ports deal with every session alike: one of a kind that they do not know takes the place of JSON-RPC here."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from master.ports import connection
from master.sessions.session import Connection, Session
from tests.master.in_process import InProcess, eof, run
from tests.waiting import settled


class Echo(Session):
    """A session that says again what it hears, and tells how often it was asked to look again."""

    transport: asyncio.Transport

    def __init__(self, over: Connection) -> None:
        self.over = over
        self.looked = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.over.hold(len(data)):
            self.transport.write(data)

    def connection_lost(self, _error: Exception | None) -> None:
        self.over.left()

    def keeps(self) -> int:
        return 0

    def unread(self) -> int:
        return 0

    def look_again(self) -> None:
        self.looked += 1

    def finish(self) -> None:
        self.transport.write(b"the end\n")
        self.transport.close()


def echo(over: Connection, *_: object, **__: object) -> Echo:
    return Echo(over)


def test_a_session_of_another_kind_is_begun_asked_again_and_finished_as_all_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            usual = await master.peer()
            await usual.call("server.info")
            with monkeypatch.context() as patched:
                patched.setattr(connection, "JsonRpcSession", echo)
                other = await master.peer()
                other.send(b'{"one":1}\n')
                assert await other.reader.readline() == b'{"one":1}\n'
            other.send(b"two\n")
            assert await other.reader.readline() == b"two\n"
            session = next(one for one in master.sessions() if isinstance(one, Echo))
            await usual.call("user.add", name="ann")
            await settled(lambda: session.looked > 0)
            left = await master.peer()
            left.send(b"{}")
            await settled(lambda: len(master.port_server.connections) == 3)
            master.port_server.close()
            assert await eof(other) == b"the end\n"
            assert await eof(left) == await eof(usual) == b""

    run(story())
