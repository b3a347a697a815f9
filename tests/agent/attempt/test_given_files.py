"""The token of a task that submits others, and the hosts of one on several nodes, on a node: each in a file of the
account's alone, and no longer there than the attempt, whoever is killed."""

from __future__ import annotations

import os
import shlex
import signal
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.people import ALICE, BOB, PeopleNode
from tests.agent.small_master import Link, Node
from tests.waiting import until

TOKEN = "mst_t1x1xab_" + "s" * 43
TOLD = 'echo "$MUSTER_TOKEN_FILE"; cat "$MUSTER_TOKEN_FILE"; env | grep -c mst_'
STAYS = "; read line < <(sleep 1000)"


@pytest.fixture
def people_node() -> Iterator[PeopleNode]:
    folder = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="muster-people-"))
    folder.chmod(0o755)
    node = PeopleNode(folder)
    yield node
    node.clean()


def path_told(node: Node, launch_id: str) -> Path:
    """Where a task found its token."""

    def told() -> str:
        lines = node.text(launch_id).splitlines()
        return lines[0] if len(lines) > 2 else ""

    return Path(until("what the task said", told))


def begun(node: Node, link: Link, launch_id: str) -> Path:
    """A task that has a token and stays; where that lies."""
    node.launch(link, launch_id, TOLD + STAYS, token=TOKEN)
    return path_told(node, launch_id)


def test_it_stands_in_a_file_of_0600_and_in_no_record_and_goes_before_the_end_is_told(node: Node) -> None:
    link = node.up()
    path = begun(node, link, "t1")
    assert node.text("t1").splitlines()[1:3] == [TOKEN, "0"]
    assert (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) == (os.geteuid(), 0o600)
    held = [one for one in node.state.rglob("*") if one.is_file() and TOKEN.encode() in one.read_bytes()]
    assert held == [path]
    link.kill("t1")
    assert link.wait_for("exit", "t1")["cause"] == "killed"
    assert not path.exists()
    assert node.claim("t1").exists(), "the master has not heard of it yet"


def test_a_task_without_one_is_told_of_none(node: Node) -> None:
    link = node.up()
    assert node.run(link, "t1", '[ -z "${MUSTER_TOKEN_FILE+x}" ]')["code"] == 0


def test_it_goes_also_where_shim_and_agent_are_killed(node: Node) -> None:
    link = node.up()
    path = begun(node, link, "t1")
    node.kill_agent(link)
    os.kill(node.shim_of("t1"), signal.SIGKILL)
    again = node.up()
    assert path.exists(), "its processes live"
    again.kill("t1")
    assert again.wait_for("exit", "t1")["cause"] == "killed"
    assert not path.exists()


@pytest.mark.parametrize("wrong", [7, "ä", None])
def test_what_is_no_token_is_refused_as_the_launch_is(node: Node, wrong: object) -> None:
    link = node.up()
    end = node.run(link, "t1", "true", token=wrong)
    assert (end["cause"], end["error"]) == ("not_started", "token is not text")


def test_nobody_says_where_the_file_lies_but_the_agent(node: Node, tmp_path: Path) -> None:
    link = node.up()
    precious = tmp_path / "precious"
    precious.touch()
    assert node.run(link, "t1", "true", token_file=str(precious))["code"] == 0
    assert precious.exists()


def test_of_a_task_that_runs_as_its_owner_the_owner_reads_it_and_nobody_else(people_node: PeopleNode) -> None:
    node = people_node
    link = node.up()
    node.launch_as(link, ALICE, "t1", TOLD + STAYS, token=TOKEN)
    log = node.own_log(ALICE, "t1")
    until("its token", lambda: log.exists() and log.read_text(encoding="utf-8").count("\n") >= 3)
    path = Path(node.said(ALICE, "t1")[0])
    assert node.said(ALICE, "t1")[1:3] == [TOKEN, "0"]
    assert (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) == (ALICE.uid, 0o600)
    for folder in (path.parent, path.parent.parent):
        assert (folder.stat().st_uid, stat.S_IMODE(folder.stat().st_mode)) == (0, 0o711)
    where = shlex.quote(str(path))
    node.run_as(link, BOB, "t2", f"cat {where}; rm -f {where}; ls {where}/..; mv {path.parent} {path.parent}2; true")
    assert "mst_" not in "".join(node.said(BOB, "t2"))
    assert path.read_text(encoding="ascii") == TOKEN + "\n"
    os.kill(node.shim_of("t1"), signal.SIGKILL)
    link.kill("t1")
    link.wait_for("exit", "t1")
    assert not path.parent.exists()


def test_a_folder_of_somebody_elses_in_its_place_is_told_and_gets_nothing(people_node: PeopleNode) -> None:
    node = people_node
    planted = f"mount -t tmpfs tmpfs /run && mkdir /run/muster-tasks && chown {BOB.uid} /run/muster-tasks"
    node.before = ["sh", "-c", f'{planted} && exec "$@"', "sh"]
    link = node.up()
    end = node.run_as(link, ALICE, "t1", "true", token=TOKEN)
    assert (end["cause"], end["fault"]) == ("not_started", "node")
    assert f"/run/muster-tasks is of uid {BOB.uid}: remove it" in end["error"]


HOSTS = "训练机-甲 slots=4\n10.0.0.2 slots=4"
TOLD_HOSTS = 'echo "$MUSTER_HOSTFILE"; cat "$MUSTER_HOSTFILE"'


def test_the_hosts_of_a_task_on_several_nodes_lie_in_a_file_beside_its_token_and_go_like_it(node: Node) -> None:
    link = node.up()
    node.launch(link, "t1", TOLD_HOSTS + STAYS, hosts=HOSTS, token=TOKEN)
    path = path_told(node, "t1")
    assert node.text("t1").splitlines()[1:3] == HOSTS.splitlines()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(one.name for one in path.parent.iterdir()) == ["hosts", "record", "token"]
    node.kill_agent(link)
    os.kill(node.shim_of("t1"), signal.SIGKILL)
    again = node.up()
    again.kill("t1")
    assert again.wait_for("exit", "t1")["cause"] == "killed"
    assert [one.name for one in path.parent.iterdir() if one.name != "kill"] == ["record"]


def test_hosts_that_are_no_text_are_refused_and_where_they_lie_is_the_agents_to_say(node: Node, tmp_path: Path) -> None:
    link = node.up()
    assert node.run(link, "t1", "true", hosts=["a"])["error"] == "hosts is not text"
    precious = tmp_path / "precious"
    precious.touch()
    assert node.run(link, "t2", '[ -z "${MUSTER_HOSTFILE+x}" ]', host_file=str(precious))["code"] == 0
    assert precious.exists()


def test_an_owner_finds_hosts_and_token_and_one_task_never_the_files_of_another(people_node: PeopleNode) -> None:
    node = people_node
    link = node.up()
    node.launch_as(link, ALICE, "t1", TOLD_HOSTS + STAYS, hosts=HOSTS, token=TOKEN)
    log = node.own_log(ALICE, "t1")
    until("its hosts", lambda: log.exists() and log.read_text(encoding="utf-8").count("\n") >= 3)
    path = Path(node.said(ALICE, "t1")[0])
    assert (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) == (ALICE.uid, 0o600)
    node.run_as(link, ALICE, "t1.hosts", TOLD, token=TOKEN)
    assert node.said(ALICE, "t1.hosts")[1] == TOKEN, "its file is called otherwise than the other's hosts"
    assert node.run_as(link, BOB, "t2", f"cat {shlex.quote(str(path))}")["code"] == 1
    assert path.read_text(encoding="utf-8") == HOSTS + "\n"
    link.kill("t1")
    link.wait_for("exit", "t1")
    assert not path.parent.exists()
