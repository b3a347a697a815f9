"""Two kinds of executor serve one queue: agents over their links, and attempts in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.tasks.task import TaskState
from master.executors.agents import Agents
from master.executors.memory import MemoryExecutor, Run
from tests.master.in_process import SETTINGS, run
from tests.master.nodes.played_agent import Conversation, Linked
from tests.master.nodes.played_fleet import no_way_back
from tests.waiting import settled


class TwoKinds(Linked):
    """Node `a` has an agent, node `m` is in memory; each has one GPU. Tasks in memory take ten seconds."""

    now = 1000.0

    async def begin(self) -> Conversation:
        core, engine = self.master.core, self.master.engine
        specs = (NodeSpec(name="a", gpu_models=("GPU",)), NodeSpec(name="m", gpu_models=("GPU",)))
        engine.event(lambda: core.set_nodes(specs))

        def send(node: str, message: Any, login: str) -> None:
            assert (node, login) == ("a", "")
            self.link.send(message)

        async def ask(*_: object, **__: object) -> Any:
            raise AssertionError("nobody looks for a checkpoint")

        agents = Agents(engine, lambda: SETTINGS, send, no_way_back, ask=ask)
        self.memory = MemoryExecutor(core, lambda _task: Run(10.0), lambda: self.now, tell=engine.event)
        engine.executor_of = lambda node: self.memory if node == "m" else agents
        self.memory.connect("m")
        agent = await self.session()
        await agent.shake_hands()
        await settled(lambda: all(node.state is NodeState.ONLINE for node in core.inventory.nodes.values()))
        return agent

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
