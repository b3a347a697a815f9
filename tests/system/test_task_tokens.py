"""Tasks that submit tasks: what one can ask of the queue with the token that it was given, on every kind of node, and
where that token can be found."""

from __future__ import annotations

import json
import secrets
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.api import Client, connect
from tests.rights import need_users
from tests.system.accounts_lab import AccountsLab
from tests.system.far_lab import FarLab
from tests.system.lab import ROOT, Lab
from tests.system.root_lab import RootLab
from tests.testbed import processes
from tests.testbed.bed import Testbed
from tests.waiting import until
from wire.errors import UnauthenticatedError
from wire.message import Message

OWN = f"PYTHONPATH={shlex.quote(str(ROOT))} {shlex.quote(sys.executable)} -m muster"
STAYS = "; read line < <(sleep 1000)"


def brought(folder: Path) -> str:
    """`muster` for tasks of machines, and accounts, that have no sources: the command's words."""
    for name in ("client", "wire", "muster"):
        shutil.copytree(ROOT / name, folder / "muster_here" / name)
    return f"PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={folder}/muster_here /usr/bin/python3 -m muster"


def attempts(muster: str) -> str:
    """What a task tries, a line of its log each."""
    tried = [
        "whoami --json",
        "submit --json -- true",
        "users add eve",
        "tokens new",
        "node drain node0",
        "queue --json --mine",
    ]
    return "; ".join(f"{muster} {words} 2>&1 | tr -d '\\n'; echo" for words in tried)


def lines(client: Client, task: int, count: int) -> list[str]:
    """The first lines of its log, once they are there."""

    def there() -> list[str]:
        text = client.read_log(task, 0)[0].decode()
        return text.splitlines()[:count] if text.count("\n") >= count else []

    return until(f"{count} lines of the log of task {task}", there)


def check_told(told: list[str], owner: str, *, is_shared: bool) -> int:
    """What each of `attempts` was answered; gives the task that was submitted."""
    who = json.loads(told[0])
    assert (who["user"], who["via"], who["role"], who["scopes"]) == (owner, "task", "user", ["read", "submit"])
    assert who["is_shared"] is is_shared
    for refused in told[2:5]:
        assert refused.startswith("error: forbidden: "), refused
    assert [task["owner"] for task in json.loads(told[5])][:1] == [owner]
    return int(json.loads(told[1])["id"])


def places_of(secret: str, folder: Path) -> list[Path]:
    """The files beneath a folder in which a text stands."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in files if secret.encode() in path.read_bytes()]


def refused(lab: Lab, token: str) -> bool:
    """Does it open nothing?"""
    try:
        with connect(conf=str(lab.conf), token=token) as client:
            client.call("auth.whoami", {})
    except UnauthenticatedError:
        return True
    return False


def test_a_task_submits_another_on_the_masters_own_machine_while_nobody_was_added(lab: Lab) -> None:
    lab.start()
    with lab.client() as owner:
        name = owner.call("auth.whoami", {})["user"]
        task = owner.submit(f"{attempts(OWN)}{STAYS}", token="submit")  # noqa: S106
        number = check_told(lines(owner, task, 6), name, is_shared=False)
        assert owner.wait([number], 60)[number]["state"] == "succeeded"
        assert owner.show(task)["token"] == "submit"  # noqa: S105
        assert lab.muster("show", str(task)).stdout.count("to submit others with") == 1
        script = lab.folder / "script.sh"
        script.write_text(f"#!/bin/bash\n#MUSTER --token submit\n{OWN} whoami\n", encoding="utf-8")
        done = lab.muster("run", "--script", str(script))
        assert (done.returncode, "by      the token of a task" in done.stdout) == (0, True), done.stdout + done.stderr
        done = lab.muster("run", "--token", "submit", "--script", str(script), "--json")
        assert json.loads(done.stdout)["token"] == "submit"  # noqa: S105
        told = lab.muster("audit", "--verb", "task.submit", "--json").stdout
        assert [entry.get("task") for entry in json.loads(told)].count(task) == 1
        assert f"{name} (task {task})" in lab.muster("audit").stdout
        owner.cancel([task])
        owner.wait([task], 60)


@pytest.fixture
def other_address() -> Iterator[str]:
    """An address of this machine's beside its loopback's."""
    need_users()
    while True:
        address = f"198.51.100.{secrets.randbelow(253) + 1}"  # RFC 5737: nobody's
        if subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=False).returncode == 0:
            break
    try:
        yield address
    finally:
        subprocess.run(["ip", "address", "del", f"{address}/32", "dev", "lo"], check=True)


def test_a_task_calls_a_master_without_tls_that_hears_at_another_address_than_loopback(
    lab: Lab, other_address: str
) -> None:
    lab.write_conf(bind=other_address, tls="off")
    lab.start()
    with lab.client() as owner:
        task = owner.submit(f"{OWN} whoami --json", token="submit")  # noqa: S106
        until("it has ended", lambda: owner.show(task)["state"] in ("succeeded", "failed"))
        told = owner.read_log(task, 0)[0].decode()
        assert owner.show(task)["state"] == "succeeded", told
        assert json.loads(told.splitlines()[0])["via"] == "task"


def test_a_token_stands_in_its_file_alone_goes_with_the_attempt_and_a_retry_has_another(lab: Lab) -> None:
    lab.start()
    command = f'echo "$MUSTER_TOKEN_FILE" "$MUSTER_MASTER"; env | grep -c mst_{STAYS}'
    with lab.client() as owner:
        task = owner.submit(command, token="submit")  # noqa: S106
        place, master = lines(owner, task, 1)[0].split()
        path = Path(place)
        token = path.read_text(encoding="ascii").strip()
        assert master == f"127.0.0.1:{lab.keys['socket_info']['data_port']}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not refused(lab, token)
        until("what the task saw", lambda: len(lines(owner, task, 2)) == 2)
        assert lines(owner, task, 2)[1] == "0"
        assert places_of(token.split("_", 2)[2], lab.folder) == [path]
        assert not any(token.encode() in processes.shown(process.pid) for process in lab.processes())
        assert token not in json.dumps(owner.show(task)) + lab.muster("status").stdout
        lab.kill_master()
        lab.start()
        assert not refused(lab, token)
    with lab.client() as owner:
        owner.cancel([task])
        owner.wait([task], 60)
        assert refused(lab, token)
        assert not path.exists()
        owner.retry(task)
        again = Path(until("another file", lambda: _other(owner, task, place)))
        other = again.read_text(encoding="ascii").strip()
        assert (other != token, refused(lab, other), refused(lab, token)) == (True, False, True)
        owner.cancel([task])
        owner.wait([task], 60)


def _other(client: Client, task: int, before: str) -> str:
    found = [line.split()[0] for line in client.read_log(task, 0)[0].decode().splitlines() if line.startswith("/")]
    return found[-1] if found[-1] != before else ""


@pytest.fixture
def open_lab() -> Iterator[Lab]:
    """A lab on this machine whose folder others may pass through, and whose agent, like its master, is root."""
    need_users()
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="muster-tokens-") as folder:
        Path(folder).chmod(0o755)
        lab = Lab(Path(folder, "lab"), nodes=1)
        lab.write_conf(run_as_allowed=["daemon", "bin"])
        (lab.folder / "train_logs").mkdir()
        (lab.folder / "train_logs").chmod(0o2755)
        lab.start()
        yield lab
        assert lab.close() == []


def as_user(lab: Lab, owner: Client, name: str) -> Client:
    """Add a user; his connection, by a token."""
    owner.call("user.add", {"name": name}, repeatable=False)
    token = owner.call("token.new", {"name": name}, repeatable=False)["token"]
    return connect(conf=str(lab.conf), token=token)


def test_on_the_masters_machine_a_users_task_commands_nobody_with_its_token_nor_without(open_lab: Lab) -> None:
    lab = open_lab
    muster = brought(lab.folder)
    without = f"env -u MUSTER_TOKEN_FILE {muster} users add eve; env -u MUSTER_TOKEN_FILE {muster} submit -- true"
    with lab.client() as owner, as_user(lab, owner, "daemon") as one, as_user(lab, owner, "bin") as other:
        task = one.submit(f"{attempts(muster)}; ({without}) 2>&1{STAYS}", token="submit")  # noqa: S106
        told = lines(one, task, 8)
        number = check_told(told, "daemon", is_shared=True)
        assert owner.wait([number], 60)[number]["owner"] == "daemon"
        assert [line.split(":")[1] for line in told[6:8]] == [" unauthenticated"] * 2
        path = _path_of(lab, task)
        assert (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) == (1, 0o600)
        spy = other.submit(f"id -un; cat {path}; ls {path.parent}; ls {path.parent.parent}; exit 3", gpus=1)
        assert other.wait([spy], 60)[spy]["exit_code"] == 3
        said = other.read_log(spy, 0)[0].decode()
        assert (said.splitlines()[0], said.count("denied"), "mst_" in said) == ("bin", 3, False)
        token = path.read_text(encoding="ascii").strip()
        assert not refused(lab, token)
        owner.call("user.disable", {"name": "daemon"}, repeatable=False)
        assert refused(lab, token), "of one who may not come in"
        owner.cancel([task])
        owner.wait([task], 60)
        assert not path.exists()
        assert not path.parent.exists(), "nothing is left of it"


def _path_of(lab: Lab, task: int) -> Path:
    """Where the token of a running task lies, as its environment says."""
    for process in lab.attempts_alive():
        words = {one.partition(b"=")[0]: one.partition(b"=")[2] for one in processes.environment(process.pid)}
        if words.get(b"MUSTER_TASK_ID") == str(task).encode() and b"MUSTER_TOKEN_FILE" in words:
            return Path(words[b"MUSTER_TOKEN_FILE"].decode())
    raise AssertionError("no process of it has a token")


@pytest.fixture
def rooted(testbed: Testbed, tmp_path: Path) -> Iterator[RootLab]:
    """A host whose agent is root, and one whose agent is of a shared account."""
    one, shared = testbed.hosts[:2]
    lab = RootLab(tmp_path / "lab", testbed, hosts=[one, shared], shared=[shared])
    lab.is_mapped = False
    yield lab
    left = lab.close()
    testbed.renew()
    assert left == []


@pytest.mark.parametrize("bind", ["0.0.0.0", "the master's"])  # noqa: S104
def test_on_nodes_over_ssh_tasks_find_the_master_over_tls_where_it_lets_them_in(rooted: RootLab, bind: str) -> None:
    lab = rooted
    muster = brought(lab.root)
    first, shared = lab.nodes
    lab.write_conf(bind=lab.bed.master_address if bind == "the master's" else bind)
    lab.start_trusted()
    with lab.client() as owner, as_user(lab, owner, "alice") as alice:
        for node in (first, shared):
            task = alice.submit(f"{attempts(muster)}; echo $MUSTER_MASTER{STAYS}", node=node, token="submit")  # noqa: S106
            told = lines(alice, task, 7)
            number = check_told(told, "alice", is_shared=True)
            assert told[6] == f"{lab.bed.master_address}:{lab.keys['socket_info']['data_port']}"
            assert alice.wait([number], 60)[number]["state"] == "succeeded"
            alice.cancel([task])
            alice.wait([task], 60)
        left = [str(path) for host in lab.hosts.values() for path in host.outside("/run").glob("muster-tasks/*")]
        assert left == []


def test_over_ssh_accounts_of_owners_a_token_lies_with_the_account_alone(testbed: Testbed, tmp_path: Path) -> None:
    lab = AccountsLab(tmp_path / "lab", testbed, testbed.hosts[2])
    lab.is_mapped = False
    try:
        muster = brought(lab.root)
        lab.write_conf(bind=lab.bed.master_address)
        lab.start_trusted()
        with lab.client() as owner, as_user(lab, owner, "alice") as alice, as_user(lab, owner, "bob") as bob:
            tells = "echo $MUSTER_TOKEN_FILE; stat -c '%a %U' $MUSTER_TOKEN_FILE"
            task = alice.submit(f"{attempts(muster)}; {tells}{STAYS}", token="submit")  # noqa: S106
            told = lines(alice, task, 8)
            number = check_told(told, "alice", is_shared=True)
            assert alice.wait([number], 60)[number]["state"] == "succeeded"
            assert told[7] == "600 alice"
            thief = bob.submit(f"id -un; cat {shlex.quote(told[6])} 2>&1")
            assert bob.wait([thief], 60)[thief]["state"] == "failed"
            text = bob.read_log(thief, 0)[0].decode()
            assert (text.startswith("bob\n"), "Permission denied" in text) == (True, True), text
            alice.cancel([task])
            alice.wait([task], 60)
            assert [str(path) for path in lab.host.outside("/run").glob("muster-tasks/*")] == []
            assert not lab.host.outside(told[6]).exists()
    finally:
        left = lab.close()
        testbed.renew()
    assert left == []


def test_where_nodes_cannot_reach_the_master_a_task_that_submits_waits_and_says_why(rooted: RootLab) -> None:
    lab = rooted
    lab.start_trusted()
    with lab.client() as owner:
        task = owner.submit("true", node=lab.nodes[1], token="submit")  # noqa: S106
        other = owner.submit("true", node=lab.nodes[1])
        assert owner.wait([other], 60)[other]["state"] == "succeeded"
        assert owner.show(task)["state"] == "waiting"
        assert str(Message("master_out_of_reach")) in str(owner.why(task)["details"])
        owner.cancel([task])
        owner.wait([task], 60)


@pytest.fixture
def far(testbed: Testbed, tmp_path: Path) -> Iterator[FarLab]:
    """A host to which nobody can open a connection."""
    lab = FarLab(tmp_path / "lab", testbed, testbed.hosts[0])
    yield lab
    left = lab.close()
    testbed.renew()
    assert left == []


def test_on_a_node_that_dials_in_tasks_call_the_master_as_their_agent_does(far: FarLab) -> None:
    muster = brought(far.root)
    far.install()
    far.await_online()
    with far.client() as owner:
        name: Any = owner.call("auth.whoami", {})["user"]
        task = owner.submit(f"{attempts(muster)}; echo $MUSTER_MASTER{STAYS}", token="submit")  # noqa: S106
        told = lines(owner, task, 7)
        number = check_told(told, name, is_shared=False)
        assert told[6] == far.where
        assert owner.wait([number], 60)[number]["state"] == "succeeded"
        owner.cancel([task])
        owner.wait([task], 60)
