"""`muster api`: what the master can be asked, told without one."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator, validate

from client.cli.main import main
from client.text.verbs import type_text
from master.verbs.table import VERBS
from tests.client.fake_master import FakeMaster

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _no_master(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("this command asks nobody")

    monkeypatch.setattr(socket, "create_connection", refuse)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["api", *words]) == 0
    told = capsys.readouterr()
    assert told.err == ""
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
    *page, _request = said(capsys, "task.submit").splitlines()
    assert max(map(len, page)) <= 100


def test_a_noun_lists_its_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    listed = [line.split()[0] for line in said(capsys, "env").splitlines()[1:]]
    assert listed == [name for name in VERBS if name.startswith("env.")]


def test_a_verb_is_told_in_full_with_types_limits_results_and_a_request(capsys: pytest.CaptureFixture[str]) -> None:
    page = said(capsys, "log.read")
    assert "Who: viewer, of own tasks; scope read; to ask twice does no more than to ask once." in page
    assert "  limit     integer 0 to 1048576, else 1048576\n" in page
    assert "  wait_s    number 0 to 30, else 0.0\n" in page
    assert "  id        integer ≥ 1, optional\n" in page
    assert "    rest     bytes in base64, not always there\n" in page
    request = json.loads(page.splitlines()[-1])
    assert request == {"jsonrpc": "2.0", "id": 1, "method": "log.read", "params": {"id": 12}}


def test_types_that_an_answer_names_are_told_too(capsys: pytest.CaptureFixture[str]) -> None:
    page = said(capsys, "node.list")
    assert "Answer: list of Node\n" in page
    assert "\n  Gpu\n" in page
    assert "\n  Foreign\n" in page
    assert "\n  Task\n" not in page


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_its_page(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, name).startswith(f"{name}\n  ")


def test_json_is_one_document_for_the_table_and_for_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    table = json.loads(said(capsys, "--json"))
    assert [one["verb"] for one in table] == list(VERBS)
    one = json.loads(said(capsys, "task.move", "--json"))
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
    validate(whole, cls=OpenAPIV31SpecValidator)
    assert [path.rpartition("/")[2] for path in whole["paths"]] == list(VERBS)


def test_a_verb_that_there_is_not_is_told_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["api", "task.cancle"]) == 1
    assert capsys.readouterr().err == (
        "error: unknown_method: there is no verb 'task.cancle' (did you mean `task.cancel`?): `muster api` lists all\n"
    )
    assert main(["api", "--openapi", "task.list"]) == 2


def test_completion_knows_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in VERBS)


def test_the_example_of_a_request_is_a_line_that_a_master_answers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    line = said(capsys, "task.show").splitlines()[-1].strip()
    verbs = {"task.show": lambda params: {"asked": params["id"]}}
    with FakeMaster(verbs) as master, socket.create_connection(("127.0.0.1", master.port)) as sock:
        sock.sendall(line.encode() + b"\n")
        assert json.loads(sock.makefile().readline())["result"] == {"asked": 12}


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
