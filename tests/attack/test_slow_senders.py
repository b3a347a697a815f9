"""Who says his request as slowly as he can, or reads as slowly, and so would keep for himself what a console can open:
he is dropped, and a browser is served as if he were not there."""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
import uvicorn

from tests.cases import each_case
from tests.rights import need_users
from tests.system.lab import Lab
from tests.waiting import PATIENCE_S, until
from tests.web.browser import chromium, visit
from tests.web.console import PASSWORD, Console
from web.process import configured

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Odd: "
HEAD_S, MOST, MOST_OF_ONE = 2.0, 60, 40
ANOTHER = 4302
"""The uid of another account of this machine."""
BOUNDS = {
    "timely.HEAD_S": HEAD_S,
    "timely.MOST_SPEAKING": MOST,
    "timely.MOST_SPEAKING_OF_ONE": MOST_OF_ONE,
    "timely.MOST_RESTING": MOST,
    "timely.MOST_RESTING_OF_ONE": MOST_OF_ONE,
    "timely.UNREAD_S": 1.0,
    "bodies.PATIENCE_S": 1.0,
    "live.FIRST_S": 1.0,
}


@contextmanager
def bounded(folder: Path, bounds: Mapping[str, float]) -> Iterator[Console]:
    """A console of a lab in this folder, with other bounds than where nobody waits for a test."""
    lab = Lab(folder, nodes=1)
    (lab.folder / "data").mkdir()
    lab.write_conf(visible_folders=["data"])
    lab.start()
    with lab.client() as owner:
        owner.people.add("root2", role="admin", password=PASSWORD)
    with Console(lab, bounds=bounds) as made:
        yield made
    assert lab.close() == []


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """One that has little patience, and little room."""
    with bounded(tmp_path_factory.mktemp("slow") / "lab", BOUNDS) as made:
        yield made


@contextmanager
def line(console: Console, whence: str = "127.0.0.1", account: int = 0) -> Iterator[ssl.SSLSocket]:
    """A TLS connection on which nothing was said, from this address; the socket is made by this account."""
    with (
        dialled(console.port, whence, account) as sock,
        console.trust().wrap_socket(sock, server_hostname="localhost") as encrypted,
    ):
        encrypted.settimeout(PATIENCE_S)
        yield encrypted


def dialled(port: int, whence: str, account: int) -> socket.socket:
    myself = os.geteuid()
    if account:
        os.seteuid(account)
    try:
        return socket.create_connection(("127.0.0.1", port), source_address=(whence, 0))
    finally:
        os.seteuid(myself)


def rest(sock: socket.socket) -> bytes:
    """All that is still said, until the other side ends it."""
    said = bytearray()
    with suppress(ConnectionResetError, BrokenPipeError, ssl.SSLEOFError):
        while data := sock.recv(65536):
            said += data
    return bytes(said)


class Dripping:
    """Says a byte now and then, in a thread of its own, until the other side has had enough. `said`: what he heard."""

    def __init__(self, sock: ssl.SSLSocket, begin: bytes) -> None:
        self._sock = sock
        self._is_over = threading.Event()
        self.said = b""
        sock.sendall(begin)
        self._drips = threading.Thread(target=self._drip)
        self._drips.start()

    def _drip(self) -> None:
        self._sock.settimeout(0.1)
        while not self._is_over.is_set():
            try:
                self._sock.sendall(b"x")
                data = self._sock.recv(65536)
            except TimeoutError:
                continue
            except OSError:
                return
            self._sock.settimeout(PATIENCE_S)
            self.said = data + (rest(self._sock) if data else b"")
            return

    def is_dropped(self) -> bool:
        """Was the connection ended?"""
        return not self._drips.is_alive()

    def end(self) -> None:
        """Say nothing more."""
        self._is_over.set()
        self._drips.join()


def test_a_slow_sender_is_dropped_while_a_browser_comes_in_and_is_told_what_happens(console: Console) -> None:
    with ExitStack() as many, chromium() as browser:
        slow = [Dripping(many.enter_context(line(console)), HEAD) for _ in range(20)]
        for one in slow:
            many.callback(one.end)
        with visit(browser, console) as someone:
            someone.sign_in()
            someone.go("queue")
            until("all slow ones are dropped", lambda: all(one.is_dropped() for one in slow))
            with console.lab.client() as owner:
                number = owner.submit("true", hold=True, name="seen")
                someone.page.wait_for_selector("text=seen")
                owner.remove(number)
        assert {one.said.split(b"\r\n")[0] for one in slow} == {b"HTTP/1.1 408 Request Timeout"}
        assert b"slow_head" in slow[0].said


def test_who_fills_the_room_of_one_account_takes_it_from_no_other_whatever_the_addresses(tmp_path: Path) -> None:
    need_users()
    with bounded(tmp_path / "lab", {**BOUNDS, "timely.HEAD_S": PATIENCE_S}) as console, ExitStack() as many:
        other = many.enter_context(line(console, "127.0.0.2", ANOTHER))
        other.sendall(HEAD)
        crowd = []
        for number in range(MOST_OF_ONE + 10):
            crowd.append(many.enter_context(line(console, f"127.0.0.{2 + number % 2}")))
            crowd[-1].sendall(HEAD)
        assert b" 408 " in rest(crowd[0]), "the oldest of that account made room"
        other.sendall(b"x\r\nConnection: close\r\n\r\n")
        assert rest(other).startswith(b"HTTP/1.1 200")


def test_who_says_nothing_after_the_handshake_is_dropped_without_a_word(console: Console) -> None:
    with line(console) as silent:
        assert rest(silent) == b""


def test_a_second_request_on_a_connection_has_no_more_time_than_the_first(console: Console) -> None:
    with line(console) as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
        sock.sendall(HEAD)
        assert b" 408 " in rest(sock)


def test_who_rests_on_many_connections_behind_answers_takes_them_from_no_other(console: Console) -> None:
    need_users()
    with ExitStack() as many:
        other = many.enter_context(line(console, "127.0.0.2", ANOTHER))
        assert answered(other)
        crowd = []
        for _ in range(MOST_OF_ONE + 10):
            crowd.append(many.enter_context(line(console)))
            assert answered(crowd[-1])
        assert rest(crowd[0]) == b"", "the oldest of that account made room"
        assert answered(crowd[-1])
        assert answered(other)


def answered(sock: ssl.SSLSocket) -> bool:
    """Ask for something small, and read all of the answer; the connection stays open."""
    sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    said = b""
    while b"\r\n\r\n" not in said or len(said.partition(b"\r\n\r\n")[2]) < _length(said):
        piece = sock.recv(65536)
        if not piece:
            return False
        said += piece
    return said.startswith(b"HTTP/1.1 200")


def _length(said: bytes) -> int:
    head = said.partition(b"\r\n\r\n")[0].lower()
    return int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])


def test_who_gives_a_body_byte_by_byte_is_refused_before_anybody_knows_him(console: Console) -> None:
    with line(console) as sock:
        sock.sendall(
            f"POST /session HTTP/1.1\r\nHost: localhost:{console.port}\r\nOrigin: {console.url}\r\n"
            "Content-Type: application/json\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n".encode()
        )
        slow = Dripping(sock, b"{")
        until("it is answered", slow.is_dropped)
        slow.end()
        assert slow.said.startswith(b"HTTP/1.1 400")


def test_who_does_not_read_what_he_asked_for_is_dropped(console: Console) -> None:
    (console.lab.folder / "data" / "large").write_bytes(bytes(24 << 20))
    browser = console.sign_in("root2")
    with line(console) as sock:
        sock.sendall(
            "GET /api/v1/files/data/large HTTP/1.1\r\nHost: localhost\r\n"
            f"Cookie: {console.cookie}={browser.half}\r\nX-Muster-Key: {browser.key}\r\n\r\n".encode()
        )
        assert sock.recv(20).startswith(b"HTTP/1.1 200")
        until("the console has no such connection", lambda: not _is_open(sock, console))
    (console.lab.folder / "data" / "large").unlink()


def _is_open(sock: socket.socket, console: Console) -> bool:
    """Has the console the other end still?"""
    assert console.process is not None
    ours = sock.getsockname()[1]
    told = Path(f"/proc/{console.process.pid}/net/tcp").read_text(encoding="ascii")
    return any(
        fields[1].endswith(f":{console.port:04X}") and fields[2].endswith(f":{ours:04X}") and fields[3] == "01"
        for fields in map(str.split, told.splitlines()[1:])
    )


def test_a_head_of_megabytes_is_refused_whatever_parsers_are_installed(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where httptools is, uvicorn takes it, which reads heads of any size."""
    monkeypatch.setitem(sys.modules, "httptools", object())
    config: uvicorn.Config = configured(lambda *_: None)  # type: ignore[arg-type]
    config.load()
    assert config.http_protocol_class.__name__ == "Timely"
    with line(console) as sock:
        with suppress(OSError):
            sock.sendall(HEAD + b"x" * (2 << 20) + b"\r\n\r\n")
        assert b" 200 " not in rest(sock)
    assert console.http().get("/healthz").status_code == httpx.codes.OK


def test_a_websocket_of_a_stranger_holds_little_whatever_is_said_first(console: Console) -> None:
    """A page's messages may be as long as this one says that it is."""
    begin = b"\x81\xff" + (15 << 20).to_bytes(8, "big") + bytes(4)
    with each_case() as cases:
        for first in (b"", b"\x81\x82\0\0\0\0{}"):
            with cases.case(f"after {first!r}"), line(console) as sock:
                _shake_hands(sock, console)
                with pytest.raises((ConnectionError, ssl.SSLError)):
                    _say(sock, first + begin, 14 << 20)


def test_a_page_may_say_much_in_the_moment_before_its_user_is_known(console: Console) -> None:
    page = console.sign_in("root2")
    asked = {"jsonrpc": "2.0", "id": 1, "method": "auth.whoami", "params": {}}
    said = (
        _frame(json.dumps({"key": page.key})) + _frame(json.dumps(asked) + " " * (4 << 20)) + _frame(json.dumps(asked))
    )
    with line(console) as sock:
        _shake_hands(sock, console, f"Cookie: {console.cookie}={page.half}")
        sock.sendall(said)
        answers = b""
        while answers.count(b'"root2"') < 2:
            said = sock.recv(65536)
            assert said, answers
            answers += said


def _frame(text: str) -> bytes:
    """A message as a browser sends it."""
    return b"\x81\xff" + len(text).to_bytes(8, "big") + bytes(4) + text.encode()


def _shake_hands(sock: ssl.SSLSocket, console: Console, *more: str) -> None:
    """Open a WebSocket."""
    words = (
        "GET /live HTTP/1.1",
        f"Host: localhost:{console.port}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        f"Origin: {console.url}",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        *more,
    )
    sock.sendall("\r\n".join([*words, "", ""]).encode())
    assert sock.recv(65536).startswith(b"HTTP/1.1 101")


def _say(sock: ssl.SSLSocket, begin: bytes, size: int) -> None:
    """The begin, and so many bytes more."""
    sock.sendall(begin)
    for _ in range(size >> 16):
        sock.sendall(bytes(1 << 16))
