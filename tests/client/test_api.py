"""The Python API and the session under it, against real sockets."""

from __future__ import annotations

import base64
import socket
from typing import Any

import pytest

from client.address import Address
from client.api import Client
from client.waiting import wait
from tests.client.fake_master import FakeMaster, HangUp, Refusal, task
from tests.faults import refusing
from tests.waiting import PATIENCE_S
from wire.errors import NotFoundError, ProtocolError, UnreachableError
from wire.message import Message


def _client(master: FakeMaster) -> Client:
    return Client(Address("127.0.0.1", master.port, master.port, master.port))


def test_a_submit_whose_answer_was_lost_is_sent_again_under_the_same_request_id() -> None:
    broken = [True]

    def submit(_: dict[str, Any]) -> dict[str, int]:
        if broken:
            broken.pop()
            raise HangUp
        return {"id": 7}

    with FakeMaster({"task.submit": submit}) as master, _client(master) as client:
        assert client.submit(["true"], gpus=2) == 7
        first, second = master.asked("task.submit")
    assert first == second
    assert first["gpus"] == 2
    assert len(first["request_id"]) == 32


def test_a_task_that_moves_to_the_files_between_two_questions_is_listed_once() -> None:
    at_hand, archived = [task(9), task(8, state="succeeded")], [task(8, state="succeeded"), task(7, state="failed")]
    verbs: dict[str, Any] = {
        "task.list": lambda _: {"tasks": at_hand, "total": 2},
        "task.archived": lambda _: {"tasks": archived, "total": 2, "unreadable": {}},
    }
    with FakeMaster(verbs) as master, _client(master) as client:
        tasks, total = client.list_tasks(active=True, ended=True)
    assert ([one["id"] for one in tasks], total) == ([9, 8, 7], 3)


@pytest.mark.parametrize("limit", [None, 3, 9])
def test_oldest_first_a_task_that_moves_to_the_files_between_two_questions_is_listed_too(limit: int | None) -> None:
    at_hand, archived = [task(8, state="succeeded"), task(9)], [task(7, state="failed")]

    def answer(tasks: list[dict[str, Any]], params: dict[str, Any]) -> dict[str, Any]:
        page = tasks[params.get("offset", 0) :][: params.get("limit")]
        told = {"tasks": list(page), "total": len(tasks), "unreadable": {}}
        if task(8, state="succeeded") in at_hand:  # behind the first answer
            archived.append(at_hand.pop(0))
        return told

    verbs: dict[str, Any] = {
        "task.list": lambda params: answer(at_hand, params),
        "task.archived": lambda params: answer(archived, params),
    }
    with FakeMaster(verbs) as master, _client(master) as client:
        tasks, total = client.list_tasks(active=True, ended=True, reverse=True, limit=limit)
    assert ([one["id"] for one in tasks], total) == ([7, 8, 9], 3)


def test_what_must_not_happen_twice_is_not_sent_again() -> None:
    def retry(_: dict[str, Any]) -> dict[str, Any]:
        raise HangUp

    with FakeMaster({"task.retry": retry}) as master, _client(master) as client:
        with refusing(UnreachableError, "master_lost", detail=Message("connection_closed")):
            client.retry(3)
        assert len(master.asked("task.retry")) == 1


def test_a_refusal_is_raised_as_its_own_error() -> None:
    def show(_: dict[str, Any]) -> None:
        raise Refusal("not_found", Message("no_task", id=9))

    with (
        FakeMaster({"task.show": show}) as master,
        _client(master) as client,
        pytest.raises(NotFoundError) as told,
    ):
        client.show(9)
    assert (told.value.key, told.value.values) == ("no_task", {"id": 9})
    assert str(told.value) == str(Message("no_task", id=9))


def test_an_error_has_the_key_and_the_values_that_the_master_told() -> None:
    def show(params: dict[str, Any]) -> None:
        raise Refusal("not_found", Message("no_task", **params) if params["id"] else "gone")

    with FakeMaster({"task.show": show}) as master, _client(master) as client:
        with pytest.raises(NotFoundError) as told:
            client.show(9)
        assert (str(told.value), told.value.key) == (str(Message("no_task", id=9)), "no_task")
        assert told.value.values == {"id": 9}
        with pytest.raises(NotFoundError) as told:
            client.show(0)
        assert (told.value.key, told.value.values) == (None, {})


def test_nobody_listening_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with (
        Client(Address("127.0.0.1", port)) as client,
        refusing(UnreachableError, "master_unreachable", at=f"127.0.0.1:{port}", detail="connection refused"),
    ):
        client.info()


def test_something_else_on_the_port_is_recognised() -> None:
    with FakeMaster({}) as master, _client(master) as client:
        master.answer = lambda _: ["HTTP/1.1 400"]  # type: ignore[method-assign,assignment,return-value]
        with refusing(ProtocolError, "no_master_at", at=f"127.0.0.1:{master.port}"):
            client.info()


def test_waiting_ends_with_the_push_that_the_last_task_ended() -> None:
    seen: list[str] = []
    verbs = {
        "subscribe": lambda _: {"tasks": []},
        "task.list": lambda _: {"tasks": [task(1, "succeeded"), task(2, "running")], "total": 2},
    }
    with FakeMaster(verbs) as master, _client(master) as client:
        master.after["subscribe"] = [
            {"task": task(5, "failed")},
            {"task": task(2, "running")},
            {"task": task(2, "failed", exit_code=4)},
        ]
        known = client.wait([1, 2], 10, lambda tasks: seen.append(tasks[2]["state"]))
    assert known[2]["exit_code"] == 4
    assert seen == ["running", "running", "failed"]


def test_waiting_asks_anew_when_the_stream_breaks() -> None:
    states = iter(["running", "succeeded"])
    broken = [True]

    def subscribe(_: dict[str, Any]) -> dict[str, Any]:
        return {"tasks": []}

    def info(_: dict[str, Any]) -> dict[str, Any]:
        if broken:
            broken.pop()
            raise HangUp
        return {}

    verbs = {
        "subscribe": subscribe,
        "server.info": info,
        "task.list": lambda _: {"tasks": [task(1, next(states))], "total": 1},
    }
    with FakeMaster(verbs) as master, _client(master) as client:
        # Nothing is pushed: the look at a silent connection finds it broken.
        known = wait(client, [1], PATIENCE_S, silence_s=0.05)
        assert len(master.asked("subscribe")) == 2
    assert known[1]["state"] == "succeeded"


def test_waiting_goes_on_when_an_ended_task_is_moved_to_the_files() -> None:
    verbs = {
        "subscribe": lambda _: {"tasks": []},
        "task.list": lambda _: {"tasks": [task(1, "succeeded"), task(2, "running"), task(3, "running")], "total": 3},
        "task.show": lambda params: task(params["id"], "failed", exit_code=4),
    }
    with FakeMaster(verbs) as master, _client(master) as client:
        # Of the second the end was not heard: what came behind it took its place.
        master.after["subscribe"] = [{"id": 1, "gone": True}, {"id": 2, "gone": True}, {"task": task(3, "succeeded")}]
        known = client.wait([1, 2, 3], PATIENCE_S)
        assert master.asked("task.show") == [{"id": 2}]
    assert {number: one["state"] for number, one in known.items()} == {1: "succeeded", 2: "failed", 3: "succeeded"}


def test_a_task_that_moves_to_the_files_while_it_is_asked_for_is_waited_for() -> None:
    verbs = {
        "subscribe": lambda _: {"tasks": []},
        "task.list": lambda _: {"tasks": [task(1, "succeeded")], "total": 1},
        "task.show": lambda params: task(params["id"], "succeeded"),
    }
    with FakeMaster(verbs) as master, _client(master) as client:
        assert set(client.wait([1, 2], PATIENCE_S)) == {1, 2}


def test_waiting_for_a_task_that_is_not_there_or_goes_away_is_an_error() -> None:
    def not_there(params: dict[str, Any]) -> None:
        raise Refusal("not_found", Message("no_task", id=params["id"]))

    verbs = {
        "subscribe": lambda _: {},
        "server.info": lambda _: {},
        "task.list": lambda _: {"tasks": [task(1)], "total": 1},
        "task.show": not_there,
    }
    with FakeMaster(verbs) as master, _client(master) as client:
        with pytest.raises(NotFoundError, match="2"):
            client.wait([1, 2])
        master.after["subscribe"] = [{"id": 1, "gone": True}]
        with pytest.raises(NotFoundError, match="1"):
            client.wait([1], 60)


def test_waiting_has_a_time_limit() -> None:
    verbs = {
        "subscribe": lambda _: {},
        "server.info": lambda _: {},
        "task.list": lambda _: {"tasks": [task(1)], "total": 1},
    }
    with FakeMaster(verbs) as master, _client(master) as client, pytest.raises(TimeoutError):
        client.wait([1], 0.05)


def test_a_log_is_followed_to_its_end_whatever_the_size_of_the_pieces() -> None:
    log = b"\xff\x00 line one\nline two\n" * 50
    grown = [0]

    def read(params: dict[str, Any]) -> dict[str, Any]:
        offset = params["offset"]
        data = log[offset : min(offset + 300, grown[0])]
        grown[0] += 200
        ended = grown[0] >= len(log) and offset + len(data) >= len(log)
        return {
            "data": base64.b64encode(data).decode(),
            "offset": offset,
            "size": grown[0],
            "ended": ended,
            "path": "x",
        }

    with FakeMaster({"log.read": read}) as master, _client(master) as client:
        assert b"".join(client.logs(1, follow=True)) == log
