"""An agent of another version takes over: tasks go on, exit codes are kept, and nothing is started twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.agent.small_master import Node, alive
from tests.waiting import until

FROZEN = Path(__file__).parents[2] / "data" / "agent_state_v1"
"""The attempts of a machine whose boot id was `boot-1`, as the first release wrote them."""


def thaw(node: Node) -> None:
    """Give a node that state folder."""
    shutil.copytree(FROZEN, node.state)
    for attempt in list((node.state / "attempts").iterdir()):
        attempt.rename(node.claim(attempt.name))


@pytest.mark.parametrize("end", ["asked", "killed"])
def test_the_next_version_takes_over_what_runs(node: Node, tmp_path: Path, end: str) -> None:
    """Attempts are known by their records and agents by their words: no module's name is a part of either."""
    old = node.up()
    gate = tmp_path / "gate"
    names = [f"t{number}" for number in range(3)]
    for number, name in enumerate(names):
        wait = f"until [ -e {gate} ]; do sleep 0.05; done"
        node.launch(old, name, f"echo start >> {tmp_path}/starts; {wait}; exit {number + 5}")
    pids = {message["launch_id"]: message["pid"] for message in (old.read() for _ in names)}
    node.run(old, "ended", "exit 4")
    if end == "asked":
        old.retire()
    else:
        node.kill_agent(old)
    node.change_version()
    new = node.up()
    assert new.welcome["version"] == "0123456789abcdef" != old.welcome["version"]
    assert new.welcome["pid"] != old.welcome["pid"]
    assert {name: new.inventory[name]["pid"] for name in names} == pids
    assert new.inventory["ended"]["code"] == 4
    for name in names:
        node.launch(new, name, f"echo start >> {tmp_path}/starts")
    gate.touch()
    ends: dict[str, int] = {}
    while len(ends) < 4:
        message = new.read()
        if message["op"] == "exit":
            ends[message["launch_id"]] = message["code"]
    assert ends == {"t0": 5, "t1": 6, "t2": 7, "ended": 4}
    assert (tmp_path / "starts").read_text(encoding="utf-8") == "start\n" * 3


def test_it_says_what_it_had_to_say_and_is_gone_before_the_next_can_start(node: Node) -> None:
    link = node.up()
    link.send({"op": "ping"})
    assert [message["op"] for message in link.retire()] == ["pong"]
    assert node.serve().returncode == 0  # at once: the lock is free when the connection ends
    until("its end", lambda: not alive(link.welcome["pid"]))


def test_a_launch_right_before_it_is_started_once(node: Node, tmp_path: Path) -> None:
    link = node.up()
    command = f"echo start >> {tmp_path}/starts; exit 4"
    node.launch(link, "t1", command)
    link.retire()
    again = node.up()
    node.launch(again, "t1", command)
    assert again.wait_for("exit", "t1")["code"] == 4
    assert (tmp_path / "starts").read_text(encoding="utf-8") == "start\n"


def test_what_the_first_release_wrote_is_understood(node: Node) -> None:
    thaw(node)
    link = node.up(MUSTER_BOOT_ID="boot-1")
    told = {name: (entry["state"], entry["code"], entry["cause"]) for name, entry in link.inventory.items()}
    assert told["exited"] == ("ended", 3, "exited")
    assert told["killed"] == ("ended", 143, "killed")
    assert told["not-started"] == ("ended", None, "not_started")
    assert link.inventory["not-started"]["error"] == "the folder /data/x does not exist on node1"
    assert (link.inventory["exited"]["started_at"], link.inventory["exited"]["at"]) == (1790000001.5, 1790000003.25)
    # Their shims are no more, and nobody saw how they ended.
    for name in ("claimed", "running"):
        assert link.wait_for("exit", name)["cause"] == "unknown"
    link.ack(*told)
    link.ping()
    assert list((node.state / "attempts").iterdir()) == []


def test_what_the_first_release_wrote_before_a_reboot_is_over(node: Node) -> None:
    thaw(node)
    told = {name: entry["cause"] for name, entry in node.up(MUSTER_BOOT_ID="boot-2").inventory.items()}
    assert (told["exited"], told["claimed"], told["running"]) == ("exited", "rebooted", "rebooted")
