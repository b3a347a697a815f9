"""What all users of the console share, and one of them could take or spoil: the news, connections to the master, and
memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.attack.test_slow_senders import line
from tests.system.lab import Lab
from tests.waiting import until
from tests.web.console import PASSWORD, Console
from web.callers import Shown
from web.tickets import KEPT, Tickets

MANY = 60


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """The console of a lab with an admin and a viewer."""
    lab = Lab(tmp_path_factory.mktemp("shared") / "lab", nodes=1)
    (lab.folder / "data").mkdir()
    lab.write_conf(visible_folders=["data"])
    lab.start()
    with lab.client() as owner:
        for name in ("root2", "root3"):
            owner.people.add(name, role="admin", password=PASSWORD)
        owner.people.add("eve", role="viewer", password=PASSWORD)
    with Console(lab) as made:
        yield made
    assert lab.close() == []


def sockets_of(console: Console) -> int:
    assert console.process is not None
    folder = Path(f"/proc/{console.process.pid}/fd")
    found = 0
    for entry in list(folder.iterdir()):
        with suppress(FileNotFoundError):
            found += str(entry.readlink()).startswith("socket:")
    return found


def test_who_subscribes_to_no_tasks_ends_nobody_elses_news(console: Console) -> None:
    with console.sign_in("root2").live() as page, console.sign_in("eve").live() as other:
        page.ask("subscribe", stream="tasks", snapshot="none")
        other.ask("subscribe", stream="tasks", ids=[], snapshot="none")
        number = page.ask("task.submit", command=["true"], hold=True)["id"]
        page.ask("task.remove", id=number)
        until("the news", lambda: page.ask("auth.whoami") and any(one["method"] == "task.changed" for one in page.told))
        assert other.ask("auth.whoami")["user"] == "eve"
        assert other.told == []


@pytest.mark.parametrize("odd", ["[" * 70 + "]" * 70, f"[{'1e15,' * 1_000_000}0]"], ids=["deep", "long at the master"])
def test_an_odd_subscription_of_one_ends_nobody_elses_news(console: Console, odd: str) -> None:
    with console.sign_in("root2").live() as page, console.sign_in("eve").live() as other:
        page.ask("subscribe", stream="tasks", snapshot="none")
        other.socket.send(f'{{"id":7,"method":"subscribe","params":{{"stream":"tasks","odd":{odd}}}}}')
        assert json.loads(other.socket.receive())["error"]["data"]["key"] == "bad_subscription"
        number = page.ask("task.submit", command=["true"], hold=True)["id"]
        assert page.hear("task.changed")["task"]["id"] == number
        page.ask("task.remove", id=number)


def test_who_subscribes_again_and_again_has_no_more_connections_to_the_master(console: Console) -> None:
    with console.sign_in("eve").live() as page:
        page.ask("subscribe", stream="tasks", ids=[1], snapshot="none")
        before = sockets_of(console)
        most = 0
        for number in range(MANY):
            page.ask("subscribe", stream=("tasks", "nodes")[number % 2], ids=[number], snapshot="none")
            most = max(most, sockets_of(console) - before)
        assert most < MANY // 4


def test_the_connection_of_who_follows_some_tasks_is_counted_as_that_users(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", nodes=0)
    lab.write_conf(limits={"connections_per_user": 4})
    lab.start()
    with lab.client() as owner:
        owner.people.add("eve", role="viewer", password=PASSWORD)
    with Console(lab) as console, ExitStack() as many:
        browser, refusals = console.sign_in("eve"), list[Any]()
        for number in range(6):
            page = many.enter_context(browser.live())
            refusals.append(page.answer("subscribe", stream="tasks", ids=[number], snapshot="none").get("error"))
        assert [one is None for one in refusals] == [True] * 3 + [False] * 3
        assert refusals[-1]["data"]["key"] == "no_more_of_this_user"
    assert lab.close() == []


@pytest.mark.parametrize(
    "odd", [b"\xff\xfe", '{"method":"auth.whoami","params":{"x":' + "[" * 10_000], ids=["bytes", "deep"]
)
def test_a_page_is_heard_after_a_message_that_is_none(console: Console, odd: str | bytes) -> None:
    with console.sign_in("eve").live() as page:
        page.socket.send(odd)
        assert json.loads(page.socket.receive())["error"]["data"]["key"] == "bad_frame"
        assert page.ask("auth.whoami")["user"] == "eve"


@pytest.mark.parametrize("odd", ["[" * 63 + "]" * 63, f"[{'1,' * 500_000}0]"], ids=["deep", "many values"])
def test_what_the_master_would_not_read_is_refused_at_once_and_ends_no_other_call(console: Console, odd: str) -> None:
    with console.sign_in("eve").live() as page:
        assert page.ask("auth.whoami")["user"] == "eve"  # before that, no long message is read
        page.socket.send(f'{{"id":7,"method":"auth.whoami","params":{{"x":{odd}}}}}')
        told = json.loads(page.socket.receive())
        assert (told["id"], told["error"]["data"]["key"]) == (7, "no_request")
        assert page.ask("auth.whoami")["user"] == "eve"


def test_a_body_that_is_nested_too_deep_is_a_bad_request(console: Console) -> None:
    browser = console.sign_in("eve")
    headers = {"Content-Type": "application/json"}
    deep = '{"x":' + "[" * 10_000
    for path in ("/api/v1/rpc/task.list", "/session"):
        assert browser.http.post(path, content=deep, headers=headers).status_code == httpx.codes.BAD_REQUEST, path


@pytest.mark.parametrize("path", ["/api/v1/rpc/task.submit", "/api/v1/tasks", "/tickets"])
@pytest.mark.parametrize("bearer", [None, "mst_12345678_" + "x" * 43])
def test_the_body_of_who_is_nobody_is_not_read(console: Console, path: str, bearer: str | None) -> None:
    shown = [] if bearer is None else [f"Authorization: Bearer {bearer}"]
    words = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        *shown,
        "Content-Type: application/json",
        "Content-Length: 9000",
    ]
    with line(console) as sock:
        sock.sendall("\r\n".join([*words, "", '{"x":']).encode())  # and nothing more
        assert sock.recv(65536).startswith(b"HTTP/1.1 401")


def test_who_asks_for_many_tickets_takes_nobody_elses() -> None:
    tickets = Tickets()
    name = tickets.make(Shown("a token", "10.0.0.1"), "files/data/x", "ann")
    for number in range(2 * KEPT):
        last = tickets.make(Shown(f"token {number}", "10.0.0.1"), "files/data/x", "eve")
    assert tickets.take(name, "10.0.0.1").path == tickets.take(last, "10.0.0.1").path == "data/x"


def test_who_downloads_many_archives_leaves_places_for_others(console: Console) -> None:
    large = console.lab.folder / "data" / "large"
    large.mkdir()
    (large / "x").write_bytes(bytes(24 << 20))
    greedy, other = console.sign_in("root2"), console.sign_in("root3")
    with ExitStack() as many:
        codes = []
        for _ in range(10):
            answer = many.enter_context(greedy.http.stream("GET", "/api/v1/files/data/large?zip=1"))
            codes.append(answer.status_code)
        assert 200 in codes
        assert 429 in codes
        assert many.enter_context(other.http.stream("GET", "/api/v1/files/data/large?zip=1")).status_code == 200
