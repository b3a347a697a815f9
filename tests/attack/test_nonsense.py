"""Something that is no master answers at the master's port, whatever it likes: each command, and each method of the
Python API, ends with an error that says so."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from client.answers import fault_of
from client.api import Client, connect
from client.cli.commands import COMMANDS
from client.cli.main import main
from client.live.asker import Asker
from client.live.feed import Feed
from client.session import REPLY_LIMIT, Session
from client.verbs import Verbs
from tests.faults import refusing
from wire.errors import MusterError, ProtocolError
from wire.framing import LineDecoder

Answer = Callable[[dict[str, Any]], bytes]
TASK = {"id": 7, "state": "waiting"}
RESULTS: dict[str, Any] = {
    "nothing": None, "a number": 7, "a text": "yes", "true": True, "an empty object": {}, "an empty list": [],
    "another object": {"nonsense": {"deep": [1, 2]}}, "a list of numbers": [1, 2, 3], "a list of nothing": [None],
    "lists in lists": [[[]]], "objects without keys": [{}], "half a task": {"task": TASK, "tasks": [TASK], "id": {}},
    "wrong types": {
        "id": "x", "first": [], "count": None, "tasks": 5, "total": "many", "nodes": {"a": 1}, "missing": [3],
        "missing_messages": [{}], "data": 5, "user": [], "is_shared": "?", "folders": [{"name": 1}], "envs": 3,
    },
    "right shapes": {
        "first": 1, "count": 10**13, "missing": ["a"], "missing_messages": [], "data": "not base64", "offset": 0,
        "size": 1, "ended": True, "path": "", "warning": None, "entries": [], "next": None,
    },
    "endless numbers": {"id": 10**40, "total": 1e300, "tasks": [{"id": 1, "submitted_at": 1e300, "state": "x"}]},
}  # fmt: skip
LINES: dict[str, bytes] = {
    "no JSON": b"HTTP/1.1 400 Bad Request\n", "no object": b"[1, 2]\n", "a number": b"7\n", "no UTF-8": b"\xff\xfe\n",
    "too deep": b"[" * 100_000 + b"\n", "too large a number": b'{"id": ' + b"9" * 5000 + b"}\n",
    "an error that is a text": b'{"jsonrpc": "2.0", "id": null, "error": "no"}\n',
    "an error that is a list": b'{"jsonrpc": "2.0", "id": null, "error": []}\n',
    "an error of nothing": b'{"jsonrpc": "2.0", "id": null, "error": {}}\n',
    "an error of odd parts":
        b'{"id": null, "error": {"message": [], "data": {"code": {}, "key": "no_task", "args": {}}}}\n',
    "news of no kind": b'{"method": 7}\n', "news of nothing": b'{"method": "task.changed", "params": []}\n',
    "half the news": b'{"method": "task.changed", "params": {"task": {"state": 5}}}\n' * 3,
}  # fmt: skip
WORDS: dict[str, tuple[str, ...]] = {
    "submit": ("--", "true"), "run": ("--", "true"), "array": ("0-3", "--", "true"), "show": ("7",), "why": ("7",),
    "logs": ("7",), "cancel": ("7", "--yes"), "edit": ("7", "priority=3"), "hold": ("7",), "release": ("7",),
    "move": ("7", "--first"), "retry": ("7",), "rm": ("7", "--yes"),
    "wait": ("7", "--timeout", "1"), "diff": ("7", "8"),
    "start": ("7",), "pause": ("7",), "resume": ("7",), "env": ("list",), "node": ("show", "a"), "files": ("ls",),
    "users": ("list",),
    "groups": ("list",), "projects": ("list",), "tokens": ("list",), "alloc": ("list",), "api": ("task.list",),
    "agents": ("list",), "conf": ("show",), "set": ("scheduler.backfill=true",),
}  # fmt: skip
LEFT_OUT = frozenset({"up", "down", "init", "deploy", "top", "shell", "completion", "login", "logout", "web"})
"""What asks nothing, or a terminal; and `down`, which waits until the port is free."""


class Liar(socketserver.ThreadingTCPServer):
    """Answers each line with what `answer` makes of it."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        liar = self

        class Line(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                for line in self.rfile:
                    self.wfile.write(liar.answer(json.loads(line)))

        self.answer = answer
        super().__init__(("127.0.0.1", 0), Line)
        self.port = self.server_address[1]


def with_result(result: Any) -> Answer:
    def answer(request: dict[str, Any]) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode() + b"\n"

    return answer


def with_line(line: bytes) -> Answer:
    """Then comes what would do, for whoever leaves the line alone."""
    return lambda request: line + with_result({})(request)


ANSWERS: dict[str, Answer] = {
    **{f"result: {name}": with_result(result) for name, result in RESULTS.items()},
    **{f"line: {name}": with_line(line) for name, line in LINES.items()},
}


@pytest.fixture
def liar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Liar]:
    for name in ("MUSTER_MASTER", "MUSTER_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with Liar(with_result({})) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        conf = tmp_path / "conf.json"
        ports = {"data_port": server.port, "monitor_port": server.port, "train_state_port": server.port}
        conf.write_text(json.dumps({"socket_info": ports}), encoding="utf-8")
        monkeypatch.setenv("MUSTER_CONF", str(conf))
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(Session, "heard", None)
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - LEFT_OUT))
def test_each_command_ends_with_an_error_or_with_what_it_was_told(
    liar: Liar, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = []
    for what, answer in ANSWERS.items():
        liar.answer = answer
        try:
            code = main([name, *WORDS.get(name, ())])
        except BaseException as error:  # noqa: BLE001  (all that are none of ours are what is looked for)
            wrong.append(f"{what}: {error!r}")
            continue
        said = capsys.readouterr().err
        if code not in (0, 1, 2, 3) or (code and "error" not in said and "unreadable" not in said):
            wrong.append(f"{what}: {code} {said[:200]}")
    assert wrong == []


API: dict[str, Callable[[Client], Any]] = {
    "submit": lambda client: client.submit("true"),
    "submit_batch": lambda client: client.submit_batch(["true"]),
    "submit_array": lambda client: client.submit_array("true", "0-3"),
    "preflight": lambda client: client.preflight("true"),
    "list_tasks": lambda client: client.list_tasks(),
    "wait": lambda client: client.wait([7], timeout=0.1),
    "roots": lambda client: client.files.roots(),
    "entries": lambda client: list(client.files.entries("data")),
    "alloc": lambda client: client.allocations.new("a", 1),
    "read_log": lambda client: client.read_log(7, 0),
}


@pytest.mark.parametrize("method", API)
def test_each_method_of_the_api_raises_one_of_our_errors_or_gives_what_it_was_told(liar: Liar, method: str) -> None:
    wrong, refused = [], 0
    for what, answer in ANSWERS.items():
        liar.answer = answer
        with connect() as client:
            client.session.patience = 0.0
            try:
                API[method](client)
            except MusterError as error:
                refused += isinstance(error, ProtocolError)
            except TimeoutError:
                assert method == "wait", what
            except Exception as error:  # noqa: BLE001  (that is what is looked for)
                wrong.append(f"{what}: {error!r}")
            assert client.session.heard is None, "nothing is kept"
    assert (wrong, refused > len(LINES)) == ([], True)


UNREADABLE = {"answer_unreadable", "answer_not_understood", "no_master_at", "watch_broke"}


def test_what_lives_on_says_what_is_wrong_and_goes_on(liar: Liar, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("client.live.feed.PAUSES_S", (0.001, 0.001))
    with connect() as client:
        address = client.address
    kinds: set[str] = set()
    for what in ("result: wrong types", "result: objects without keys", "line: no JSON", "line: too deep"):
        liar.answer = ANSWERS[what]
        told: list[dict[str, Any]] = []
        both = threading.Event()

        def hear(message: dict[str, Any], told: list[dict[str, Any]] = told, both: threading.Event = both) -> None:
            told.append(message)
            if "answer" in (methods := {message["method"] for message in told}) and len(methods) > 1:
                both.set()

        workers = [Feed("nodes", address, None, hear), Asker(address, None, hear)]
        for worker in workers:
            worker.start()
        workers[1].ask("me", lambda client: client.submit("true"))  # type: ignore[attr-defined]
        assert both.wait(30), what
        for worker in workers:
            worker.end()
            worker.join()
        assert {message["method"] for message in told} <= {"lost", "answer", "nodes"}, what
        failed = [message["params"] for message in told if message["method"] != "nodes"]
        errors = [params.get("why") or params.get("error") for params in failed]
        assert {error.key for error in errors if error is not None} <= UNREADABLE, what
        kinds |= {key for params in failed for key in ("why", "error") if key in params}
    assert kinds == {"why", "error"}


def test_a_line_without_an_end_is_no_master(monkeypatch: pytest.MonkeyPatch, liar: Liar) -> None:
    assert REPLY_LIMIT > 1 << 20
    monkeypatch.setattr("client.session.LineDecoder", lambda _limit: LineDecoder(1000))
    liar.answer = lambda _request: b"x" * 5000
    with connect() as client, refusing(ProtocolError, "no_master_at"):
        client.info()


def test_a_mistake_of_ours_stays_one(liar: Liar) -> None:
    liar.answer = with_result({"id": 7})
    with connect() as client, pytest.raises(AttributeError):
        client.submit("true", request_id=7).no_such_thing  # type: ignore[attr-defined]  # noqa: B018


def test_every_answer_of_a_master_passes() -> None:
    """Those that the document has as examples, and what each schema requires by itself."""
    verbs = Verbs()
    assert fault_of("no.such.verb", None) is None
    assert fault_of("task.submit", {"id": 7}) is None
    assert fault_of("task.submit", {"id": "7"}) is not None
    assert fault_of("user.list", []) is None
    assert fault_of("user.list", [{}]) is not None
    assert all(verbs.answer(name) for name in verbs.names)
