"""Tasks with the rights of their owners: real hosts with accounts of alice, bob and carol, agents that are root there,
and one that is not."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.system.root_lab import LAB, RootFarLab, RootLab
from tests.system.ssh_asking import NOTICED_S, Door, ended, node_of, submit, task_of, until_running
from tests.testbed import processes
from tests.testbed.accounts import PEOPLE
from tests.testbed.bed import Testbed
from tests.testbed.host import Host
from tests.waiting import until
from wire.errors import ConflictError
from wire.message import Message


@pytest.fixture
def root_lab(testbed: Testbed, tmp_path: Path) -> Iterator[RootLab]:
    """Two hosts whose agents are root, and one with the shared account."""
    *rooted, shared = testbed.hosts[:3]
    lab = RootLab(tmp_path / "lab", testbed, hosts=[*rooted, shared], shared=[shared])
    yield lab
    left = lab.close()
    testbed.renew()
    assert left == []


@pytest.fixture
def root_far_lab(testbed: Testbed, tmp_path: Path) -> Iterator[RootFarLab]:
    """A host to which nobody can open a connection; root there has not dialled yet."""
    lab = RootFarLab(tmp_path / "lab", testbed, testbed.hosts[0])
    yield lab
    left = lab.close()
    testbed.renew()
    assert left == []


def log_of(lab: RootLab, number: int) -> str:
    return Path(task_of(lab, number)["log_path"]).read_text(encoding="utf-8")


def _logs_say(lab: RootLab, number: int, words: str) -> bool:
    """An agent that was restarted may write a log's last line after it told the end."""
    return words in lab.muster("logs", str(number)).stdout


def _has_begun(log: Path) -> bool:
    return "in\n" in log.read_text(encoding="utf-8")


def test_a_task_its_log_and_its_processes_are_its_owners(root_lab: RootLab) -> None:
    lab = root_lab
    first, _, shared = lab.nodes
    lab.start_trusted()
    doors, numbers = {}, {}
    for place, name in enumerate(PEOPLE):
        lab.be(name)
        doors[name] = Door(lab, name, 5 + place)
        numbers[name] = submit(lab, f"id -un; umask; cd ~; pwd; touch ~/mine; {doors[name].command}", first, gpus=1)
        until_running(lab, numbers[name])
    for name, uid in PEOPLE.items():
        task = task_of(lab, numbers[name])
        log = lab.root / "train_logs" / name / f"{task['id']}.log"
        assert (task["log_path"], task["allocation"][0]["run_as"]) == (str(log), name)
        until("its first words", partial(_has_begun, log))
        assert log.read_text(encoding="utf-8").splitlines()[:3] == [name, "0022", f"/home/{name}"]
        above, info = log.parent.stat(), log.stat()
        assert (above.st_uid, above.st_gid, stat.S_IMODE(above.st_mode)) == (uid, LAB, 0o2750)
        assert (info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode)) == (uid, LAB, 0o640)
        assert str((log.parent.parent / log.name).readlink()) == f"{name}/{task['id']}.log"
        launch_id = task["allocation"][0]["launch_id"]
        alive = [one.pid for one in lab.hosts[first].attempts() if one.launch_id == launch_id]
        assert alive
        assert {processes.owner(pid) for pid in alive} - {None} == {uid}  # one may be gone by now
        assert (lab.hosts[first].disk / "home" / name / "mine").stat().st_uid == uid
    assert "tasks run:  as their owner" in lab.muster("node", "show", first).stdout
    assert "tasks run:  as the account lab, which all of them share" in lab.muster("node", "show", shared).stdout
    assert "runs as:  alice, its owner's account" in _squeezed(lab.muster("show", str(numbers["alice"])).stdout)
    lab.kill_master()
    lab.kill_agent(first)
    doors["alice"].open()
    lab.start()
    lab.await_online()
    for place, name in enumerate(PEOPLE):
        doors[name].open()
        assert ended(lab, numbers[name]) == ("failed", 5 + place)
        end = f"out\n\nProgram Exit With Code {5 + place}\n"
        until("its log is whole", partial(_logs_say, lab, numbers[name], end))
    until("nothing of them lives", lambda: not lab.strays(), NOTICED_S, seen=lab.strays)


def _squeezed(text: str) -> str:
    """With two blanks behind the name of each line."""
    return re.sub(r": +", ":  ", text)


def test_what_a_shared_account_cannot_keep_apart(root_lab: RootLab) -> None:
    """As docs/run-as.md and SECURITY.md say it: who submits there can read, change and end what is another's."""
    lab = root_lab
    shared = lab.nodes[-1]
    lab.start_trusted()
    lab.be("alice")
    hers = submit(lab, "umask 077; echo secret > ~/own; echo in; sleep 1000", shared, gpus=1)
    until_running(lab, hers)
    log = lab.root / "train_logs" / f"{hers}.log"
    until("her first words", partial(_has_begun, log))
    of_lab = Host.uid
    launch_id = task_of(lab, hers)["allocation"][0]["launch_id"]
    alive = [one.pid for one in lab.hosts[shared].attempts() if one.launch_id == launch_id]
    assert {processes.owner(pid) for pid in alive} - {None} == {of_lab}
    own = lab.hosts[shared].home / "own"
    assert [(path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) for path in (own, log)] == [
        (of_lab, 0o600), (of_lab, 0o640),
    ]  # fmt: skip
    page = _squeezed(lab.muster("show", str(hers)).stdout)
    assert "runs as:  lab, an account that all tasks there share" in page
    lab.be("bob")
    attack = f"cat ~/own {log}; echo his >> {log}; pkill -9 -xf 'sleep 1000'; echo done"
    his = submit(lab, attack, shared, gpus=1)
    assert ended(lab, his) == ("succeeded", 0)
    assert log_of(lab, his).splitlines()[:3] == ["secret", "in", "done"]
    assert ended(lab, hers) == ("failed", 137)
    assert "his\n" in log.read_text(encoding="utf-8")
    told = {node: lab.muster("node", "doctor", node, "--all").stdout for node in (lab.nodes[0], shared)}
    as_owners, files = str(Message("doctor_as_owners")), str(Message("doctor_files_as_owners"))
    assert str(Message("doctor_one_account", account="lab")) in told[shared]
    assert files not in told[shared]
    assert as_owners in told[lab.nodes[0]]
    assert files in told[lab.nodes[0]]


def test_where_root_dialled_in_tasks_are_their_owners_too(root_far_lab: RootFarLab) -> None:
    lab = root_far_lab
    lab.install()
    lab.await_online()
    for name, uid in PEOPLE.items():
        lab.be(name)
        number = submit(lab, "id -un; exit 3", lab.name, gpus=1)
        assert ended(lab, number) == ("failed", 3)
        log = Path(task_of(lab, number)["log_path"])
        assert (log.parent.name, log.stat().st_uid) == (name, uid)
        assert log.read_text(encoding="utf-8").startswith(f"{name}\n")
    assert "tasks run:  as their owner" in lab.muster("node", "show", lab.name).stdout


def test_one_cannot_read_end_or_pose_as_another(root_lab: RootLab) -> None:
    lab = root_lab
    first = lab.nodes[0]
    lab.start_trusted()
    lab.be("alice")
    door = Door(lab, "alice", 0)
    hers = submit(lab, f"umask 077; echo secret > ~/own; {door.command}", first, gpus=1)
    until_running(lab, hers)
    agent = lab.hosts[first].run(
        "cat", str(Path("/") / lab.agent_folder(first).relative_to(lab.hosts[first].disk) / "lock")
    )
    lab.be("bob")
    attack = (
        f"cat ~alice/own {lab.root}/train_logs/alice/{hers}.log; pkill -9 -u alice; kill -9 $PPID {agent.strip()}; "
        f"cat /proc/$PPID/environ; ls -a /root; ln -s /etc/shadow ~/trap; exit 7"
    )
    his = submit(lab, attack, first, gpus=1)
    assert ended(lab, his) == ("failed", 7)
    assert "secret" not in log_of(lab, his)
    said = [line for line in log_of(lab, his).partition("\n\nProgram")[0].splitlines() if line]
    assert [line for line in said if "denied" not in line and "not permitted" not in line] == []
    assert len(said) >= 6
    door.open()
    assert ended(lab, hers) == ("succeeded", 0)


def test_a_task_goes_on_elsewhere_in_its_log_also_where_all_run_as_one_account(root_lab: RootLab) -> None:
    lab = root_lab
    first, second, shared = lab.nodes
    lab.start_trusted()
    lab.be("alice")
    number = submit(lab, "id -un; exit 3", first, gpus=1)
    assert ended(lab, number) == ("failed", 3)
    log = lab.root / "train_logs" / f"{number}.log"
    for node, path in ((second, log.parent / "alice" / log.name), (shared, log)):
        with lab.client() as client:
            client.edit(number, node=node)
        assert ended(lab, number) == ("failed", 3)
        assert (task_of(lab, number)["log_path"], task_of(lab, number)["allocation"][0]["node"]) == (str(path), node)
    assert (log.parent / "alice" / log.name).read_text(encoding="utf-8").count("alice\n") == 2
    assert log.read_text(encoding="utf-8") == "lab\n\nProgram Exit With Code 3\n"
    attempts = json.loads(lab.muster("show", str(number), "--json").stdout)["attempts"]
    assert [part.get("run_as") for one in attempts for part in one["parts"]] == ["alice", "alice", None]


def test_who_has_no_account_on_a_node_is_told_and_the_node_goes_on(root_lab: RootLab) -> None:
    lab = root_lab
    first = lab.nodes[0]
    lab.start_trusted()
    for account, told in (
        ("dave", "there is no account dave on host1"),
        ("root", "`run_as_allowed`"),
        ("daemon", "`run_as_allowed`"),
    ):
        lab.be(account)
        numbers = [submit(lab, "true", first, gpus=1) for _ in range(3)]
        assert [ended(lab, number) for number in numbers] == [("failed", None)] * 3
        assert told in str(task_of(lab, numbers[0])["reason"])
    assert node_of(lab, first)["schedulable"]
    lab.stop_master()
    lab.write_conf(run_as_allowed=["daemon"])
    lab.start()
    lab.await_online()
    assert ended(lab, submit(lab, "[ $(id -un) = daemon ]", first, gpus=1)) == ("succeeded", 0)


def test_what_is_asked_of_an_environment_runs_as_who_asks(root_lab: RootLab) -> None:
    """To activate somebody's environment is to run his code."""
    lab = root_lab
    first = lab.nodes[0]
    env = lab.root / "venv"
    (env / "bin").mkdir(parents=True)
    (env / "bin" / "python").symlink_to("/usr/bin/python3")
    (env / "bin" / "activate").write_text(f"id -un >> {lab.root}/asked; PATH={env}/bin:$PATH\n", encoding="utf-8")
    (lab.root / "asked").touch()
    (lab.root / "asked").chmod(0o666)
    lab.start_trusted()
    lab.be("carol")
    asked = lab.muster("env", "python", str(env), "--node", first)
    assert asked.returncode == 0, asked.stderr
    assert (lab.root / "asked").read_text(encoding="utf-8") == "carol\n"


def test_the_doctor_activates_nothing_as_root(root_lab: RootLab) -> None:
    lab = root_lab
    first = lab.nodes[0]
    conda = lab.root / "envs" / "miniconda3"
    (conda / "bin").mkdir(parents=True)
    (conda / "conda-meta").mkdir()
    (conda / "bin" / "python").symlink_to("/usr/bin/python3")
    (conda / "bin" / "conda").touch()
    (conda / "bin" / "activate").write_text(f"id -un >> {lab.root}/asked; PATH={conda}/bin:$PATH\n", encoding="utf-8")
    (lab.root / "asked").touch()
    (lab.root / "asked").chmod(0o666)
    lab.start_trusted()
    told = lab.muster("node", "doctor", first, "--all").stdout
    assert str(Message("doctor_no_conda_as_root")) in told
    assert str(Message("doctor_as_owners")) in told
    assert (lab.root / "asked").read_text(encoding="utf-8") == ""
    lab.be("carol")
    lab.muster("node", "doctor", first)
    assert (lab.root / "asked").read_text(encoding="utf-8") == "carol\n"


def test_where_root_is_nobody_the_log_lies_where_all_logs_lie(root_lab: RootLab) -> None:
    """As over NFS, which takes root's rights from nodes; here it is the folder that takes nothing."""
    lab = root_lab
    first = lab.nodes[0]
    lab.start_trusted()
    logs = lab.root / "train_logs"
    logs.chmod(0o3777)
    (logs / "bob").mkdir(mode=0o700)  # of root's, and not empty: it is not given away
    (logs / "bob" / "kept").touch()
    lab.be("bob")
    number = submit(lab, "echo here", first, gpus=1)
    assert ended(lab, number) == ("succeeded", 0)
    log = logs / f"{number}.log"
    assert task_of(lab, number)["log_path"] == str(log)
    assert (log.stat().st_uid, log.stat().st_gid, log.is_symlink()) == (PEOPLE["bob"], LAB, False)


def test_what_a_task_names_is_looked_at_with_its_owners_rights_and_not_with_the_masters(root_lab: RootLab) -> None:
    lab = root_lab
    lab.start_trusted()
    private = lab.root / "private"
    private.mkdir()
    script = private / "go.sh"
    script.write_text("#!/bin/sh\n", encoding="utf-8")
    script.chmod(0o755)
    os.chown(private, PEOPLE["alice"], LAB)
    private.chmod(0o700)
    with lab.client() as client:

        def told() -> str:
            """Once the node knows what a log-in of this account gives."""
            keys = [note["key"] for note in client.preflight([str(script)])]
            return "" if keys == ["places_unseen"] else f"{keys}"

        lab.be("alice")
        assert until("alice is told", told) == "[]"
        lab.be("bob")
        assert until("bob is told", told) == "['file_absent']"
        with pytest.raises(ConflictError, match=r"go\.sh does not exist"):
            client.submit([str(script)], strict=True)
        first, _, shared = lab.nodes
        assert [note["key"] for note in client.preflight(["no-such-program"], node=first)] == ["program_unknown"]
        assert client.preflight(["true"], node=shared) == []
