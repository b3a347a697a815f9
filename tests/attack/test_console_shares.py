"""One user who opens streams, sends bodies slowly, or reads no answers: they use up a share of the console, and no
other's."""

from __future__ import annotations

import json
import select
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import psutil
import pytest

from tests.attack.test_slow_senders import bounded, line
from tests.waiting import until
from tests.web.console import PASSWORD, Browser, Console
from web import shares
from wire.errors import LimitError

OPEN, BYTES = 6, 16 << 20
BOUNDS = {
    "shares.MOST_OPEN": OPEN,
    "shares.MOST_BYTES": BYTES,
    "bodies.PATIENCE_S": 300.0,
    "timely.UNREAD_S": 300.0,
    "events.ALIVE_S": 0.5,
}
TASKS = 2500
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """One with small shares, and two users."""
    with bounded(tmp_path_factory.mktemp("shares") / "lab", BOUNDS) as made:
        with made.lab.client() as owner:
            for name in ("eve", "ann"):
                owner.people.add(name, password=PASSWORD)
        yield made


@pytest.fixture(scope="module")
def filled(console: Console) -> Console:
    """The same, with so many tasks that all of them together are a little longer than a share."""
    with console.lab.client() as owner:
        owner.submit_batch(["true " + "x" * 6400] * TASKS, hold=True)
    return console


def said_by(browser: Browser, request: str, *more: str) -> bytes:
    """The head of a request."""
    own = f"Cookie: {browser.console.cookie}={browser.half}", f"X-Muster-Key: {browser.key}"
    origin = f"Origin: {browser.console.url}"
    words = [f"{request} HTTP/1.1", f"Host: localhost:{browser.console.port}", *own, origin, *more]
    return "\r\n".join([*words, "", ""]).encode()


def memory_of(console: Console) -> int:
    """Bytes in RAM."""
    assert console.process is not None
    return psutil.Process(console.process.pid).memory_info().rss


def status_of(sock: ssl.SSLSocket) -> bytes:
    """Wait for an answer; its status. All else of it is not read."""
    return sock.recv(12).split(b" ")[1]


def is_refused_for(browser: Browser, key: str, method: str = "GET", path: str = "/api/v1/tasks", **more: Any) -> bool:
    answer = browser.http.request(method, path, **more)
    return answer.status_code == httpx.codes.TOO_MANY_REQUESTS and answer.json()["key"] == key


def test_who_opens_streams_without_end_is_refused_more_and_nobody_else_is(console: Console) -> None:
    eve, ann = console.sign_in("eve"), console.sign_in("ann")
    with ExitStack() as many:
        streams = []
        for _ in range(OPEN):
            streams.append(many.enter_context(line(console)))
            streams[-1].sendall(said_by(eve, "GET /api/v1/events"))
            assert status_of(streams[-1]) == b"200"
        assert is_refused_for(eve, "console_share_open")
        with eve.live() as page:
            assert page.ends() == 1013
        assert ann.http.get("/api/v1/tasks?limit=1").status_code == httpx.codes.OK
        with ann.live() as page:
            assert page.ask("auth.whoami")["user"] == "ann"
        streams[0].close()
        until("a stream that ended leaves its place", lambda: eve.http.get("/api/v1/tasks?limit=1").is_success)


def test_who_sends_large_bodies_slowly_is_refused_more_and_nobody_else_is(console: Console) -> None:
    eve, ann = console.sign_in("eve"), console.sign_in("ann")
    half = BYTES * 2 // 3
    whole: dict[str, Any] = {"content": b" " * (BYTES * 2 // 3) + b"{}", "headers": JSON}
    with line(console) as slow:
        words = "Content-Type: application/json", f"Content-Length: {half + 2}"
        slow.sendall(said_by(eve, "POST /api/v1/rpc/auth.whoami", *words) + b" " * half)

        def is_refused() -> bool:
            return is_refused_for(eve, "console_share_bytes", "POST", "/api/v1/rpc/auth.whoami", **whole)

        # Of two that are read at the same time either may be the one that is too much.
        until("what was sent is counted", lambda: is_refused() or bool(select.select([slow], [], [], 0)[0]))
        assert ann.http.post("/api/v1/rpc/auth.whoami", **whole).json()["user"] == "ann"
    until("it is kept no more", lambda: not is_refused())


def test_who_reads_no_answers_is_refused_more_and_nobody_else_is(filled: Console) -> None:
    eve, ann = filled.sign_in("eve"), filled.sign_in("ann")
    with ExitStack() as many:
        for _ in range(OPEN - 1):
            unread = many.enter_context(line(filled))
            unread.sendall(said_by(eve, "GET /api/v1/tasks"))
        until("unread answers are counted", lambda: is_refused_for(eve, "console_share_bytes"))
        assert ann.http.get("/api/v1/tasks").is_success
    until("they are kept no more", lambda: eve.http.get("/api/v1/tasks").is_success)


def test_an_answer_longer_than_a_share_arrives_with_who_reads_it(filled: Console) -> None:
    ann = filled.sign_in("ann")
    answer = ann.http.get("/api/v1/tasks")
    assert answer.is_success
    assert len(answer.content) > BYTES
    with ann.live() as page:
        assert len(page.ask("task.list")["tasks"]) >= TASKS


def test_an_answer_that_was_read_is_kept_for_no_page(filled: Console) -> None:
    ann = filled.sign_in("ann")
    with ann.live() as page:
        page.ask("task.list")
    before = memory_of(filled)
    with ExitStack() as many:
        pages = [many.enter_context(ann.live()) for _ in range(OPEN - 1)]
        size = sum(len(json.dumps(page.ask("task.list"))) for page in pages)
        until("less than a quarter of it is kept", lambda: memory_of(filled) - before < size // 4)


def read_snapshot(pieces: Iterator[bytes]) -> int:
    """Read a stream up to the end of its snapshot; its bytes."""
    size, end = 0, b""
    while not (size > TASKS * 6400 and end == b"\n\n"):
        piece = next(pieces)
        size, end = size + len(piece), (end + piece)[-2:]
    return size


def test_a_snapshot_that_was_read_is_kept_for_no_stream(filled: Console) -> None:
    ann = filled.sign_in("ann")
    with ann.http.stream("GET", "/api/v1/events") as stream:
        read_snapshot(stream.iter_bytes())
    before = memory_of(filled)
    with ExitStack() as many:
        following, size = [], 0
        for _ in range(OPEN - 1):
            stream = many.enter_context(ann.http.stream("GET", "/api/v1/events"))
            following.append(stream.iter_bytes())  # without one it ends
            size = read_snapshot(following[-1])
        until("what was read is kept no more", lambda: memory_of(filled) - before < 3 * size)


def test_what_is_kept_is_counted_for_the_user_once_known_and_not_when_it_is_over() -> None:
    all_shares = shares.Shares()
    first, second = shares.Ticket(all_shares), shares.Ticket(all_shares)
    for one in (first, second):
        one.enter("10.0.0.1")
        one.settle("eve")
    first.hold(shares.MOST_BYTES)
    with pytest.raises(LimitError):
        second.hold(1)
    first.hold(-1)
    second.hold(2)
    other = shares.Ticket(all_shares)
    other.enter("10.0.0.1")
    other.hold(shares.MOST_BYTES)
    with pytest.raises(LimitError):
        other.hold(1)
    for one in (first, second, other):
        one.close()
        one.hold(1)
    assert not +all_shares.open
    assert not +all_shares.bytes
