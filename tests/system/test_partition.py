"""The wire breaks exactly while a launch is under way: nobody knows, the GPUs stay held, and nothing starts twice."""

from __future__ import annotations

import pytest

from tests.system.ssh_asking import NOTICED_S, ended, node_of, submit, task_of, until_node, until_state
from tests.system.ssh_lab import SshLab
from tests.testbed.host import Host
from tests.waiting import until

BREAKS = {"the launch is lost": Host.cut, "the launch arrives and its start is not heard": Host.lose_to_master}


@pytest.fixture
def ssh_lab(ssh_lab: SshLab) -> SshLab:
    """It notices soon that a node is silent."""
    ssh_lab.write_scheduler(heartbeat_s=1.0)
    return ssh_lab


def starts(lab: SshLab) -> list[str]:
    """The launch ids under which the task was started, as its own machine saw it."""
    path = lab.root / "starts"
    return path.read_text(encoding="ascii").split() if path.exists() else []


@pytest.mark.parametrize("what", BREAKS)
@pytest.mark.parametrize("master", ["lives on", "is killed meanwhile"])
def test_a_launch_into_a_broken_wire_is_unknown_until_the_node_says(ssh_lab: SshLab, what: str, master: str) -> None:
    ssh_lab.start_trusted()
    name = ssh_lab.nodes[2]
    host = ssh_lab.hosts[name]
    BREAKS[what](host)
    number = submit(ssh_lab, f"echo $MUSTER_LAUNCH_ID >> {ssh_lab.root}/starts; exit 3", name)
    until("it is sent", lambda: task_of(ssh_lab, number)["state"] == "starting")
    after = submit(ssh_lab, "exit 4", name)
    if what != "the launch is lost":
        until("it has started there", lambda: starts(ssh_lab))
    if master == "is killed meanwhile":
        ssh_lab.kill_master()
        ssh_lab.start()
    node = until_node(ssh_lab, name, "is away", lambda node: node["state"] == "unreachable")
    assert [gpu["held_by"] for gpu in node["gpus"]] == [[number]] * 8
    assert (task_of(ssh_lab, number)["state"], task_of(ssh_lab, after)["state"]) == ("starting", "waiting")
    assert ended(ssh_lab, submit(ssh_lab, "exit 5", ssh_lab.nodes[3])) == ("failed", 5)
    host.heal()
    ssh_lab.muster("agents", "start", name)
    until_state(ssh_lab, name, "online")
    assert ended(ssh_lab, number) == ("failed", 3)
    assert task_of(ssh_lab, number)["attempt"] == 1
    assert ended(ssh_lab, after) == ("failed", 4)
    assert len(starts(ssh_lab)) == 1


def test_a_wire_that_is_whole_again_before_anybody_noticed_starts_once(ssh_lab: SshLab) -> None:
    ssh_lab.start_trusted()
    name = ssh_lab.nodes[2]
    host = ssh_lab.hosts[name]
    for breaks in BREAKS.values():
        breaks(host)
        number = submit(ssh_lab, f"echo $MUSTER_LAUNCH_ID >> {ssh_lab.root}/starts; exit 3", name)
        until("it is sent", lambda number=number: task_of(ssh_lab, number)["state"] == "starting")  # type: ignore[misc]
        host.heal()
        assert ended(ssh_lab, number) == ("failed", 3)
    assert len(starts(ssh_lab)) == len(set(starts(ssh_lab))) == len(BREAKS)
    until("all is free", lambda: not any(gpu["held_by"] for gpu in node_of(ssh_lab, name)["gpus"]), NOTICED_S)
