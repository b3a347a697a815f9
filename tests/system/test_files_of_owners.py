"""Where tasks run as their owners, files and logs are touched with the owners' rights: real accounts of alice, bob and
carol on the master's machine, which is root there, or has an agent of root's beside it."""

from __future__ import annotations

import base64
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from client.api import Client, connect
from tests.people_here import MASTER, PEOPLE, READERS, TEAM, PeopleHere, as_person
from tests.system.far_node import ENTRY, FarNode
from tests.system.lab import ROOT, Lab
from tests.testbed import processes
from tests.testbed.processes import Process
from tests.waiting import until
from wire.errors import ConflictError, ForbiddenError, NotFoundError, StorageError

SECRET = b"hers alone"
READABLE = ["sh", "-c", 'mount --bind "$1" /mnt && cd /mnt && shift && exec "$@"', "sh", str(ROOT)]
"""What a command line begins with whose process finds our code in /mnt: an account may not reach it where it lies."""


class OwnersLab(Lab):
    """Each of alice and bob has a folder in `data`; `token`: of each who was added."""

    def __init__(self, folder: Path, *, nodes: int, master: str = "root") -> None:
        self.people = PeopleHere(folder)
        super().__init__(folder / "lab", nodes=nodes, gpus=0)
        self.before = self.people.inside
        if master != "root":
            self.before += READABLE
            self.before += ["setpriv", f"--reuid={MASTER}", f"--regid={MASTER}", "--init-groups"]
            self.python = sys.executable.replace(str(ROOT), "/mnt", 1)
            os.chown(self.folder, MASTER, MASTER)
        logs = self.folder / "train_logs"
        logs.mkdir()
        os.chown(logs, 0, READERS)
        logs.chmod(0o2751)
        for name in ("alice", "bob"):
            self.people.folder(self.folder / "data" / name, name)
        self.write_conf(visible_folders=["data"])
        self.token: dict[str, str] = {}

    def add(self, *names: str, **fields: str) -> None:
        """Add users."""
        with self.client() as admin:
            for name in names:
                admin.call("user.add", {"name": name, **fields}, repeatable=False)
                self.token[name] = admin.call("token.new", {"name": name}, repeatable=False)["token"]

    def come_as(self, name: str) -> Client:
        """Somebody's connection."""
        return connect(conf=str(self.conf), token=self.token[name])

    def helpers(self) -> list[Process]:
        """The processes that touch files for these people: other labs on this machine may have some, too."""
        return processes.alive(
            lambda pid: b"master.helpers" in processes.shown(pid) and processes.mounts(pid, self.folder.parent.name)
        )

    def ended(self, number: int) -> str:
        """Wait for a task; its state."""
        with self.client() as admin:
            return str(admin.wait([number])[number]["state"])


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that everybody may pass through."""
    with tempfile.TemporaryDirectory(prefix="muster-owners-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def lab(folder: Path) -> Iterator[OwnersLab]:
    """The master is root, and so is the agent of its one node."""
    lab = OwnersLab(folder, nodes=1)
    try:
        lab.start()
        with lab.client() as admin:
            until("the node", lambda: admin.nodes()[0]["state"] == "online")
        lab.add("alice", "bob", "carol", "dave")
        lab.add("wang", role="admin")
        with lab.client() as admin:
            admin.call("group.add", {"name": "vision"}, repeatable=False)
            admin.call("group.edit", {"name": "vision", "add": ["alice"], "add_mentors": ["carol"]})
        yield lab
    finally:
        left = lab.close()
    assert left == []


def whose(path: Path) -> tuple[int, int, int]:
    info = path.lstat()
    return info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode)


def read_log(reader: Client, task: int) -> bytes:
    return base64.b64decode(reader.call("log.read", {"id": task})["data"])


def test_what_somebody_uploads_is_his_and_his_task_may_write_it(lab: OwnersLab, tmp_path: Path) -> None:
    (tmp_path / "up").write_bytes(b"first\n")
    (tmp_path / "up").chmod(0o640)
    there = lab.folder / "data/alice"
    with lab.come_as("alice") as alice:
        alice.files.upload(str(tmp_path / "up"), "data/alice/up")
        alice.files.make_folder("data/alice/made/deep", parents=True)
        alice.files.write("data/alice/made/deep/text", b"x")
        alice.files.copy("data/alice/made", "data/alice/copy")
        alice.files.move("data/alice/up", "data/alice/moved")
        assert alice.files.delete("data/alice/made", recursive=True) == 3
        uid = PEOPLE["alice"]
        assert whose(there / "moved") == (uid, uid, 0o640)
        assert [whose(path)[:2] for path in sorted((there / "copy").rglob("*"))] == [(uid, uid)] * 2
        task = alice.submit("echo second >> data/alice/moved; chmod 600 data/alice/moved")
        assert lab.ended(task) == "succeeded"
        assert alice.files.read("data/alice/moved", 0)[0] == b"first\nsecond\n"
        with pytest.raises(NotFoundError):
            alice.files.stat("data/alice/up")
        with pytest.raises(ConflictError, match="not empty"):
            alice.files.delete("data/alice/copy", recursive=False)
    assert not list(there.glob(".muster*"))


def test_nobody_comes_through_the_master_to_what_is_another_accounts(lab: OwnersLab) -> None:
    """Without a word of `files` in conf.json: the kernel says it."""
    secret = lab.folder / "data/alice/secret"
    secret.write_bytes(SECRET)
    os.chown(secret, PEOPLE["alice"], PEOPLE["alice"])
    secret.chmod(0o600)
    with lab.come_as("alice") as alice, lab.come_as("bob") as bob, lab.come_as("wang") as wang:
        assert alice.files.read("data/alice/secret", 0)[0] == SECRET
        for forbidden in (
            lambda: bob.files.read("data/alice/secret", 0),
            lambda: bob.files.copy("data/alice/secret", "data/bob/mine"),
            lambda: bob.files.write("data/alice/secret", b"his"),
            lambda: bob.files.delete("data/alice/secret"),
            lambda: bob.files.move("data/alice", "data/bob/alice"),
            lambda: bob.files.make_folder("data/bobs"),
        ):
            with pytest.raises(ForbiddenError, match="the account bob may not"):
                forbidden()
        (lab.folder / "data/bob/trap").symlink_to("../alice/secret")
        with pytest.raises(ForbiddenError, match="the account bob may not"):
            bob.files.read("data/bob/trap", 0)
        task = bob.submit("true", log="data/alice/secret", hold=True)
        with pytest.raises((ConflictError, ForbiddenError)):
            bob.call("log.read", {"id": task})
        assert wang.files.read("data/alice/secret", 0)[0] == SECRET, "an admin may do what the master may"
        wang.files.write("data/alice/secret", b"changed")
    assert (secret.read_bytes(), whose(secret)) == (b"changed", (PEOPLE["alice"],) * 2 + (0o600,))


def test_a_log_is_read_with_the_rights_of_its_owner_for_him_his_mentors_and_admins(lab: OwnersLab) -> None:
    with lab.come_as("alice") as alice:
        own = alice.submit("echo said; chmod 600 /proc/self/fd/1")
        elsewhere = alice.submit("echo said; chmod 600 /proc/self/fd/1", log="data/alice/run.log")
        assert [lab.ended(task) for task in (own, elsewhere)] == ["succeeded"] * 2
        logs = [Path(alice.show(task)["log_path"]) for task in (own, elsewhere)]
    assert [whose(log)[::2] for log in logs] == [(PEOPLE["alice"], 0o600)] * 2
    assert logs[0].parent == lab.folder / "train_logs/alice"
    for name in ("alice", "carol", "wang"):
        with lab.come_as(name) as reader:
            for task in (own, elsewhere):
                assert read_log(reader, task).startswith(b"said\n"), name
    with lab.come_as("bob") as bob:
        for task in (own, elsewhere):
            with pytest.raises(ForbiddenError, match="alice"):
                bob.call("log.read", {"id": task})
        (lab.folder / "data/bob/trap.log").symlink_to(logs[0])
        task = bob.submit("true", log="data/bob/trap.log", hold=True)
        with pytest.raises((ConflictError, ForbiddenError)):
            bob.call("log.read", {"id": task})


def test_a_link_in_the_place_of_a_followed_log_tells_nothing_of_what_it_leads_to(lab: OwnersLab) -> None:
    """Whoever follows a log is answered when it has another size: also where the link leads to a file of the same size
    that only root can see."""
    secret, wait_s = lab.task_info / "secret", 5.0
    secret.write_bytes(b"said\n")
    with lab.come_as("alice") as alice:
        task = alice.submit("echo said; exec sleep 60")
        until("it has said so", lambda: read_log(alice, task) == b"said\n")
        log = alice.show(task)["log_path"]
        swap = f"mv {log} {log}.own && ln -s {secret} {log}"
        began = time.monotonic()
        swapped = subprocess.Popen([*as_person("alice"), "sh", "-c", f"sleep 0.2; {swap}"])
        with pytest.raises(ForbiddenError):
            alice.call("log.read", {"id": task, "offset": 5, "wait_s": wait_s})
        assert time.monotonic() - began < wait_s
        assert swapped.wait() == 0
        alice.cancel([task])
        assert lab.ended(task) == "cancelled"


def test_who_has_no_account_on_the_masters_machine_is_told_and_an_admin_is_the_master(lab: OwnersLab) -> None:
    with lab.come_as("dave") as dave, pytest.raises(ForbiddenError, match=r"there is no account dave on .*adduser"):
        dave.files.list("data")
    with lab.come_as("wang") as wang:
        wang.files.write("data/note", b"for all")
    assert whose(lab.folder / "data/note")[0] == 0
    with lab.client() as owner:
        owner.files.write("data/note2", b"for all")
    assert whose(lab.folder / "data/note2")[0] == 0


def test_it_holds_from_the_first_call_after_a_start_before_any_agent_is_heard(lab: OwnersLab) -> None:
    lab.stop_master()
    lab.end_agents()
    until("no agent", lambda: not lab.processes())
    (lab.state / "muster").rename(lab.state / "away")
    (lab.state / "muster").touch()  # no agent can be started
    lab.start()
    with lab.come_as("dave") as dave, pytest.raises(ForbiddenError, match="no account dave"):
        dave.files.list("data")


def rights_of(helper: Process) -> dict[str, tuple[str, ...]]:
    """What the kernel tells of a process, by name."""
    status = Path(f"/proc/{helper.pid}/status").read_text("utf-8")
    return {line.split(":")[0]: tuple(line.split()[1:]) for line in status.splitlines()}


def peeked(helper: Process) -> list[str]:
    """What of a helper alice can read who has its account."""
    words = [*as_person("alice"), "head", "-c1"]
    looks = {name: [*words, f"/proc/{helper.pid}/{name}"] for name in ("mem", "environ", "maps", "fd/0")}
    return [
        name for name, look in looks.items() if subprocess.run(look, capture_output=True, check=False).returncode == 0
    ]


def test_a_helper_is_one_accounts_and_nothing_more(lab: OwnersLab) -> None:
    with lab.come_as("alice") as alice:
        alice.files.list("data")
        (helper,) = until("her helper", lab.helpers)
        rights, uid = rights_of(helper), str(PEOPLE["alice"])
        assert (rights["Uid"], rights["Gid"], set(rights["Groups"])) == ((uid,) * 4, (uid,) * 4, {uid, str(TEAM)})
        assert [rights[name] for name in ("CapEff", "CapPrm", "CapInh")] == [("0" * 16,)] * 3
        assert peeked(helper) == []
        os.kill(helper.pid, 9)
        assert alice.files.list("data"), "another one is made"
    lab.kill_master()
    until("none is left", lambda: not lab.helpers())


def refusal(alice: Client) -> str:
    """Why her file cannot be read now; "" where it can."""
    try:
        alice.files.read("data/alice/secret", 0)
    except StorageError as error:
        return str(error)
    return ""


def writes(alice: Client) -> bool:
    """Whether her file can be written with her rights."""
    with suppress(ForbiddenError):
        alice.files.write("data/alice/secret", SECRET, mode=0o600)
        return True
    return False


@pytest.fixture
def guarded(folder: Path) -> Iterator[tuple[OwnersLab, FarNode]]:
    """The master has an account of its own; beside it an agent of root's has dialled in."""
    lab = OwnersLab(folder, nodes=0, master="queue")
    lab.write_registry([ENTRY])
    root = FarNode(lab)
    root.before = [*lab.people.inside, *READABLE]
    try:
        lab.start()
        lab.add("alice", "bob")
        yield lab, root
    finally:
        root.close()
        left = lab.close()
    assert left == []


def test_a_master_that_is_not_root_has_the_agent_of_roots_beside_it_do_it(guarded: tuple[OwnersLab, FarNode]) -> None:
    lab, root = guarded
    secret = lab.folder / "data/alice/secret"
    with lab.come_as("alice") as alice:
        with pytest.raises(ForbiddenError, match="the account queue may not"):
            alice.files.write("data/alice/secret", SECRET)  # nobody here can become her yet
        root.make_token()
        root.start()
        root.await_state("online")
        until("it has shown that it is here", lambda: writes(alice))
        assert whose(secret) == (PEOPLE["alice"], PEOPLE["alice"], 0o600)
        assert alice.files.read("data/alice/secret", 0)[0] == SECRET
        (helper,) = lab.helpers()
        assert {rights_of(helper)[name] for name in ("Uid", "Gid")} == {(str(PEOPLE["alice"]),) * 4}
        assert peeked(helper) == []
        task = alice.submit("echo said; chmod 600 /proc/self/fd/1; cat data/alice/secret")
        assert lab.ended(task) == "succeeded"
        assert read_log(alice, task).startswith(b"said\nhers alone")
        with lab.client() as owner:
            assert read_log(owner, task).startswith(b"said\n"), "who runs the master is an admin"
        with lab.come_as("bob") as bob, pytest.raises(ForbiddenError, match="the account bob may not"):
            bob.files.read("data/alice/secret", 0)
        root.hang_up()
        root.await_state("connecting")
        until("what it started has ended", lambda: "not connected" in refusal(alice))
        root.start_again()
        root.await_state("online")
        assert alice.files.read("data/alice/secret", 0)[0] == SECRET
    until("no helper is left", lambda: not list(lab.task_info.glob("helper-*")))
