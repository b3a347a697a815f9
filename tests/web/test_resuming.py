"""Who was cut off comes again with the number of the last that he heard, and is told the rest: nothing twice, nothing
less. The connection is really cut, in the middle of what is told."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from websockets.exceptions import ConnectionClosed

from client.api import Client
from tests.system.lab import Lab
from tests.web.console import Browser, Console, Live
from tests.web.test_rest import read_events
from tests.web.websocket import RESET
from wire.routes import BASE


def number_of(seq: str) -> int:
    return int(seq.rpartition("-")[2])


class Changing:
    """Somebody who changes a task again and again, each time to the next number."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.number = client.submit("true", hold=True)
        self.last = 0

    def change(self, times: int) -> None:
        for _ in range(times):
            self.last += 1
            self._client.edit(self.number, priority=self.last)


@contextmanager
def changing(lab: Lab) -> Iterator[Changing]:
    with lab.client() as owner:
        made = Changing(owner)
        yield made
        owner.remove(made.number)


def hear_until(page: Live, last: int) -> list[tuple[int, int]]:
    """Number and priority of each that is told, up to this priority."""
    heard: list[tuple[int, int]] = []
    while not heard or heard[-1][1] != last:
        told = page.hear("task.changed")
        heard.append((number_of(told["seq"]), told["task"]["priority"]))
    return heard


def test_a_page_that_was_cut_off_hears_what_it_missed_and_nothing_twice(lab: Lab, console: Console) -> None:
    browser = console.sign_in("root2")
    with changing(lab) as task:
        since, heard = begin(browser, task)
        for _ in range(3):
            task.change(5)  # while nobody hears it
            with browser.live() as page:
                assert page.ask("subscribe", stream="tasks", since=since) == {"seq": since, "resumed": True}
                task.change(5)
                heard += hear_until(page, task.last)
                since = f"{since.rpartition('-')[0]}-{heard[-1][0]}"
                task.change(2)  # on their way, or not, when it is cut
                page.socket.cut()
        with browser.live() as page:
            page.ask("subscribe", stream="tasks", since=since)
            heard += hear_until(page, task.last)
        assert [priority for _, priority in heard] == list(range(1, task.last + 1))
        assert [number for number, _ in heard] == list(range(heard[0][0], heard[0][0] + task.last))


def begin(browser: Browser, task: Changing) -> tuple[str, list[tuple[int, int]]]:
    """Subscribe, hear some, and be cut off: the number of the last, and what was heard."""
    with browser.live() as page:
        snapshot = page.ask("subscribe", stream="tasks")
        assert task.number in {one["id"] for one in snapshot["tasks"]}
        task.change(4)
        heard = hear_until(page, task.last)
        assert heard[0][0] == number_of(snapshot["seq"]) + 1
        page.socket.cut()
    return f"{snapshot['seq'].rpartition('-')[0]}-{heard[-1][0]}", heard


def test_a_script_that_was_cut_off_hears_what_it_missed_and_nothing_twice(lab: Lab, console: Console) -> None:
    with lab.client() as owner:
        token = owner.people.new_token(name="root2")["token"]
    script = console.http(base_url=f"{console.url}{BASE}/", headers={"Authorization": f"Bearer {token}"})
    with changing(lab) as task:
        since = ""
        heard: list[tuple[int, int]] = []
        for query, header in (((), ()), (("since",), ()), ((), ("Last-Event-ID",))):
            params, headers = dict.fromkeys(query, since), dict.fromkeys(header, since)
            with script.stream("GET", "events", params=params, headers=headers) as following:
                events = read_events(following)
                if not since:
                    assert next(events)[0] == "snapshot"
                task.change(6)
                for kind, seq, data in events:
                    assert (kind, data["seq"]) == ("task.changed", seq)
                    heard.append((number_of(seq), data["task"]["priority"]))
                    since = seq
                    if heard[-1][1] == task.last - 2:  # and the rest is on its way
                        break
                cut_script(following)
        assert [priority for _, priority in heard] == list(range(1, task.last - 1))
        assert [number for number, _ in heard] == list(range(heard[0][0], heard[0][0] + len(heard)))


def cut_script(following: httpx.Response) -> None:
    stream: Any = following.extensions["network_stream"]
    sock: socket.socket = stream.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    sock.shutdown(socket.SHUT_RDWR)


def test_who_was_away_for_too_long_or_comes_from_another_console_begins_anew(console: Console) -> None:
    browser = console.sign_in("root2")
    with browser.live() as page:
        seq = page.ask("subscribe", stream="tasks")["seq"]
        epoch = seq.rpartition("-")[0]
        for unknown in ("0123456789ab-1", f"{epoch}-999999", f"{epoch}--1", f"{epoch}-x", f"{epoch}-٣", "x" * 99):
            told = page.ask("subscribe", stream="tasks", since=unknown)
            assert "tasks" in told, unknown
            assert "resumed" not in told
    console.kill()
    console.start()
    with browser.live() as page:
        assert "tasks" in page.ask("subscribe", stream="tasks", since=seq)


def test_a_number_of_one_stream_opens_no_other(console: Console) -> None:
    """Nodes and tasks, mine and everybody's, are streams of their own."""
    with console.sign_in("root2").live() as page:
        of_tasks = page.ask("subscribe", stream="tasks")["seq"]
        assert "nodes" in page.ask("subscribe", stream="nodes", since=of_tasks)


def test_a_log_in_that_may_not_read_resumes_nothing(lab: Lab, console: Console) -> None:
    with lab.client() as owner:
        made = owner.people.new_token(name="root2", scopes=["submit"])["token"]
    with console.sign_in("root2").live() as page, console.signed_in({"token": made}).live() as blind:
        since = page.ask("subscribe", stream="tasks")["seq"]
        assert blind.answer("subscribe", stream="tasks", since=since)["error"]["data"]["code"] == "forbidden"
        blind.socket.send(json.dumps({"jsonrpc": "2.0", "id": 99, "method": "auth.whoami", "params": {}}))
        try:
            assert "task.changed" not in str(blind.socket.receive())
        except ConnectionClosed:
            raise AssertionError("it was cut off, too") from None
