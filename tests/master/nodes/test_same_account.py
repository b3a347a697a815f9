"""Which entries, and which agents, have tasks that can do here what the master can; the master is not root here."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec
import pytest

from master.config.conf_file import DesktopClient
from master.core.nodes.inventory import Facts
from master.edited_files.ownership import user_name
from master.nodes import same_account
from master.nodes.registry import NodeConfig
from master.nodes.same_account import check_company, company_of, keys_in_reach
from monitor.agent.machine import machine_id
from tests.faults import fault_in, says
from wire.message import Message, names

OUTSIDE = DesktopClient(networks=("192.168.36.0/24",))
MASTER, OTHER = 4321, 4322


@pytest.fixture(autouse=True)
def _not_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor in a container."""
    monkeypatch.setattr(os, "geteuid", lambda: MASTER)
    monkeypatch.setattr(same_account, "CONTAINER", tmp_path / "none")


def check(ip: str, user: str) -> None:
    check_company([NodeConfig(name="n", gpu_count=0, ip=ip, user_name=user)], OUTSIDE, Path("conf.json"))


@pytest.mark.parametrize("ip", ["127.0.0.1", f"{socket.gethostname()}."])
def test_a_login_as_root_to_this_machine_is_worse_than_one_as_the_masters_account(ip: str) -> None:
    fault = fault_in(Path("conf.json"), lambda: check(ip, "root"))
    assert fault == Message("nodes_run_as_us", networks=OUTSIDE.networks, nodes=("n",), accounts=("root",))


def test_a_login_as_somebody_else_or_elsewhere_is_none() -> None:
    check("127.0.0.1", "daemon")
    check("192.0.2.7", "root")


def here(uid: int | None, machine: str | None = None, boot_id: str | None = None) -> Facts:
    ours = boot_id or Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return Facts(boot_id=ours, machine=machine or machine_id(), uid=uid, state_id="s", cpus=1, memory_mib=1)


def test_an_agent_tells_where_it_is_and_who() -> None:
    networks = tuple(OUTSIDE.networks)
    assert company_of(here(0), OUTSIDE) == Message("agent_runs_as_us", account="root", networks=networks)
    assert company_of(here(MASTER), OUTSIDE) == Message(
        "agent_runs_as_us", account=user_name(MASTER), networks=networks
    )
    assert company_of(here(OTHER), OUTSIDE) is None
    assert company_of(here(None), OUTSIDE) is None, "one of before, which is asked to end for ours"
    assert company_of(here(0, boot_id="another"), OUTSIDE) is None
    assert company_of(here(0, machine="another"), OUTSIDE) is None
    assert company_of(here(0), DesktopClient(networks=("127.0.0.0/8",))) is None
    assert company_of(here(0), DesktopClient(networks=OUTSIDE.networks, local_nodes="allow")) is None


def test_in_a_container_the_id_of_the_machine_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There systemd shows a service another boot id than a log-in sees: that of the machine around the container."""
    monkeypatch.setattr(same_account, "CONTAINER", tmp_path)
    assert says(company_of(here(MASTER, boot_id="another"), OUTSIDE), "agent_runs_as_us")
    assert company_of(here(MASTER, machine="another"), OUTSIDE) is None
    monkeypatch.setattr(same_account, "_this_machine", lambda: ("", "this boot"))
    assert company_of(msgspec.structs.replace(here(MASTER, boot_id="another"), machine=""), OUTSIDE) is None


def test_the_key_of_the_certificate_is_in_reach_of_tasks_of_our_account_and_of_root_here() -> None:
    nodes = [
        NodeConfig(name="a", gpu_count=0, ip="127.0.0.1", driver="local"),
        NodeConfig(name="b", gpu_count=0, ip="127.0.0.1", user_name="root"),
        NodeConfig(name="c", gpu_count=0, ip="127.0.0.1", user_name="daemon"),
        NodeConfig(name="d", gpu_count=0, ip="192.0.2.7", user_name="root"),
    ]
    assert keys_in_reach(nodes, DesktopClient()) == Message("tls_key_in_reach", nodes=names(["a", "b"]))
    assert keys_in_reach(nodes[2:], DesktopClient()) is None
    assert keys_in_reach(nodes, DesktopClient(local_nodes="allow")) is None
