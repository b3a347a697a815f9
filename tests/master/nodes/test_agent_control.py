"""The agents of nodes as admins command them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from master.nodes.fleet import Fleet
from master.nodes.link_making import LinkMaker
from tests.master.in_process import Us, run
from tests.master.nodes.played_fleet import Field, To, ssh
from tests.waiting import settled


def test_an_agent_of_another_version_is_asked_once_to_end_for_ours(tmp_path: Path) -> None:
    async def story() -> None:
        async with Field(tmp_path) as here:
            here.one.version = "old"
            here.fleet.apply((ssh("n"),))
            await here.online("n")
            assert here.node("n").facts.version == "new"
            assert here.one.ops()[:3] == ["hello", "retire", "hello"]

    run(story())


def test_an_agent_that_is_stopped_stays_away_over_restarts_until_it_is_started(tmp_path: Path) -> None:
    async def story() -> None:
        async with Field(tmp_path) as here:
            here.fleet.apply((ssh("n"),))
            await here.online("n")
            await here.fleet.agents.stop("n", "root")
            assert "agents start n" in here.node("n").reason
            hellos = here.one.ops().count("hello")
            links = LinkMaker(here.master.engine, Us(), here.master.port_server, make_driver=lambda _: To("/nowhere"))
            other = Fleet(here.master.engine, links)
            other.apply((ssh("n"),))
            await other.close()
            assert here.one.ops().count("hello") == hellos
            here.fleet.agents.start("n")
            await here.online("n")
            assert here.node("n").takes_tasks
            await here.fleet.agents.restart("n")
            await settled(lambda: here.one.ops().count("retire") == 2)
            await here.online("n")

    run(story())


def test_stopping_and_starting_an_agent_at_once_leaves_it_as_was_said_last(tmp_path: Path) -> None:
    async def story() -> None:
        async with Field(tmp_path) as here:
            here.fleet.apply((ssh("n"),))
            await here.online("n")
            stopping = asyncio.create_task(here.fleet.agents.stop("n", "root"))
            await asyncio.sleep(0)
            here.fleet.agents.start("n")
            await stopping
            await here.online("n")
            await asyncio.gather(here.fleet.agents.restart("n"), here.fleet.agents.restart("n"))
            await here.online("n")
            assert here.node("n").takes_tasks

    run(story())
