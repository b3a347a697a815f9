"""`muster node …`, `muster agents …` and the lists of nodes: what is asked of the master, and what people read."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.cli.main import main
from client.text.columns import width
from tests.client.fake_master import FakeMaster, Refusal, task, unknown_node
from tests.faults import error_line
from wire.message import Message

ROOT = Path(__file__).parents[2]
OLD, NEW = "SHA256:" + "o" * 43, "SHA256:" + "n" * 43


def node(name: str = "a", **fields: Any) -> dict[str, Any]:
    """A node with every key of the surface."""
    gpu = {"model": "A100", "memory_mib": 40960, "memory_used_mib": None, "utilization": None, "health": "ok"}
    return {
        "name": name, "driver": "ssh", "address": "10.0.0.1", "state": "online", "schedulable": True, "reason": None,
        "drained": None, "registry": "ok", "cpus": 16, "cpus_held": 2, "slots": 4, "slots_held": 0,
        "gpus": [{"index": index, "held_by": [], "foreign": [], **gpu} for index in range(2)],
        "memory_mib": 65536, "tmp_disk_mib": 204800, "tmp_disk_held_mib": 51200, "load": [0.5, 0.4, 0.3],
        "tasks": [], "hostname": "a.lab", "python": "3.11.2",
        "agent_version": "0123456789abcdef", **fields,
    }  # fmt: skip


def page(name: str = "a", **fields: Any) -> dict[str, Any]:
    more = {"user_name": "lab", "port": 22, "labels": {}, "drained_by": None, "drained_at": None}
    more |= {"account": "lab", "can_run_as": False}
    return {**node(name), **more, **fields}


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaster]:
    monkeypatch.setenv("COLUMNS", "80")
    with FakeMaster({}) as fake:
        monkeypatch.setenv("MUSTER_CONF", fake.conf(tmp_path))
        yield fake


def at_a_terminal(answer: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose stdin is a terminal at which somebody types `answer`."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer.encode() + b"\n")
        return subprocess.run(
            [sys.executable, "-m", "muster", *words],
            stdin=theirs, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(ours)
        os.close(theirs)


# -- lists ------------------------------------------------------------------------------------------------------


def test_nodes_say_what_ails_them_in_lines_that_fit(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    ill = [
        node("fine"),
        node("b", schedulable=False, drained="fan", reason="drained by ada: fan", tasks=[4]),
        node("c", state="unreachable", schedulable=False, reason="connection refused at 10.0.0.3:22: " + "x" * 200),
        node(
            "节点", state="untrusted", schedulable=False, reason=f"it shows {NEW}, known is {OLD}: `muster node trust`"
        ),
        node("e", schedulable=False, registry="leaving", reason=str(Message("leaving"))),
        node("f", schedulable=False, reason="the folder /data is not there\x1b[2J"),
    ]
    master.verbs.update({"node.list": lambda _: ill, "server.info": lambda _: {"registry_fault": None}})
    assert main(["nodes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[1:7]] == [
        "online", "draining", "unreachable", "untrusted", "leaving", "closed",
    ]  # fmt: skip
    # Nobody gets a GPU of a node that takes no tasks.
    assert [line.split()[2] for line in lines[1:7]] == ["2/2", *["0/2"] * 5]
    assert lines[8] == "b: drained by ada: fan"
    assert lines[-1] == "f: the folder /data is not there\\x1b[2J"
    assert all(width(line) <= 80 for line in lines)


@pytest.mark.parametrize("command", ["nodes", "status"])
def test_a_broken_registry_is_the_first_line(
    master: FakeMaster, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    info = {"started_at": 0.0, "version": "1", "pid": 1, "registry_fault": "/lab/gpu_slaver_info.json: line 1"}
    master.verbs.update({"node.list": lambda _: [node()], "server.info": lambda _: info})
    assert main([command]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == "the registry is broken, the last good one is in force: /lab/gpu_slaver_info.json: line 1"


def test_a_broken_conf_and_keys_that_wait_for_a_start_are_told(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    info = {
        "started_at": 0.0,
        "version": "1",
        "pid": 1,
        "conf_fault": "/lab/conf.json: \x1b[2J",
        "conf_at_start": ["tls"],
    }
    master.verbs.update({"node.list": lambda _: [node()], "server.info": lambda _: info})
    assert main(["status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "conf.json is broken, its last good values are in force: /lab/conf.json: \\x1b[2J"
    assert "conf     takes effect at the next start: tls" in lines


def test_status_lists_what_was_set_in_place_of_another_value_in_conf_json(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {"name": "scheduler.grace_s", "value": 30.0, "default": 10.0, "unit": "seconds", "range": {"none": False}}
    info = {"started_at": 0.0, "version": "1", "pid": 1, "conf_outranked": [{**said, "by": "ann\x1b[2J"}]}
    master.verbs.update({"node.list": lambda _: [node()], "server.info": lambda _: info})
    assert main(["status"]) == 0
    assert (
        "set      scheduler.grace_s is 30s, set by ann\\x1b[2J; conf.json says 10s "
        "(`muster set --default scheduler.grace_s`)"
    ) in capsys.readouterr().out.splitlines()


def test_status_tells_of_shares_of_the_queue_of_which_much_is_taken(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    little = {"waiting": 4, "most_waiting": 100, "bytes": 0, "most_bytes": 1 << 30}
    much = {**little, "waiting": 90, "bytes": 600 << 20}
    info: dict[str, Any] = {"started_at": 0.0, "version": "1", "pid": 1, "user": "ann", "share": little}
    info |= {"filled": {**little, "most_waiting": 200}, "near_shares": []}
    master.verbs.update({"node.list": lambda _: [node()], "server.info": lambda _: info})
    assert main(["status"]) == 0
    assert "queue " not in capsys.readouterr().out
    info |= {"share": {**little, "waiting": 50}, "filled": {**little, "waiting": 160, "most_waiting": 200}}
    remedy = "ask ann to cancel some (`muster queue --user ann`), lower limits.user_share, or raise it "
    remedy += "(`muster set limits.waiting_tasks N`)"
    info["near_shares"] = [{**much, "user": "ann"}, {**much, "user": "bob\x1b[2J"}]
    assert main(["status"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("queue")] == [
        "queue    of yours 50 tasks wait, and 100 may",
        "queue    of bob\\x1b[2J 90 tasks wait, and 100 may",
        f"queue    is nearly full: 160 of 200 tasks wait (limits.waiting_tasks), 90 of ann: {remedy}",
    ]


def test_that_nobody_was_answered_for_long_is_told_with_the_function(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    stall = {
        "at": 0.0,
        "wall": 4.0,
        "cpu": 1.5,
        "where": "master.app.main > master.engine.engine.Engine._commit\x1b[2J",
    }
    info = {"started_at": 0.0, "version": "1", "pid": 1, "loop": {"longest": [stall, {**stall, "wall": 0.3}]}}
    master.verbs.update({"node.list": lambda _: [node()], "server.info": lambda _: info})
    assert main(["status"]) == 0
    [told] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("loop ")]
    assert "4,000 ms (1,500 ms of a CPU)" in told
    assert told.endswith("in master.engine.engine.Engine._commit\\x1b[2J; more in --json")
    info["loop"] = {"longest": [{**stall, "wall": 0.2}]}
    assert main(["status"]) == 0
    assert "loop " not in capsys.readouterr().out


@pytest.mark.real
def test_a_broken_registry_is_red_on_a_terminal(master: FakeMaster) -> None:
    info = {"registry_fault": "it is broken"}
    master.verbs.update({"node.list": lambda _: [node()], "server.info": lambda _: info})
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen:
        subprocess.run([sys.executable, "-m", "muster", "nodes"], stdout=theirs, cwd=ROOT, check=True,
                       env={**os.environ, "TERM": "xterm"}, timeout=60)  # fmt: skip
        os.close(theirs)
        assert screen.read(4096).startswith(b"\x1b[31mthe registry is broken")


def test_of_a_node_that_was_never_there_nothing_is_made_up(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    away = page(state="unreachable", schedulable=False, cpus=0, slots=0, reason="refused")
    master.verbs.update({"node.list": lambda _: [away], "node.show": lambda _: away, "server.info": lambda _: {}})
    assert main(["nodes"]) == 0
    head, row, *_ = capsys.readouterr().out.splitlines()
    assert "CPUS" not in head
    assert "SLOTS" not in head
    assert row.split()[:3] == ["a", "unreachable", "0/2"]
    assert main(["node", "show", "a"]) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines() if "A100" in line] == ["?", "?"]


def test_a_node_is_shown_with_its_temporary_disk_where_its_master_tells_that(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    of_older = page("b")
    del of_older["tmp_disk_mib"], of_older["tmp_disk_held_mib"]
    master.verbs.update({"node.show": lambda asked: page() if asked["name"] == "a" else of_older})
    assert main(["node", "show", "a"]) == 0
    assert "tmp disk:   200G (50G held)" in capsys.readouterr().out.splitlines()
    assert main(["node", "show", "b"]) == 0
    assert "tmp disk" not in capsys.readouterr().out


def test_status_counts_nodes_by_the_word_and_lists_the_first_few_that_are_ill(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    ill = [node(f"n{number}", state="unreachable", schedulable=False, reason=f"gone {number}") for number in range(8)]
    drained = node("d", schedulable=False, drained="fan")
    info = {"started_at": 0.0, "version": "1", "pid": 1, "tasks": {"running": 1}}
    master.verbs.update({"node.list": lambda _: [drained, *ill], "server.info": lambda _: info})
    assert main(["status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "nodes    1 drained, 8 unreachable" in lines
    assert lines[-2:] == ["n4: gone 4", "… and 3 more: `muster nodes`"]


def test_status_counts_the_gpus_that_get_no_tasks_beside_those_in_use(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    held, used, away = node("a"), node("b"), node("c", state="unreachable")
    held["gpus"][0] |= {"held_by": [7], "health": "its share was outgrown"}
    used["gpus"][0]["health"] = away["gpus"][0]["health"] = "held by attempt 3.1.x of unknown origin"
    info = {"started_at": 0.0, "version": "1", "pid": 1}
    listed: list[dict[str, Any]] = [held, used, away]
    master.verbs.update({"node.list": lambda _: listed, "server.info": lambda _: info})
    assert main(["status"]) == 0
    assert "gpus     1 of 6 in use, 1 closed to tasks (`muster nodes`)" in capsys.readouterr().out.splitlines()
    listed[:] = [held]
    assert main(["status"]) == 0
    assert "gpus     1 of 2 in use" in capsys.readouterr().out.splitlines()


def test_a_nodes_page_shows_who_holds_what(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    shown = page(
        tasks=[7], labels={"房间": "2"}, drained="fan", drained_by="ada", drained_at=0.0, schedulable=False,
        reason="drained by ada: fan",
    )  # fmt: skip
    shown["gpus"][1]["held_by"] = [7]
    master.verbs["node.show"] = lambda _: shown
    master.verbs["task.list"] = lambda _: {"tasks": [task(7, "running", name="train", started_at=1.0)], "total": 1}
    assert main(["node", "show", "a"]) == 0
    said = capsys.readouterr().out
    for part in (
        "draining", "drained by ada: fan", "ssh, lab@10.0.0.1, port 22", "a.lab, Python 3.11.2, agent 0123456789ab",
        "16 (2 held)", "房间=2", "train", "as the account lab",
    ):  # fmt: skip
        assert part in said
    assert main(["--json", "node", "show", "a"]) == main(["node", "show", "a", "--json"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert json.loads(first) == json.loads(second) == shown


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            {"account": "root", "can_run_as": True},
            "tasks run:  as their owners, once there are users; those of the user who runs the master as root",
        ),
        ({"account": "lab", "can_run_as": False}, "tasks run:  as the account lab, which all of them share"),
        ({"account": None, "can_run_as": False}, ""),
        (
            {"account": "lab", "own_account": "admins"},
            "tasks run:  as the master's own account, lab: admins' tasks only",
        ),
        (
            {"account": "lab", "own_account": "opened"},
            "tasks run:  as the master's own account, lab: everybody's tasks, since an admin opened it",
        ),
    ],
)
def test_a_nodes_page_says_whose_rights_tasks_have(
    master: FakeMaster, capsys: pytest.CaptureFixture[str], keys: dict[str, Any], said: str
) -> None:
    master.verbs["node.show"] = lambda _: page(**keys)
    assert main(["node", "show", "a"]) == 0
    told = capsys.readouterr().out
    assert said in told
    assert bool(said) == ("tasks run" in told)


# -- the registry -----------------------------------------------------------------------------------------------


def test_add_writes_what_was_said_and_nothing_else(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    master.verbs["node.add"] = lambda _: {"node": node("b"), "needs_trust": True}
    words = ["--ip", "10.0.0.2", "--user", "lab", "--gpus", "2", "--gpu-model", "A100", "--gpu-memory", "40960,81920"]
    assert main(["node", "add", "b", *words, "--label", "room=2", "--label", "x=a=b"]) == 0
    assert master.asked("node.add") == [{
        "node": {
            "name": "b", "ip": "10.0.0.2", "user_name": "lab", "gpu_count": 2, "gpu_info": ["A100", "A100"],
            "gpu_memory": [40960, 81920], "labels": {"room": "2", "x": "a=b"},
        }
    }]  # fmt: skip
    assert "muster node trust b" in capsys.readouterr().out
    assert main(["node", "add", "room 2", *words]) == 0
    assert "muster node trust 'room 2'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        (["port=2222", "proxy="], {"port": 2222, "proxy": None}),
        (["user=lab", "gpu_count=1", "schedulable=no"], {"user_name": "lab", "gpu_count": 1, "schedulable": False}),
        (["gpu-model=V100"], {"gpu_info": ["V100", "V100"]}),
        (["gpus=3", "gpu_info=V100"], {"gpu_count": 3, "gpu_info": ["V100", "V100", "V100"]}),
        (["label.room=3", "label.x="], {"labels": {"room": "3", "y": "1"}}),
        (["label.room=", "label.x=", "label.y="], {"labels": None}),
    ],
)
def test_edit_reads_each_key_as_its_kind(master: FakeMaster, said: list[str], asked: dict[str, Any]) -> None:
    master.verbs["node.show"] = lambda _: page(labels={"room": "2", "x": "1", "y": "1"})
    master.verbs["node.edit"] = lambda _: {"node": node(), "deferred": False, "tasks": []}
    assert main(["node", "edit", "a", *said]) == 0
    assert master.asked("node.edit") == [{"name": "a", "changes": asked}]


def test_an_edit_that_has_to_wait_says_for_what(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    master.verbs["node.edit"] = lambda _: {"node": node(), "deferred": True, "tasks": [3, 4, 5]}
    assert main(["node", "edit", "a", "ip=10.0.0.9"]) == 0
    assert "when its last task has ended, and no new ones start before: 3 tasks run there (3-5)" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("node", "drian", "a"), "invalid choice"),
        (("node", "add", "b"), "--gpus"),
        (("node", "add", "b", "--gpus", "-1"), "whole number"),
        (("node", "add", "b", "--gpus", "1", "--gpu-model", "a,,b"), "list"),
        (("node", "edit", "a"), "KEY=VALUE"),
        (("node", "edit", "a", "gpu"), "KEY=VALUE"),
        (("node", "edit", "a", "gpuz=1"), "there is no key"),
        (("node", "edit", "a", "name=b"), "a node keeps its name"),
        (("node", "edit", "a", "port=x"), "whole number"),
        (("node", "rm"), "NAME"),
        (("node", "trust"), "--all"),
        (("node", "trust", "a", "--all"), "--all"),
        (("node", "trust", "a", "b", "--fingerprint", NEW), "one node"),
        (("agents", "stap"), "invalid choice"),
        (("agents",), "required: ACTION; "),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(
    words: tuple[str, ...], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(list(words)) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: usage: ")
    assert said.count("\n") == 1
    assert hint in said


# -- several nodes, and questions -------------------------------------------------------------------------------


def test_one_refused_node_does_not_stop_the_others(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    def drain(params: dict[str, Any]) -> dict[str, Any]:
        if params["name"] == "x":
            raise Refusal("not_found", unknown_node("x"))
        return node(params["name"], tasks=[9], drained=params["reason"])

    master.verbs["node.drain"] = drain
    assert main(["node", "drain", "a", "x", "b", "--reason", "fan", "--json"]) == 1
    output = capsys.readouterr()
    assert [shown["name"] for shown in json.loads(output.out)] == ["a", "b"]
    assert output.err == f"error: not_found: {unknown_node('x')}\n"


def test_drain_waits_until_nothing_runs_there(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    left = iter([[9], [9], []])
    master.verbs["node.drain"] = lambda _: node(tasks=[9])
    master.verbs["node.show"] = lambda _: page(tasks=next(left))
    assert main(["node", "drain", "a", "--wait"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "node a: nothing runs there any more"
    assert len(master.asked("node.show")) == 3


def test_resume_opens_a_node_whose_tasks_have_the_masters_own_account(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    master.verbs["node.resume"] = lambda _: node(reason=None)
    assert main(["node", "resume", "a", "--own-account"]) == 0
    assert "open to everybody's tasks again, which run as the master's own account" in capsys.readouterr().out
    assert master.asked("node.resume") == [{"name": "a", "own_account": True}]
    assert main(["node", "resume", "a", "--own-account", "--gpu", "0"]) == 2


def test_resume_says_what_else_keeps_a_node_closed(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    master.verbs["node.resume"] = lambda _: node(state="unreachable", schedulable=False, reason="no route")
    assert main(["node", "resume", "a"]) == 0
    assert capsys.readouterr().out == "node a: resumed, but takes no tasks yet: no route\n"


@pytest.mark.parametrize("action", ["rm", "lost"])
def test_where_nobody_can_be_asked_yes_has_to_be_said(
    master: FakeMaster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    with Path(os.devnull).open() as nobody:
        monkeypatch.setattr(sys, "stdin", nobody)
        master.verbs["node.show"] = lambda _: page(tasks=[3], state="unreachable", reason="gone")
        master.verbs["node.remove"] = lambda _: {"name": "a", "leaving": True, "tasks": [3]}
        master.verbs["node.lost"] = lambda _: {"lost": [3]}
        assert main(["node", action, "a"]) == 1
        assert "--yes" in capsys.readouterr().err
        verb = "node.remove" if action == "rm" else "node.lost"
        assert master.asked(verb) == []
        assert main(["node", action, "a", "--yes"]) == 0
        assert len(master.asked(verb)) == 1


@pytest.mark.real
@pytest.mark.parametrize(("answer", "code", "done"), [("y", 0, 1), ("n", 1, 0), ("", 1, 0)])
def test_giving_up_a_node_is_explained_and_asked_for(master: FakeMaster, answer: str, code: int, done: int) -> None:
    master.verbs["node.show"] = lambda _: page(tasks=[3, 4], state="unreachable", reason="no route to host")
    master.verbs["node.lost"] = lambda _: {"lost": [3, 4]}
    ended = at_a_terminal(answer, "node", "lost", "a")
    assert ended.returncode == code
    assert "unreachable: no route to host" in ended.stdout
    assert "2 tasks run there (3-4)" in ended.stdout
    assert ended.stderr.startswith("Give up node a? [y/N] ")
    assert len(master.asked("node.lost")) == done


def over(login: str, number: int) -> dict[str, Any]:
    """A task that runs on the node over an SSH account; "" for the node's own."""
    part = {"node": "a", "gpus": [0], **({"login": login} if login else {})}
    return task(number, state="running", is_allocation=False, allocation=[part])


def of_accounts(**states: str | None) -> list[dict[str, Any]]:
    return [
        {"user": user, "user_name": f"{user}2", "state": state, "reason": "it refuses the key", "reason_messages": []}
        for user, state in states.items()
    ]


@pytest.mark.real
@pytest.mark.parametrize(("answer", "code", "done"), [("y", 0, 1), ("n", 1, 0)])
def test_giving_up_one_account_of_a_node_tells_its_tasks_alone(
    master: FakeMaster, answer: str, code: int, done: int
) -> None:
    master.verbs["node.show"] = lambda _: page(tasks=[3, 4], accounts=of_accounts(li="unreachable"))
    master.verbs["task.list"] = lambda _: {"tasks": [over("li2", 3), over("", 4)], "total": 2}
    master.verbs["node.lost"] = lambda _: {"lost": [3]}
    ended = at_a_terminal(answer, "node", "lost", "a", "--account", "li2")
    assert ended.returncode == code
    assert "account li2 of node a is unreachable: it refuses the key" in ended.stdout
    assert "1 task runs there (3)" in ended.stdout
    assert ended.stderr.startswith("Give up account li2 of node a? [y/N] ")
    assert master.asked("node.lost") == [{"name": "a", "account": "li2"}] * done


def test_an_account_that_answers_is_refused_by_the_master_and_nobody_is_asked(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: Any) -> Any:
        raise Refusal("conflict", Message("account_answers", account="li2", node="a"))

    master.verbs["node.show"] = lambda _: page(tasks=[3], accounts=of_accounts(li="online"))
    master.verbs["task.list"] = lambda _: {"tasks": [over("li2", 3)], "total": 1}
    master.verbs["node.lost"] = refuse
    assert main(["node", "lost", "a", "--account", "li2"]) == 1
    assert error_line("conflict", "account_answers", account="li2", node="a") in capsys.readouterr().err


# -- trust ------------------------------------------------------------------------------------------------------


def shows(known: str | None = None) -> Any:
    """A machine that shows NEW where `known` is what we know."""

    def trust(params: dict[str, Any]) -> dict[str, Any]:
        pinned = NEW in (known, params.get("fingerprint"))
        key = {"type": "ssh-ed25519", "fingerprint": NEW}
        return {"name": params["name"], "offered": key, "known": known, "pinned": pinned}

    return trust


@pytest.mark.real
def test_trust_shows_the_key_and_pins_exactly_what_was_shown(master: FakeMaster) -> None:
    master.verbs["node.trust"] = shows()
    refused = at_a_terminal("no", "node", "trust", "a")
    assert (refused.returncode, master.asked("node.trust")) == (1, [{"name": "a"}])
    agreed = at_a_terminal("yes", "node", "trust", "a")
    assert agreed.returncode == 0
    assert f"shown  {NEW} (ssh-ed25519)" in agreed.stdout
    assert master.asked("node.trust")[-1] == {"name": "a", "fingerprint": NEW}


def test_trust_warns_of_a_key_that_changed(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    master.verbs["node.trust"] = shows(OLD)
    assert main(["node", "trust", "a", "--yes"]) == 0
    said = capsys.readouterr().out
    assert "ANOTHER key" in said
    assert said.index(OLD) < said.index(NEW)


def test_trust_of_a_known_key_asks_nothing(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    master.verbs["node.trust"] = shows(NEW)
    assert main(["node", "trust", "a"]) == 0
    assert capsys.readouterr().out == f"node a: known already: {NEW} (ssh-ed25519)\n"


def test_trust_with_the_fingerprint_asks_nothing(master: FakeMaster) -> None:
    master.verbs["node.trust"] = shows()
    assert main(["node", "trust", "a", "--fingerprint", NEW]) == 0
    assert master.asked("node.trust") == [{"name": "a", "fingerprint": NEW}]


def test_trust_of_all_pins_new_keys_skips_known_ones_and_never_takes_a_changed_one(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = {"new": shows(), "known": shows(NEW), "changed": shows(OLD)}

    def trust(params: dict[str, Any]) -> Any:
        if params["name"] == "off":
            raise Refusal("conflict", Message("no_host_key", node="off", said="no route to host"))
        return keys[params["name"]](params)

    names = ["new", "known", "changed", "off"]
    master.verbs["node.list"] = lambda _: [*(node(name) for name in names), node("here", driver="local")]
    master.verbs["node.trust"] = trust
    assert main(["node", "trust", "--all", "--yes"]) == 1
    output = capsys.readouterr()
    assert "node new: pinned" in output.out
    assert "node known: known already" in output.out
    assert "node changed shows another key" in output.err
    assert "no route to host" in output.err
    assert [params["name"] for params in master.asked("node.trust") if "fingerprint" in params] == ["new"]


# -- agents -----------------------------------------------------------------------------------------------------


def test_agents_tell_for_which_nodes_it_was_done(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    master.verbs["agent.restart"] = lambda _: {"done": ["a"], "refused": {"b": str(Message("leaving"))}}
    assert main(["agents", "restart", "a", "b"]) == 1
    output = capsys.readouterr()
    assert output.out == "node a: agent restarted\n"
    assert output.err == f"error: conflict: node b: {Message('leaving')}\n"
    assert master.asked("agent.restart") == [{"nodes": ["a", "b"]}]
    master.verbs["agent.stop"] = lambda _: {"done": [], "refused": {}}
    assert main(["agents", "stop", "--json"]) == 0
    assert master.asked("agent.stop") == [{"nodes": []}]


@pytest.mark.real
def test_completion_knows_the_actions_and_their_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    asked = "COMP_WORDS=(muster node drain --r); COMP_CWORD=3; _shtab_muster; echo ${COMPREPLY[@]}"
    done = subprocess.run(["bash", "-c", f"{script}\n{asked}"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "--reason\n"


def unknown(**more: Any) -> dict[str, Any]:
    """An attempt of unknown origin."""
    known = {
        "node": "a",
        "launch_id": "3.1.x",
        "task": 3,
        "name": "training",
        "account": "kim",
        "gpus": [0, 2],
        "pid": 7,
    }
    times = {"started_at": 1e9, "since": 2e9, "log_path": "/logs/3.log", "ended_by": None, "dismissed_by": None}
    return {**known, **times, **more}


def test_attempts_of_unknown_origin_are_listed_with_what_is_not_known_of_them(
    master: FakeMaster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    bare = unknown(
        launch_id="4.1.\x1b[2Jy", task=None, gpus=None, pid=None, started_at=None, log_path=None, ended_by="ada"
    )
    master.verbs["node.attempts"] = lambda _: [unknown(), bare]
    assert main(["node", "attempts", "a"]) == 0
    told = capsys.readouterr()
    _, first, second = told.out.splitlines()
    assert all(word in first for word in ("3.1.x", "training", "kim", "0,2", "7", "held", "/logs/3.log"))
    assert second.count("unknown") == 2
    assert "ending" in second
    assert "\x1b" not in told.out
    assert "--adopt" in told.err
    assert main(["node", "attempts", "a", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[1]["gpus"] is None
    master.verbs["node.attempts"] = lambda _: []
    assert main(["node", "attempts", "a"]) == 0
    assert "no attempts of unknown origin" in capsys.readouterr().out


def test_an_attempt_is_adopted_at_once_and_ended_only_with_a_yes(
    master: FakeMaster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    master.verbs["node.adopt"] = lambda _: task(3, owner="kim")
    master.verbs["node.end_attempt"] = lambda _: unknown(ended_by="ada")
    assert main(["node", "attempts", "a", "--adopt", "3.1.x", "--gpu", "0,1"]) == 0
    assert "task 3 of kim" in capsys.readouterr().out
    assert master.asked("node.adopt") == [{"name": "a", "launch_id": "3.1.x", "gpus": [0, 1]}]
    with Path(os.devnull).open() as nobody:
        monkeypatch.setattr(sys, "stdin", nobody)
        assert main(["node", "attempts", "a", "--end", "3.1.x"]) == 1
    assert "--yes" in capsys.readouterr().err
    assert master.asked("node.end_attempt") == []
    assert main(["node", "attempts", "a", "--end", "3.1.x", "--yes"]) == 0
    assert master.asked("node.end_attempt") == [{"name": "a", "launch_id": "3.1.x"}]


def test_an_attempt_is_dismissed_only_with_a_yes_and_shown_as_that(
    master: FakeMaster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    master.verbs["node.dismiss_attempt"] = lambda _: unknown(dismissed_by="ada")
    master.verbs["node.attempts"] = lambda _: [unknown(dismissed_by="ada")]
    with Path(os.devnull).open() as nobody:
        monkeypatch.setattr(sys, "stdin", nobody)
        assert main(["node", "attempts", "a", "--dismiss", "3.1.x"]) == 1
    assert master.asked("node.dismiss_attempt") == []
    assert main(["node", "attempts", "a", "--dismiss", "3.1.x", "--yes"]) == 0
    assert master.asked("node.dismiss_attempt") == [{"name": "a", "launch_id": "3.1.x"}]
    capsys.readouterr()
    assert main(["node", "attempts", "a"]) == 0
    told = capsys.readouterr()
    assert "dismissed" in told.out
    assert told.err == ""


def test_an_attempt_is_adopted_for_the_user_who_is_named(master: FakeMaster) -> None:
    master.verbs["node.adopt"] = lambda _: task(3, owner="li")
    assert main(["node", "attempts", "a", "--adopt", "3.1.x", "--owner", "li"]) == 0
    assert master.asked("node.adopt") == [{"name": "a", "launch_id": "3.1.x", "owner": "li"}]


@pytest.mark.parametrize(
    "words",
    [
        ["--gpu", "0"],
        ["--end", "x", "--gpu", "0"],
        ["--end", "x", "--adopt", "y"],
        ["--dismiss", "x", "--end", "x"],
        ["--owner", "li"],
        ["--end", "x", "--owner", "li"],
    ],
)
def test_what_does_not_go_together_about_attempts_is_refused(
    master: FakeMaster, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main(["node", "attempts", "a", *words]) != 0
    assert capsys.readouterr().err.startswith("error: usage: ")
    assert master.asked("node.adopt") == master.asked("node.end_attempt") == []
