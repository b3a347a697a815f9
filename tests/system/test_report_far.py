"""A machine that the master cannot reach: set up as docs/report-nodes.md says, from behind a firewall, by an ordinary
user; what befalls it, its link, its master and its tokens. Tasks run once."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults import link_of
from tests.runner.verdict import nothing_found
from tests.system import books
from tests.system.far_lab import STATE, FarLab
from tests.system.far_node import files_with
from tests.system.oracle import Job, Oracle
from tests.system.ssh_asking import Door, ended, node_of, submit, task_of, until_running, until_state
from tests.system.ssh_lab import ssh_oracle
from tests.testbed import processes
from tests.testbed.bed import Testbed
from tests.testbed.host import Host
from tests.waiting import until
from wire.message import Message

REFUSED, BUSY, GAVE_UP = 77, 75, 69
STALE_S, CUT_S = 10.0, 11.0
"""A silent connection is given up after 4 s, and from then on the node is `connecting` until it is stale."""
FREE = 5
"""GPUs that the long tasks of the longest test leave."""
SILENCE_S = 0.5
"""Longer than a connection takes here."""


@pytest.fixture
def far(testbed: Testbed, tmp_path: Path) -> Iterator[FarLab]:
    """A master, and the first host as its node, on which nothing was done yet."""
    lab = FarLab(tmp_path / "lab", testbed, testbed.hosts[0])
    yield lab
    left = lab.close()
    testbed.renew()
    assert left == []


def run_jobs(lab: FarLab, oracle: Oracle, jobs: list[Job]) -> None:
    with lab.client() as client:
        for job in jobs:
            job.id = client.submit(oracle.command(job), gpus=job.gpus)


def end(job: Job) -> None:
    assert job.awaits is not None
    job.awaits.touch()


def makes_jobs(count: int, nap_s: float = 0.02) -> list[Job]:
    return [Job(number, number % 9, (0, 0, 3)[number % 3], nap_s) for number in range(count)]


# -- as the documents say -------------------------------------------------------------------------------------


def test_a_machine_to_which_nobody_can_connect_is_set_up_as_printed_and_runs_tasks(far: FarLab) -> None:
    with listener(far.host, 7):
        for port in (7, Host.port):
            with pytest.raises(TimeoutError):
                socket.create_connection((far.host.address, port), SILENCE_S)
        far.host.run("bash", "-c", f"exec 3<>/dev/tcp/{far.host.address}/7")  # there is somebody
    far.install()
    far.await_online()
    assert {processes.owner(process.pid) for process in far.host.processes()} - {None} == {Host.uid}
    assert "sshd" not in " ".join(process.command for process in far.host.processes())
    told = far.root / "told"
    task = submit(far, f"hostname; id -un; echo $CUDA_VISIBLE_DEVICES; echo done >{told}; exit 3", gpus=2)
    assert ended(far, task) == ("failed", 3)
    log = Path(task_of(far, task)["log_path"]).read_text(encoding="utf-8").splitlines()
    assert log[:3] == [far.name, Host.user, "0,1"]
    assert told.read_text(encoding="utf-8") == "done\n"
    assert node_of(far, far.name)["hostname"] == far.name
    until("nothing of it lives", lambda: not far.strays(), seen=far.strays)


def test_the_token_is_in_one_private_file_of_the_host_and_nowhere_else(far: FarLab) -> None:
    secret = far.install().token.partition(".")[2].encode()
    far.await_online()
    for process in far.host.processes():
        assert secret not in processes.shown(process.pid)
    holders = files_with(secret, far.host.disk, far.folder, far.root)
    assert holders == [far.base / f"report-{far.name}.json"]
    assert holders[0].stat().st_mode & 0o777 == 0o600
    assert holders[0].stat().st_uid == Host.uid


@pytest.mark.parametrize("kind", ["user", "system"])
def test_the_unit_starts_what_the_shell_did_and_takes_over_when_that_ends(far: FarLab, kind: str) -> None:
    steps = far.install()
    far.await_online()
    line = next(line for line in steps.units if f"--unit {kind}" in line)
    printed = line[line.index("python3 ") :].partition(" >")[0].partition(" |")[0]
    status, text = far.typed(printed)
    assert status == 0
    unit = far.folder / "muster-far.service"
    unit.write_text(text + "\n", encoding="utf-8")
    assert verified(unit, kind) == ""
    assert (f"\nUser={Host.user}\n" in text) is (kind == "system")
    assert f"\nRestartPreventExitStatus={REFUSED} 78\n" in text
    assert "\nKillMode=process\n" in text
    command = next(line for line in text.splitlines() if line.startswith("ExecStart=")).removeprefix("ExecStart=")
    assert far.typed(command)[0] == BUSY  # which systemd tries again
    door = Door(far, "door", 4)
    task = submit(far, door.command, gpus=8)
    until_running(far, task)
    end_callers(far)
    until_state(far, far.name, "connecting")
    in_background(far, command)
    far.await_online()
    door.open()
    assert ended(far, task) == ("failed", 4)


def test_a_restarted_machine_is_back_with_the_same_command(far: FarLab) -> None:
    far.install()
    far.await_online()
    task = submit(far, Door(far, "never", 0).command, gpus=8)
    until_running(far, task)
    far.host.power_off()
    far.host.power_on()
    far.host.stop_sshd()
    far.host.shut_out()
    waiting = submit(far, "exit 6", gpus=8)
    assert far.report("--detach")[0] == 0
    assert ended(far, task) == ("lost", None)
    assert "reboot" in (task_of(far, task)["reason"] or "")
    assert ended(far, waiting) == ("failed", 6)


def test_a_client_on_another_machine_is_told_that_there_are_no_log_ins_yet(far: FarLab) -> None:
    ask = (
        "import json, socket, ssl, sys; host, port = sys.argv[1].split(':');"
        "s = ssl._create_unverified_context().wrap_socket(socket.create_connection((host, port)));"
        's.sendall(b\'{"jsonrpc":"2.0","id":1,"method":"task.list"}\\n\'); print(s.recv(10000).decode())'
    )
    error = json.loads(far.host.run("python3", "-c", ask, far.where, user=Host.user))["error"]
    assert error["data"]["code"] == "unauthenticated"
    assert error["data"]["key"] == "no_log_ins"


# -- what befalls the link and the master ---------------------------------------------------------------------


def test_tasks_run_once_through_a_killed_master_and_a_wire_that_is_cut_for_longer_than_it_is_waited_for(
    far: FarLab, testbed: Testbed, tmp_path: Path
) -> None:
    far.stop_master()
    far.write_scheduler(heartbeat_s=1.0, report_stale_s=STALE_S)
    far.start()
    far.install()
    far.await_online()
    oracle = ssh_oracle(testbed)
    quick = makes_jobs(18)
    during_kill, during_cut, through_all = long = Job(100, 1, 5, 0.0), Job(101, 1, 0, 0.0), Job(102, 2, 7, 0.0)
    for job in long:
        job.awaits = far.root / f"end-{job.number}"
    run_jobs(far, oracle, [during_kill, through_all, *quick])
    until_running(far, through_all.id)
    until_running(far, during_kill.id)
    far.kill_master()
    end(during_kill)
    until("a task ends without a master", lambda: len(oracle.ends()) == len(oracle.starts()) - 1)
    far.start()
    far.await_online()
    run_jobs(far, oracle, [during_cut])
    until_running(far, during_cut.id)
    for job in quick:
        if job.gpus <= FREE:  # the others wait for `through_all`
            ended(far, job.id)

    began = time.monotonic()
    far.host.cut()
    late = makes_jobs(9)
    run_jobs(far, oracle, late)
    starts = oracle.starts()
    end(during_cut)
    until_state(far, far.name, "connecting")
    node = until_state(far, far.name, "unreachable")
    assert time.monotonic() - began > STALE_S - 5
    assert link_of(node) == Message("agent_not_heard", seconds=STALE_S)
    assert [gpu["held_by"] for gpu in node["gpus"]].count([through_all.id]) == through_all.gpus
    until(f"the wire was cut for {CUT_S:.0f} s", lambda: time.monotonic() - began > CUT_S)
    assert len(oracle.ends()) == len(starts) - 1  # one ended meanwhile, one goes on, none began
    assert oracle.starts() == starts
    end(through_all)
    far.host.heal()
    far.await_online()

    jobs = [*quick, during_kill, during_cut, through_all, *late]
    for job in jobs:
        assert ended(far, job.id) == (job.state, job.code)
    nothing_found(books.audit_running(far, oracle, jobs, lost=0))
    end_callers(far)
    far.stop_master()
    nothing_found(books.audit_stopped(far, jobs, tmp_path, random.Random(1), prefixes=3))


def test_it_tries_as_often_as_it_was_told_and_the_agent_and_its_task_go_on(far: FarLab) -> None:
    far.install()
    far.await_online()
    door = Door(far, "door", 4)
    task = submit(far, door.command, gpus=8)
    until_running(far, task)
    end_callers(far)
    far.kill_master()
    status, said = far.report("--give-up-after", "3")
    assert (status, said.splitlines()[-1]) == (GAVE_UP, "agent: given up after 3 failures")
    assert said.count(far.where) == 3
    assert far.host.attempts()
    far.start()
    assert far.report("--detach")[0] == 0
    door.open()
    assert ended(far, task) == ("failed", 4)


# -- tokens ---------------------------------------------------------------------------------------------------


def test_tokens_are_rotated_and_revoked_while_a_task_runs(far: FarLab) -> None:
    far.install()
    far.await_online()
    door = Door(far, "door", 4)
    task = submit(far, door.command, gpus=8)
    until_running(far, task)
    steps = far.steps("--rotate")
    status, said = far.typed(steps.report, steps.token + "\n")
    assert (status, "takes the new token at its next call" in said) == (0, True)
    assert (far.node_state, far.times_dialled()) == ("online", 1)
    far.rotate()  # the first one opens nothing any more; the second, for ten minutes
    until("it dials in again", lambda: far.times_dialled() == 2)
    far.await_online()
    assert far.muster("node", "token", far.name, "--revoke").returncode == 0
    until("who dials has ended", lambda: not far.callers(), patience=60)
    assert "the token is refused" in far.said.splitlines()[-1]
    status, said = far.report()
    assert (status, said.splitlines()[-1]) == (
        REFUSED, "agent: the token is refused: `muster node token` makes one; --new-token takes it"
    )  # fmt: skip
    assert far.host.attempts()
    assert task_of(far, task)["state"] == "running"
    far.install()
    far.await_online()
    door.open()
    assert ended(far, task) == ("failed", 4)


Thief = Callable[[FarLab, Host], None]


def only_the_token(far: FarLab, thief: Host) -> None:
    """He has a state of his own."""
    there = thief.home / STATE
    thief.run("mkdir", "-p", "-m", "700", f"/home/{Host.user}/{STATE}", user=Host.user)
    for name in (f"report-{far.name}.json", "muster-agent.pyz"):
        (there / name).write_bytes((far.base / name).read_bytes())
    (there / f"report-{far.name}.json").chmod(0o600)
    thief.run("chown", "-R", f"{Host.user}:", f"/home/{Host.user}")


def a_copy_of_everything(far: FarLab, thief: Host) -> None:
    """As a cloned machine has it."""
    place = far.bed.shared / "stolen"
    far.host.run("cp", "-a", f"/home/{Host.user}", str(place))
    thief.run("sh", "-c", f"cp -a {place}/. /home/{Host.user}")


@pytest.mark.parametrize("steal", [only_the_token, a_copy_of_everything])
def test_a_stolen_token_on_two_machines_at_once_puts_nobody_out_and_costs_no_task(
    far: FarLab, testbed: Testbed, steal: Thief
) -> None:
    far.install()
    far.await_online()
    door = Door(far, "door", 4)
    task = submit(far, door.command, gpus=4)
    until_running(far, task)
    thief = testbed.hosts[1]
    steal(far, thief)
    again = f"python3 {STATE}/muster-agent.pyz report --node {far.name} --give-up-after 3"
    status, said = far.typed(again, host=thief)
    assert (status, said.count(f"another agent reports as node {far.name} just now")) == (GAVE_UP, 3), said
    assert f"an agent at {thief.address} was refused" in far.server_log()
    assert (far.node_state, far.times_dialled()) == ("online", 1)
    assert node_of(far, far.name)["hostname"] == far.host.name
    after = submit(far, "hostname; exit 5", gpus=4)
    assert ended(far, after) == ("failed", 5)
    assert Path(task_of(far, after)["log_path"]).read_text(encoding="utf-8").splitlines()[0] == far.host.name
    door.open()
    assert ended(far, task) == ("failed", 4)


def test_who_stole_the_token_does_not_get_the_tasks_of_a_machine_that_is_away(far: FarLab, testbed: Testbed) -> None:
    far.install()
    far.await_online()
    door = Door(far, "door", 4)
    task = submit(far, door.command, gpus=4)
    until_running(far, task)
    thief = testbed.hosts[1]
    only_the_token(far, thief)
    end_callers(far)
    until_state(far, far.name, "connecting")
    again = f"python3 {STATE}/muster-agent.pyz report --node {far.name} --give-up-after 2"
    status, said = far.typed(again, host=thief)
    assert (status, said.count(f"tasks {task} of node {far.name} were started by an agent with another")) == (
        GAVE_UP,
        2,
    )
    assert far.report("--detach")[0] == 0
    far.await_online()
    door.open()
    assert ended(far, task) == ("failed", 4)


# -- helpers --------------------------------------------------------------------------------------------------


@contextmanager
def listener(host: Host, port: int) -> Iterator[None]:
    """Somebody who takes connections on the host."""
    script = f"import socket; s = socket.create_server(('', {port})); print(flush=True); s.accept()"
    words = ["nsenter", f"--target={host.init}", "--net", "python3", "-c", script]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
        finally:
            process.kill()


def end_callers(far: FarLab) -> None:
    """As `systemctl stop` would."""
    for process in far.callers():
        os.kill(process.pid, signal.SIGTERM)
    until("who dials has ended", lambda: not far.callers())


def in_background(far: FarLab, command: str) -> None:
    """As a service manager: nobody reads what it says."""
    far.host.run("sh", "-c", f"cd; {command} </dev/null >/dev/null 2>&1 &", user=Host.user)


def verified(unit: Path, kind: str) -> str:
    """What systemd has to say of a unit."""
    with tempfile.TemporaryDirectory() as runtime:  # its sockets have long names, and no path more than 107 bytes
        done = subprocess.run(
            ["systemd-analyze", "verify", f"--{kind}", "--man=no", str(unit)],
            env={**os.environ, "XDG_RUNTIME_DIR": runtime},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout
    return done.stdout
