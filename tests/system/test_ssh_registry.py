"""The registry, edited while tasks run on four machines: what it says takes effect at once, and no task pays for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.faults import link_of
from tests.system.lab import rewrite
from tests.system.ssh_asking import Door, ended, node_of, submit, task_of, until_node, until_running, until_state
from tests.system.ssh_lab import SshLab
from tests.testbed.bed import Testbed
from tests.waiting import until
from wire.errors import NotFoundError
from wire.message import Message


def names_of(lab: SshLab) -> list[str]:
    with lab.client() as client:
        return [node["name"] for node in client.nodes()]


def entries_of(lab: SshLab) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(lab.registry.read_text(encoding="utf-8"))
    return entries


def fault_of(lab: SshLab) -> str:
    with lab.client() as client:
        return client.info()["registry_fault"] or ""


def running_task(lab: SshLab, name: str, code: int, door_name: str = "door") -> tuple[Door, int]:
    door = Door(lab, door_name.replace(" ", "-"), code)
    number = submit(lab, door.command, name)
    until_running(lab, number)
    return door, number


def test_a_machine_joins_while_the_others_work(testbed: Testbed, ssh_lab: SshLab) -> None:
    ssh_lab.start_trusted()
    door, number = running_task(ssh_lab, ssh_lab.nodes[0], 3)
    fifth = testbed.hosts[4]
    ssh_lab.set_hosts(testbed.hosts)
    until("the node is listed", lambda: fifth.name in names_of(ssh_lab))
    until_state(ssh_lab, fifth.name, "untrusted")
    trusted = ssh_lab.muster("node", "trust", fifth.name, "--fingerprint", fifth.fingerprint)
    assert trusted.returncode == 0, trusted.stderr
    ssh_lab.await_online([fifth.name])
    assert ended(ssh_lab, submit(ssh_lab, "hostname; exit 2", fifth.name)) == ("failed", 2)
    door.open()
    assert ended(ssh_lab, number) == ("failed", 3)


def test_more_gpus_are_used_at_once_and_fewer_are_once_they_are_free(ssh_lab: SshLab) -> None:
    ssh_lab.start_trusted()
    first, *others = ssh_lab.hosts.values()
    door, number = running_task(ssh_lab, first.name, 3)
    others_entries = [ssh_lab.entry(host) for host in others]
    ssh_lab.write_registry([ssh_lab.entry(first, gpu_count=9), *others_entries])
    assert ended(ssh_lab, submit(ssh_lab, "exit $CUDA_VISIBLE_DEVICES", first.name, gpus=1)) == ("failed", 8)
    ssh_lab.write_registry([ssh_lab.entry(first, gpu_count=2), *others_entries])
    until_node(ssh_lab, first.name, "has what is held", lambda node: len(node["gpus"]) == 8)
    after = submit(ssh_lab, "exit 4", first.name, gpus=2)
    assert task_of(ssh_lab, after)["state"] == "waiting"
    door.open()
    assert ended(ssh_lab, number) == ("failed", 3)
    assert ended(ssh_lab, after) == ("failed", 4)
    assert len(node_of(ssh_lab, first.name)["gpus"]) == 2


def test_a_drained_machine_finishes_what_it_has_and_takes_nothing_until_it_is_resumed(ssh_lab: SshLab) -> None:
    ssh_lab.start_trusted()
    name = ssh_lab.nodes[0]
    door, number = running_task(ssh_lab, name, 3)
    assert ssh_lab.muster("node", "drain", name, "--reason", "new memory").returncode == 0
    waiting = submit(ssh_lab, "exit 5", name)
    door.open()
    assert ended(ssh_lab, number) == ("failed", 3)
    assert ended(ssh_lab, submit(ssh_lab, "exit 6", ssh_lab.nodes[1])) == ("failed", 6)
    assert task_of(ssh_lab, waiting)["state"] == "waiting"
    ssh_lab.kill_master()
    ssh_lab.start()
    ssh_lab.await_online(ssh_lab.nodes[1:])
    assert node_of(ssh_lab, name)["drained"] == "new memory"
    assert task_of(ssh_lab, waiting)["state"] == "waiting"
    assert ssh_lab.muster("node", "resume", name).returncode == 0
    assert ended(ssh_lab, waiting) == ("failed", 5)


def test_a_busy_machine_that_is_removed_goes_after_its_last_task(ssh_lab: SshLab) -> None:
    ssh_lab.start_trusted()
    name, *kept = ssh_lab.nodes
    door, number = running_task(ssh_lab, name, 3)
    agent = ssh_lab.agent_pid(name)
    ssh_lab.write_registry([ssh_lab.entry(ssh_lab.hosts[other]) for other in kept])
    until_node(ssh_lab, name, "is leaving", lambda node: node["registry"] == "leaving")
    assert [gpu["held_by"] for gpu in node_of(ssh_lab, name)["gpus"]] == [[number]] * 8
    door.open()
    assert ended(ssh_lab, number) == ("failed", 3)
    until("the node is gone", lambda: names_of(ssh_lab) == kept)
    with pytest.raises(NotFoundError):
        node_of(ssh_lab, name)
    until("its agent ends", lambda: ssh_lab.agent_pid(name) is None)
    assert agent is not None


def test_a_machine_that_is_removed_and_comes_back_is_known_again(ssh_lab: SshLab) -> None:
    ssh_lab.start_trusted()
    name = ssh_lab.nodes[3]
    removed = ssh_lab.muster("node", "rm", name, "--yes")
    assert removed.returncode == 0, removed.stderr
    until("the node is gone", lambda: name not in names_of(ssh_lab))
    ssh_lab.write_registry([*entries_of(ssh_lab), ssh_lab.entry(ssh_lab.hosts[name])])
    until("the node is back", lambda: name in names_of(ssh_lab))
    ssh_lab.await_online()
    assert ended(ssh_lab, submit(ssh_lab, "exit 7", name)) == ("failed", 7)


BROKEN: dict[str, tuple[Callable[[list[dict[str, Any]]], str], str]] = {
    "half a line": (lambda _: "[{", "not JSON"),
    "empty": (lambda _: "", "not JSON"),
    "no list": (lambda _: '{"name": "a"}', str(Message("no_list_of_nodes", example="[{…}, …]"))),
    "a name twice": (lambda entries: json.dumps([*entries, entries[0]]), str(Message("node_name_free", entry=0))),
    "a negative count": (lambda entries: json.dumps([{**entries[0], "gpu_count": -1}, *entries[1:]]), "gpu_count"),
    "a key that is none": (lambda entries: json.dumps([{**entries[0], "gpu_cuont": 8}]), "gpu_cuont"),
    "nodes that are none": (lambda _: "[1, 2]", "[0]"),
}


def test_a_broken_registry_changes_nothing_but_what_is_told(ssh_lab: SshLab) -> None:
    ssh_lab.start_trusted()
    good = ssh_lab.registry.read_text(encoding="utf-8")
    name = ssh_lab.nodes[0]
    for times, (what, (change, words)) in enumerate(BROKEN.items(), 1):
        door, number = running_task(ssh_lab, name, 3, what)
        rewrite(ssh_lab.registry, change(json.loads(good)))
        fault = until(f"{what}: the fault is told", lambda: fault_of(ssh_lab))
        assert words in fault, what
        assert str(ssh_lab.registry) in fault, what
        assert len(fault.splitlines()) == 1, what
        for command in ("nodes", "status"):
            assert fault in ssh_lab.muster(command).stdout, what
        assert names_of(ssh_lab) == ssh_lab.nodes, what
        door.open()
        assert ended(ssh_lab, number) == ("failed", 3), what
        assert ended(ssh_lab, submit(ssh_lab, "exit 4", name)) == ("failed", 4), what
        rewrite(ssh_lab.registry, good)
        until(f"{what}: the fault is gone", lambda: not fault_of(ssh_lab))
        assert ssh_lab.server_log().count("the registry is not taken over") == times, what


def renamed(lab: SshLab, name: str, after: str, **changes: Any) -> list[dict[str, Any]]:
    return [{**entry, "name": after, **changes} if entry["name"] == name else entry for entry in entries_of(lab)]


def test_a_machine_that_was_renamed_while_the_master_was_down_keeps_its_tasks_and_gives_no_gpu_twice(
    ssh_lab: SshLab,
) -> None:
    ssh_lab.start_trusted()
    name = ssh_lab.nodes[2]
    door, number = running_task(ssh_lab, name, 3)
    ssh_lab.kill_master()
    ssh_lab.write_registry(renamed(ssh_lab, name, "another"))
    ssh_lab.start()
    was = Message("machine_was", node=name)
    until_node(ssh_lab, "another", "tells why", lambda node: link_of(node) == was)
    until_state(ssh_lab, name, "online")
    assert task_of(ssh_lab, number)["state"] == "running"
    waiting = submit(ssh_lab, "exit 5", "another")
    # A second restart, as after a crash: what was found out is still known.
    ssh_lab.kill_master()
    ssh_lab.start()
    until_state(ssh_lab, name, "online")
    assert task_of(ssh_lab, waiting)["state"] == "waiting"
    door.open()
    assert ended(ssh_lab, number) == ("failed", 3)
    until("the old name is gone", lambda: name not in names_of(ssh_lab))
    ssh_lab.await_online(["another"])
    assert ended(ssh_lab, waiting) == ("failed", 5)


def test_a_machine_that_was_entered_twice_is_served_once_and_told_twice(ssh_lab: SshLab) -> None:
    ssh_lab.start_trusted()
    name = ssh_lab.nodes[2]
    door, number = running_task(ssh_lab, name, 3)
    ssh_lab.kill_master()
    first = next(entry for entry in entries_of(ssh_lab) if entry["name"] == name)
    other = {**first, "name": "0-other", "ip": f"::ffff:{first['ip']}", "gpu_probe": "auto"}
    ssh_lab.write_registry([other, *renamed(ssh_lab, name, name, gpu_probe="auto")])
    ssh_lab.start()
    ssh_lab.muster("node", "trust", "0-other", "--yes")
    until_node(ssh_lab, "0-other", "tells why", lambda node: f"machine that {name} is" in (node["reason"] or ""))
    ssh_lab.await_online([name])
    waiting = submit(ssh_lab, "exit 5", "0-other")
    assert task_of(ssh_lab, number)["state"] == "running"
    door.open()
    assert ended(ssh_lab, number) == ("failed", 3)
    assert task_of(ssh_lab, waiting)["state"] == "waiting"
    assert ssh_lab.muster("node", "rm", name, "--yes").returncode == 0
    ssh_lab.await_online(["0-other"])
    assert ended(ssh_lab, waiting) == ("failed", 5)
