"""PCs that need no password, beside a node whose tasks have the master's own account: one or the other."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import reason_of, says
from tests.system.far_node import ENTRY, FarNode
from tests.system.lab import Lab
from tests.waiting import until
from wire.message import Message, revived

OUTSIDE = {"desktop_client": {"networks": ["127.0.0.0/8", "192.168.36.0/24"]}}
ALLOWED = {"desktop_client": {**OUTSIDE["desktop_client"], "local_nodes": "allow"}}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """One local node, no master yet."""
    one = Lab(tmp_path, nodes=1, gpus=0)
    try:
        yield one
    finally:
        left = one.close()
    assert left == []


def refusal(lab: Lab) -> str:
    """What a master that does not start says."""
    master = lab.launch_master()
    assert master.wait(60) == 1
    return (lab.folder / "master.out").read_text(encoding="utf-8")


def start_online(lab: Lab) -> None:
    """Start it, with its node."""
    lab.start()
    with lab.client() as muster:
        until("the node", lambda: muster.nodes()[0]["state"] == "online")


def check_words(said: str) -> None:
    """It names the network and the node, and all four ways out."""
    assert "desktop_client.networks lets in 192.168.36.0/24" in said
    assert f"run as {getpass.getuser()}" in said
    for way in ('"driver": "ssh"', "out of the registry", "only this machine", "`allow`"):
        assert way in said


def test_the_master_does_not_start_with_both(lab: Lab) -> None:
    lab.write_conf(**OUTSIDE)
    said = refusal(lab)
    assert said.startswith("error: config: ")
    assert said.count("\n") == 1
    check_words(said)
    assert not lab.task_info.exists(), "nothing was made yet"


@pytest.mark.parametrize("ip", ["127.0.0.1", "127.1", "::", "::1", "::ffff:127.0.0.1", "LocalHost"])
def test_a_login_to_this_machine_as_the_masters_own_account_is_the_same(lab: Lab, ip: str) -> None:
    lab.write_conf(**OUTSIDE)
    lab.write_registry([{"name": "self", "ip": ip, "user_name": getpass.getuser(), "gpu_count": 0}])
    assert "tasks on node self run as" in refusal(lab)


@pytest.mark.parametrize(
    "networks", [["127.0.0.1/32"], ["::1/128", "::ffff:127.0.0.0/104"], []], ids=["one", "mapped", "none"]
)
def test_clients_of_this_machine_alone_are_no_strangers(lab: Lab, networks: list[str]) -> None:
    lab.write_conf(desktop_client={"networks": networks})
    start_online(lab)


def test_who_accepts_it_says_so(lab: Lab) -> None:
    lab.write_conf(**ALLOWED)
    start_online(lab)
    assert "local_nodes is `allow`" in lab.server_log()


def test_a_registry_that_gains_such_a_node_is_not_taken_over(lab: Lab) -> None:
    far = {"name": "far", "ip": "192.0.2.7", "user_name": "nobody", "gpu_count": 0}
    local = {"name": "near", "driver": "local", "gpu_count": 0}
    lab.write_conf(**OUTSIDE)
    lab.write_registry([far])
    lab.start()

    def fault() -> str:
        with lab.client() as muster:
            return muster.info()["registry_fault"] or ""

    lab.write_registry([far, local])
    check_words(until("the fault", fault))
    with lab.client() as muster:
        assert [node["name"] for node in muster.nodes()] == ["far"]
    lab.write_registry([far])
    until("no fault", lambda: not fault())
    for words in (
        ["node", "add", "near", "--driver", "local", "--gpus", "0"],
        ["node", "edit", "far", "driver=local"],
        ["node", "edit", "far", "ip=127.0.0.1", f"user_name={getpass.getuser()}"],
    ):
        done = lab.muster(*words)
        assert done.returncode == 1, words
        check_words(done.stderr)
        assert "near" not in lab.registry.read_text(encoding="utf-8")


def test_an_agent_that_the_masters_user_started_here_gets_no_tasks(lab: Lab) -> None:
    """The registry cannot tell where somebody dials in from: what dials in tells it."""
    far = FarNode(lab)
    lab.nodes = []
    lab.write_conf(**OUTSIDE)
    lab.write_registry([ENTRY])
    lab.start()
    far.make_token()
    far.start()
    try:
        node = far.await_state("online")
        networks = ("192.168.36.0/24",)
        why = Message("agent_runs_as_us", account=getpass.getuser(), networks=networks)
        told = [revived(one["key"], one["args"]) for one in node["reason_messages"]]
        assert Message("agent_refused", said=why) in told
        assert not node["schedulable"]
        with lab.client() as muster:
            number = muster.submit("true", gpus=0)
            until("why", lambda: says(reason_of(muster.show(number)), "agent_runs_as_us"))
        lab.stop_master()
        lab.write_conf(**ALLOWED)
        lab.start()
        with lab.client() as muster:
            assert muster.wait([number])[number]["state"] == "succeeded"
    finally:
        far.close()
