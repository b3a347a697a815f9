"""A user asks a node so many questions, and such that take long, that nobody else can ask it anything."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from master.nodes.askers import MOST, MOST_OF_ONE, Askers
from tests.master.in_process import run
from tests.master.verbs.test_people import people
from tests.waiting import settled
from wire.agent import Probed
from wire.errors import LimitError

PATIENT_S = 60.0


class Node:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = asyncio.Event()

    def question(self, asker: str) -> asyncio.Task[str]:
        async def answered() -> str:
            self.asked.append(asker)
            await self.answers.wait()
            return asker

        return asyncio.ensure_future(answered())


def test_who_asks_much_takes_few_places_and_others_are_answered() -> None:
    async def story() -> None:
        node, askers = Node(), Askers(turn_s=PATIENT_S)
        greedy = [asyncio.ensure_future(askers.ask("a", "cy", lambda: node.question("cy"))) for _ in range(20)]
        await settled(lambda: node.asked.count("cy") == MOST_OF_ONE)
        users = [f"user{number}" for number in range(MOST)]
        others = [
            asyncio.ensure_future(askers.ask("a", name, lambda name=name: node.question(name)))  # type: ignore[misc]
            for name in users
        ]
        await settled(lambda: len(node.asked) == MOST)
        assert node.asked.count("cy") == MOST_OF_ONE
        elsewhere = asyncio.ensure_future(askers.ask("b", "bob", lambda: node.question("bob")))
        await settled(lambda: "bob" in node.asked)
        node.answers.set()
        assert await asyncio.gather(*others) == users
        assert await elsewhere == "bob"
        assert await asyncio.gather(*greedy) == ["cy"] * 20

    run(story())


def test_a_place_is_taken_until_the_node_has_answered_though_nobody_waits_for_it() -> None:
    async def story() -> None:
        node, askers = Node(), Askers(turn_s=PATIENT_S)
        calls = [asyncio.ensure_future(askers.ask("a", "cy", lambda: node.question("cy"))) for _ in range(MOST_OF_ONE)]
        await settled(lambda: len(node.asked) == MOST_OF_ONE)
        for call in calls:
            call.cancel()
        impatient = Askers(turn_s=0.0)
        vars(impatient).update({key: value for key, value in vars(askers).items() if key != "_turn_s"})
        with pytest.raises(LimitError, match="try again"):
            await impatient.ask("a", "cy", lambda: node.question("cy"))
        node.answers.set()
        assert await askers.ask("a", "cy", lambda: node.question("cy")) == "cy"

    run(story())


def test_questions_to_environments_are_counted_for_who_asks(tmp_path: Path) -> None:
    async def story() -> None:
        with pytest.MonkeyPatch.context() as patched:
            async with people(tmp_path, patched) as here:
                here.master.online()
                here.master.place.run_as = lambda owner: owner
                askers: list[object] = []

                async def probe(_node: str, _argv: list[str], **how: object) -> Probed:
                    askers.append(how.get("asker"))
                    return Probed(op="probed", probe_id="", code=0, output="", truncated=False, error="")

                here.master.place.fleet.probe = probe  # type: ignore[assignment, method-assign]
                cy = await here.user("cy")
                answer = await cy.answer(cy.ask("env.check", env=f"{tmp_path}/venv", node="a"))
                assert askers == ["cy"], answer

    run(story())
