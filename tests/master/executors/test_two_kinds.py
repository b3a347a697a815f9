"""Two kinds of executor serve one queue: agents over their links, and attempts in memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from master.core.nodes.facts import RunsAs
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.people.run_as import as_the_agent
from master.core.tasks.task import TaskState
from master.edited_files.ownership import user_name
from master.executors.agents import Agents
from master.executors.memory import MemoryExecutor, Run
from master.nodes.agent_context import Hooks
from master.watchers.own_account import OwnAccount
from tests.master.core.small_core import submit
from tests.master.in_process import SETTINGS, run
from tests.master.nodes.played_agent import Conversation, Linked
from tests.master.nodes.played_fleet import no_way_back
from tests.waiting import settled

OURS = user_name(os.geteuid())


class TwoKinds(Linked):
    """Node `a` has an agent, node `m` is in memory; each has one GPU. Tasks in memory take ten seconds. `runs_as`: what
    that executor says."""

    now = 1000.0
    runs_as: RunsAs | None = "owners"

    async def begin(self) -> Conversation:
        core, engine = self.master.core, self.master.engine
        specs = (NodeSpec(name="a", gpu_models=("GPU",)), NodeSpec(name="m", gpu_models=("GPU",)))
        engine.event(lambda: core.set_nodes(specs))

        def send(node: str, message: Any, login: str) -> None:
            assert (node, login) == ("a", "")
            self.link.send(message)

        async def ask(*_: object, **__: object) -> Any:
            raise AssertionError("nobody looks for a checkpoint")

        agents = Agents(engine, lambda: SETTINGS, send, no_way_back, as_the_agent, ask=ask)
        self.memory = self.memory_executor()
        engine.executor_of = lambda node: self.memory if node == "m" else agents
        self.memory.connect("m")
        agent = await self.session()
        await agent.shake_hands()
        await settled(lambda: all(node.state is NodeState.ONLINE for node in core.inventory.nodes.values()))
        return agent

    def memory_executor(self) -> MemoryExecutor:
        core, tell = self.master.core, self.master.engine.event
        return MemoryExecutor(core, lambda _task: Run(10.0), lambda: self.now, runs_as=self.runs_as, tell=tell)

    async def submit(self, count: int) -> list[int]:
        peer = await self.master.peer()
        return [(await peer.call("task.submit", command="true", gpus=1))["id"] for _ in range(count)]

    def state(self, task_id: int) -> TaskState:
        return self.master.core.tasks[task_id].state

    def on(self, node: str) -> int | None:
        """The task that has the GPU of this node."""
        return next(iter(self.master.core.inventory.nodes[node].active), None)


def test_each_effect_goes_to_the_executor_of_its_node_and_both_report_to_one_queue(tmp_path: Path) -> None:
    async def story() -> None:
        async with TwoKinds(tmp_path) as here:
            agent = await here.begin()
            ids = await here.submit(3)
            launch = await agent.read()
            on_a, on_m = here.on("a"), here.on("m")
            assert on_a is not None
            assert on_m is not None
            assert {on_a, on_m} == set(ids[:2])
            assert here.state(ids[2]) is TaskState.WAITING
            assert launch["launch_id"] == here.master.core.tasks[on_a].allocation[0].launch_id
            agent.say("started", launch_id=launch["launch_id"], pid=1, at=1.0)
            await settled(lambda: here.state(on_a) is TaskState.RUNNING)
            here.memory.advance()
            assert here.state(on_m) is TaskState.RUNNING

            here.now += 10.0
            here.memory.advance()
            assert here.state(on_m) is TaskState.SUCCEEDED
            await settled(lambda: here.on("m") == ids[2], "its GPU is given to the next one")
            here.memory.advance()
            await (await here.master.peer()).call("task.cancel", ids=[ids[2]])
            here.memory.advance()
            await settled(lambda: here.state(ids[2]) is TaskState.CANCELLED)

            await (await here.master.peer()).call("task.cancel", ids=[on_a])
            kill = await agent.read()
            assert (kill["op"], kill["launch_id"]) == ("kill", launch["launch_id"])
            agent.say("exit", launch_id=launch["launch_id"], cause="killed", at=2.0, code=None, error="")
            await settled(lambda: here.state(on_a) is TaskState.CANCELLED)
            assert (await agent.read())["launch_ids"] == [launch["launch_id"]], "and nothing of what ran in memory"

    run(story())


def test_a_node_in_memory_that_is_gone_leaves_the_one_with_an_agent_as_it_is(tmp_path: Path) -> None:
    async def story() -> None:
        async with TwoKinds(tmp_path) as here:
            await here.begin()
            here.memory.disconnect("m")
            nodes = here.master.core.inventory.nodes
            assert (nodes["m"].state, nodes["a"].state) == (NodeState.UNREACHABLE, NodeState.ONLINE)
            first, second = await here.submit(2)
            await settled(lambda: here.state(first) is TaskState.STARTING)
            assert (here.on("a"), here.state(second)) == (first, TaskState.WAITING)
            here.memory.connect("m")
            await settled(lambda: here.state(second) is TaskState.STARTING)

    run(story())


def test_an_executor_that_says_nothing_gets_nothing_of_owners_who_are_kept_apart(tmp_path: Path) -> None:
    async def story() -> None:
        async with TwoKinds(tmp_path, Hooks(runs_as=lambda _facts: "another")) as here:
            here.runs_as = None
            core = here.master.core
            core.keep_apart(lambda owner: None if owner == "chief" else owner)
            await here.begin()
            hers, his, chiefs = (
                here.master.engine.event(lambda owner=owner: submit(core, owner=owner, gpus=1, node="m"))  # type: ignore[misc]
                for owner in ("li", "wang", "chief")
            )
            elsewhere = here.master.engine.event(lambda: submit(core, owner="li", gpus=1))
            await settled(lambda: here.on("a") == elsewhere.id and here.on("m") == chiefs.id)
            peer = await here.master.peer()
            for task in (hers, his):
                assert task.state is TaskState.WAITING
                why = await peer.call("task.why", id=task.id)
                assert "account_not_said" in str(why)
            here.runs_as = "owners"
            here.memory.disconnect("m")
            here.memory = here.memory_executor()
            here.memory.connect("m", boot_id="another")
            await settled(lambda: here.on("m") == hers.id, "it has said so")

    run(story())


@pytest.mark.parametrize(("runs_as", "owners"), [("us", {"ann", OURS}), (None, {"ann", OURS}), ("owners", None)])
def test_the_fence_around_the_masters_account_listens_to_every_executor(
    tmp_path: Path, runs_as: RunsAs | None, owners: set[str] | None
) -> None:
    async def story() -> None:
        async with TwoKinds(tmp_path) as here:
            here.runs_as = runs_as
            core, engine = here.master.core, here.master.engine
            OwnAccount(engine, "desktop")
            engine.client_change(lambda: core.people.add("ann", role="admin"))
            engine.client_change(lambda: core.people.add("bob"))
            await here.begin()
            restriction = core.node("m").restriction
            assert (None if restriction is None else set(restriction.owners)) == owners

    run(story())
