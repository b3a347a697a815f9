"""`muster users|groups|projects edit` with quotas: what is asked of the master, and what is said of the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.cli.main import main
from client.text.columns import width
from client.text.people import who_lines
from tests.client.fake_master import FakeMaster, Verb

NONE = {"max_total_gpus": None, "max_manual_gpus": None, "max_gpus_per_task": None, "max_running": None}
IDLE = {"gpus": 0, "running": 0, "manual": 0}


class Lab:
    """A group and a project, and what was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        quota = {**NONE, "max_total_gpus": 8}
        use = {"gpus": 1, "running": 2, "manual": 0}
        self.project = {"name": "crawl\x1b[2J", "group": "nlp", "quota": quota, "use": use, "tasks": 3}
        self.group = {"id": 1, "name": "nlp", "members": ["ann"], "mentors": [], "quota": quota, "use": IDLE}

    def answer(self, result: Any) -> Verb:
        def told(params: dict[str, Any]) -> Any:
            self.asked.append(params)
            return result

        return told


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv("COLUMNS", "80")
    found = Lab()
    verbs: dict[str, Verb] = {
        "project.list": found.answer([found.project]),
        "project.edit": found.answer(found.project),
        "group.edit": found.answer(found.group),
        "group.list": found.answer([found.group]),
        "user.edit": found.answer({}),
    }
    with FakeMaster(verbs) as fake:
        monkeypatch.setenv("MUSTER_CONF", fake.conf(tmp_path))
        yield found


def test_what_is_typed_reaches_the_master(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["users", "edit", "ann", "max_total_gpus=8", "max_running=none", "display=安"]) == 0
    assert main(["groups", "edit", "nlp", "max_running=", "--add", "bob"]) == 0
    assert main(["projects", "edit", "crawl", "group=nlp", "max_gpus_per_task=2"]) == 0
    assert main(["projects", "edit", "crawl", "group=", "max_manual_gpus=4"]) == 0
    names: dict[str, list[str]] = {"add": [], "remove": [], "add_mentors": [], "remove_mentors": []}
    assert lab.asked == [
        {"name": "ann", "changes": {"max_total_gpus": 8, "max_running": None, "display": "安"}},
        {"name": "nlp", **names, "add": ["bob"], "changes": {"max_running": None}},
        {"name": "crawl", "changes": {"group": "nlp", "max_gpus_per_task": 2}},
        {"name": "crawl", "changes": {"group": None, "max_manual_gpus": 4}},
    ]
    said = capsys.readouterr().out
    assert "group nlp: members ann; mentors none; max_total_gpus=8" in said
    assert "of group nlp; max_total_gpus=8; in use: 1 GPU, 2 tasks" in said


def test_projects_and_groups_are_tables_that_fit(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["projects", "list"]) == 0
    assert main(["groups", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "GROUP", "TASKS", "IN", "USE", "QUOTA"]
    assert all(width(line) <= 80 and line.isprintable() for line in lines)
    assert any("max_total_gpus=8" in line for line in lines)
    assert main(["projects", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [lab.project]


@pytest.mark.parametrize(
    "argv",
    [
        ["users", "edit", "ann", "max_total_gpus=-1"],
        ["users", "edit", "ann", "max_total_gpus=many"],
        ["groups", "edit", "nlp"],
        ["groups", "edit", "nlp", "display=x"],
        ["projects", "edit", "crawl"],
        ["projects", "edit", "crawl", "members=ann"],
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(argv: list[str], lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert capsys.readouterr().err.startswith("error: usage:")
    assert lab.asked == []


def test_who_asks_who_he_is_sees_what_bounds_his_tasks() -> None:
    whole = {"kind": "cluster", "name": "", "quota": {**NONE, "max_running": 9}, "use": IDLE}
    earlier = {"gpus": 2, "running": 1}  # as a master told it that knew no allocations in quotas
    own = {"kind": "user", "name": "ann", "quota": {**NONE, "max_total_gpus": 2}, "use": earlier}
    by_name = {**IDLE, "gpus": 3, "manual": 3}
    held = {"kind": "project", "name": "p", "quota": {**NONE, "max_manual_gpus": 4}, "use": by_name}
    who: Any = {
        "user": "ann", "display": "", "role": "user", "scopes": [], "via": "token", "groups": [], "until": None,
        "is_shared": True, "quotas": [own, whole, held],
    }  # fmt: skip
    assert who_lines(who)[-3:] == [
        "quota   user ann: max_total_gpus=2; in use: 2 GPUs, 1 task",
        "quota   all people together: max_running=9; in use: nothing",
        "quota   project p: max_manual_gpus=4; in use: 3 GPUs (3 in allocations), 0 tasks",
    ]


def test_whoami_tells_of_the_share_of_the_queue_from_half_of_it_on() -> None:
    who: Any = {
        "user": "ann", "display": "", "role": "user", "scopes": [], "via": "token", "groups": [], "until": None,
        "is_shared": True, "quotas": [],
    }  # fmt: skip
    plain = who_lines(who)  # an earlier master does not say
    who["share"] = None
    assert who_lines(who) == plain
    little: Any = {"waiting": 49, "most_waiting": 100, "bytes": 511, "most_bytes": 1024}
    who["share"] = little
    assert who_lines(who) == plain
    much: Any = {"waiting": 50_000, "most_waiting": 100_000, "bytes": 600 << 20, "most_bytes": 1 << 30}
    who["share"] = much
    assert who_lines(who)[len(plain) :] == [
        "queue   50,000 tasks wait, and 100,000 may",
        "queue   large tasks hold 600M, and may hold 1.0G",
    ]
