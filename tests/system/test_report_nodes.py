"""A node that dials in, with a real master, agent and TLS: tasks, restarts, newer agents, refused tokens."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from monitor.agent.report.settings import state_base
from tests.cases import each_case
from tests.faults import link_of
from tests.rights import need_program
from tests.system.far_node import ENTRY, NAME, FarNode, files_with
from tests.system.lab import Lab
from tests.testbed import processes
from tests.testbed.archives import of_another_version
from tests.waiting import until
from wire.message import Message

REFUSED, BUSY, GAVE_UP, BAD_SETUP = 77, 75, 69, 78


@pytest.fixture
def far(make_system_lab: Callable[..., Lab]) -> Iterator[FarNode]:
    """A master whose one node dials in; nobody has dialled yet."""
    with far_of(make_system_lab("lab", nodes=0)) as node:
        yield node


@contextmanager
def far_of(lab: Lab) -> Iterator[FarNode]:
    """The same in this lab."""
    lab.write_registry([ENTRY])
    lab.start()
    node = FarNode(lab)
    try:
        yield node
        if lab.master is not None:
            with lab.client() as client:
                client.cancel(everything=True)
                until("no task lives", lambda: not client.tasks(states=["starting", "running"]))
    finally:
        node.close()


OTHERS = ("python3.8", "python3.9", "python3.10", "python3.14", "pypy3")


def runs(python: str) -> bool:
    """Whether there is really a Python behind the name."""
    return subprocess.run([python, "-c", "import ssl"], capture_output=True, check=False).returncode == 0


def ended(process: subprocess.Popen[bytes]) -> int:
    return process.wait(60)


def test_a_task_runs_on_a_machine_that_dials_in_and_survives_master_caller_and_agent(far: FarNode) -> None:
    far.make_token()
    far.start()
    far.await_state("online")
    with far.lab.client() as client:
        short = client.submit(["sh", "-c", "echo here; exit 3"], gpus=1)
        assert client.wait([short], 60)[short]["exit_code"] == 3
        task = client.submit(["sleep", "1000"], gpus=2)
        client.wait([task], 60, until="started")
        began = client.show(task)["started_at"]
    far.lab.kill_master()
    far.lab.start()
    far.await_state("online")
    far.hang_up()
    far.await_state("connecting")
    far.start_again()
    far.await_state("online")
    killed = far.agent_pid()
    os.kill(killed, signal.SIGKILL)
    until("another agent", lambda: far.agent_pid() != killed)
    far.await_state("online")
    with far.lab.client() as client:
        assert client.show(task)["state"] == "running"
        assert client.show(task)["started_at"] == began
        client.cancel([task])
        assert client.wait([task], 60)[task]["state"] == "cancelled"


def test_the_token_lies_in_a_private_file_and_nowhere_else(far: FarNode) -> None:
    far.make_token()
    secret = far.token.partition(".")[2]
    far.start()
    far.await_state("online")
    settings = far.base / f"report-{NAME}.json"
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    assert stat.S_IMODE(far.base.stat().st_mode) == 0o700
    for process in far.lab.processes():
        assert secret.encode() not in processes.shown(process.pid)
    assert files_with(secret.encode(), far.lab.folder) == [settings]


def test_a_token_from_the_environment_does_not_stay_there(far: FarNode) -> None:
    far.make_token()
    where = f"127.0.0.1:{far.lab.keys['socket_info']['data_port']}"
    far.process = subprocess.Popen(
        [sys.executable, str(far.archive), "report", "--node", NAME, "--master", where, "--authority", far.authority],
        env={**far.lab.environment(), "MUSTER_NODE_TOKEN": far.token},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    far.await_state("online")
    for pid in (far.process.pid, far.agent_pid()):
        assert far.token.encode() not in Path(f"/proc/{pid}/environ").read_bytes()


def test_a_refused_token_ends_it_with_a_status_of_its_own(far: FarNode) -> None:
    far.make_token()
    wrong = far.token[:-4] + "AAAA"
    assert ended(far.start(token=wrong)) == REFUSED
    assert "--new-token" in far.said
    far.start("--new-token")
    far.await_state("online")
    far.make_token("revoke")
    assert far.process is not None
    assert ended(far.process) == REFUSED


def test_a_rotated_token_opens_and_the_old_connection_goes_on(far: FarNode) -> None:
    far.make_token()
    far.start()
    far.await_state("online")
    old = far.token
    told = far.make_token("rotate")
    assert told["token"] != old
    assert told["old_until"] is not None
    far.hang_up()
    far.await_state("connecting")
    far.start("--new-token")
    far.await_state("online")
    assert json.loads((far.base / f"report-{NAME}.json").read_text(encoding="utf-8"))["token"] == told["token"]


def test_a_token_that_is_given_while_the_agent_reports_is_taken_when_the_old_one_ends(far: FarNode) -> None:
    far.make_token()
    first = far.start()
    far.await_state("online")
    far.make_token("rotate")
    assert ended(far.start("--new-token")) == 0
    assert "takes the new token at its next call" in far.said
    far.make_token("rotate")  # the first one opens nothing any more, and whoever came in with it is put out
    until("it dials in again", lambda: far.lab.server_log().count("its agent dialled in") == 2)
    far.await_state("online")
    assert first.poll() is None
    far.process = first


def test_in_the_background_a_refused_token_is_told_where_it_was_typed(far: FarNode) -> None:
    far.make_token()
    assert ended(far.start("--detach", token="abcd.wrong")) == REFUSED  # noqa: S106  (it opens nothing)
    assert "the token is refused" in far.said
    far.make_token("revoke")
    far.type_steps()  # as they are printed for a machine that remembers a token of before
    far.await_state("online")
    far.end_callers()


def test_a_new_authority_of_the_same_lab_finds_its_tasks_again(far: FarNode) -> None:
    far.make_token()
    far.start()
    far.await_state("online")
    with far.lab.client() as client:
        task = client.submit(["sleep", "1000"], gpus=2)
        client.wait([task], 60, until="started")
    far.hang_up()
    far.lab.kill_master()
    shutil.rmtree(far.lab.task_info / "tls")
    far.lab.start()
    before = far.authority
    far.make_token("rotate")
    assert far.authority != before
    far.start("--new-token")
    far.await_state("online")
    with far.lab.client() as client:
        assert client.show(task)["state"] == "running"
        assert client.show(task)["attempt"] == 1


def test_ctrl_c_ends_it_without_a_traceback(far: FarNode) -> None:
    far.make_token()
    process = far.start()
    far.await_state("online")
    process.send_signal(signal.SIGINT)
    assert ended(process) == 130
    assert "Traceback" not in far.said


def test_it_gives_up_after_as_many_failures_as_it_was_told(far: FarNode) -> None:
    far.make_token()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        process = far.start("--give-up-after", "2", port=nobody.getsockname()[1])
        assert ended(process) == GAVE_UP
    assert "given up after 2 failures" in far.said


def test_a_master_with_another_authority_is_told_no_token(far: FarNode) -> None:
    far.make_token()
    far.authority = "sha256:" + "0" * 64
    assert ended(far.start("--give-up-after", "1")) == GAVE_UP
    assert "does not show the authority" in far.said
    assert "dialled in" not in far.lab.server_log()


def test_what_is_missing_or_wrong_is_one_line_with_the_cure(far: FarNode) -> None:
    far.make_token()
    assert ended(far.start(token="nonsense")) == BAD_SETUP  # noqa: S106  (it opens nothing)
    assert "that is not a token" in far.said
    bare = [sys.executable, str(far.archive), "report", "--node", "unheard-of"]
    done = subprocess.run(bare, env=far.lab.environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, "say --master HOST:PORT" in done.stderr) == (BAD_SETUP, True)
    settings = far.base / f"report-{NAME}.json"
    settings.write_text("{}", encoding="utf-8")
    settings.chmod(0o644)
    assert ended(far.start()) == BAD_SETUP
    assert "chmod 600" in far.said
    assert "Traceback" not in far.said


def test_two_callers_of_one_node_do_not_put_each_other_out(far: FarNode) -> None:
    far.make_token()
    first = far.start()
    far.await_state("online")
    assert ended(far.start_again()) == BUSY
    assert ended(far.start_again("--detach")) == BUSY
    assert far.said.count("reports as this node from here already") == 2
    far.process = first
    far.await_state("online")


def test_an_older_agent_fetches_the_masters_archive_and_its_task_runs_on(far: FarNode) -> None:
    far.make_token()
    new = far.archive
    far.archive = new.with_name("other.pyz")
    of_another_version(new, far.archive)
    # A master of yesterday gave out this one: say so to the node by letting it begin as one that stays as it is.
    far.start("--stays")
    far.await_state("online")
    with far.lab.client() as client:
        task = client.submit(["sleep", "1000"], gpus=2)
        client.wait([task], 60, until="started")
    assert "fetching version" not in far.said
    far.hang_up()
    far.lab.kill_master()
    far.lab.start()  # the next master, for whom this agent is an old one
    far.start_again()
    node = far.await_state("online")
    assert "fetching version" in far.said
    with far.lab.client() as client:
        ours = client.call("node.archive", {})["version"]
        until("the agent is of our version", lambda: client.node(NAME)["agent_version"] == ours)
        assert client.show(task)["state"] == "running"
        client.cancel([task])
        client.wait([task], 60)
    assert (far.base / "muster-agent.pyz").read_bytes() == new.read_bytes()
    assert node["name"] == NAME


def test_it_dials_in_from_whatever_python_is_there(make_system_lab: Callable[..., Lab]) -> None:
    need_program("pypy3", "pypy3")
    with each_case() as cases:
        for python in (found for name in OTHERS if (found := shutil.which(name)) and runs(found)):
            with cases.case(python), far_of(make_system_lab(Path(python).name, nodes=0)) as far:
                far.make_token()
                far.python = python
                far.start()
                far.await_state("online")
                with far.lab.client() as client:
                    task = client.submit(["true"], gpus=1)
                    assert client.wait([task], 60)[task]["state"] == "succeeded"


def test_in_the_background_it_returns_at_once_and_goes_on(far: FarNode) -> None:
    far.make_token()
    process = far.start("--detach")
    assert ended(process) == 0
    assert "in the background" in far.said
    far.await_state("online")
    assert "reporting to" in (far.base / "report-far.log").read_text(encoding="utf-8")
    assert "reporting to" in far.said
    assert far.end_callers() == 1


def test_a_node_whose_machine_is_frozen_is_unreachable_and_keeps_its_gpus(
    make_system_lab: Callable[..., Lab],
) -> None:
    lab = make_system_lab(nodes=0)
    lab.write_conf(scheduler={"grace_s": 2.0, "report_stale_s": 1.0})
    lab.write_registry([ENTRY])
    lab.start()
    far = FarNode(lab)
    try:
        far.make_token()
        far.start()
        far.await_state("online")
        with lab.client() as client:
            task = client.submit(["sleep", "1000"], gpus=1)
            client.wait([task], 60, until="started")
        far.hang_up()
        node = far.await_state("unreachable")
        assert link_of(node) == Message("agent_not_heard", seconds=1.0)
        assert [gpu["held_by"] for gpu in node["gpus"]].count([task]) == 1
        far.start_again()
        far.await_state("online")
        with lab.client() as client:
            client.cancel([task])
            client.wait([task], 60)
    finally:
        far.close()


def test_the_unit_that_it_prints_is_one(far: FarNode) -> None:
    far.muster("node", "token", NAME, "--write", str(far.archive))
    for kind in ("user", "system"):
        words = [sys.executable, str(far.archive), "report", "--node", NAME, "--unit", kind]
        done = subprocess.run(words, capture_output=True, text=True, check=True, env=far.lab.environment())
        unit = done.stdout
        assert f"report --node {NAME}" in unit
        assert "KillMode=process" in unit
        assert ("User=" in unit) is (kind == "system")
        assert "token" not in unit.lower()


def test_what_the_command_prints_can_be_typed_as_it_stands(far: FarNode) -> None:
    far.type_steps()
    far.await_state("online")
    far.end_callers()


PLACES = {
    "gate.example.org": "gate.example.org:{}",
    "gate.example.org:7": "gate.example.org:7",
    "fe80::1": "[fe80::1]:{}",
    "[fe80::1]:7": "[fe80::1]:7",
    "7:8": "7:8",
}


def test_how_the_machine_reaches_the_master_may_be_said_and_a_place_that_is_none_makes_no_token(far: FarNode) -> None:
    known = far.lab.keys["socket_info"]["data_port"]
    with each_case() as cases:
        for at in (":7", "gate:seven", "gate:70000"):
            with cases.case(at):
                done = far.lab.muster("node", "token", NAME, f"--at={at}")
                assert (done.returncode, "is not HOST" in done.stderr) == (1, True)
        for at, told in PLACES.items():
            with cases.case(at):  # which would be refused where there is a token already
                there = json.loads(far.muster("node", "token", NAME, "--json", "--at", at))["master"]
                assert there == told.format(known)
                far.make_token("revoke")
                steps = far.muster("node", "token", NAME, "--at", at)
                assert f"--master {shlex.quote(told.format(known))} " in steps
                far.make_token("revoke")


def test_without_tls_there_is_no_token_and_nothing_is_made(make_system_lab: Callable[..., Lab]) -> None:
    lab = make_system_lab(nodes=0)
    lab.write_conf(tls="off")
    lab.write_registry([ENTRY])
    lab.start()
    done = lab.muster("node", "token", NAME)
    assert (done.returncode, "`tls: off`" in done.stderr) == (1, True)
    assert not (lab.task_info / "tls").exists()
    with lab.client() as client:
        assert "`tls`" in str(client.node(NAME)["reason"])


def test_a_node_of_another_driver_has_no_token(far: FarNode) -> None:
    local = {**ENTRY, "name": "here", "driver": "ssh", "ip": "127.0.0.9", "user_name": "x"}
    far.lab.write_registry([ENTRY, local])
    with far.lab.client() as client:
        until("both nodes", lambda: len(client.nodes()) == 2)
    done = far.lab.muster("node", "token", "here")
    assert (done.returncode, "bad_request" in done.stderr) == (1, True)
    far.make_token()
    again = far.lab.muster("node", "token", NAME)
    assert (again.returncode, "--rotate" in again.stderr) == (1, True)


def test_agents_of_both_kinds_agree_where_their_state_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from master.drivers import bootstrap  # noqa: PLC0415

    monkeypatch.setenv("HOME", "/home/ann")
    line = "36 35 98:0 / {} rw - {} source rw\n"
    for kind in ("ext4", "nfs4", "fuse.sshfs"):
        mounts = tmp_path / kind
        mounts.write_text(line.format("/", "ext4") + line.format("/home", kind), encoding="utf-8")
        for configured in ("", "/home/x/state", "relative"):
            monkeypatch.setenv("XDG_STATE_HOME", configured)
            assert state_base(str(mounts)) == bootstrap.state_base(str(mounts))
