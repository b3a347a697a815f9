"""Requests to the console of which a proxy before it might see another end, or which no parser finishes: each is
answered, and its connection ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.test_slow_senders import bounded, line, rest
from tests.cases import each_case
from tests.web.console import Console

NEXT = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
UPGRADE = b"GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
KEY = b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    with bounded(Path(tmp_path_factory.mktemp("smuggled")) / "lab", {}) as made:
        yield made


def told(console: Console, said: bytes) -> bytes:
    """All that is answered, until the console ends the connection."""
    with line(console) as sock:
        sock.sendall(said)
        return rest(sock)


def test_a_request_that_says_twice_where_it_ends_is_the_last_of_its_connection(console: Console) -> None:
    head = f"POST /session HTTP/1.1\r\nHost: localhost:{console.port}\r\nOrigin: {console.url}\r\n".encode()
    with each_case() as cases:
        for lengths in (
            b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            b"tRANSFER-eNCODING: CHUNKED\r\ncONTENT-lENGTH: 100\r\n",
            b"Content-Length: 0\r\nContent-Length: 5\r\n",
            b"Content-Length: 0, 5\r\n",
            b"Content-Length: +5\r\n",
            b"Content-Length : 5\r\n",
            b"Transfer-Encoding: xchunked\r\n",
            b"Transfer-Encoding: chunked, identity\r\n",
            b"Transfer-Encoding:\x0bchunked\r\n",
        ):
            with cases.case(repr(lengths)):
                said = told(console, head + lengths + b"\r\n0\r\n\r\n" + NEXT)
                assert (said.count(b"HTTP/1.1 "), said.startswith(b"HTTP/1.1 400")) == (1, True), said


def test_a_request_for_a_websocket_that_cannot_be_read_is_answered_and_its_connection_ends(console: Console) -> None:
    with each_case() as cases:
        for more in (
            b"Content-Length: 5\r\n\r\n12345",
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"X: " + b"x" * 9000 + b"\r\n\r\n",
            b"".join(b"X-%d: y\r\n" % number for number in range(200)) + b"\r\n",
        ):
            with cases.case(repr(more[:30])):
                assert told(console, UPGRADE + KEY + more).startswith(b"HTTP/1.1 400")
    assert console.http().get("/healthz").text == "ok\n"
