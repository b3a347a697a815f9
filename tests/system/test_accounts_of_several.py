"""SSH accounts of owners where more than one thing has to do with them: a task on two nodes, several accounts that are
each ill in a way of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.system.accounts_lab import AccountsLab, shut_out
from tests.system.ssh_asking import NOTICED_S, ended, task_of, until_running
from tests.system.test_gangs import MEET
from tests.testbed import processes
from tests.testbed.accounts import PEOPLE
from tests.testbed.bed import Testbed
from tests.testbed.host import Host
from tests.waiting import until


@pytest.fixture
def two(testbed: Testbed, tmp_path: Path) -> Iterator[AccountsLab]:
    """Two hosts, started; on both alice and bob have accounts."""
    lab = AccountsLab(tmp_path / "lab", testbed, testbed.hosts[2], testbed.hosts[4])
    lab.start_trusted()
    yield lab
    left = lab.close()
    testbed.renew()
    assert left == []


def gang(lab: AccountsLab, name: str, command: str) -> int:
    """A task of somebody's on both hosts."""
    lab.be(name)
    with lab.client() as client:
        return client.submit(command, nodes=2, gpus=1)


def owners_on(host: Host) -> set[int | None]:
    """The uids of what lives of tasks there."""
    return {processes.owner(one.pid) for one in host.attempts()} - {None}


def test_the_parts_of_a_task_on_two_nodes_meet_each_over_the_account_of_its_owner(two: AccountsLab) -> None:
    lab = two
    (lab.root / "meet.py").write_text(MEET, encoding="utf-8")
    task = gang(lab, "alice", f"id -un; python3 {lab.root}/meet.py")
    assert ended(lab, task) == ("succeeded", 0)
    shown = task_of(lab, task)
    assert [(part["node"], part["login"]) for part in shown["allocation"]] == [(name, "alice") for name in lab.nodes]
    first = Path(shown["log_path"])
    for log, said in ((first, "heard from rank 1"), (first.with_name(f"{task}.1.log"), "1 2 ")):
        text = log.read_text(encoding="utf-8")
        assert (text.splitlines()[0], said in text, log.stat().st_uid) == ("alice", True, PEOPLE["alice"])
    until("nothing of it lives", lambda: not lab.strays(), seen=lab.strays)


def test_a_part_that_is_given_up_with_its_account_ends_the_other_over_a_restart_of_the_master(two: AccountsLab) -> None:
    lab = two
    first, second = lab.hosts.values()
    hers = gang(lab, "alice", "sleep 1000")
    until_running(lab, hers)
    his = gang(lab, "bob", "sleep 1000")
    until_running(lab, his)
    shut_out(first, "alice")
    lab.kill_agent_of("alice", first)
    lab.kill_master()
    lab.start()
    lab.await_online()
    until("the way to her account is told", lambda: "refuses the key" in why_away(lab, first), NOTICED_S)
    assert task_of(lab, hers)["state"] == "running"
    lab.muster("node", "lost", first.name, "--account", "alice", "--yes")
    assert ended(lab, hers) == ("lost", None)
    assert f"the account alice of node {first.name} was given up" in (task_of(lab, hers)["reason"] or "")
    until("her other part is dead", lambda: owners_on(second) == {PEOPLE["bob"]}, seen=partial(owners_on, second))
    assert task_of(lab, his)["state"] == "running"
    lab.muster("cancel", str(his))
    assert ended(lab, his)[0] == "cancelled"


def why_away(lab: AccountsLab, host: Host) -> str:
    """What is wrong with the way to alice's account."""
    with lab.client() as client:
        accounts = client.node(host.name)["accounts"] or []
    return next((one["reason"] or "" for one in accounts if one["user"] == "alice"), "")


def sick(lab: AccountsLab) -> dict[str, str]:
    """Make each account ill, and name one that is not there; by user what is to be told of it."""
    homes = lab.host.disk / "home"
    lab.key_files["alice"].chmod(0o640)
    shut_out(lab.host, "bob")
    (homes / "carol" / ".profile").write_text("exit 0\n", encoding="ascii")
    not_there = {"dave": {"user_name": "dave", "key_file": "keys/carol"}}
    accounts = {**lab.account("alice"), **lab.account("carol"), **not_there}
    lab.write_registry([lab.entry(host, accounts=accounts if host is lab.host else {}) for host in lab.hosts.values()])
    return {
        "alice's tasks wait": "chmod 600",
        "bob's tasks wait": "refuses the key",
        "dave's tasks wait": "refuses the key",
        "over the account carol": "log-in shell",
    }


def findings(lab: AccountsLab, host: Host) -> list[dict[str, Any]]:
    """What the doctor says of accounts there."""
    (node,) = json.loads(lab.muster("node", "doctor", host.name, "--json").stdout)
    return [one for one in node["findings"] if one["check"] in ("account", "environment")]


def test_the_doctor_finds_what_ails_each_account_and_says_it_of_no_other(two: AccountsLab) -> None:
    lab = two
    ills = sick(lab)
    until("the registry is read", lambda: "dave" in lab.muster("node", "show", lab.host.name).stdout)
    ill = [one for one in findings(lab, lab.host) if one["verdict"] != "ok"]
    for begins, words in ills.items():
        (found,) = [one for one in ill if one["told"].startswith(begins)]
        assert words in found["told"]
        assert found["cure"]
    assert len(ill) == len(ills)
    other = next(host for host in lab.hosts.values() if host is not lab.host)
    assert {one["verdict"] for one in findings(lab, other)} == {"ok"}
