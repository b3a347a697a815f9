"""A task that runs as an admin's account on the master's machine is that account to the kernel, whatever token it was
submitted with: with `local_users` it is no admin by that."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from master.callers.peer import Person
from master.core.nodes.inventory import NodeState
from master.ports import local_accounts
from monitor.agent.machine import machine_id
from tests.master.core.small_core import BOOT
from tests.master.in_process import Peer as Caller
from tests.master.in_process import run
from tests.master.local_users import connects_as, same_names
from tests.master.verbs.test_people import PASSWORD

ANN, BOB = 4713, 4714
BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
AS_OWNERS = msgspec.structs.replace(
    BOOT, boot_id=BOOT_ID, machine=machine_id(), account="root", uid=0, can_run_as=True, protocol=99
)


@pytest.fixture(autouse=True)
def accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_accounts, "person", {ANN: Person("ann"), BOB: Person("bob")}.get)


def test_an_admins_account_without_a_log_in_is_worth_a_tasks_token_where_tasks_run_as_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        admin = {"name": "ann", "role": "admin", "password": PASSWORD}
        async with same_names(tmp_path, admin, {"name": "bob"}) as (master, _):

            async def comes(uid: int) -> Caller:
                connects_as(monkeypatch, uid)
                return await master.peer()

            ann = await comes(ANN)
            assert (await ann.call("auth.whoami"))["role"] == "admin"
            node = next(iter(master.core.inventory.nodes))
            master.engine.event(lambda: master.core.node_state(node, NodeState.ONLINE, None, AS_OWNERS))
            a_task = await comes(ANN)
            who = await a_task.call("auth.whoami")
            assert (who["user"], who["role"], sorted(who["scopes"])) == ("ann", "user", ["read", "submit"])
            for verb, params in {
                "user.add": {"name": "eve", "role": "admin"},
                "user.link": {"name": "ann"},
                "token.new": {},
                "user.password": {"password": "another one that is long", "old": PASSWORD},
                "node.drain": {"name": node},
                "audit.read": {},
                "file.roots": {},
            }.items():
                code, text = await a_task.refusal(verb, **params)
                assert (code, "log-in" in text) == ("forbidden", True), verb
            assert (await (await comes(BOB)).call("auth.whoami"))["scopes"] == ["account", "files", "read", "submit"]
            # After a restart, before the agent has dialled in again, what a task left behind is still no admin.
            master.engine.event(lambda: master.core.set_as_owners(node, "here"))
            master.core.inventory.nodes[node].facts = None
            assert (await (await comes(ANN)).call("auth.whoami"))["role"] == "user"
            master.engine.event(lambda: master.core.set_as_owners(node, "", "bob"))
            assert (await (await comes(BOB)).call("auth.whoami"))["user"] is None
            assert (await (await comes(ANN)).call("auth.whoami"))["role"] == "admin"
            logged_in = await a_task.call("auth.login", name="ann", password=PASSWORD)
            assert logged_in["role"] == "admin"
            assert "eve" not in {user["name"] for user in await a_task.call("user.list")}

    run(story())
