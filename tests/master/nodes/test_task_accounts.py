"""Of which accounts of this machine the kernel's word says nothing, because tasks of others run as them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from master.config.ssh_accounts import SshAccount
from master.core.nodes.inventory import Facts, Node, NodeSpec
from master.core.nodes.notes import Note
from master.core.tasks.attempt import Part
from master.core.tasks.task import Task
from master.nodes import same_account
from master.nodes.registry import NodeConfig
from master.nodes.task_accounts import is_of_tasks, runs_own_tasks
from monitor.agent.machine import machine_id

BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
OF_EACH = {"wang": SshAccount("wang", "/keys/wang"), "li": SshAccount("li2", "/keys/li")}


@pytest.fixture(autouse=True)
def _no_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_account, "CONTAINER", tmp_path / "none")


def entry(**fields: Any) -> NodeConfig:
    return NodeConfig(**{"name": "n", "gpu_count": 0, "ip": "127.0.0.1", "user_name": "lab", **fields})


@pytest.mark.master
@pytest.mark.parametrize(
    ("fields", "account", "expected"),
    [
        ({}, "lab", True),
        ({"ip": "192.0.2.7"}, "lab", False),
        ({}, "wang", False),
        ({"accounts": OF_EACH}, "wang", False),
        ({"accounts": OF_EACH}, "li2", True),
        ({"accounts": OF_EACH}, "lab", False),
        ({"driver": "report"}, "lab", False),
    ],
)
def test_by_the_registry(fields: dict[str, Any], account: str, expected: object) -> None:
    assert is_of_tasks(account, [entry(**fields)], [], [], {}) is expected


@pytest.mark.parametrize(
    ("facts", "accounts", "account", "expected"),
    [
        ({}, None, "lab", True),
        ({}, None, "wang", False),
        ({"can_run_as": True, "account": "root"}, None, "lab", False),
        ({"machine": "another"}, None, "lab", False),
        ({"boot_id": "before"}, None, "lab", False),
        ({}, (("wang", "wang"), ("li", "")), "wang", False),
        ({}, (("wang", "wang"), ("li", "")), "lab", True),
        ({}, (("lab", ""),), "lab", False),
    ],
)
def test_by_what_an_agent_said(
    facts: dict[str, Any], accounts: tuple[tuple[str, str], ...] | None, account: str, expected: object
) -> None:
    node = Node(NodeSpec(name="n", accounts=accounts))
    here = Facts(boot_id=BOOT_ID, machine=machine_id(), state_id="s", cpus=1, memory_mib=1, account="lab")
    node.facts = msgspec.structs.replace(here, **facts)
    assert is_of_tasks(account, [], [node], [], {}) is expected


@pytest.mark.parametrize(
    ("part", "owner", "expected"),
    [
        ({}, "li", True),
        ({}, "lab", False),
        ({"run_as": "li"}, "li", False),
        ({"machine": "another"}, "li", False),
    ],
)
def test_by_what_runs_before_its_agent_is_heard(part: dict[str, Any], owner: str, expected: object) -> None:
    known = {"node": "n", "gpus": [], "boot_id": BOOT_ID, "machine": machine_id(), "account": "lab", **part}
    task = Task(id=1, command="true", owner=owner, allocation=[Part(**known)])
    assert is_of_tasks("lab", [], [], [task], {}) is expected


@pytest.mark.master
@pytest.mark.parametrize(
    ("fields", "account", "expected"),
    [
        ({"accounts": OF_EACH}, "wang", True),
        ({"accounts": OF_EACH}, "li2", False),
        ({"accounts": OF_EACH}, "li", False),
        ({"accounts": OF_EACH, "ip": "192.0.2.7"}, "wang", False),
        ({}, "lab", False),
    ],
)
def test_whose_own_tasks_run_as_the_account_by_the_registry(
    fields: dict[str, Any], account: str, expected: object
) -> None:
    assert runs_own_tasks(account, [entry(**fields)], [], [], {}) is expected


@pytest.mark.parametrize(
    ("facts", "accounts", "account", "expected"),
    [
        ({"can_run_as": True, "account": "root"}, None, "wang", True),
        ({"can_run_as": True, "account": "root", "machine": "another"}, None, "wang", False),
        ({}, None, "wang", False),
        ({}, (("wang", "wang"), ("lab", "")), "wang", True),
        ({}, (("wang", "wang"), ("lab", "")), "lab", True),
        ({}, (("wang", "wang2"), ("lab", "")), "wang", False),
    ],
)
def test_whose_own_tasks_do_by_what_an_agent_said(
    facts: dict[str, Any], accounts: tuple[tuple[str, str], ...] | None, account: str, expected: object
) -> None:
    node = Node(NodeSpec(name="n", accounts=accounts))
    here = Facts(boot_id=BOOT_ID, machine=machine_id(), state_id="s", cpus=1, memory_mib=1, account="lab")
    node.facts = msgspec.structs.replace(here, **facts)
    assert runs_own_tasks(account, [], [node], [], {}) is expected


@pytest.mark.parametrize(
    ("part", "owner", "expected"),
    [({"run_as": "lab"}, "lab", True), ({}, "lab", True), ({}, "li", False), ({"machine": "another"}, "lab", False)],
)
def test_whose_own_tasks_do_by_what_runs(part: dict[str, Any], owner: str, expected: object) -> None:
    known = {"node": "n", "gpus": [], "boot_id": BOOT_ID, "machine": machine_id(), "account": "lab", **part}
    task = Task(id=1, command="true", owner=owner, allocation=[Part(**known)])
    assert runs_own_tasks("lab", [], [], [task], {}) is expected


def test_what_an_agent_said_before_a_start_counts_until_it_is_heard() -> None:
    node = Node(NodeSpec(name="a"))
    assert not runs_own_tasks("ann", [], [node], [], {})
    assert runs_own_tasks("ann", [], [node], [], {"a": Note(as_owners="here")})
    assert not runs_own_tasks("ann", [], [node], [], {"a": Note(as_owners="there")})
    assert not runs_own_tasks("ann", [], [node], [], {"b": Note(as_owners="here")})
    assert is_of_tasks("lab", [], [node], [], {"a": Note(account_here="lab")})
    assert not is_of_tasks("ann", [], [node], [], {"a": Note(account_here="lab")})
    assert not is_of_tasks("ann", [], [node], [], {"a": Note(as_owners="here")})
