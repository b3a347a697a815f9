"""A node, or an agent on it, that lies: of the attempts of other nodes, and of where a log lies."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from master.core.nodes.inventory import NodeSpec
from master.core.tasks.task import Task, TaskState
from master.nodes.link import Link
from tests.attack.lab_of_many import SECRET
from tests.master.in_process import Us, run
from tests.master.nodes.played_agent import Agent, Conversation, Linked
from tests.waiting import settled

EXIT = {"code": 0, "cause": "exited", "error": "", "started_at": 5.0, "at": 6.0}


async def begun(here: Linked) -> tuple[Conversation, Task, str]:
    """The agent of node a, a task that it runs, and the id of its launch."""
    peer = await here.master.peer()
    await peer.call("task.submit", command="true", gpus=1)
    agent = await here.session()
    await agent.shake_hands()
    launch_id = (await agent.read())["launch_id"]
    return agent, here.master.core.tasks[1], launch_id


@pytest.mark.parametrize("says", ["started", "exit", "inventory", "probed"])
def test_a_node_says_nothing_of_what_another_node_runs(tmp_path: Path, says: str) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            core = here.master.core
            specs = tuple(NodeSpec(name=name, gpu_models=("GPU",) * 8) for name in ("a", "b"))
            here.master.engine.event(lambda: core.set_nodes(specs))
            honest, task, launch_id = await begun(here)
            (tmp_path / "b").mkdir()
            liar = Agent(tmp_path / "b")
            server = await asyncio.start_unix_server(liar.accept, liar.path)
            link = Link("b", liar, here.master.engine, Us(), here.master.port_server)
            job = asyncio.create_task(link.run())
            try:
                words = await liar.sessions.get()
                seen = {"launch_id": launch_id, "state": "ended", **EXIT}
                await words.shake_hands(*([seen] if says == "inventory" else []))
                await settled(lambda: core.inventory.nodes["b"].state == "online")
                before = task.seq
                if says == "started":
                    words.say("started", launch_id=launch_id, pid=7, pid_start=1, at=5.0, log_path="/etc/passwd")
                elif says == "exit":
                    words.say("exit", launch_id=launch_id, **EXIT)
                elif says == "probed":
                    words.say("probed", probe_id="1", code=0, output="", truncated=False, error="")
                words.say("sample", at=2.0, load=[42.0, 1.0, 1.0])
                await settled(lambda: core.inventory.nodes["b"].load is not None)
                assert (task.state, task.seq) == (TaskState.STARTING, before)
                honest.say("started", launch_id=launch_id, pid=7, pid_start=1, at=5.0)
                await settled(lambda: task.state is TaskState.RUNNING)
            finally:
                job.cancel()
                await asyncio.gather(job, return_exceptions=True)
                server.close()
                for one in liar.all:
                    one.writer.close()

    run(story())


@pytest.mark.parametrize(
    "log", ["/etc/passwd", "{folder}/task_info/secret", "{folder}/logs/2.log", "{folder}/logs/../task_info/secret"]
)
@pytest.mark.parametrize("account", ["", "ann", "root", "../ann"])
def test_a_node_does_not_have_the_master_read_what_it_likes_as_a_log(tmp_path: Path, log: str, account: str) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent, task, launch_id = await begun(here)
            path = log.format(folder=tmp_path)
            placed = task.log_path
            (tmp_path / "task_info" / "secret").write_text(SECRET, encoding="utf-8")
            keys = {"run_as": account} if account else {}
            agent.say("started", launch_id=launch_id, pid=7, pid_start=1, at=5.0, log_path=path, **keys)
            await settled(lambda: task.state is TaskState.RUNNING)
            assert task.log_path == placed
            agent.say("exit", launch_id=launch_id, log_path=path, **keys, **EXIT)
            await settled(lambda: task.state is TaskState.SUCCEEDED)
            assert task.log_path == placed

    run(story())
