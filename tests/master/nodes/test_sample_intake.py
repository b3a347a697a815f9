"""The clock of a node by its samples, with an agent that is played by the test."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from master.nodes import sample_intake
from tests.leaps import Leap
from tests.master.in_process import run
from tests.master.nodes.played_agent import Linked, beat
from tests.waiting import settled


def test_a_clock_is_not_told_to_be_wrong_by_how_late_it_was_heard(
    tmp_path: Path, leap: Leap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_intake, "MOMENT_S", 3600.0)

    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent = await here.session()
            await agent.shake_hands()

            async def shown(offset: float) -> float:
                agent.say("sample", at=time.time() + offset, load=[offset, 0.0, 0.0])
                await settled(lambda: here.node.load == [offset, 0.0, 0.0])
                assert here.node.clock_offset is not None
                return here.node.clock_offset

            assert await shown(7000.0) <= 7000.0
            known = await shown(5000.0)
            await beat(agent, leap)
            await settled(lambda: not here.turns.is_hurried)
            assert await shown(known - 1800.0) == known
            assert known < await shown(known + 1000.0) <= known + 1000.0
            assert await shown(known - 9000.0) < known - 5000.0

    run(story())
