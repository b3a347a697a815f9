"""A SOCKS5 proxy (RFC 1928): CONNECT to IPv4 addresses and names, without a password.

`python -m tests.testbed.socks ADDRESS PORT DELAY_S`: everything arrives so many seconds later, each way.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from contextlib import suppress

_VERSION, _CONNECT, _IPV4, _NAME = 5, 1, 1, 3
_GRANTED, _REFUSED, _UNKNOWN = 0, 5, 7
_CHUNK = 64 << 10


async def serve(address: str, port: int, delay_s: float) -> None:
    """Until cancelled."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await _converse(reader, writer, delay_s)
        writer.close()

    server = await asyncio.start_server(take, address, port)
    async with server:
        await server.serve_forever()


async def _converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    _, count = await reader.readexactly(2)
    await reader.readexactly(count)
    writer.write(bytes([_VERSION, 0]))
    target = await _target(reader)
    if target is None:
        writer.write(_answer(_UNKNOWN))
        return
    try:
        there, back = await asyncio.open_connection(*target)
    except OSError:
        writer.write(_answer(_REFUSED))
        return
    for one in (writer, back):
        one.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    writer.write(_answer(_GRANTED))
    try:
        await asyncio.gather(_pour(reader, back, delay_s), _pour(there, writer, delay_s))
    finally:
        back.close()


async def _target(reader: asyncio.StreamReader) -> tuple[str, int] | None:
    """Where the client wants to go; None for what this proxy does not do."""
    _, command, _, kind = await reader.readexactly(4)
    if kind == _IPV4:
        host = socket.inet_ntoa(await reader.readexactly(4))
    elif kind == _NAME:
        host = (await reader.readexactly((await reader.readexactly(1))[0])).decode("ascii")
    else:
        return None
    (port,) = struct.unpack(">H", await reader.readexactly(2))
    return (host, port) if command == _CONNECT else None


def _answer(code: int) -> bytes:
    return bytes([_VERSION, code, 0, _IPV4, 0, 0, 0, 0, 0, 0])


async def _pour(source: asyncio.StreamReader, sink: asyncio.StreamWriter, delay_s: float) -> None:
    """Bytes from here to there, each `delay_s` after it came, until there are no more."""
    late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    async def pass_on() -> None:
        while True:
            due, piece = await late.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not piece:
                break
            sink.write(piece)
            await sink.drain()
        with suppress(OSError):
            sink.write_eof()

    passing = asyncio.create_task(pass_on())
    while True:
        piece = await source.read(_CHUNK)
        late.put_nowait((loop.time() + delay_s, piece))
        if not piece:
            break
    await passing


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
