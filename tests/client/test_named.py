"""The name of an active task of one's own stands for its id: in the command line and in the Python API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.api import Client, connect
from client.cli.arguments.fields import after
from client.cli.main import main
from tests.client.fake_master import FakeMaster, task
from tests.faults import error_line
from wire.errors import BadRequestError, ConflictError, NotFoundError
from wire.message import Message

ENDED = ("succeeded", "failed")
TASKS = [
    task(7, "running", name="bert"),
    task(8, name="twice"),
    task(9, name="twice", command=["bert"]),
    task(11, name="sweep", array={"id": 11, "index": 0}),
    task(12, name="sweep", array={"id": 11, "index": 1}),
    task(13, name="done"),
    task(14, "failed", name="done"),
    task(15, "failed", name="over"),
    task(16, name="theirs", owner="bob"),
    task(17, name="both", owner="bob"),
    task(18, name="both"),
    task(19, name="--all"),
    task(20, name="7"),
    task(21, name="训练 一"),
    task(22, name="exp:1"),
    task(23, "running", name="alloc", is_allocation=True),
]


def listed(params: dict[str, Any]) -> dict[str, Any]:
    """As the master has it: the caller is ada."""
    found = [one for one in TASKS if not params.get("mine") or one["owner"] == "ada"]
    found = [one for one in found if one["state"] not in ENDED or params.get("ended")]
    found = [one for one in found if one["state"] in ENDED or params.get("active", True)]
    needle = (params.get("search") or "").casefold()
    found = [one for one in found if needle in f"{one['name']} {one['command']}".casefold()]
    return {"tasks": found, "total": len(found)}


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaster]:
    monkeypatch.delenv("MUSTER_MASTER", raising=False)
    with FakeMaster({"task.list": listed}) as fake:
        monkeypatch.setenv("MUSTER_CONF", fake.conf(tmp_path))
        for verb in ("show", "hold", "release", "pause", "resume", "move", "start", "retry", "edit"):
            fake.verbs[f"task.{verb}"] = lambda params: task(params["id"])
        fake.verbs["task.why"] = lambda params: {
            "id": params["id"], "state": "waiting", "reason": "next", "reason_key": None, "reason_args": None,
            "warning": None, "warning_key": None, "warning_args": None, "blocked_by": [], "details": [],
            "detail_messages": [],
        }  # fmt: skip
        fake.verbs["task.remove"] = lambda params: {"removed": [params["id"]], "names": {str(params["id"]): "bert"}}
        fake.verbs["task.cancel"] = lambda params: {
            "cancelled": params.get("ids", []), "signalled": [], "refused": {}, "codes": {}, "messages": {},
            "names": {str(one): "bert" for one in params.get("ids", [])},
        }  # fmt: skip
        fake.verbs["log.read"] = lambda _: {"data": "", "offset": 0, "size": 0, "ended": True, "path": "/x"}
        fake.verbs["log.search"] = lambda _: {"matches": [], "next": None}
        fake.verbs["task.submit"] = lambda _: {"id": 99}
        yield fake


@pytest.mark.parametrize(
    "words",
    [
        ["show"], ["why"], ["hold"], ["release"], ["pause"], ["resume"], ["start"], ["retry"], ["rm"], ["move", 1],
        ["edit", "priority=1"], ["logs"], ["logs", "--search", "x"],
    ],
)  # fmt: skip
def test_every_verb_takes_the_name_of_an_active_task_of_ones_own(master: FakeMaster, words: list[Any]) -> None:
    verb, *rest = map(str, words)
    assert main([verb, "bert", *rest]) in (0, 1)
    asked = [params for method, params in master.calls if method not in ("task.list", "server.info")]
    assert asked
    assert {params["id"] for params in asked} == {7}


def test_several_tasks_may_be_named_beside_ids(master: FakeMaster) -> None:
    assert main(["hold", "bert", "3-4", "训练 一", "7", "both"]) == 0
    assert [params["id"] for params in master.asked("task.hold")] == [7, 3, 4, 21, 18]


@pytest.mark.parametrize(
    ("name", "code", "told"),
    [
        ("twice", "conflict", Message("tasks_named_alike", count=2, name="twice", tasks="8-9")),
        ("sweep", "conflict", Message("array_named_alike", count=2, name="sweep", tasks="11-12", array=11)),
        ("over", "not_found", Message("task_named_has_ended", name="over", id=15)),
        ("theirs", "not_found", Message("task_named_is_anothers", name="theirs", id=16, owner="bob")),
        ("ber", "not_found", Message("no_task_named", name="ber")),
        ("BERT", "not_found", Message("no_task_named", name="BERT")),
        ("a\x1b[2J", "not_found", Message("no_task_named", name="a\x1b[2J")),
    ],
)
def test_a_name_that_is_not_one_active_task_of_ones_own_touches_nothing(
    name: str, code: str, told: Message, master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (
        ["cancel", name],
        ["rm", "3", name],
        ["edit", name, "priority=1"],
        ["submit", "--after", name, "--", "x"],
    ):
        master.calls.clear()
        assert main(words) == 1
        assert capsys.readouterr().err == error_line(code, told.key, **told.args) + "\n"
        assert {method for method, _ in master.calls} <= {"task.list", "server.info"}


def test_digits_ranges_and_arrays_are_ids_whatever_tasks_are_called(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hold", "7", "20"]) == 0
    assert master.asked("task.list") == []
    for wrong in ("0", "3-", "-,", "7-3", "/"):
        assert main(["hold", "--", wrong]) == 2
        assert "is not a" in capsys.readouterr().err


def test_a_name_that_looks_like_an_option_stands_behind_two_dashes(master: FakeMaster) -> None:
    assert main(["hold", "--", "--all"]) == 0
    assert [params["id"] for params in master.asked("task.hold")] == [19]
    assert main(["cancel", "--name=--all"]) == 0
    assert master.asked("task.cancel") == [{"mine": True, "name": "--all"}]


def test_a_predecessor_is_named_once_for_the_note_and_the_submit(master: FakeMaster) -> None:
    assert main(["submit", "--after", "bert:any,3,exp:1", "--", "x"]) == 0
    wanted = [{"id": 7, "on": "any"}, {"id": 3, "on": "ok"}, {"id": 22, "on": "ok"}]
    assert [params["after"] for params in master.asked("task.submit")] == [wanted]
    assert len(master.asked("task.list")) == 2, "one for each name"
    assert main(["edit", "3", "after=bert"]) == 0
    assert master.asked("task.edit")[0]["changes"] == {"after": [{"id": 7, "on": "ok"}]}
    assert after("bert:fail,12/") == [{"id": "bert", "on": "fail"}, {"id": 12, "on": "ok", "array": True}]


def test_cancel_and_wait_take_all_of_a_name(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cancel", "--name", "twice", "--state", "waiting"]) == 0
    assert master.asked("task.cancel") == [{"mine": True, "name": "twice", "states": ["waiting"]}]
    assert "nothing to cancel: no active task of yours is called 'twice'" in capsys.readouterr().out
    for words in (["cancel", "--name", "a", "--all"], ["cancel", "--name", "a", "7"], ["wait", "--name", "a", "7"]):
        assert main(words) == 2
    capsys.readouterr()
    assert main(["wait", "--name", "nothing"]) == 1
    assert error_line("not_found", "no_task_named", name="nothing") in capsys.readouterr().err
    assert main(["wait", "--name", "alloc"]) == 1, "an allocation ends only when somebody wants it"


@pytest.mark.usefixtures("master")
def test_what_is_waited_for_by_its_name_may_have_ended_already(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[int]] = []

    def wait(_: Client, ids: list[int], *_args: Any, **_how: Any) -> dict[int, Any]:
        asked.append(ids)
        return {one["id"]: one for one in TASKS if one["id"] in ids}

    monkeypatch.setattr(Client, "wait", wait)
    for name in ("over", "twice", "done"):
        assert main(["wait", "--name", name, "--json"]) == 1
    assert asked == [[15], [8, 9], [13]]
    assert capsys.readouterr().out.count("\n") == 3


def test_cancel_and_rm_tell_ids_and_names(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cancel", "bert"]) == 0
    assert capsys.readouterr().out == "cancelled: 7 (bert)\n"
    assert main(["rm", "7"]) == 0
    assert capsys.readouterr().out == "task 7 (bert): deleted\n"
    assert main(["rm", "7", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"removed": [7], "names": {"7": "bert"}}
    master.verbs["task.remove"] = lambda params: {"removed": [params["id"]]}
    assert main(["rm", "3-4"]) == 0
    assert capsys.readouterr().out == "tasks 3-4: deleted\n", "by a master from before"
    master.verbs["task.cancel"] = lambda _: {
        "cancelled": [3, 4, 9, 10, 11], "signalled": [5], "refused": {}, "codes": {}, "messages": {},
        "names": {"3": "a", "4": "a", "5": "b\x1b", "9": "c"},
    }  # fmt: skip
    assert main(["cancel", "--mine"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "cancelled: 3-4 (a), 9 (c), 10-11"
    assert told[1].startswith("told to end: 5 (b\\x1b) ")


def test_the_python_api_takes_names(master: FakeMaster) -> None:
    with connect() as client:
        assert client.find_id("bert") == client.find_id(7) == client.find_id("7") == 7
        assert [one["id"] for one in client.named("twice")] == [8, 9]
        client.hold("bert")
        client.remove("bert")
        client.cancel(["bert", 3])
        client.cancel(name="bert")
        client.submit(["x"], after=[{"id": "bert"}, {"id": 3, "on": "any"}])
        for wrong, error in (("theirs", NotFoundError), ("twice", ConflictError), ("3-4", BadRequestError)):
            with pytest.raises(error):
                client.hold(wrong)
        with pytest.raises(NotFoundError):
            client.wait(["over"])
    assert [params["id"] for params in master.asked("task.hold")] == [7]
    assert master.asked("task.cancel") == [{"ids": [7, 3]}, {"mine": True, "name": "bert"}]
    assert master.asked("task.submit")[0]["after"] == [{"id": 7}, {"id": 3, "on": "any"}]


@pytest.mark.parametrize(("said", "task_id"), [("12", 12), ("bert", 7)])
def test_one_word_is_one_task_for_a_method_that_takes_several(master: FakeMaster, said: str, task_id: int) -> None:
    """Not its letters: `cancel("12")` would end the tasks 1 and 2."""
    with connect() as client:
        client.cancel(said)
        assert master.asked("task.cancel") == [{"ids": [task_id]}]


@pytest.mark.parametrize("verb", ["cancel", "wait"])
def test_an_empty_name_is_wrong_usage(verb: str, master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    """As from a variable that is not set: tasks without a name are not meant."""
    assert main([verb, "--name", ""]) == 2
    assert "--name: a name is expected" in capsys.readouterr().err
    assert master.calls == []
