"""A lab with users, as real processes: whose tasks may run where, and what a task can ask of the queue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.api import Client, connect
from tests.system.lab import Lab
from tests.waiting import PATIENCE_S, until
from wire.errors import MusterError


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


def test_from_the_second_user_on_only_admins_tasks_run_as_the_masters_own_account(lab: Lab) -> None:
    with user(lab, "ann", role="admin") as ann:
        first = ann.submit("true")
        until("the only user's task runs", lambda: state(ann, first) == "succeeded")
        with user(lab, "bob") as bob:
            bobs, anns = bob.submit("true"), ann.submit("true")
            until("the admin's task runs", lambda: state(ann, anns) == "succeeded")
            why = str(bob.call("task.why", {"id": bobs}))
            assert "the account of the master itself" in why
            assert "docs/deployment.md" in why
            assert state(bob, bobs) == "waiting"
            with pytest.raises(MusterError, match="the account of the master itself"):
                bob.call("env.python", {"env": "base"})
            ann.call("user.edit", {"name": "bob", "changes": {"role": "admin"}})
            until("what he is an admin for", lambda: state(bob, bobs) == "succeeded")


def test_who_is_disabled_is_cut_off_and_his_tasks_wait_for_him(lab: Lab) -> None:
    with user(lab, "ann", role="admin") as ann, lab.client() as owner:
        task = ann.submit("true", hold=True)
        waiting = ann.submit("true", node="node0", gpus=8, after=[{"id": task}])
        owner.call("user.disable", {"name": "ann"})
        with pytest.raises(MusterError, match="opens nothing"):
            ann.call("task.list", {})
        assert "disabled" in str(owner.show(waiting)["reason"])
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
