"""Tasks that run as their owners, under an agent that is root: with the owner's rights, groups, log and environment,
and none of root's; and how little somebody gets with links, profiles and names."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.agent.people import ALICE, BOB, CAROL, LAB, ROOT, TEAM, PeopleNode, Person
from tests.agent.small_master import alive, known
from tests.agent.test_pythons import PYPY
from tests.cases import each_case
from tests.hanging_share import Share
from tests.rights import need_real_root
from tests.testbed import processes
from tests.waiting import until
from wire.agent import TELLS_DOUBT

WHO = "id -u; id -g; id -G; umask; pwd; ls /proc/self/fd; exec cat /proc/self/status"


@pytest.fixture
def make_node() -> Iterator[Callable[..., PeopleNode]]:
    made: list[PeopleNode] = []

    def make(account: Person | None = None, python: str = sys.executable) -> PeopleNode:
        folder = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="muster-people-"))
        folder.chmod(0o755)
        made.append(PeopleNode(folder, account, python))
        return made[-1]

    yield make
    for node in made:
        node.clean()


@pytest.fixture
def node(make_node: Callable[..., PeopleNode]) -> PeopleNode:
    return make_node()


def owner_of(path: Path) -> tuple[int, int, int]:
    info = path.lstat()
    return info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode)


# -- whose it is ----------------------------------------------------------------------------------------------


def test_a_task_has_its_owners_rights_and_none_of_roots(node: PeopleNode) -> None:
    link = node.up()
    assert (link.welcome["can_run_as"], link.welcome["account"]) == (True, "root")
    assert node.run_as(link, ALICE, "t1", WHO)["code"] == 0
    lines = node.said(ALICE, "t1")
    assert lines[:5] == ["6101", "6101", f"6101 {TEAM}", "0022", str(node.homes["alice"])]
    assert lines[5:9] == ["0", "1", "2", "3"]  # the last is `ls`'s own, of the folder
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    assert (status["Uid"].split(), status["Gid"].split()) == (["6101"] * 4, ["6101"] * 4)
    assert {status[f"Cap{kind}"] for kind in ("Prm", "Eff", "Amb")} == {"0" * 16}
    assert status["Groups"].split() == ["6101", str(TEAM)]


def test_the_same_on_another_python_of_the_node(make_node: Callable[..., PeopleNode]) -> None:
    node = make_node(python=PYPY)
    link = node.up()
    for person, launch_id in ((ALICE, "t1"), (BOB, "t2"), (ALICE, "t3")):
        assert node.run_as(link, person, launch_id, "id -un; exit 4")["code"] == 4
        assert node.said(person, launch_id) == [person.name]
    assert "there is no account dave" in node.run_as(link, "dave", "t4", "true")["error"]
    assert link.probe(["/usr/bin/id", "-un"], run_as="bob")["output"] == "bob\n"


def test_its_log_lies_in_a_folder_of_its_owners_and_a_link_leads_there(node: PeopleNode) -> None:
    link = node.up()
    node.launch_as(link, ALICE, "t1", "echo mine; read line < <(sleep 1000)")
    told = link.wait_for("started", "t1")
    log = node.own_log(ALICE, "t1")
    assert (told["run_as"], told["log_path"]) == ("alice", str(log))
    assert owner_of(log.parent) == (ALICE.uid, LAB, 0o2750)
    assert owner_of(log) == (ALICE.uid, LAB, 0o640)
    assert str(node.log("t1").readlink()) == "alice/t1.log"
    until("what it wrote", lambda: node.text("t1") == "mine\n")
    again = node.link()
    assert again.inventory["t1"]["log_path"] == str(log)
    again.kill("t1")
    end = again.wait_for("exit", "t1")
    assert (end["cause"], end["run_as"], end["log_path"]) == ("killed", "alice", str(log))
    assert log.read_text(encoding="utf-8") == "mine\n\nProgram Exit With Code 143\n"


def test_nobody_reads_anothers_private_file_and_friends_share_what_is_their_groups(node: PeopleNode) -> None:
    link = node.up()
    home = node.homes["alice"]
    make = f"umask 077; echo secret > own; echo ours > shared; chgrp {TEAM} shared; chmod 640 shared"
    assert node.run_as(link, ALICE, "t1", make)["code"] == 0
    look = f"cat {home}/own {home}/shared; ls {node.logs}/alice; cat {node.logs}/alice/t1.log"
    node.run_as(link, BOB, "t2", look)
    node.run_as(link, CAROL, "t3", look)
    told = {person: "\n".join(node.said(person, name)) for person, name in ((BOB, "t2"), (CAROL, "t3"))}
    assert "secret" not in told[BOB] + told[CAROL]
    assert [line for line in node.said(BOB, "t2") if "denied" not in line] == ["ours"]
    assert "ours" not in told[CAROL]
    assert told[CAROL].count("denied") == 4


def test_a_task_reaches_neither_its_shim_nor_the_agent(node: PeopleNode) -> None:
    link = node.up()
    agent = link.welcome["pid"]
    attack = (
        f"for pid in $PPID {agent}; do kill -9 $pid; kill -STOP $pid; cat /proc/$pid/environ; ls /proc/$pid/fd; done; "
        f"ls {node.state}; cat {node.state}/lock; echo t2 > {node.state}/reports; exit 7"
    )
    assert node.run_as(link, ALICE, "t1", attack)["code"] == 7
    said = [line for line in node.said(ALICE, "t1") if line]
    assert all("denied" in line.lower() or "not permitted" in line.lower() for line in said), said
    assert len(said) == 11
    assert alive(agent)


def test_an_owners_task_is_killed_with_all_that_it_started(node: PeopleNode) -> None:
    link = node.up()
    node.launch_as(link, ALICE, "t1", "trap '' TERM; (setsid sleep 1000 &); env -i setsid sleep 1000 & sleep 1000")
    link.wait_for("started", "t1")
    until("all three", lambda: len(node.carriers("t1")) >= 2)
    link.kill("t1", grace_s=0.2)
    assert link.wait_for("exit", "t1")["cause"] == "killed"
    assert node.carriers("t1") == []


def test_the_shim_of_an_owners_task_outlives_the_agent_and_the_next_one_knows_it(node: PeopleNode) -> None:
    link = node.up()
    node.launch_as(link, ALICE, "t1", "sleep 1000; echo over")
    link.wait_for("started", "t1")
    node.kill_agent(link)
    again = node.up()
    assert again.inventory["t1"]["run_as"] == "alice"
    again.kill("t1")
    assert again.wait_for("exit", "t1")["log_path"] == str(node.own_log(ALICE, "t1"))


def test_a_shim_that_dies_leaves_its_owners_processes_to_the_agent(node: PeopleNode) -> None:
    link = node.up()
    node.launch_as(link, ALICE, "t1", "env -i setsid sleep 1000 & sleep 1000")
    pid = link.wait_for("started", "t1")["pid"]
    os.kill(node.shim_of("t1"), signal.SIGKILL)
    link.kill("t1", grace_s=0.2)
    assert link.wait_for("exit", "t1")["cause"] == "killed"
    assert not alive(pid)


def test_who_poses_as_part_of_anothers_task_neither_keeps_it_nor_is_ended_with_it(node: PeopleNode) -> None:
    link = node.up()
    node.launch_as(link, ALICE, "t1", "sleep 1000")
    link.wait_for("started", "t1")
    node.launch_as(link, BOB, "t2", ["/usr/bin/env", f"MUSTER_LAUNCH_ID={known('t1')}", "sleep", "1000"])
    posing = link.wait_for("started", "t2")["pid"]
    until("it poses", lambda: posing in node.carriers("t1"))
    shim = node.shim_of("t1")
    os.kill(shim, signal.SIGKILL)
    until("the shim's end", lambda: not alive(shim))
    link.kill("t1", grace_s=0.2)
    assert link.wait_for("exit", "t1")["cause"] == "killed"
    assert alive(posing)
    assert node.carriers("t1") == [posing]
    link.kill("t2", grace_s=0.2)
    link.wait_for("exit", "t2")


def test_an_agent_that_lost_its_folder_adopts_an_owners_task(node: PeopleNode) -> None:
    link = node.up()
    node.launch_as(link, ALICE, "t1", "sleep 1000")
    told = link.wait_for("started", "t1")
    node.empty()
    node.wait_agent_gone(link)
    again = node.up()
    lost = {key: told[key] for key in ("pid", "pid_start", "run_as", "log_path")}
    again.adopt({"launch_id": "t1", "started_at": told["at"], **lost})
    assert (again.inventory["t1"]["state"], again.inventory["t1"]["run_as"]) == ("running", "alice")
    again.kill("t1", grace_s=1.0)
    assert again.wait_for("exit", "t1")["cause"] == "killed"


def test_who_poses_as_part_of_a_task_whose_record_is_lost_neither_keeps_it_nor_is_ended(node: PeopleNode) -> None:
    link = node.up()
    node.launch_as(link, ALICE, "t1", "exec sleep 1000")
    told = link.wait_for("started", "t1")
    node.launch_as(link, BOB, "t2", f"MUSTER_LAUNCH_ID={known('t1')} setsid sleep 1001 & wait")
    link.wait_for("started", "t2")
    [posing] = until("it poses", lambda: [pid for pid in node.carriers("t1") if pid != told["pid"]])
    shim = node.shim_of("t1")
    node.kill_agent(link)
    os.kill(shim, signal.SIGKILL)
    until("the shim's end", lambda: not alive(shim))
    os.truncate(node.claim("t1") / "record", 0)
    assert node.serve().returncode == 0
    again = node.link(protocol=TELLS_DOUBT)
    assert again.inventory["t1"]["doubt"]
    lost = {key: told[key] for key in ("pid", "pid_start", "run_as", "log_path")}
    again.adopt({"launch_id": "t1", "started_at": told["at"], **lost})
    assert again.inventory["t1"]["run_as"] == "alice"
    again.kill("t1", grace_s=0.2)
    assert again.wait_for("exit", "t1")["cause"] == "killed"
    assert (alive(told["pid"]), alive(posing)) == (False, True)
    again.kill("t2", grace_s=0.2)
    again.wait_for("exit", "t2")


# -- who may not ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["root", "daemon", "nobody"])
def test_accounts_of_the_systems_are_refused_unless_they_are_named(node: PeopleNode, name: str) -> None:
    link = node.up()
    end = node.run_as(link, name, "t1", "true")
    assert (end["cause"], end["fault"]) == ("not_started", "task")
    assert "`run_as_allowed`" in end["error"]
    assert not node.claim("t1").exists()
    uid = {"root": 0, "daemon": 1, "nobody": 65534}[name]
    for launch_id, allowed in (("t2", [name]), ("t3", [uid])):
        end = node.run_as(link, name, launch_id, f"[ $(id -u) = {uid} ]", run_as_allowed=allowed)
        assert (end["cause"], end["code"]) == ("exited", 0)
    assert node.run_as(link, name, "t4", "true", run_as_allowed=["alice", 6101])["cause"] == "not_started"


def test_an_account_that_is_not_there_is_refused(node: PeopleNode) -> None:
    link = node.up()
    with each_case() as cases:
        for at, name in enumerate(("dave", "../alice", "", ".", "alice/x", "al\nice", "-alice", "6101", "x" * 70)):
            with cases.case(repr(name)):
                end = node.run_as(link, name, f"t{at}", "true")
                assert (end["cause"], end["fault"]) == ("not_started", "task")
                assert "is not the name of an account" in end["error"] or "there is no account" in end["error"]
                assert sorted(path.name for path in node.logs.iterdir()) == []


def test_an_account_that_comes_later_needs_no_other_agent(node: PeopleNode) -> None:
    link = node.up()
    passwd = node.folder / "passwd"
    before = passwd.read_text(encoding="ascii")
    passwd.write_text(before.replace("alice", "elisa"), encoding="ascii")
    assert "there is no account alice" in node.run_as(link, ALICE, "t1", "true")["error"]
    passwd.write_text(before, encoding="ascii")
    assert node.run_as(link, ALICE, "t2", "true")["code"] == 0


def test_an_agent_that_is_not_root_refuses_others_and_runs_its_own(make_node: Callable[..., PeopleNode]) -> None:
    node = make_node(ALICE)
    node.logs.chmod(0o777)
    link = node.up()
    assert (link.welcome["can_run_as"], link.welcome["account"]) == (False, "alice")
    end = node.run_as(link, BOB, "t1", "true")
    assert (end["cause"], end["fault"]) == ("not_started", "node")
    assert "runs as alice and cannot run anything as bob" in end["error"]
    assert link.probe(["true"], run_as="bob")["error"] == end["error"]
    end = node.run_as(link, ALICE, "t2", "id -un")
    assert (end["code"], "run_as" in end) == (0, False)
    assert node.text("t2").startswith("alice\n")
    assert not node.log("t2").is_symlink()


# -- its environment ------------------------------------------------------------------------------------------


def variables(node: PeopleNode, person: Person, launch_id: str) -> dict[str, str]:
    text = node.own_log(person, launch_id).read_text(encoding="utf-8").rpartition("\0")[0]
    return dict(one.split("=", 1) for one in text.split("\0"))


def test_each_owner_finds_what_his_own_log_in_gives(node: PeopleNode) -> None:
    node.profile(ALICE, "export PROXY=of-alice PATH=/opt/alice/bin:$PATH; umask 027")
    node.profile(BOB, "export PROXY=of-bob")
    node.profile(ROOT, "export OF_ROOT=secret")
    link = node.up(OF_SOMEBODY="not yours", HOME="/root")
    for person, launch_id in ((ALICE, "t1"), (BOB, "t2")):
        assert node.run_as(link, person, launch_id, ["/usr/bin/env", "-0"], env={"ASKED": "yes"})["code"] == 0
        found = variables(node, person, launch_id)
        named = (found["HOME"], found["USER"], found["LOGNAME"], found["SHELL"], found["PROXY"], found["ASKED"])
        assert named == (
            str(node.homes[person.name]),
            person.name,
            person.name,
            "/bin/bash",
            f"of-{person.name}",
            "yes",
        )
        assert {"OF_SOMEBODY", "OF_ROOT"} & set(found) == set()
    assert node.run(link, "r1", "[ $OF_ROOT = secret ]")["code"] == 0
    assert variables(node, ALICE, "t1")["PATH"].startswith("/opt/alice/bin:/")
    node.run_as(link, ALICE, "t3", "umask; echo $PROXY")
    assert node.said(ALICE, "t3") == ["0027", "of-alice"]
    probed = link.probe(["/bin/bash", "-c", "id -un; echo $PROXY $HOME; umask; pwd"], run_as="bob")
    assert "OF_ROOT" not in link.probe(["/usr/bin/env"], run_as="bob")["output"]
    assert probed["output"].split("\n") == ["bob", f"of-bob {node.homes['bob']}", "0022", "/", ""]


def test_a_log_in_is_asked_once(node: PeopleNode) -> None:
    node.profile(ALICE, "echo asked >> ~/asked")
    link = node.up()
    for number in range(3):
        node.run_as(link, ALICE, f"t{number}", "true")
    assert (node.homes["alice"] / "asked").read_text(encoding="utf-8") == "asked\n"
    assert owner_of(node.homes["alice"] / "asked")[0] == ALICE.uid


def test_a_profile_that_sleeps_for_ever_keeps_nobody_else_waiting(node: PeopleNode) -> None:
    node.profile(ALICE, f"trap '' TERM; exec -a {node.folder} sleep 1000")
    link = node.up()
    node.launch_as(link, ALICE, "t1", "echo $HOME; exit 3")
    assert node.run_as(link, BOB, "t2", "exit 4")["code"] == 4
    assert node.run(link, "t3", "exit 5")["code"] == 5
    assert link.wait_for("exit", "t1")["code"] == 3
    first, second = node.said(ALICE, "t1")
    assert first.startswith("muster: the log-in shell of alice timed out after 5 s")
    assert second == str(node.homes["alice"])
    assert not processes.alive(lambda pid: processes.shown(pid).startswith(os.fsencode(node.folder) + b"\0"))


def test_a_launch_that_waits_for_a_log_in_can_be_killed_and_sent_again(node: PeopleNode) -> None:
    node.profile(ALICE, "sleep 1000")
    link = node.up()
    order = node.order(ALICE, "t1", "echo ran > ~/ran")
    link.send(order)
    link.send(order)
    link.kill("t1")
    assert link.wait_for("exit", "t1")["cause"] == "killed"
    node.launch_as(link, ALICE, "t2", "echo $((1 + 1))")
    again = node.link()
    assert set(again.inventory) == {"t1"}, "what nobody has claimed is not there"
    again.send(node.order(ALICE, "t2", "echo $((1 + 1))"))
    assert again.wait_for("exit", "t2")["code"] == 0
    assert node.said(ALICE, "t2")[-1] == "2"
    assert not (node.homes["alice"] / "ran").exists()


@pytest.mark.parametrize(
    "profile", ["exit 3", "head -c 2000000 /dev/zero", "kill -9 $$", "echo noise; echo A=b >&2; if"]
)
def test_whatever_a_profile_does_its_owners_task_runs(node: PeopleNode, profile: str) -> None:
    node.profile(ALICE, profile)
    assert node.run_as(node.up(), ALICE, "t1", "[ $HOME = ~alice ] && exit 9")["code"] == 9


def test_root_never_runs_with_what_somebodys_profile_says(node: PeopleNode) -> None:
    """A library that is loaded first, and programs in the path: whoever starts with them tells who it was."""
    home = node.homes["alice"]
    tools = home / "bin"
    tools.mkdir()
    witness = node.folder / "witness"
    witness.mkdir()
    witness.chmod(0o1777)
    for name in ("env", "base64", "bash", "python3", "id", "sh", "sleep"):
        (tools / name).write_text(
            f'#!/bin/sh\n/bin/echo "$(/usr/bin/id -u)" >> {witness}/$(/usr/bin/id -u)\n', encoding="utf-8"
        )
        (tools / name).chmod(0o755)
    shutil.copy(next(Path("/lib").glob("*-linux-gnu/libm.so.6")), home / "mine.so")
    node.profile(ALICE, f"export LD_PRELOAD={home}/mine.so PATH={tools}:$PATH BASH_ENV={home}/hook PYTHONPATH={home}")
    (home / "hook").write_text(f"/bin/echo hook >> {witness}/$(/usr/bin/id -u)\n", encoding="utf-8")
    link = node.up()
    node.launch_as(link, ALICE, "t1", "echo $LD_PRELOAD; id; exec /bin/sleep 1000")
    pid = link.wait_for("started", "t1")["pid"]
    until("its own program ran", (witness / str(ALICE.uid)).exists)
    assert b"LD_PRELOAD" in Path(f"/proc/{pid}/environ").read_bytes()
    for process in (link.welcome["pid"], node.shim_of("t1"), *node.children(link)):
        assert b"LD_PRELOAD" not in Path(f"/proc/{process}/environ").read_bytes()
        assert str(home) not in Path(f"/proc/{process}/maps").read_text(encoding="utf-8")
    link.probe(["/bin/bash", "-c", "id"], run_as="alice")
    link.kill("t1", grace_s=0.1)
    link.wait_for("exit", "t1")
    assert [path.name for path in witness.iterdir()] == [str(ALICE.uid)]


# -- where its log lies ---------------------------------------------------------------------------------------


def test_no_link_that_somebody_planted_is_followed_by_root(node: PeopleNode) -> None:
    """The log folder is open to everybody, as a shared account may have left it."""
    node.logs.chmod(0o777)
    target = node.folder / "roots"
    target.mkdir(mode=0o700)
    (target / "t1.log").write_text("precious\n", encoding="utf-8")
    (node.logs / "bob").symlink_to(target)
    node.log("t1").symlink_to(target / "t1.log")
    link = node.up()
    assert node.run_as(link, BOB, "t1", "echo bobs")["code"] == 0
    assert owner_of(target) == (0, 0, 0o700)
    assert (target / "t1.log").read_text(encoding="utf-8") == "precious\n"
    assert [path.name for path in target.iterdir()] == ["t1.log"]
    text = node.log("t1").read_text(encoding="utf-8")
    assert text.startswith("muster: this log does not lie in the folder of bob: bob in the log folder is no folder")
    assert "bobs\n" in text
    assert owner_of(node.log("t1"))[0] == BOB.uid
    assert node.log("t1").with_name("t1.log.earlier").is_symlink()


def test_somebodys_folder_under_anothers_name_is_not_used(node: PeopleNode) -> None:
    node.logs.chmod(0o777)
    link = node.up()
    assert node.run_as(link, ALICE, "t1", f"mkdir -m 777 {node.logs}/bob")["code"] == 0
    assert node.run_as(link, BOB, "t2", "echo bobs")["code"] == 0
    assert list((node.logs / "bob").iterdir()) == []
    assert "belongs to uid 6101" in node.log("t2").read_text(encoding="utf-8")


def test_a_link_to_the_log_folder_counts_if_it_is_roots_or_the_folders_owners(node: PeopleNode) -> None:
    link = node.up()
    elsewhere = node.folder / "big"
    elsewhere.mkdir()
    elsewhere.chmod(0o755)
    for launch_id, owner, uses in (("t1", 0, True), ("t2", ALICE.uid, False)):
        lead = node.folder / launch_id
        lead.symlink_to(elsewhere)
        os.lchown(lead, owner, owner)
        keys = {"log_path": str(lead / f"{launch_id}.log"), "log_folder": str(lead)}
        end = node.run_as(link, ALICE, launch_id, "echo here", **keys)
        assert (end["cause"] == "exited") == uses, end
        assert (elsewhere / "alice" / f"{launch_id}.log").exists() == uses


def test_what_an_earlier_life_left_is_moved_aside(node: PeopleNode) -> None:
    node.log("t1").write_text("old\n", encoding="utf-8")
    link = node.up()
    node.run_as(link, ALICE, "t1", "echo new")
    moved = node.log("t1").with_name("t1.log.earlier")
    assert node.said(ALICE, "t1") == [f"muster: an earlier log lay in {node.logs}; it is {moved} now", "new"]
    assert moved.read_text(encoding="utf-8") == "old\n"
    node.own_log(ALICE, "t2").write_text("older\n", encoding="utf-8")
    node.log("t2").touch()
    node.run_as(link, ALICE, "t2", "echo new")
    beside = node.own_log(ALICE, "t2.log.earlier").with_suffix("")
    assert node.said(ALICE, "t2") == [f"muster: a log of an earlier task lay here; it is {beside} now", "new"]
    assert str(node.log("t2").readlink()) == "alice/t2.log"


def test_a_second_attempt_goes_on_in_the_same_log(node: PeopleNode) -> None:
    link = node.up()
    node.run_as(link, ALICE, "t1", "echo one")
    log = {"log_path": str(node.log("t1"))}
    node.run_as(link, ALICE, "t2", "echo two", log_new=False, **log)
    text = node.own_log(ALICE, "t1").read_text(encoding="utf-8")
    assert text == "one\n\nProgram Exit With Code 0\ntwo\n\nProgram Exit With Code 0\n"


def test_after_an_attempt_as_its_owner_one_of_a_shared_account_has_a_log(make_node: Callable[..., PeopleNode]) -> None:
    node = make_node(CAROL)
    node.logs.chmod(0o777)
    (node.logs / "alice").mkdir(mode=0o700)
    node.log("t1").symlink_to("alice/t1.log")
    assert node.run(node.up(), "t1", "echo shared", log_new=False)["code"] == 0
    assert node.text("t1").startswith("shared\n")
    assert node.log("t1").with_name("t1.log.earlier").is_symlink()


def test_a_log_that_its_owner_placed_is_made_with_his_rights(node: PeopleNode) -> None:
    link = node.up()
    home = node.homes["alice"]
    log = home / "deep" / "own.log"
    end = node.run_as(link, ALICE, "t1", "echo mine", log_path=str(log), log_folder="", log_new=False)
    assert (end["code"], end["log_path"]) == (0, str(log))
    assert log.read_text(encoding="utf-8") == "mine\n\nProgram Exit With Code 0\n"
    assert owner_of(log)[:2] == (ALICE.uid, ALICE.uid)
    (home / "trap.log").symlink_to(node.folder / "passwd")  # which she may read only
    end = node.run_as(link, ALICE, "t2", "true", log_path=str(home / "trap.log"), log_folder="", log_new=False)
    assert (end["cause"], end["fault"], "Permission denied" in end["error"]) == ("not_started", "task", True)


def test_the_last_line_goes_to_the_log_that_was_opened_wherever_its_name_leads_by_then(node: PeopleNode) -> None:
    link = node.up()
    victim = node.folder / "victim"
    victim.write_text("precious\n", encoding="utf-8")
    log = node.own_log(ALICE, "t1")
    assert node.run_as(link, ALICE, "t1", f"mv {log} {log}.own; ln -s {victim} {log}; exit 5")["code"] == 5
    assert victim.read_text(encoding="utf-8") == "precious\n"
    assert log.with_name("t1.log.own").read_text(encoding="utf-8") == "\nProgram Exit With Code 5\n"


def test_what_is_quoted_of_a_bad_end_is_of_the_log_that_was_opened_and_of_no_file_of_roots(node: PeopleNode) -> None:
    link = node.up()
    secret = node.folder / "secret"
    secret.write_text("root's alone\n", encoding="utf-8")
    secret.chmod(0o600)
    log = node.own_log(ALICE, "t1")
    command = f"echo MemoryError; mv {log} {log}.own; ln -s {secret} {log}; exit 5"
    end = node.run_as(link, ALICE, "t1", command)
    assert (end["code"], end["ran_out"], end["last_line"]) == (5, "oom_host", "MemoryError")


def test_an_owners_task_stands_still_and_goes_on(node: PeopleNode) -> None:
    link = node.up()
    node.launch_as(link, ALICE, "t1", "exec sleep 1000")
    link.wait_for("started", "t1")
    link.pause("t1")
    assert link.wait_for("started", "t1")["paused"] is True
    link.resume("t1")
    assert "paused" not in link.wait_for("started", "t1")
    link.kill("t1")
    assert link.wait_for("exit", "t1")["cause"] == "killed"


def test_a_log_beyond_its_limit_ends_the_task_wherever_its_name_leads(node: PeopleNode) -> None:
    link = node.up()
    log = node.own_log(ALICE, "t1")
    flood = f"rm {log}; ln -s /dev/null {log}; head -c 100000 /dev/zero; sleep 1000"
    end = node.run_as(link, ALICE, "t1", flood, log_bytes=50000)
    assert end["cause"] == "log_too_large"


def test_a_folder_that_its_owner_may_not_enter_is_his_tasks_matter(node: PeopleNode) -> None:
    link = node.up()
    roots = [str(node.folder), str(node.logs)]
    closed = node.folder / "closed"
    closed.mkdir(mode=0o700)
    for launch_id, cwd in (("t1", closed), ("t2", closed / "x"), ("t3", node.homes["bob"] / "gone")):
        end = node.run_as(link, ALICE, launch_id, "true", cwd=str(cwd), roots=roots)
        assert (end["cause"], end["fault"]) == ("not_started", "task"), end
    end = node.run_as(link, ALICE, "t4", "/no/such/program", cwd="/", roots=roots)
    assert end["code"] == 127
    end = node.run_as(link, ALICE, "t5", ["/no/such/program"], cwd="/", roots=roots)
    assert end["error"] in node.said(ALICE, "t5")[0]


def test_a_full_disk_is_the_nodes_fault_also_in_the_owners_folder(node: PeopleNode) -> None:
    keys = {"roots": [str(node.logs)]}
    mount = ["mount", "-t", "tmpfs", "-o", f"nr_inodes=4,mode=2755,gid={LAB}", "muster-test", str(node.logs)]
    subprocess.run(mount, check=True)
    try:
        link = node.up()
        assert node.run_as(link, ALICE, "t1", "true", **keys)["code"] == 0
        end = node.run_as(link, ALICE, "t2", "true", **keys)
        assert (end["cause"], end["fault"]) == ("not_started", "node")
        assert "No space left on device" in end["error"]
    finally:
        subprocess.run(["umount", "--lazy", str(node.logs)], check=True)


def test_who_has_used_up_his_processes_sets_no_node_aside(node: PeopleNode) -> None:
    """Root is not held to the limit that those whom it starts have; that of a namespace is."""
    need_real_root()
    node.before = ["prlimit", "--nproc=1"]
    link = node.up()
    end = node.run_as(link, ALICE, "t1", "true")
    assert (end["cause"], end["fault"]) == ("not_started", "task")
    assert "no process could be made for the command" in end["error"]
    assert node.run(link, "t2", "/bin/true; exit 5")["code"] == 5


def test_a_log_folder_where_nobody_can_make_anything_is_the_nodes_fault(node: PeopleNode) -> None:
    link = node.up()
    (node.logs / "alice").write_text("in the way\n", encoding="utf-8")
    end = node.run_as(link, ALICE, "t1", "true", roots=[str(node.logs)])
    assert (end["cause"], end["fault"]) == ("not_started", "node")
    record = [json.loads(line) for line in (node.claim("t1") / "record").read_text(encoding="utf-8").splitlines()]
    assert [line["is"] for line in record] == ["claim", "exit"]


# -- what hangs -----------------------------------------------------------------------------------------------


def test_a_home_that_hangs_keeps_its_owners_tasks_waiting_and_nobody_elses(node: PeopleNode) -> None:
    share = Share(node.folder, "allow_other", "default_permissions")
    try:
        node.move_home(ALICE, share.path)
        share.hang()
        link = node.up()
        node.launch_as(link, ALICE, "t1", "pwd; exit 3")
        for number in range(4):
            assert node.run_as(link, BOB, f"b{number}", "exit 4")["code"] == 4
            assert node.run(link, f"r{number}", "exit 5")["code"] == 5
        until("its shim has claimed it, after what a log-in may take", lambda: node.claim("t1").exists())
        assert node.run_as(link, BOB, "b9", "exit 4")["code"] == 4
        node.launch_as(link, ALICE, "t2", "true")
        link.kill("t2", grace_s=0.1)
        share.go_on()
        assert link.wait_for("exit", "t1")["code"] == 3
        assert str(share.path) in node.said(ALICE, "t1")
    finally:
        share.close()
