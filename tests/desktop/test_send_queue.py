"""One frame at a time: the next one leaves only when the one before was acknowledged, and a while later."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from master.desktop.send_queue import GAP_S, SendQueue
from tests.desktop.arrivals import TERMINATOR, Arrivals
from tests.desktop.client import RECEIVE
from tests.master.in_process import run
from tests.waiting import settled

END = TERMINATOR.encode()


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[SendQueue, socket.socket]]:
    """An send_queue, and the other end, whose kernel keeps little of what is not read."""
    loop = asyncio.get_running_loop()
    made: asyncio.Future[asyncio.Transport] = loop.create_future()

    class Server(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            """Hand it to the test."""
            assert isinstance(transport, asyncio.Transport)
            made.set_result(transport)

    server = await loop.create_server(Server, "127.0.0.1", 0)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await asyncio.to_thread(sock.connect, server.sockets[0].getsockname())
    transport = await made
    send_queue = SendQueue(transport, limit=lambda: 1 << 20)
    try:
        yield send_queue, sock
    finally:
        send_queue.close()
        sock.close()
        transport.abort()
        server.close()


def receives(sock: socket.socket, frames: int) -> list[bytes]:
    """What came, a frame each, none too soon behind another."""
    arrivals = Arrivals(sock)
    found: list[bytes] = []
    while len(found) < frames:
        found += [arrival.data + END for arrival in arrivals.receive(RECEIVE)[1]]
    assert arrivals.too_close == []
    return found


def test_a_frame_waits_until_the_one_before_was_acknowledged_to_its_last_byte() -> None:
    async def story() -> None:
        async with connected() as (send_queue, sock):
            large = b"x" * 300_000 + END
            for number in range(3):
                send_queue.reply(large)
                send_queue.push("tables", lambda number=number: b"%d" % number + END)  # type: ignore[misc]
            for _ in range(5):
                await asyncio.sleep(GAP_S)
                assert len(send_queue._replies) == 2, "the first is not even read"
            seen = await asyncio.to_thread(receives, sock, 4)
            assert seen == [large, large, large, b"2" + END]

    run(story())


def test_many_small_replies_at_once_arrive_one_by_one_in_order() -> None:
    async def story() -> None:
        async with connected() as (send_queue, sock):
            for number in range(10):
                send_queue.reply(b"%d" % number + END)
            seen = await asyncio.to_thread(receives, sock, 10)
            assert seen == [b"%d" % number + END for number in range(10)]

    run(story())


def test_who_asks_faster_than_he_reads_is_not_answered_before_he_reads() -> None:
    async def story() -> None:
        async with connected() as (send_queue, sock):
            for _ in range(16):
                send_queue.reply(b"x" * 1000 + END)
            assert send_queue.free.is_set()
            send_queue.reply(b"x" * 1000 + END)
            send_queue.reply(b"x" * 1000 + END)
            assert not send_queue.free.is_set()
            reading = asyncio.create_task(asyncio.to_thread(receives, sock, 18))
            await settled(send_queue.free.is_set)
            await reading

    run(story())
