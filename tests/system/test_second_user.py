"""When a second user is added, nodes whose tasks run as the master's own account are closed to users: who is warned."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial

from tests.system.lab import ROOT, Lab
from tests.waiting import until
from wire.message import Message, names

CLOSED = str(Message("own_account_closed", users=names(["bob"]), nodes=names(["node0"]), account="root"))
OWN = Message("own_account_node", account="root")
CURE = Message("do_let_users_in")
BOUND = ["setpriv", "--bounding-set=-setuid,-setgid,-chown,-kill"]
"""Root as in many containers: its agents cannot run tasks as their owners."""


def typed(lab: Lab, *words: str, token: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command, as the master's own account or with a token."""
    env = {**lab.environment(), "MUSTER_CONF": str(lab.conf), **({"MUSTER_TOKEN": token} if token else {})}
    done = subprocess.run(
        [sys.executable, "-m", "muster", *words], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done


def await_node(lab: Lab) -> None:
    with lab.client() as client:
        until("the node is online", lambda: client.nodes()[0]["state"] == "online")


def test_the_admin_and_the_user_are_warned_that_no_node_runs_the_users_tasks(
    make_system_lab: Callable[..., Lab],
) -> None:
    lab = make_system_lab(nodes=1)
    lab.before = BOUND
    lab.start()
    await_node(lab)
    muster = partial(typed, lab)
    assert CLOSED not in muster("users", "add", "ann", "--admin").stderr
    assert CLOSED not in muster("status").stdout, "one admin is no second user"
    added = muster("users", "add", "bob", "--json")
    assert json.loads(added.stdout)["name"] == "bob"
    assert CLOSED in added.stderr
    told = next(line for line in muster("status").stdout.splitlines() if line.startswith("users "))
    assert CLOSED in told
    assert CLOSED not in muster("users", "add", "cy", "--role", "viewer").stderr, "viewers submit nothing"
    doctor = muster("node", "doctor").stdout
    assert str(Message("doctor_keeps_out", users=names(["bob"]))) in doctor
    assert str(CURE) in doctor

    token = muster("tokens", "new", "--user", "bob").stdout.strip()
    note = muster("submit", "--", "true", token=token).stderr
    closed = Message("closed_nodes", nodes=names(["node0"]), why=OWN)
    waits = str(Message("closed_to_owner", reasons=(closed,)))
    assert f"note: {waits}" in note
    assert muster("submit", "--", "true").stderr == "", "an admin's task runs there"
    assert waits in muster("submit", "--strict", "--", "true", token=token, code=1).stderr
    assert CLOSED not in muster("status", token=token).stdout, "the submit tells bob"

    muster("users", "disable", "bob")
    assert CLOSED not in muster("status").stdout, "it concerns nobody"
    assert CLOSED in muster("users", "enable", "bob").stderr
    assert CLOSED not in muster("users", "edit", "bob", "role=admin").stderr
    assert CLOSED in muster("users", "edit", "bob", "role=user").stderr
    muster("node", "rm", "node0", "--yes")
    assert muster("users", "add", "dan").stderr == "user dan: added\n", "the node has left"
    assert CLOSED not in muster("status").stdout


def test_where_tasks_run_as_their_owners_nobody_is_warned(make_system_lab: Callable[..., Lab]) -> None:
    lab = make_system_lab(nodes=1)
    lab.write_conf(bind="0.0.0.0")  # noqa: S104  (others must be able to come in)
    lab.start()
    await_node(lab)
    for words in (("ann", "--admin"), ("bob",)):
        assert typed(lab, "users", "add", *words).stderr.splitlines() == [f"user {words[0]}: added"]
    assert "master itself" not in lab.muster("node", "doctor").stdout
    status = typed(lab, "status").stdout
    assert "tls      authority" in status
    assert "the master's own account" not in status
    assert "the account of the master itself" not in status
