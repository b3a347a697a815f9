"""The pauses between the tries of a link."""

from __future__ import annotations

from pathlib import Path

import pytest

from master.core.nodes.inventory import NodeState
from master.nodes import backoff
from master.nodes.backoff import pause_s
from master.nodes.driver import Patience
from tests.master.in_process import run
from tests.master.nodes.played_agent import Linked
from tests.waiting import settled


def test_each_pause_is_twice_the_one_before_up_to_a_limit_and_longer_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # as they are
    pauses = [pause_s("short", failures, 0.0) for failures in (1, 2, 3, 8, 9, 10_000)]
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 12.8, 15.0, 15.0])
    assert [pause_s("long", failures, 0.0) for failures in (1, 2, 6, 7, 10_000)] == [15, 30, 480, 600, 600]
    assert [pause_s("long", 1, chance) for chance in (0.5, 1.0)] == [18.75, 22.5]


def test_failures_that_need_a_person_are_counted_apart_and_all_anew_after_a_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Patience, int]] = []

    def paused(patience: Patience, failures: int, chance: float) -> float:
        assert 0 <= chance < 1
        asked.append((patience, failures))
        return 0.001

    monkeypatch.setattr(backoff, "pause_s", paused)
    monkeypatch.setattr(backoff, "BACKOFF_S", {"short": (0.0, 0.0)})  # every connection is a long one

    async def tried(here: Linked, patience: Patience, count: int) -> None:
        here.agent.refusal, here.agent.patience = "no", patience
        await settled(lambda: asked and asked[-1][0] == patience and asked[-1][1] >= count)

    async def story() -> None:
        async with Linked(tmp_path) as here:
            await tried(here, "short", 3)
            await tried(here, "long", 2)
            assert asked[:3] == [("short", 1), ("short", 2), ("short", 3)]
            assert [failures for patience, failures in asked if patience == "long"][:2] == [1, 2]
            here.agent.refusal = None
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            asked.clear()
            agent.writer.close()
            await settled(lambda: asked)
            assert asked[0] == ("short", 1)

    run(story())
