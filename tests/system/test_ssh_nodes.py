"""Four machines over SSH, two by password, two by key, one of these through a proxy; and one of each thing that befalls
machines: what runs there is neither lost nor started twice, and its exit is known as soon as it can be."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.runner.verdict import nothing_found
from tests.soak import seed_of
from tests.system.chaos import Plan, Stage, run
from tests.system.ssh_asking import Door, ended, node_of, submit, task_of, until_running, until_state
from tests.system.ssh_chaos import SshStorm
from tests.system.ssh_lab import SshLab, ssh_oracle
from tests.testbed.archives import of_another_version
from tests.testbed.bed import Testbed
from tests.testbed.host import Host
from tests.waiting import until


def test_tasks_run_on_every_node_with_their_exit_codes_and_logs(ssh_lab: SshLab) -> None:
    ssh_lab.start_trusted()
    words = "hostname; id -un; pwd; echo $CUDA_VISIBLE_DEVICES; exit {}"
    numbers = {name: submit(ssh_lab, words.format(place), name, gpus=place) for place, name in enumerate(ssh_lab.nodes)}
    for place, (name, number) in enumerate(numbers.items()):
        assert ended(ssh_lab, number) == ("failed" if place else "succeeded", place)
        gpus = ",".join(map(str, range(place)))
        log = Path(task_of(ssh_lab, number)["log_path"]).read_text(encoding="utf-8").splitlines()
        assert log[:4] == [name, "lab", str(ssh_lab.root), gpus]
        assert log[-1] == "" or f"Program Exit With Code {place}" in log
        assert node_of(ssh_lab, name)["hostname"] == name
    until("nothing of them lives", lambda: not ssh_lab.strays(), seen=ssh_lab.strays)


def test_a_master_that_is_killed_finds_all_its_tasks_again(ssh_lab: SshLab) -> None:
    ssh_lab.start_trusted()
    doors = {name: Door(ssh_lab, name, 5 + place) for place, name in enumerate(ssh_lab.nodes)}
    numbers = {name: submit(ssh_lab, door.command, name) for name, door in doors.items()}
    for number in numbers.values():
        until_running(ssh_lab, number)
    before = {process.launch_id for process in ssh_lab.attempts_alive()}
    assert len(before) == 4
    ssh_lab.kill_master()
    doors[ssh_lab.nodes[0]].open()
    until("one ends without a master", lambda: len({one.launch_id for one in ssh_lab.attempts_alive()}) == 3)
    ssh_lab.start()
    ssh_lab.await_online()
    assert ended(ssh_lab, numbers[ssh_lab.nodes[0]]) == ("failed", 5)
    assert {process.launch_id for process in ssh_lab.attempts_alive()} < before
    for place, name in enumerate(ssh_lab.nodes):
        doors[name].open()
        assert ended(ssh_lab, numbers[name]) == ("failed", 5 + place)


def test_machines_fall_silent_and_come_back(testbed: Testbed, ssh_lab: SshLab) -> None:
    """All at once: each is noticed by its silence alone."""
    ssh_lab.write_scheduler(heartbeat_s=1.0)
    ssh_lab.set_hosts(testbed.hosts)
    ssh_lab.start_trusted()
    tellers = (_deaf, _mute, _frozen, _cut_during_a_launch, _without_power)
    stories = [tell(ssh_lab, name) for tell, name in zip(tellers, ssh_lab.nodes, strict=True)]
    for story in stories:
        next(story)
    for name in ssh_lab.nodes:
        until_state(ssh_lab, name, "unreachable")
    for story in stories:
        with suppress(StopIteration):
            next(story)


Story = Iterator[None]
"""Up to the silence, and from the moment on when the master has noticed it."""


def _deaf(lab: SshLab, name: str) -> Story:
    return _silent(lab, name, Host.lose_from_master, Host.heal)


def _mute(lab: SshLab, name: str) -> Story:
    return _silent(lab, name, Host.lose_to_master, Host.heal)


def _frozen(lab: SshLab, name: str) -> Story:
    return _silent(lab, name, Host.freeze, Host.thaw)


def _silent(lab: SshLab, name: str, begin: Callable[[Host], None], end: Callable[[Host], None]) -> Story:
    """What runs goes on, and its exit is told later."""
    door = Door(lab, name, 9)
    number = submit(lab, door.command, name)
    until_running(lab, number)
    begin(lab.hosts[name])
    yield
    door.open()
    end(lab.hosts[name])
    assert ended(lab, number) == ("failed", 9)


def _cut_during_a_launch(lab: SshLab, name: str) -> Story:
    """The task is started once, and has its GPUs all the time."""
    starts = lab.root / "starts"
    lab.hosts[name].cut()
    number = submit(lab, f"echo $MUSTER_LAUNCH_ID >>{starts}; exit 4", name)
    until("the launch is sent", lambda: task_of(lab, number)["state"] == "starting")
    yield
    assert [gpu["held_by"] for gpu in node_of(lab, name)["gpus"]] == [[number]] * 8
    assert not starts.exists()
    lab.hosts[name].heal()
    assert ended(lab, number) == ("failed", 4)
    assert len(starts.read_text(encoding="utf-8").splitlines()) == 1


def _without_power(lab: SshLab, name: str) -> Story:
    """Its task is lost once that is known, and not before; what waited for the machine runs then."""
    number = submit(lab, Door(lab, "never", 0).command, name)
    until_running(lab, number)
    lab.hosts[name].power_off()
    yield
    assert (task_of(lab, number)["state"], node_of(lab, name)["tasks"]) == ("running", [number])
    waiting = submit(lab, "exit 6", name)
    lab.hosts[name].power_on()
    assert ended(lab, number) == ("lost", None)
    assert "reboot" in (task_of(lab, number)["reason"] or "")
    assert ended(lab, waiting) == ("failed", 6)


@pytest.mark.parametrize("place", [0, 3], ids=["direct", "through the proxy"])
def test_an_agent_that_is_killed_is_started_again_and_exits_are_kept(ssh_lab: SshLab, place: int) -> None:
    ssh_lab.start_trusted()
    name = ssh_lab.nodes[place]
    door = Door(ssh_lab, "door", 7)
    number = submit(ssh_lab, door.command, name)
    until_running(ssh_lab, number)
    before = ssh_lab.agent_pid(name)
    assert ssh_lab.kill_agent(name)
    until("another agent", lambda: ssh_lab.agent_pid(name) not in (None, before))
    ssh_lab.await_online([name])
    assert task_of(ssh_lab, number)["state"] == "running"
    door.open()
    assert ended(ssh_lab, number) == ("failed", 7)


def test_an_agent_of_another_version_hands_its_tasks_over_to_ours(ssh_lab: SshLab) -> None:
    ssh_lab.start_trusted()
    name = ssh_lab.nodes[0]
    door = Door(ssh_lab, "door", 6)
    number = submit(ssh_lab, door.command, name)
    until_running(ssh_lab, number)
    ours = node_of(ssh_lab, name)["agent_version"]
    shell = min(one.pid for one in ssh_lab.attempts_alive())  # the others are its `sleep`, which come and go
    ssh_lab.kill_master()
    _serve_another_version(ssh_lab, name)
    ssh_lab.start()
    ssh_lab.await_online([name])
    assert f"node {name}: its agent is of version" in ssh_lab.server_log()
    assert node_of(ssh_lab, name)["agent_version"] == ours
    assert task_of(ssh_lab, number)["state"] == "running"
    assert shell in {one.pid for one in ssh_lab.attempts_alive()}
    door.open()
    assert ended(ssh_lab, number) == ("failed", 6)


def _serve_another_version(lab: SshLab, name: str) -> None:
    """In the place of a node's agent, one of another version, as a master before this one would have left it."""
    host, folder = lab.hosts[name], lab.agent_folder(name)
    (ours,) = folder.parent.glob("agent-*.pyz")
    other = folder.parent / "agent-0123456789abcdef.pyz"
    of_another_version(ours, other)
    os.chown(other, host.uid, host.uid)
    assert lab.kill_agent(name)
    until("the agent is gone", lambda: lab.agent_pid(name) is None)
    base = f"/home/{host.user}/.local/state/muster"
    host.run("python3", "-I", f"{base}/{other.name}", "serve", "--state", f"{base}/{folder.name}", user=host.user)


def test_a_stopped_sshd_costs_nothing_but_the_time_that_it_is_stopped(ssh_lab: SshLab) -> None:
    ssh_lab.start_trusted()
    name = ssh_lab.nodes[0]
    door = Door(ssh_lab, "door", 8)
    number = submit(ssh_lab, door.command, name)
    until_running(ssh_lab, number)
    ssh_lab.hosts[name].stop_sshd()
    assert node_of(ssh_lab, name)["state"] == "online"  # the session of the connection lives on
    ssh_lab.kill_master()
    ssh_lab.start()
    node = until_state(ssh_lab, name, "unreachable")
    assert "refuses the connection" in (node["reason"] or "")
    door.open()
    ssh_lab.hosts[name].start_sshd()
    assert ended(ssh_lab, number) == ("failed", 8)


def test_a_task_cancelled_while_its_node_is_away_is_killed_when_the_node_is_back(ssh_lab: SshLab) -> None:
    ssh_lab.start_trusted()
    name = ssh_lab.nodes[0]
    number = submit(ssh_lab, Door(ssh_lab, "never", 0).command, name)
    until_running(ssh_lab, number)
    ssh_lab.hosts[name].stop_sshd()
    ssh_lab.kill_master()
    ssh_lab.start()
    until_state(ssh_lab, name, "unreachable")
    with ssh_lab.client() as client:
        client.cancel([number])
    assert ssh_lab.attempts_alive()
    ssh_lab.hosts[name].start_sshd()
    assert ended(ssh_lab, number)[0] == "cancelled"
    until("nothing of it lives", lambda: not ssh_lab.attempts_alive())


def test_a_node_that_was_given_up_is_cleaned_before_it_gets_anything_new(ssh_lab: SshLab) -> None:
    ssh_lab.start_trusted()
    name = ssh_lab.nodes[0]
    number = submit(ssh_lab, Door(ssh_lab, "never", 0).command, name)
    until_running(ssh_lab, number)
    ssh_lab.hosts[name].stop_sshd()
    ssh_lab.kill_master()
    ssh_lab.start()
    until_state(ssh_lab, name, "unreachable")
    with ssh_lab.client() as client:
        assert client.give_up_node(name) == [number]
    assert ended(ssh_lab, number) == ("lost", None)
    assert ssh_lab.attempts_alive()
    told = ssh_lab.root / "told"
    after = submit(ssh_lab, f"pgrep -cf '[u]ntil . -e' >{told}; exit 2", name)
    ssh_lab.hosts[name].start_sshd()
    assert ended(ssh_lab, after) == ("failed", 2)
    assert told.read_text(encoding="utf-8") == "0\n"
    assert ssh_lab.attempts_alive() == []


def test_an_agent_that_ends_as_asked_leaves_its_tasks_and_stays_away(ssh_lab: SshLab) -> None:
    ssh_lab.start_trusted()
    name = ssh_lab.nodes[2]
    door = Door(ssh_lab, "door", 3)
    number = submit(ssh_lab, door.command, name)
    until_running(ssh_lab, number)
    stopped = ssh_lab.muster("agents", "stop", name)
    assert stopped.returncode == 0, stopped.stderr
    until("the agent is gone", lambda: ssh_lab.agent_pid(name) is None)
    door.open()
    until("the task ends by itself", lambda: not ssh_lab.attempts_alive())
    assert task_of(ssh_lab, number)["state"] == "running"
    assert ssh_lab.muster("agents", "start", name).returncode == 0
    assert ended(ssh_lab, number) == ("failed", 3)


def test_nothing_is_lost_doubled_or_booked_twice_in_a_storm_over_four_machines(
    testbed: Testbed, ssh_lab: SshLab, tmp_path: Path
) -> None:
    seed = seed_of("CHAOS_SEED", 21)
    plan = Plan(tasks=150, kills=1, agent_kills=1, outages=("cut:4", "power:2"), seed=seed)
    report = run(tmp_path, plan, stage=Stage(ssh_lab, ssh_oracle(testbed), SshStorm, ssh_lab.start_trusted))
    nothing_found(report.problems, f"CHAOS_SEED={seed}")
    assert report.strikes == {"master": 1, "agent": 1, "outage": 2}
    assert sum(report.states.values()) == report.filed >= 150


def test_the_whole_lab_ends_with_its_master_once_the_agents_are_told(ssh_lab: SshLab) -> None:
    ssh_lab.start_trusted()
    agents = [ssh_lab.agent_pid(name) for name in ssh_lab.nodes]
    ssh_lab.stop_master()
    assert [ssh_lab.agent_pid(name) for name in ssh_lab.nodes] == agents
    for pid in agents:
        assert pid is not None
        os.kill(pid, signal.SIGTERM)
    until("nothing lives", lambda: not ssh_lab.processes())
