"""The links to agents of accounts on a node, over real connections: when there is one, whom it speaks to, and when it
goes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import pytest

from master.config.ssh_accounts import SshAccount
from master.core.nodes.inventory import NodeState
from master.core.tasks.task import TaskState
from master.nodes import account_links
from master.nodes.registry import NodeConfig
from tests import rights
from tests.faults import refusing
from tests.master.in_process import run
from tests.master.nodes.played_fleet import Agent, Field, ssh
from tests.waiting import settled
from wire.errors import NodeUnreachableError


class Place(Field):
    """A node whose own agent is `u`'s, and the agents of li2 and wang there. All tasks are li's until `owner` says
    otherwise."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.li, self.wang = Agent(folder, "li2"), Agent(folder, "wang")
        self.owner: str | None = "li"
        self.keys = {name: _key(folder / f"{name}.key") for name in ("li2", "wang")}

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        for agent in (self.li, self.wang):
            await agent.listen()
        self.master.core.keep_apart(lambda _owner: self.owner)
        self.follow()
        await self.online("n")
        return self

    async def __aexit__(self, *exc: object) -> None:
        await super().__aexit__(*exc)
        for agent in (self.li, self.wang):
            if agent.server is not None:
                agent.server.close()
            if agent.writer is not None:
                agent.writer.close()

    def entry(self, **accounts: str) -> NodeConfig:
        """The node, with these accounts by owner."""
        named = {owner: SshAccount(login, str(self.keys[login])) for owner, login in accounts.items()}
        return ssh("n", accounts=named or None)

    def follow(self, **accounts: str) -> None:
        """The registry says this."""
        self.fleet.apply((self.entry(**(accounts or {"li": "li2", "wang": "wang"})),))

    @property
    def agents(self) -> dict[str, Any]:
        """What the core knows of the agents of accounts."""
        found: dict[str, Any] = self.node("n").accounts.agents
        return found

    async def submit(self, **wants: Any) -> int:
        peer = await self.master.peer()
        return int((await peer.call("task.submit", command="true", gpus=1, **wants))["id"])


def _key(path: Path) -> Path:
    path.write_text("a key", encoding="ascii")
    path.chmod(0o600)
    return path


def tell(folder: Path, story: Callable[[Place], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with Place(folder) as place:
            await story(place)

    run(whole())


def test_the_first_task_of_an_account_begins_its_agent_and_all_that_is_said_of_it_goes_there(tmp_path: Path) -> None:
    async def story(place: Place) -> None:
        assert place.li.heard == []
        number = await place.submit()
        launch_id = await place.running(number)
        assert place.li.heard[0]["sampling"] == {"gpus": "none", "folders": []}
        assert [message["launch_id"] for message in place.li.heard if message["op"] == "launch"] == [launch_id]
        assert "run_as" not in next(message for message in place.li.heard if message["op"] == "launch")
        await (await place.master.peer()).call("task.cancel", ids=[number])
        await settled(lambda: "kill" in place.li.ops())
        place.li.end(launch_id)
        await settled(lambda: "ack" in place.li.ops())
        assert not {"launch", "kill", "ack"} & {*place.one.ops(), *place.wang.ops()}

    tell(tmp_path, story)


def test_an_account_of_which_nothing_is_there_for_a_while_is_left_alone_until_the_next_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account_links, "IDLE_S", 0.05)

    async def story(place: Place) -> None:
        launch_id = await place.running(await place.submit())
        await asyncio.sleep(0)
        first = place.li.first
        assert first is not None
        assert place.agents["li2"].state is NodeState.ONLINE
        place.li.end(launch_id)
        await settled(lambda: not place.agents)
        await settled(first.is_closing)
        assert "retire" not in place.li.ops()
        before = place.li.ops().count("hello")
        again = await place.submit()
        await place.running(again)
        assert place.li.ops().count("hello") > before

    tell(tmp_path, story)


def test_what_runs_keeps_its_link_however_long_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(place: Place) -> None:
        first = await place.running(await place.submit())
        second = await place.running(await place.submit())
        monkeypatch.setattr(account_links, "IDLE_S", 0.0)
        place.li.end(first)
        await settled(lambda: place.master.core.tasks[1].state is TaskState.SUCCEEDED)
        assert place.agents["li2"].state is NodeState.ONLINE
        place.li.end(second)
        await settled(lambda: not place.agents)

    tell(tmp_path, story)


@pytest.mark.parametrize("fault", ["open", "missing", "another's"])
def test_a_key_in_which_somebody_else_has_a_hand_is_not_tried(tmp_path: Path, fault: str) -> None:
    async def story(place: Place) -> None:
        key = place.keys["li2"]
        words = {"open": "chmod 600", "missing": "No such file", "another's": "belongs to"}[fault]
        if fault == "open":
            key.chmod(0o640)
        elif fault == "missing":
            key.unlink()
        else:
            os.chown(key, 4711, -1)
        number = await place.submit()
        core = place.master.core
        await settled(lambda: words in str(core.why_it_waits(core.tasks[number])))
        assert place.li.heard == []
        if fault == "missing":
            _key(key)
        key.chmod(0o600)
        os.chown(key, os.geteuid(), -1)
        place.fleet.agents.wake("n")
        await place.running(number)

    if fault == "another's":
        rights.need_users()  # only root gives files away
    tell(tmp_path, story)


def test_the_account_of_what_runs_is_followed_though_nobody_names_it_any_more(tmp_path: Path) -> None:
    async def story(place: Place) -> None:
        launch_id = await place.running(await place.submit())
        place.follow(li="wang")
        await place.running(await place.submit())
        assert place.wang.ops().count("launch") == 1
        place.li.end(launch_id)
        core = place.master.core
        await settled(lambda: core.tasks[1].state is TaskState.SUCCEEDED)
        await settled(lambda: "ack" in place.li.ops())

    tell(tmp_path, story)


def test_an_account_that_nobody_names_at_the_next_start_is_told_with_the_cure(tmp_path: Path) -> None:
    async def story(place: Place) -> None:
        launch_id = await place.running(await place.submit())
        await place.fleet.close()
        place.next_fleet(None)
        place.follow(wang="wang")
        await place.online("n")
        await settled(lambda: "write it back" in str(place.agents["li2"].why))
        assert place.master.core.tasks[1].state is TaskState.RUNNING
        place.follow()
        await settled(lambda: place.agents["li2"].state is NodeState.ONLINE)
        place.li.end(launch_id)
        await settled(lambda: place.master.core.tasks[1].state is TaskState.SUCCEEDED)

    tell(tmp_path, story)


def test_who_stops_a_node_s_agent_stops_those_of_its_accounts(tmp_path: Path) -> None:
    async def story(place: Place) -> None:
        await place.running(await place.submit())
        await place.fleet.agents.stop("n", "root")
        assert "retire" in place.li.ops()
        assert "retire" in place.one.ops()
        assert place.master.core.tasks[1].state is TaskState.RUNNING
        place.fleet.agents.start("n")
        await settled(lambda: place.li.ops().count("hello") == 2)
        await settled(lambda: place.agents["li2"].state is NodeState.ONLINE)

    tell(tmp_path, story)


def test_questions_of_somebody_are_asked_over_his_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(place: Place) -> None:
        place.li.says = "hers"
        assert (await place.fleet.probe("n", ["id"], run_as="li"))["output"] == "hers\n"
        assert "run_as" not in place.li.heard[-1]
        assert (await place.fleet.probe("n", ["id"]))["output"] == "ok\n"
        with refusing(NodeUnreachableError, "no_account_of_yours", node="n"):
            await place.fleet.probe("n", ["id"], run_as="carol")
        place.keys["wang"].unlink()
        monkeypatch.setattr(account_links, "BEGINS_S", 0.05)
        with refusing(NodeUnreachableError, "account_away", account="wang"):
            await place.fleet.probe("n", ["id"], run_as="wang")

    tell(tmp_path, story)


def test_what_an_account_s_agent_says_of_the_machine_and_of_gpus_is_not_heard(tmp_path: Path) -> None:
    async def story(place: Place) -> None:
        place.li.more_facts = {"can_run_as": True, "account": "root", "uid": 1500, "login_fault": "broken"}
        launch_id = await place.running(await place.submit())
        place.li.say(op="sample", at=1.0, gpus=[{"index": 0, "fault": "broken"}], gpu_source="nvml")
        place.li.end(launch_id)
        await settled(lambda: place.master.core.tasks[1].state is TaskState.SUCCEEDED)
        node = place.node("n")
        assert (node.facts.can_run_as, node.facts.account, node.aside, node.kept_back) == (False, "", {}, {})

    tell(tmp_path, story)


def test_what_an_account_s_agent_says_of_the_time_sets_no_clock_of_the_node(tmp_path: Path) -> None:
    async def story(place: Place) -> None:
        place.li.more_facts = {"now": 1.0}
        await place.running(await place.submit())
        core = place.master.core
        assert core.clock_of("n").ahead is None

    tell(tmp_path, story)


def test_what_an_account_s_agent_has_beyond_what_was_sent_to_it_closes_that_account_alone(tmp_path: Path) -> None:
    async def story(place: Place) -> None:
        await place.running(await place.submit())
        assert place.li.writer is not None
        place.li.running.append("9.1.x")
        place.li.writer.close()
        await settled(lambda: "li2" in place.node("n").accounts.cordons)
        assert not place.node("n").cordons
        place.owner = "wang"
        await place.running(await place.submit())

    tell(tmp_path, story)


def test_an_agent_that_is_on_another_machine_gets_nothing(tmp_path: Path) -> None:
    async def story(place: Place) -> None:
        place.li.more_facts = {"machine": "another"}
        number = await place.submit()
        core = place.master.core
        await settled(lambda: "another machine" in str(core.why_it_waits(core.tasks[number])))
        assert "launch" not in place.li.ops()

    tell(tmp_path, story)


@pytest.mark.parametrize("uid", [0, os.geteuid()])
def test_an_account_that_is_root_or_the_master_s_own_gets_nothing(tmp_path: Path, uid: int) -> None:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()

    async def story(place: Place) -> None:
        place.one.boot = place.li.boot = boot
        place.one.more_facts = {"machine": ours()}
        place.li.more_facts = {"uid": uid, "account": "boss", "machine": ours()}
        await place.fleet.agents.restart("n")
        await place.online("n")
        number = await place.submit()
        core = place.master.core
        await settled(lambda: "its account is boss" in str(core.why_it_waits(core.tasks[number])))
        assert "launch" not in place.li.ops()

    tell(tmp_path, story)


def ours() -> str:
    """This machine's own id."""
    path = Path("/etc/machine-id")
    return path.read_text(encoding="ascii").strip() if path.exists() else ""
