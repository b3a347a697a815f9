"""Tasks over the SSH accounts of their owners: a real host with an sshd, where alice, bob and carol have accounts and
no agent is root."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from master.durable import failpoint
from tests.faults import reason_of, says
from tests.soak import one_in
from tests.system.accounts_lab import AccountsLab, let_in, shut_out
from tests.system.chaos import AGENT_FAILPOINTS, SHIM_KILLS, let_share
from tests.system.lab import rewrite
from tests.system.ssh_asking import NOTICED_S, Door, ended, node_of, submit, task_of, until_running
from tests.system.ssh_lab import ssh_oracle
from tests.system.test_failpoints import finish, start_clients
from tests.testbed import processes
from tests.testbed.accounts import PEOPLE
from tests.testbed.bed import Testbed
from tests.waiting import until
from wire.message import Message

if TYPE_CHECKING:
    from client.shapes import NodeAccount


@pytest.fixture
def accounts_lab(testbed: Testbed, tmp_path: Path) -> Iterator[AccountsLab]:
    """One host."""
    lab = AccountsLab(tmp_path / "lab", testbed, testbed.hosts[2])
    let_share(lab)
    yield lab
    left = lab.close()
    testbed.renew()
    assert left == []


def owners_of(lab: AccountsLab, number: int) -> set[int]:
    """The uids of what lives of a task."""
    launch_id = task_of(lab, number)["allocation"][0]["launch_id"]
    alive = [one.pid for one in lab.host.attempts() if one.launch_id == launch_id]
    return {uid for uid in map(processes.owner, alive) if uid is not None}


def _has_begun(log: Path) -> bool:
    return log.exists() and "in\n" in log.read_text(encoding="utf-8")


def begun(lab: AccountsLab, name: str, code: int, gpus: int = 1) -> tuple[int, Door]:
    """A task of somebody's that runs until it is let out."""
    lab.be(name)
    door = Door(lab, f"{name}-{code}", code)
    number = submit(lab, f"id -un; pwd; {door.command}", lab.host.name, gpus=gpus)
    until_running(lab, number)
    return number, door


def test_each_one_s_tasks_run_over_his_account_and_outlive_the_master_and_its_agents(
    accounts_lab: AccountsLab,
) -> None:
    lab = accounts_lab
    lab.start_trusted()
    hers, alices = begun(lab, "alice", 5)
    assert lab.agent_of("bob") is None  # nothing of his was ever to be started
    his, bobs = begun(lab, "bob", 6, gpus=2)
    for name, number in (("alice", hers), ("bob", his)):
        part = task_of(lab, number)["allocation"][0]
        assert (part["login"], part["account"]) == (name, name)
        assert owners_of(lab, number) == {PEOPLE[name]}
        log = Path(task_of(lab, number)["log_path"])
        until("its first words", partial(_has_begun, log))
        assert log.stat().st_uid == PEOPLE[name]
        assert log.read_text(encoding="utf-8").startswith(f"{name}\n")
    lab.kill_master()
    lab.kill_agent_of("alice")
    alices.open()
    lab.start()
    lab.await_online()
    assert ended(lab, hers) == ("failed", 5)
    assert task_of(lab, his)["state"] == "running"
    bobs.open()
    assert ended(lab, his) == ("failed", 6)
    until("nothing of them lives", lambda: not lab.strays(), NOTICED_S, seen=lab.strays)
    assert task_of(lab, hers)["attempt"] == task_of(lab, his)["attempt"] == 1


def test_that_the_agent_of_one_account_is_away_concerns_its_tasks_alone(accounts_lab: AccountsLab) -> None:
    lab = accounts_lab
    lab.start_trusted()
    hers, alices = begun(lab, "alice", 5)
    his, bobs = begun(lab, "bob", 0)
    shut_out(lab.host, "alice")
    lab.kill_agent_of("alice")
    until("that is noticed", lambda: states_of(lab)["alice"] == "unreachable", NOTICED_S)
    another = submit_as(lab, "alice", "true")
    until(
        "it is told why hers waits",
        lambda: says(why(lab, another), "account_away", account="alice"),
        NOTICED_S,
        seen=partial(why, lab, another),
    )
    assert node_of(lab, lab.host.name)["state"] == "online"
    bobs.open()
    assert ended(lab, his) == ("succeeded", 0)
    assert ended(lab, submit_as(lab, "bob", "id -un")) == ("succeeded", 0)
    assert task_of(lab, hers)["state"] == "running"
    alices.open()  # it ends while nobody can hear of it
    until("it is told why", lambda: "refuses the key" in reasons_of(lab)["alice"], seen=partial(reasons_of, lab))
    assert states_of(lab)["alice"] == "unreachable"
    let_in(lab.host, "alice", lab.key_files["alice"])
    lab.muster("agents", "start", lab.host.name)
    assert ended(lab, hers) == ("failed", 5)
    assert ended(lab, another) == ("succeeded", 0)


def accounts_of(lab: AccountsLab) -> list[NodeAccount]:
    with lab.client() as client:
        return client.node(lab.host.name)["accounts"] or []


def states_of(lab: AccountsLab) -> dict[str, str | None]:
    return {one["user"]: one["state"] for one in accounts_of(lab)}


def reasons_of(lab: AccountsLab) -> dict[str, str]:
    return {one["user"]: one["reason"] or "" for one in accounts_of(lab)}


def submit_as(lab: AccountsLab, name: str, command: str) -> int:
    lab.be(name)
    return submit(lab, command, lab.host.name, gpus=1)


def why(lab: AccountsLab, number: int) -> Message | None:
    return reason_of(task_of(lab, number))


def test_who_has_no_account_there_waits_with_the_cure_until_he_has_one(accounts_lab: AccountsLab) -> None:
    lab = accounts_lab
    lab.start_trusted()
    hers = submit_as(lab, "carol", "id -un")
    until("it is told why", lambda: says(why(lab, hers), "no_account_there"), seen=partial(why, lab, hers))
    assert lab.agent_of("carol") is None
    lab.write_registry([lab.entry(lab.host, accounts={**lab.account("alice"), **lab.account("carol")})])
    assert ended(lab, hers) == ("succeeded", 0)
    assert task_of(lab, hers)["allocation"][0]["login"] == "carol"


def test_an_account_that_is_not_named_any_more_keeps_what_runs_there(accounts_lab: AccountsLab) -> None:
    lab = accounts_lab
    lab.start_trusted()
    hers, door = begun(lab, "alice", 7)
    lab.write_registry([lab.entry(lab.host, accounts=lab.account("carol"))])
    until("that is noticed", lambda: set(states_of(lab)) == {"bob", "carol"})
    another = submit_as(lab, "alice", "true")
    until("hers waits", lambda: says(why(lab, another), "no_account_there"), seen=partial(why, lab, another))
    lab.muster("cancel", str(another))
    lab.kill_master()
    lab.start()
    lab.await_online()
    assert task_of(lab, hers)["state"] == "running"
    lab.write_registry([lab.entry(lab.host)])
    door.open()
    assert ended(lab, hers) == ("failed", 7)


def test_a_key_in_which_others_have_a_hand_opens_nothing_and_is_told_nowhere(accounts_lab: AccountsLab) -> None:
    lab = accounts_lab
    key = lab.key_files["alice"]
    key.chmod(0o640)
    lab.start_trusted()
    hers = submit_as(lab, "alice", "true")
    until("it is told why", lambda: says(why(lab, hers), "key_file_open"), NOTICED_S, seen=partial(why, lab, hers))
    doctor = lab.muster("node", "doctor", lab.host.name)
    assert "alice's tasks wait" in doctor.stdout
    assert "bob's" not in doctor.stdout
    assert "alice (unreachable: key_file" in lab.muster("node", "show", lab.host.name).stdout
    key.chmod(0o600)
    lab.muster("agents", "start", lab.host.name)
    assert ended(lab, hers) == ("succeeded", 0)
    secret = key.read_text(encoding="ascii").splitlines()[2]
    told = [lab.server_log(), lab.muster("node", "show", lab.host.name).stdout, lab.muster("show", str(hers)).stdout]
    kept = [path for path in lab.task_info.rglob("*") if path.is_file()]
    told += [path.read_text(encoding="utf-8", errors="replace") for path in kept]
    assert not [text for text in told if secret in text]


def test_an_account_that_is_gone_for_good_is_given_up_alone_as_the_doctor_says(accounts_lab: AccountsLab) -> None:
    lab = accounts_lab
    lab.start_trusted()
    hers, _ = begun(lab, "alice", 5)
    his, bobs = begun(lab, "bob", 0)
    shut_out(lab.host, "alice")
    lab.kill_agent_of("alice")
    until("that is noticed", lambda: states_of(lab)["alice"] == "unreachable", NOTICED_S)
    doctor = lab.muster("node", "doctor", lab.host.name).stdout
    assert f"`muster node lost {lab.host.name} --account alice` gives up" in doctor
    lab.muster("node", "lost", lab.host.name, "--account", "alice", "--yes")
    assert (task_of(lab, hers)["state"], task_of(lab, his)["state"]) == ("lost", "running")
    assert f"alice@{lab.host.name}" in lab.muster("audit", "--verb", "node.lost").stdout
    goes = submit_as(lab, "bob", "id -un")
    assert ended(lab, goes) == ("succeeded", 0)
    bobs.open()
    assert ended(lab, his) == ("succeeded", 0)
    assert owners_of(lab, hers) == {PEOPLE["alice"]}  # it does run on: nobody could end it
    let_in(lab.host, "alice", lab.key_files["alice"])
    lab.muster("agents", "start", lab.host.name)
    assert ended(lab, submit_as(lab, "alice", "id -un")) == ("succeeded", 0)
    until("what was left of it is dead", lambda: not lab.strays(), NOTICED_S, seen=lab.strays)


TRAFFIC = [name for name in failpoint.TRAFFIC if name.startswith(("launch", "started", "exit"))]


@pytest.mark.parametrize("name", one_in(4, TRAFFIC))
def test_a_master_that_dies_here_comes_back_and_every_task_of_an_account_runs_once(
    accounts_lab: AccountsLab, testbed: Testbed, name: str
) -> None:
    lab, oracle = accounts_lab, ssh_oracle(testbed)
    lab.be("alice")
    lab.start_trusted()
    lab.stop_master()
    lab.start(name)
    jobs, clients = start_clients(lab, oracle)
    lab.await_failpoint()
    lab.start()
    finish(lab, oracle, jobs, clients)


@pytest.mark.parametrize("name", one_in(2, sorted(set(AGENT_FAILPOINTS) - SHIM_KILLS)))
def test_an_agent_of_an_account_that_dies_here_comes_back_and_every_task_runs_once(
    accounts_lab: AccountsLab, testbed: Testbed, name: str
) -> None:
    lab, oracle = accounts_lab, ssh_oracle(testbed)
    lab.be("alice")
    lab.start_trusted()
    lab.muster("node", "doctor", lab.host.name)  # begins the agents of all accounts
    armed = lab.state_of("alice") / "failpoint"
    rewrite(armed, name)
    jobs, clients = start_clients(lab, oracle)
    until("the failpoint is reached", lambda: not armed.exists(), NOTICED_S)
    finish(lab, oracle, jobs, clients)


@pytest.mark.parametrize("name", one_in(3, sorted(SHIM_KILLS)))
def test_a_shim_of_an_account_that_dies_here_costs_at_most_the_knowledge_of_one_exit(
    accounts_lab: AccountsLab, testbed: Testbed, name: str
) -> None:
    lab, oracle = accounts_lab, ssh_oracle(testbed)
    lab.be("alice")
    lab.start_trusted()
    lab.muster("node", "doctor", lab.host.name)  # begins the agents of all accounts
    armed = lab.state_of("alice") / "failpoint"
    rewrite(armed, name)
    jobs, clients = start_clients(lab, oracle)
    until("the failpoint is reached", lambda: not armed.exists(), NOTICED_S)
    finish(lab, oracle, jobs, clients, lost=1)
    with lab.client() as asking:
        lost = [task for task in asking.tasks(active=False, ended=True) if task["state"] == "lost"]
    assert len(lost) == (0 if name == "shim.after_exit_record" else 1)
