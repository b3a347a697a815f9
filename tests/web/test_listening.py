"""The port, among many who come at once and say nothing."""

from __future__ import annotations

import socket
import ssl
from contextlib import ExitStack

import httpx

from tests.web.console import Console
from web.listening import MOST_SILENT_OF_ONE


def test_who_speaks_is_heard_among_more_than_may_be_silent(console: Console) -> None:
    with ExitStack() as many:
        crowd = [
            many.enter_context(socket.create_connection(("127.0.0.1", console.port)))
            for _ in range(MOST_SILENT_OF_ONE + 50)
        ]
        assert console.http().get("/healthz").status_code == httpx.codes.OK
        crowd[0].settimeout(20)
        assert crowd[0].recv(1) == b""  # the oldest had to make room


def test_a_crowd_that_comes_at_once_and_speaks_is_heard_whole(console: Console) -> None:
    with ExitStack() as many:
        crowd = [
            many.enter_context(socket.create_connection(("localhost", console.port)))
            for _ in range(MOST_SILENT_OF_ONE + 50)
        ]
        for sock in crowd[-100:]:
            sock.settimeout(60)
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        for sock in crowd[-100:]:
            assert sock.recv(12) == b"HTTP/1.1 200"


def test_what_is_no_tls_behind_its_first_byte_is_closed(console: Console) -> None:
    with socket.create_connection(("localhost", console.port)) as sock:
        sock.settimeout(30)
        sock.sendall(b"\x16" + b"nonsense" * 100)
        while sock.recv(4096):
            pass
    with socket.create_connection(("localhost", console.port)) as sock:
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        with old.wrap_socket(sock) as encrypted:
            assert encrypted.version() in {"TLSv1.2", "TLSv1.3"}
