"""A node that repeats the machine id and the boot id of another one, which tasks can read there: it is told so, gets no
tasks, and takes the other one nothing, whichever of them is there, and over restarts."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from master.core.core import Core
from master.core.nodes.inventory import Facts, NodeSpec, NodeState
from tests import faults
from tests.faults import in_words, link_of
from tests.master.core import entries
from tests.master.core.entries import comes, goes
from tests.master.core.small_core import core_with, submit
from tests.system import ssh_asking
from tests.system.ssh_asking import ended, node_of, until_node, until_state
from tests.system.ssh_lab import SshLab
from tests.testbed.bed import Testbed
from tests.testbed.host import Host
from tests.waiting import until
from wire.message import Message


def by_ssh(name: str, address: str = "") -> NodeSpec:
    return NodeSpec(name=name, address=f"user@{address or name}:22", gpu_models=("GPU",) * 8)


GOOD, EVIL = by_ssh("good"), by_ssh("evil")
IDS = Facts(boot_id="boot-1", state_id="state-1", cpus=4, memory_mib=1000, machine="m1")
OWN = msgspec.structs.replace(IDS, machine="m2", boot_id="boot-2", state_id="state-2")
AGAIN = msgspec.structs.replace(IDS, boot_id="boot-3")
"""The honest node's machine after a reboot."""


def lab() -> Core:
    """Both are there as what they are, and have said so."""
    core = core_with(GOOD, EVIL, online=False)
    assert comes(core, "good", IDS) is comes(core, "evil", OWN) is None
    return core


def restarted(core: Core, *specs: NodeSpec) -> Core:
    """The next master, of what this one wrote since it began."""
    return entries.restarted(core, *(specs or (GOOD, EVIL)))


@pytest.mark.parametrize("honest", ["online", "connecting", "away", "after a restart"])
def test_who_had_the_ids_keeps_them_whatever_it_does_when_the_other_says_them(honest: str) -> None:
    core = lab()
    if honest == "connecting":
        core.node_state("good", NodeState.CONNECTING)
    elif honest == "away":
        goes(core, "good")
    elif honest == "after a restart":
        core = restarted(core)
    goes(core, "evil")
    why = comes(core, "evil", IDS)
    assert why == Message("machine_is", node="good", name="evil")
    assert core.inventory.nodes["evil"].reason == str(why)
    assert comes(core, "good", IDS) is None
    assert core.inventory.nodes["good"].takes_tasks
    goes(core, "evil")
    assert comes(core, "evil", OWN) is None, "it says the truth again"


def test_tasks_of_the_claimant_do_not_make_it_the_other() -> None:
    core = lab()
    task = submit(core, gpus=1, node="evil")
    core.plan(0.0)
    goes(core, "good")
    assert comes(core, "evil", IDS) is None, "its tasks are looked after"
    assert not core.inventory.nodes["evil"].takes_tasks
    assert core.inventory.nodes["evil"].closed_because == str(Message("machine_is", node="good", name="evil"))
    for _ in range(2):
        assert comes(core, "good", IDS) is None
        assert core.inventory.nodes["good"].takes_tasks
    core.set_nodes((GOOD, EVIL, by_ssh("third")))
    core.set_nodes((GOOD, EVIL))
    assert not core.inventory.nodes["evil"].takes_tasks, "that another entry left changes nothing"
    assert task.allocation


@pytest.mark.parametrize("when", ["while the master runs", "over a restart"])
def test_who_says_the_new_boot_first_has_to_give_it_back(when: str) -> None:
    core = lab()
    goes(core, "good")
    goes(core, "evil")
    if when == "over a restart":
        core = restarted(core)
    assert comes(core, "evil", AGAIN) is None, "it may be another machine of the same image"
    submit(core, gpus=1, node="evil")
    core.plan(0.0)
    assert comes(core, "good", AGAIN) is None
    assert core.inventory.nodes["good"].takes_tasks
    assert core.inventory.nodes["evil"].closed_because == str(Message("machine_is", node="good", name="evil"))
    goes(core, "good")
    assert comes(core, "good", AGAIN) is None, "nor do its tasks from that time count"
    if when == "over a restart":
        core = restarted(core)
        assert comes(core, "good", AGAIN) is None


def test_who_was_refused_for_the_ids_is_refused_for_those_of_the_next_boot() -> None:
    core = lab()
    goes(core, "evil")
    assert comes(core, "evil", IDS) is not None
    goes(core, "good")
    core = restarted(core)
    assert comes(core, "evil", AGAIN) is not None
    assert comes(core, "good", AGAIN) is None
    assert comes(core, "evil", AGAIN) is not None


def test_machines_of_one_image_are_served_and_none_takes_the_boot_of_another() -> None:
    image = msgspec.structs.replace(OWN, machine="m1")
    core = core_with(EVIL, GOOD, online=False)
    assert comes(core, "evil", image) is comes(core, "good", IDS) is None
    goes(core, "good")
    assert comes(core, "evil", IDS) == Message("machine_is", node="good", name="evil")
    assert comes(core, "good", IDS) is None
    assert comes(core, "evil", image) is None
    assert comes(core, "good", AGAIN) is None


@pytest.mark.parametrize("when", ["while the master runs", "over a restart"])
def test_a_renamed_entry_keeps_its_ids(when: str) -> None:
    core, renamed = lab(), by_ssh("renamed", "good")
    goes(core, "good")
    if when == "over a restart":
        core = restarted(core, renamed, EVIL)
    else:
        core.set_nodes((renamed, EVIL))
    assert comes(core, "evil", IDS) == Message("machine_is", node="renamed", name="evil")
    assert comes(core, "renamed", IDS) is None


def test_an_entry_that_is_removed_holds_nothing() -> None:
    core = lab()
    core.set_nodes((EVIL, by_ssh("next", "another")))
    assert comes(core, "next", IDS) is None
    core = restarted(core, EVIL, GOOD, by_ssh("next", "another"))
    assert comes(core, "good", IDS) == Message("machine_is", node="next", name="good")


def test_an_entry_whose_address_changed_holds_the_machine_no_longer() -> None:
    core = lab()
    core.forget_facts("good")
    core.set_nodes((by_ssh("good", "elsewhere"), EVIL, by_ssh("old", "good")))
    assert comes(core, "old", IDS) is None
    assert comes(core, "good", AGAIN) is None


def test_one_machine_that_has_two_names_is_served_as_the_first_whichever_comes() -> None:
    twin = by_ssh("twin", "other.good")
    core = core_with(GOOD, twin, online=False)
    assert comes(core, "good", IDS) is None
    assert comes(core, "twin", IDS) is not None
    goes(core, "good")
    core = restarted(core, GOOD, twin)
    assert comes(core, "twin", AGAIN) is not None, "after a reboot too, or the GPUs would be given out twice"
    assert comes(core, "good", AGAIN) is None
    core.set_nodes((twin,))
    assert comes(core, "twin", AGAIN) is None


def test_a_claimant_that_came_before_the_honest_node_was_seen_is_not_believed_any_more_once_it_stops() -> None:
    core = core_with(GOOD, EVIL, online=False)
    assert comes(core, "evil", IDS) is None
    why = comes(core, "good", IDS)
    assert why == Message("machine_is", node="evil", name="good")
    goes(core, "evil")
    assert comes(core, "evil", OWN) is None
    assert comes(core, "good", IDS) is None


def test_ids_that_stay_write_nothing() -> None:
    core = lab()
    core = restarted(core)
    assert comes(core, "good", IDS) is comes(core, "evil", OWN) is None
    outcome = core.take_outcome()
    assert outcome is not None
    assert outcome.change.state == {}


# -- real machines ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    with Testbed(2) as bed:
        yield bed


@pytest.fixture
def two(bed: Testbed, tmp_path: Path) -> Iterator[SshLab]:
    for host in bed.hosts:
        (host.folder / "machine-id").write_text(secrets.token_hex(16) + "\n", encoding="ascii")
        host.renew()
    lab = SshLab(tmp_path / f"lab-{secrets.token_hex(3)}", bed, hosts=bed.hosts)
    lab.write_registry(entries_of(lab, *bed.hosts))
    yield lab
    assert lab.close() == []


def entries_of(lab: SshLab, *hosts: Host) -> list[dict[str, Any]]:
    """What the registry says of these: entries that declare their GPUs may be one machine."""
    return [lab.entry(host, gpu_probe="auto") for host in hosts]


def says(host: Host, other: Host, *names: str) -> None:
    """The account that all tasks share has its agent tell the ids of another machine, by default both; the present one
    is ended."""
    for name in names or ("machine-id", "boot_id"):
        (host.folder / name).write_text((other.folder / name).read_text(encoding="ascii"), encoding="ascii")
    host.run("pkill", "-u", host.user, "-f", "agent", check=False)


def test_a_liar_is_flagged_and_takes_no_node_away_over_a_restart(two: SshLab, bed: Testbed) -> None:
    good, evil = bed.hosts
    two.start_trusted()
    says(evil, good)
    good.power_off()
    two.kill_master()
    two.start()
    flagged = until_node(two, evil.name, "is flagged", lambda node: is_flagged(node, good))
    assert flagged["state"] == "unreachable"
    told = json.dumps(two.muster("node", "doctor", evil.name).stdout)
    for said in (told, two.muster("nodes").stdout, two.muster("node", "show", evil.name).stdout):
        assert in_words(" ".join(said.split()), "machine_is", node=good.name, name=evil.name)
        assert "node rm" not in said
    number = ssh_asking.submit(two, "exit 4", evil.name)
    with two.client() as client:
        assert in_words(str(client.why(number)), "machine_is", node=good.name, name=evil.name)
    good.power_on()
    until_state(two, good.name, "online")
    says(evil, good)
    assert ended(two, ssh_asking.submit(two, "exit 3", good.name)) == ("failed", 3)
    until_node(two, evil.name, "is flagged", lambda node: is_flagged(node, good))


def test_a_node_that_was_removed_and_added_again_is_served_as_before(two: SshLab, bed: Testbed) -> None:
    good, evil = bed.hosts
    two.start_trusted()
    two.write_registry(entries_of(two, evil))
    with two.client() as client:
        until("the honest node is removed", lambda: len(client.nodes()) == 1)
    before = agents_of(evil)
    says(evil, good, "machine-id")
    until("the liar has another agent", lambda: agents_of(evil) - before)
    until_state(two, evil.name, "online")
    two.write_registry(entries_of(two, *bed.hosts))
    with two.client() as client:
        until("the honest node is added again", lambda: len(client.nodes()) == len(bed.hosts))
    two.await_online()
    changed = Message("machine_changed", node=good.name, name=evil.name)
    assert str(changed) in doctor_of(two, evil.name)
    assert not in_words(doctor_of(two, good.name), "machine_changed")
    good.power_off()
    good.power_on()
    until_state(two, good.name, "online")
    says(evil, good)
    until_node(two, evil.name, "is flagged", lambda node: is_flagged(node, good))
    assert ended(two, ssh_asking.submit(two, "exit 3", good.name)) == ("failed", 3)
    assert node_of(two, good.name)["state"] == "online"


def is_flagged(node: Mapping[str, Any], other: Host) -> bool:
    """As a client is shown the node."""
    return faults.says(link_of(node), "machine_is", node=other.name, name=node["name"])


def agents_of(host: Host) -> set[str]:
    """The pids of the agents there, as the host counts."""
    return set(host.run("pgrep", "-u", host.user, "-f", "agent", check=False).split())


def doctor_of(lab: SshLab, name: str) -> str:
    """What the doctor says of a node, as one line."""
    return " ".join(lab.muster("node", "doctor", name).stdout.split())
