"""The port, among many who come at once and say nothing."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
from contextlib import ExitStack

import httpx
import pytest

from tests.rights import need_users
from tests.system.lab import Lab
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


SILENT = """
import encodings.idna, os, socket, sys
os.setgroups([])
os.setgid(4301)
os.setuid(4301)
kept = []
for number in range(int(sys.argv[2])):
    own = (f"127.0.0.{number % 2 + 1}", 0)
    kept.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), source_address=own))
    kept[-1].sendall(sys.argv[3].encode())
print("there", flush=True)
sys.stdin.read()
"""
"""An account that says nothing, or no whole head, over many connections, from whichever address of loopback's."""


@pytest.mark.parametrize("says", [b"", b"GET /healthz HTTP/1.1\r\n"])
def test_one_account_of_the_consoles_machine_takes_no_place_of_anothers(lab_of_one: Lab, says: bytes) -> None:
    need_users()
    bounds = {
        "listening.FIRST_BYTE_S": 200.0, "listening.MOST_SILENT_OF_ONE": 32, "listening.MOST_SILENT": 48,
        "timely.HEAD_S": 200.0, "timely.MOST_SPEAKING_OF_ONE": 32, "timely.MOST_SPEAKING": 48,
    }  # fmt: skip
    lab_of_one.start()
    with Console(lab_of_one, bounds=bounds) as console, socket.create_connection(("127.0.0.1", console.port)) as other:
        other.sendall(says)
        words = [sys.executable, "-c", SILENT, str(console.port), "100", says.decode()]
        crowd = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert crowd.stdout is not None
            assert crowd.stdout.readline() == "there\n"
            assert console.http().get("/healthz").status_code == httpx.codes.OK
            other.settimeout(60)
            rest = b"Host: localhost\r\nConnection: close\r\n\r\n"
            other.sendall(rest if says else b"GET /healthz HTTP/1.1\r\n" + rest)
            assert other.recv(12) == b"HTTP/1.1 200"
        finally:
            crowd.communicate()


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
