"""One search of each user goes on at a time, and few of all: others wait, and too many are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from master.files.search_turns import ASKED, TOGETHER, SearchTurns
from tests.leaps import Leap
from tests.waiting import run_story, settled
from wire.errors import LimitError
from wire.message import Message


class Steps:
    """Steps that go on until they are told to end. `began`: their names, in the order in which they began."""

    def __init__(self, turns: SearchTurns) -> None:
        self.began: list[str] = []
        self._turns = turns
        self._ends: dict[str, asyncio.Event] = {}

    def ask(self, name: str) -> asyncio.Task[str]:
        """A search by the user who is its name's first word."""
        self._ends[name] = asyncio.Event()
        return asyncio.ensure_future(self._turns.run(name.split(maxsplit=1)[0], self._step(name)))

    def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()

    def _step(self, name: str) -> Callable[[], Coroutine[Any, Any, str]]:
        async def step() -> str:
            self.began.append(name)
            await self._ends[name].wait()
            if name.endswith("fails"):
                raise LimitError(Message("log_pattern_dear"))
            return name

        return step


async def nothing_more() -> None:
    """All that can happen has happened."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_of_one_user_one_goes_on_at_a_time_in_the_order_of_asking() -> None:
    async def story() -> None:
        steps = Steps(SearchTurns())
        asked = [steps.ask(name) for name in ("ann 1", "ann 2", "ann 3", "bob 1")]
        await settled(lambda: "bob 1" in steps.began)
        await nothing_more()
        assert steps.began == ["ann 1", "bob 1"]
        steps.end("ann 1")
        await settled(lambda: "ann 2" in steps.began)
        await nothing_more()
        assert "ann 3" not in steps.began
        steps.end("ann 2", "ann 3", "bob 1")
        assert await asyncio.gather(*asked) == ["ann 1", "ann 2", "ann 3", "bob 1"]

    run_story(story())


def test_of_all_users_together_few_go_on_and_who_waits_for_an_own_one_takes_no_place() -> None:
    async def story() -> None:
        steps = Steps(SearchTurns())
        asked = [steps.ask(f"ann {number}") for number in range(TOGETHER)]
        asked += [steps.ask(f"user{number} 1") for number in range(TOGETHER)]
        await settled(lambda: len(steps.began) == TOGETHER)
        await nothing_more()
        assert steps.began == ["ann 0", *(f"user{number} 1" for number in range(TOGETHER - 1))]
        steps.end("user0 1")
        await settled(lambda: len(steps.began) == TOGETHER + 1)
        steps.end(*(f"ann {number}" for number in range(TOGETHER)), *(f"user{number} 1" for number in range(TOGETHER)))
        await asyncio.gather(*asked)

    run_story(story())


def test_a_step_that_nobody_waits_for_any_more_keeps_its_turn_until_it_ends() -> None:
    async def story() -> None:
        turns = SearchTurns()
        steps = Steps(turns)
        left, waits = steps.ask("ann fails"), steps.ask("ann 2")
        await settled(lambda: steps.began)
        left.cancel()
        await asyncio.wait([left])
        await nothing_more()
        assert steps.began == ["ann fails"]
        steps.end("ann fails", "ann 2")
        assert await waits == "ann 2"
        assert not turns.asked, "nothing is kept of who searches nothing"

    run_story(story())


def test_who_leaves_before_the_turn_takes_none() -> None:
    async def story() -> None:
        turns = SearchTurns()
        steps = Steps(turns)
        first, left, last = steps.ask("ann 1"), steps.ask("ann 2"), steps.ask("ann 3")
        await settled(lambda: steps.began)
        left.cancel()
        steps.end("ann 1", "ann 3")
        assert [await first, await last] == ["ann 1", "ann 3"]
        assert steps.began == ["ann 1", "ann 3"]
        assert not turns.asked

    run_story(story())


def test_more_than_anybody_needs_are_refused_at_once_and_others_are_not() -> None:
    async def story() -> None:
        steps = Steps(SearchTurns())
        asked = [steps.ask(f"ann {number}") for number in range(ASKED)]
        await settled(lambda: steps.began)
        with pytest.raises(LimitError) as refused:
            await steps.ask("ann more")
        assert (refused.value.key, refused.value.values) == ("log_searches_own", {"most": ASKED})
        bob = steps.ask("bob 1")
        steps.end("bob 1", *(f"ann {number}" for number in range(ASKED)))
        await asyncio.gather(bob, *asked)

    run_story(story())


def test_who_gets_no_turn_for_long_is_refused(leap: Leap) -> None:
    async def story() -> None:
        turns = SearchTurns(patience_s=40.0)
        steps = Steps(turns)
        first, second = steps.ask("ann 1"), steps.ask("ann 2")
        await settled(lambda: steps.began)
        await nothing_more()
        leap(41.0)
        with pytest.raises(LimitError) as refused:
            await second
        assert refused.value.key == "log_searches_busy"
        steps.end("ann 1")
        assert await first == "ann 1"
        assert not turns.asked

    run_story(story())
