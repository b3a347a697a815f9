"""A question that waits for its node's answer."""

from __future__ import annotations

import asyncio

from master.core.attempts.agent_messages import Probed
from master.nodes.questions import Questions
from tests.waiting import run_story
from wire import agent as wire


def test_who_is_told_to_stop_in_the_turn_of_the_answer_stops() -> None:
    async def story() -> None:
        asked: list[wire.Probe] = []

        def send(message: wire.Probe) -> bool:
            asked.append(message)
            return True

        questions = Questions("n", send)
        waiting = asyncio.create_task(questions.ask(["true"]))
        await asyncio.sleep(0)
        questions.answered(Probed(asked[0]["probe_id"], code=0, output="ok"))
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()

    run_story(story())
