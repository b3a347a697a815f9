"""`muster api`: any verb asked by its name, and what the master can be asked, told without one."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.cli.main import main
from client.text.verbs import type_text
from master.verbs.documents import OPENAPI
from master.verbs.table import VERBS
from tests.cases import each_case
from tests.client.fake_master import FakeMaster, HangUp, Refusal
from tests.faults import error_line, in_words
from wire.message import Message

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _no_master(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("this command asks nobody")

    monkeypatch.setattr(socket, "create_connection", refuse)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    code = main(["api", *words])
    told = capsys.readouterr()
    assert (code, told.err) == (0, "")
    return told.out


def test_the_table_has_a_line_for_every_verb_with_all_that_its_line_in_the_master_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = said(capsys).splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(VERBS)
    for line, verb in zip(lines[1:], VERBS.values(), strict=True):
        assert line.split()[1:4] == [verb.role, verb.scope, "yes" if verb.repeatable else "no"]
    (cancel,) = [line for line in lines if line.startswith("task.cancel ")]
    assert "ids?: list of integer ≥ 1, all?: true or false" in cancel
    assert cancel.split()[4:7] == ["Cancelled", "End", "some"]


def test_on_a_terminal_no_line_is_longer_than_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert max(map(len, said(capsys).splitlines())) <= 100
    *page, _request = said(capsys, "task.submit", "--describe").splitlines()
    assert max(map(len, page)) <= 100


def test_a_noun_lists_its_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    listed = [line.split()[0] for line in said(capsys, "env").splitlines()[1:]]
    assert listed == [name for name in VERBS if name.startswith("env.")]


def test_a_verb_is_told_in_full_with_types_limits_results_and_a_request(capsys: pytest.CaptureFixture[str]) -> None:
    page = said(capsys, "log.read", "--describe")
    assert "Who: viewer, of own tasks and the group's; scope read; to ask twice does no more than to ask once." in page
    assert "  limit     integer 0 to 1048576, else 1048576\n" in page
    assert "  wait_s    number 0 to 30, else 0.0\n" in page
    assert "  id        integer ≥ 1, optional\n" in page
    assert "    rest     bytes in base64, not always there\n" in page
    request = json.loads(page.splitlines()[-1])
    assert request == {"jsonrpc": "2.0", "id": 1, "method": "log.read", "params": {"id": 12}}


def test_types_that_an_answer_names_are_told_too(capsys: pytest.CaptureFixture[str]) -> None:
    page = said(capsys, "node.list", "--describe")
    assert "Answer: list of Node\n" in page
    assert "\n  Gpu\n" in page
    assert "\n  Foreign\n" in page
    assert "\n  Task\n" not in page


def test_every_verb_has_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    with each_case() as cases:
        for name in VERBS:
            with cases.case(name):
                assert said(capsys, name, "--describe").startswith(f"{name}\n  ")


def test_json_is_one_document_for_the_table_and_for_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    table = json.loads(said(capsys, "--json"))
    assert [one["verb"] for one in table] == list(VERBS)
    one = json.loads(said(capsys, "task.move", "--describe", "--json"))
    assert {key: one[key] for key in table[0]} == next(each for each in table if each["verb"] == "task.move")
    assert one["params"]["position"] == {"required": True, "type": "integer", "minimum": 1}
    assert one["example"]["params"] == {"id": 12, "position": 1}
    assert one["result"] == {"$ref": "#/components/schemas/Task"}
    assert {"Task", "TaskState", "Part"} <= one["schemas"].keys()


@pytest.mark.parametrize("words", [("--openapi",), ("--openapi", "--json")])
def test_the_openapi_document_is_printed_as_it_is_shipped(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    whole = json.loads(said(capsys, *words))
    assert whole == json.loads((ROOT / OPENAPI).read_text(encoding="utf-8"))  # which test_documents.py validates
    assert [path.rpartition("/")[2] for path in whole["paths"] if "/rpc/" in path] == list(VERBS)


def test_a_verb_that_there_is_not_is_told_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["api", "task.cancle"]) == 1
    told = error_line("unknown_method", "verb_not_known_but", verb="task.cancle", meant="task.cancel")
    assert capsys.readouterr().err == f"{told}\n"
    assert main(["api", "--openapi", "task.list"]) == 2


# -- asking -----------------------------------------------------------------------------------------------------


@pytest.fixture
def master(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeMaster]:
    """One that is found, and answers each of these with what it was asked."""
    monkeypatch.undo()

    def echo(params: dict[str, Any]) -> dict[str, Any]:
        return {"asked": params}

    verbs = ("task.list", "task.edit", "task.submit", "task.show", "task.retry", "log.read", "server.info")
    with FakeMaster(dict.fromkeys(verbs, echo)) as made:
        monkeypatch.setenv("MUSTER_CONF", made.conf(tmp_path))
        yield made


@pytest.mark.master
def test_a_verb_that_takes_nothing_is_asked_and_answered_as_json(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert json.loads(said(capsys, "server.info")) == {"asked": {}}
    assert master.calls == [("server.info", {})]


@pytest.mark.master
@pytest.mark.parametrize(
    ("verb", "typed", "asked"),
    [
        ("task.list", "ids=1,2", {"ids": [1, 2]}),
        ("task.list", "ids=[1,2]", {"ids": [1, 2]}),
        ("task.list", "ids=7", {"ids": [7]}),
        ("task.list", "states=failed,lost", {"states": ["failed", "lost"]}),
        ("task.list", "sort=id", {"sort": "id"}),
        ("task.list", "user=null", {"user": None}),
        ("task.list", "reverse=true", {"reverse": True}),
        ("task.list", "since=1e3", {"since": 1000.0}),
        ("task.list", "since=3", {"since": 3}),
        ("task.list", "search=7", {"search": "7"}),
        ("task.list", "search=a=b c", {"search": "a=b c"}),
        ("task.list", 'search="null"', {"search": "null"}),
        ("task.list", "search=", {"search": ""}),
        ("task.list", "limit=many", {"limit": "many"}),
        ("task.list", "new=1", {"new": 1}),
        ("task.edit", 'changes={"priority": 5}', {"changes": {"priority": 5}}),
        ("task.submit", "command=python train.py, then", {"command": "python train.py, then"}),
        ("task.submit", 'command=["true"]', {"command": ["true"]}),
        ("task.submit", 'after=[{"id": 1}]', {"after": [{"id": 1}]}),
    ],
)
def test_a_value_is_of_the_type_that_the_verb_takes_and_else_is_left_to_the_master(
    master: FakeMaster, capsys: pytest.CaptureFixture[str], verb: str, typed: str, asked: dict[str, Any]
) -> None:
    said(capsys, verb, typed)
    ((_, params),) = master.calls
    params.pop("request_id", None)
    assert params == asked


@pytest.mark.master
def test_what_must_not_happen_twice_goes_by_one_request_id(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = [True]

    def once(params: dict[str, Any]) -> dict[str, Any]:
        if broken:
            broken.pop()
            raise HangUp
        return params

    master.verbs.update({"task.submit": once, "task.retry": once})
    assert main(["api", "task.submit", "command=true"]) == 0
    first, second = master.asked("task.submit")
    assert first == second
    said_of_it = capsys.readouterr()
    assert json.loads(said_of_it.out)["request_id"] == first["request_id"]
    broken.append(True)
    assert main(["api", "task.retry", "id=3"]) == 3
    assert in_words(capsys.readouterr().err, "master_lost")
    assert len(master.asked("task.retry")) == 1
    said(capsys, "task.submit", "command=true", "request_id=mine")
    assert master.asked("task.submit")[-1]["request_id"] == "mine"


@pytest.mark.master
def test_a_refusal_of_the_master_is_told_as_of_any_command(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    def show(_: dict[str, Any]) -> None:
        raise Refusal("not_found", Message("no_task", id=9))

    master.verbs["task.show"] = show
    assert main(["api", "task.show", "id=9"]) == 1
    assert capsys.readouterr().err == error_line("not_found", "no_task", id=9) + "\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("task.show", "9"), "'9' is not KEY=VALUE"),
        (("task.show", "id=1", "id=2"), "id is given twice"),
        (("task.show", "id=1", "--describe"), "leave KEY=VALUE out"),
        (("task.show", "--describe", "--curl"), "prints the request for a VERB"),
    ],
)
def test_wrong_usage_is_told(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str) -> None:
    assert main(["api", *words]) == 2
    assert told in capsys.readouterr().err


def test_a_noun_is_not_asked_with_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["api", "task", "id=1"]) == 1
    assert error_line("unknown_method", "verb_not_known_but", verb="task", meant="task.why") in capsys.readouterr().err


def test_completion_knows_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in VERBS)


@pytest.mark.master
def test_the_example_of_a_request_is_a_line_that_a_master_answers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    line = said(capsys, "task.show", "--describe").splitlines()[-1].strip()
    verbs = {"task.show": lambda params: {"asked": params["id"]}}
    with FakeMaster(verbs) as master, socket.create_connection(("127.0.0.1", master.port)) as sock:
        sock.sendall(line.encode() + b"\n")
        assert json.loads(sock.makefile().readline())["result"] == {"asked": 12}


@pytest.mark.real
def test_other_commands_do_not_pay_for_it() -> None:
    script = "import sys; from client.cli.main import main; main(['queue', '--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1].split()
    assert "client.cli.commands.queue" in loaded
    assert not {"client.cli.commands.api", "client.text.verbs", "client.verbs", "msgspec"} & set(loaded)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1e9}, "number > 0 ≤ 1000000000"),
        ({"type": "integer", "minimum": -(1 << 62)}, "integer"),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 1}, "list of integer, at least 1"),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "null"}], "items": False}, "[text, null]"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "object of text"),
        ({"anyOf": [{"$ref": "#/components/schemas/Task"}, {"type": "null"}]}, "Task or null"),
        ({"enum": ["ok", "fail"]}, "ok | fail"),
        ({}, "anything"),
    ],
)
def test_a_schema_in_words(schema: dict[str, Any], words: str) -> None:
    assert type_text(schema) == words
