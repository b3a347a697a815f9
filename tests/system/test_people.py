"""A lab with users, as real processes: whose tasks may run where, and what a task can ask of the queue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.api import Client, connect
from tests.faults import in_words
from tests.system.lab import Lab
from tests.system.root_lab import RootLab
from tests.testbed.bed import Testbed
from tests.waiting import PATIENCE_S, until
from wire.errors import ForbiddenError, MusterError
from wire.message import Message, names


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """One node, whose tasks run as the master's own account, and nobody but its owner."""
    lab = Lab(tmp_path, nodes=1)
    try:
        lab.start()
        yield lab
    finally:
        lab.close()


def user(lab: Lab, name: str, **fields: Any) -> Client:
    """Add a user; his connection, by a token."""
    with lab.client() as admin:
        admin.call("user.add", {"name": name, **fields}, repeatable=False)
        token = admin.call("token.new", {"name": name}, repeatable=False)["token"]
    return connect(conf=str(lab.conf), token=token)


def state(client: Client, task: int) -> str:
    """How it stands with it."""
    return client.show(task)["state"]


def test_who_is_disabled_is_cut_off_and_his_tasks_wait_for_him(lab: Lab) -> None:
    with user(lab, "ann", role="admin") as ann, lab.client() as owner:
        task = ann.submit("true", hold=True)
        waiting = ann.submit("true", node="node0", gpus=8, after=[{"id": task}])
        owner.call("user.disable", {"name": "ann"})
        with pytest.raises(MusterError, match="ann is disabled"):
            ann.call("task.list", {})
        until("why it waits is told", lambda: "disabled" in str(owner.show(waiting)["reason"]))
        owner.call("user.enable", {"name": "ann"})
        assert owner.show(waiting)["state"] == "waiting"


def test_what_was_said_of_people_outlives_a_kill(lab: Lab) -> None:
    with user(lab, "ann") as ann:
        task = ann.submit("true", hold=True)
        token = ann.token
    lab.kill_master()
    lab.start()
    with connect(conf=str(lab.conf), token=token) as ann:
        assert ann.call("auth.whoami", {})["user"] == "ann"
        assert ann.show(task)["owner"] == "ann"


def test_a_service_comes_in_from_the_first_start_on_and_a_start_that_is_refused_does_not_shut_it_out(lab: Lab) -> None:
    def as_metrics() -> str | None:
        token = (lab.task_info / "services" / "metrics").read_text(encoding="ascii").strip()
        with connect(conf=str(lab.conf), token=token) as service:
            via: str | None = service.call("auth.whoami", {})["via"]
            return via

    assert as_metrics() == "service"
    assert lab.launch_master().wait(PATIENCE_S) != 0, "another master works on the folder"
    assert as_metrics() == "service"


@pytest.fixture
def rooted(testbed: Testbed, tmp_path: Path) -> Iterator[RootLab]:
    """A host whose agent is root and where people have accounts, and one whose agent is of a shared account."""
    one, other = testbed.hosts[:2]
    lab = RootLab(tmp_path / "lab", testbed, hosts=[one, other], shared=[other])
    lab.is_mapped = False
    yield lab
    left = lab.close()
    testbed.renew()
    assert left == []


def test_a_users_task_has_his_rights_where_the_agent_is_root_and_commands_nobody(rooted: RootLab) -> None:
    lab = rooted
    first, shared = lab.nodes
    lab.start_trusted()
    with lab.client() as owner:
        before = owner.submit("id -un", node=first)
        until("as ever, while nobody was added", lambda: state(owner, before) == "succeeded")
        assert said(owner, before) == "root"
        for name in ("alice", "bob", "dave"):
            owner.call("user.add", {"name": name}, repeatable=False)
        tokens = {
            name: owner.call("token.new", {"name": name}, repeatable=False)["token"]
            for name in ("alice", "bob", "dave")
        }
        with connect(conf=str(lab.conf), token=tokens["alice"]) as alice:
            numbers = [alice.submit("id -un", node=node) for node in (first, shared)]
            until("hers ran", lambda: {state(alice, number) for number in numbers} == {"succeeded"})
            assert [said(alice, number) for number in numbers] == ["alice", "lab"]
            with connect(conf=str(lab.conf), token=tokens["bob"]) as bob, pytest.raises(ForbiddenError):
                bob.read_log(numbers[0], 0)
        with connect(conf=str(lab.conf), token=tokens["dave"]) as dave:
            number = dave.submit("true", node=first)
            until("he has no account there", lambda: state(dave, number) == "failed")
            assert f"there is no account dave on {first}" in str(dave.show(number)["reason"])
        told = {node: lab.muster("node", "doctor", node).stdout for node in (first, shared)}
        no_account = str(Message("doctor_no_accounts", users=names(["dave"])))
        assert [no_account in told[node] for node in (first, shared)] == [True, False], told
        after = owner.submit("id -un", node=first)
        until("the owner's tasks run as they did", lambda: state(owner, after) == "succeeded")
        assert said(owner, after) == "root"
        assert [user["name"] for user in owner.call("user.list", {})][:3] == ["alice", "bob", "dave"]


def said(client: Client, task: int) -> str:
    """The first word of its log."""
    return client.read_log(task, 0)[0].split()[0].decode()


def test_what_is_the_masters_own_lies_in_no_folder_that_users_may_see(lab: Lab) -> None:
    lab.stop_master()
    lab.write_conf(root=str(lab.folder.parent), visible_folders=[lab.folder.name])
    lab.start()
    with lab.client() as owner, pytest.raises(MusterError) as told:
        owner.call("user.add", {"name": "ann"}, repeatable=False)
    assert told.value.values["fault"]["key"] == "own_files_visible"
    lab.stop_master()
    lab.write_conf(visible_folders=[])
    lab.start()
    with user(lab, "ann"):
        pass
    lab.stop_master()
    lab.write_conf(visible_folders=[lab.folder.name])
    refused = lab.muster("up", "--detach")
    assert refused.returncode == 1
    assert in_words(refused.stderr, "own_files_visible", above=str(lab.folder))


def test_who_is_called_like_whoever_runs_the_master_is_an_admin(lab: Lab) -> None:
    with lab.client() as owner:
        ours = owner.call("auth.whoami", {})["user"]
        with pytest.raises(MusterError) as told:
            owner.call("user.add", {"name": ours}, repeatable=False)
        assert (told.value.key, told.value.values) == ("own_account_is_admins", {"name": ours})
        owner.call("user.add", {"name": ours, "role": "admin"}, repeatable=False)
        with pytest.raises(MusterError) as told:
            owner.call("user.edit", {"name": ours, "changes": {"role": "user"}})
        assert told.value.key == "own_account_is_admins"
