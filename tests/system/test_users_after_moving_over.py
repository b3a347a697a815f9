"""A lab under the version before gets users under this one: whoever owned tasks goes on owning them without a log-in,
nothing that waits or runs is touched, and the desktop client goes on as it was."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from client.api import connect
from tests import landed
from tests.desktop.client import DesktopClient
from tests.faults import in_words
from tests.master.drivers.real_sshd import PASSWORD as SSH_PASSWORD
from tests.master.drivers.real_sshd import RealSshd, registry_entry
from tests.system.lab import PORTS, ROOT, Lab
from tests.system.test_moving_over_live import OldLab
from tests.waiting import until
from wire.errors import MusterError

TASKS, NODE = 6001, "boss"
PASSWORD = "gull kettle 七 orchard"  # noqa: S105


@pytest.fixture
def old(tmp_path: Path) -> Iterator[OldLab]:
    """A lab whose master is of the version before, and its tasks run as another account of its machine; what its owner,
    and somebody with the desktop client, queued."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp", prefix="muster-owners-")))
        folder.chmod(0o755)
        sshd = RealSshd(folder / "sshd", uid=TASKS)
        stack.callback(sshd.close)
        lab = Lab(folder / "lab", nodes=0)
        stack.callback(lab.close)
        (lab.folder / "psw").write_text(f"{SSH_PASSWORD}\n", encoding="utf-8")
        (lab.folder / "psw").chmod(0o600)
        for open_to_all in (lab.folder / "train_logs", lab.folder / "told"):
            open_to_all.mkdir(mode=0o777)
            open_to_all.chmod(0o777)
        sshd.start()
        node = sshd.node(NODE, host_key=sshd.host_key.fingerprint, key_file=None, gpu_count=4)
        lab.write_registry([{**registry_entry(node), "gpu_probe": "declared"}])
        made = OldLab(lab, landed.unpack("before", tmp_path / "code"), stack)
        made.told = lab.folder / "told" / "starts"
        lab.start()
        made.submit(
            ended=(made.quick(3), {}),
            runs=(made.work("go", 5), {"gpus": 1}),
            held=(made.quick(0), {"hold": True}),
            waits=(made.quick(0), {"gpus": 4}),
        )
        with window(made) as desktop:
            assert desktop.add(made.work("go", 6), need_gpus="1") == ""
            assert desktop.add(made.quick(7), need_gpus="4") == ""
        until("it has ended", lambda: made.states("ended") == [("failed", 3)])
        until("two run", lambda: len(running(made)) == 2 and len(shells(made)) == 2)
        yield made


def window(old: OldLab) -> DesktopClient:
    return DesktopClient({name: ("127.0.0.1", old.lab.keys["socket_info"][name]) for name in PORTS})


def listed(old: OldLab) -> dict[int, dict[str, Any]]:
    """All tasks, by id."""
    with old.lab.client() as client:
        return {task["id"]: dict(task) for task in client.tasks(active=True, ended=True)}


def running(old: OldLab) -> list[int]:
    return [number for number, task in listed(old).items() if task["state"] == "running"]


KEPT = ("owner", "state", "command", "priority", "submitted_at", "started_at", "attempt", "exit_code")


def told(old: OldLab) -> dict[int, list[Any]]:
    """What must be as it was."""
    places = {
        number: [(part["node"], part["gpus"]) for part in task["allocation"]] for number, task in listed(old).items()
    }
    return {number: [*(task[key] for key in KEPT), places[number]] for number, task in listed(old).items()}


def test_owners_become_users_without_a_log_in_and_nothing_of_theirs_is_touched(old: OldLab, tmp_path: Path) -> None:
    lab = old.lab
    before = told(old)
    owners = {row[0] for row in before.values()}
    alive = shells(old)
    assert len(alive) == 2
    assert len(owners) == 2
    assert "desktop" in owners
    (ours,) = owners - {"desktop"}
    lab.stop_master()
    lab.code = ROOT
    lab.start()
    until("the node is there again", lambda: old.node(NODE)["state"] == "online")
    assert told(old) == before

    with window(old) as desktop:
        (tmp_path / "password").write_text(PASSWORD + "\n", encoding="utf-8")
        added = lab.muster("users", "add", "wang", "--admin", "--password-file", str(tmp_path / "password"))
        assert added.returncode == 0, added.stderr
        users = {user["name"]: user for user in json.loads(lab.muster("users", "list", "--json").stdout)}
        assert {name: (one["is_owner_only"], one["disabled"], one["has_password"]) for name, one in users.items()} == {
            ours: (True, None, False),
            "desktop": (True, None, False),
            "wang": (False, None, True),
        }
        assert told(old) == before
        assert shells(old) == alive
        with connect(conf=str(lab.conf)) as client:
            for name in (ours, "desktop"):
                with pytest.raises(MusterError) as wrong:
                    client.call("auth.login", {"name": name, "password": PASSWORD}, repeatable=False)
                assert wrong.value.key == "wrong_password"

        assert lab.muster("users", "claim", ours, "wang").returncode == 0
        after = told(old)
        assert {number: row[1:] for number, row in after.items()} == {number: row[1:] for number, row in before.items()}
        assert {row[0] for row in after.values()} == {"wang", "desktop"}
        back = lab.muster("users", "claim", "wang", ours)
        assert (back.returncode, in_words(back.stderr, "claim_of_somebody", name="wang")) == (1, True)

        assert desktop.add(old.quick(8)) == "", "the same window goes on"
        assert "wang" in refusal(desktop, old.ids["held"])
    with window(old) as desktop:
        assert desktop.add(old.quick(9)) == "", "and so does another"
    with connect(conf=str(lab.conf)) as client:
        client.call("auth.login", {"name": "wang", "password": PASSWORD}, repeatable=False)
    with connect(conf=str(lab.conf)) as client:
        client.release(old.ids["held"])  # no node runs it as wang, so an admin may, too
    with lab.client() as client:
        mine = client.submit("true")
        assert client.show(mine)["owner"] == ours, "whoever runs the master is who he was"
    old.let_go("go")
    until("all have ended", lambda: all(task["ended_at"] for task in listed(old).values()), seen=lambda: told(old))
    assert sorted(str(task["exit_code"]) for task in listed(old).values()) == sorted("350067890")
    assert {number: task["attempt"] for number, task in listed(old).items()} == dict.fromkeys(listed(old), 1)


def shells(old: OldLab) -> set[int]:
    """The pids of the tasks' own shells that live, as they told them."""
    began = (old.lab.folder / "told" / "starts").read_text(encoding="ascii").split()
    return {pid for pid in map(int, began[2::3]) if Path(f"/proc/{pid}/stat").exists()}


def refusal(desktop: DesktopClient, task: int) -> str:
    """What the box says when another's task is to be changed in the window."""
    return str(desktop.reply("del_task", f"{task:014d}").info)
