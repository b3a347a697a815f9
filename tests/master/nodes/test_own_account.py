"""Where tasks run as the master's own account: whose may, once there are users."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from master.core.nodes.inventory import Facts, NodeState
from master.edited_files.ownership import user_name
from master.nodes import same_account
from master.nodes.registry import NodeConfig
from master.watchers.own_account import OwnAccount
from tests.master.in_process import FACTS, InProcess, run

OURS = NodeConfig(name="a", driver="local", gpu_count=8)


class Up:
    """A link that is up."""

    node = "a"


def told(facts: Facts, config: NodeConfig, folder: Path, *users: tuple[str, str]) -> set[str] | None:
    """Whose tasks the node takes when its agent has said this and these were added, one by one; None: everybody's."""
    owners: set[str] | None = None

    async def story() -> None:
        nonlocal owners
        async with InProcess(folder) as master:
            core = master.core
            watcher, link = OwnAccount(master.engine, "desktop"), Up()
            watcher.link_made(link, config)  # type: ignore[arg-type]
            runs_as = same_account.runs_as(facts, is_ours=config.driver == "local")
            said = msgspec.structs.replace(facts, runs_as=runs_as)
            master.engine.event(lambda: core.node_state("a", NodeState.ONLINE, None, said))
            watcher.link_up(link, config)  # type: ignore[arg-type]
            for name, role in users:
                added: Any = {"role": role}
                master.engine.client_change(lambda name=name, added=added: core.people.add(name, **added))  # type: ignore[misc]
            restriction = core.node("a").restriction
            owners = None if restriction is None else set(restriction.owners)

    run(story())
    return owners


@pytest.fixture
def ours() -> str:
    return user_name(os.geteuid())


def test_that_what_conf_json_allows_has_no_effect_any_more_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            core = master.core
            watcher = OwnAccount(master.engine, "desktop", is_allowed=True)
            watcher.link_made(Up(), OURS)  # type: ignore[arg-type]
            master.engine.client_change(lambda: core.people.add("ann", role="admin"))
            assert "has no effect" not in caplog.text
            for name in ("bob", "carol"):
                master.engine.client_change(lambda name=name: core.people.add(name))  # type: ignore[misc]
            watcher.link_made(Up(), OURS)  # type: ignore[arg-type]

    run(story())
    assert caplog.text.count("desktop_client.local_nodes is `allow`, and has no effect") == 1


def test_it_is_everybodys_until_there_is_a_second_user(tmp_path: Path) -> None:
    assert told(FACTS, OURS, tmp_path) is None
    (tmp_path / "one").mkdir()
    assert told(FACTS, OURS, tmp_path / "one", ("ann", "admin")) is None
    (tmp_path / "two").mkdir()
    assert told(FACTS, OURS, tmp_path / "two", ("ann", "admin"), ("desktop", "user")) is None


def test_from_the_second_user_on_it_is_the_admins(tmp_path: Path, ours: str) -> None:
    users = (("ann", "admin"), ("bob", "user"), ("cy", "admin"))
    assert told(FACTS, OURS, tmp_path, *users) == {"ann", "cy", ours}
    (tmp_path / "first").mkdir()
    assert told(FACTS, OURS, tmp_path / "first", ("bob", "user")) == {ours}


def test_an_agent_that_runs_tasks_as_their_owners_or_elsewhere_is_everybodys(tmp_path: Path) -> None:
    root = Facts(boot_id="b", state_id="s", cpus=1, memory_mib=1, uid=0, can_run_as=True)
    assert told(root, OURS, tmp_path, ("ann", "admin"), ("bob", "user")) is None
    (tmp_path / "far").mkdir()
    far = NodeConfig(name="a", ip="10.0.0.1", user_name="lab", gpu_count=8)
    assert told(FACTS, far, tmp_path / "far", ("ann", "admin"), ("bob", "user")) is None


def test_an_account_of_ours_on_this_machine_by_another_way_counts_likewise(tmp_path: Path, ours: str) -> None:
    machine, boot = same_account._this_machine()
    here = Facts(boot_id=boot, state_id="s", cpus=1, memory_mib=1, uid=os.geteuid(), machine=machine)
    far = NodeConfig(name="a", ip="gateway", user_name="lab", gpu_count=8)
    assert told(here, far, tmp_path, ("ann", "admin"), ("bob", "user")) == {"ann", ours}
