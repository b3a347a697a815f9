"""The jobs that keep links up."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from master.nodes import members
from tests.master.in_process import run
from tests.master.nodes.played_fleet import Field, To, ssh
from tests.waiting import settled


def test_a_link_that_misses_a_cancel_is_cancelled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "CANCEL_AGAIN_S", 0.001)
    missed: list[str] = []

    async def deaf(_: To, protocol: asyncio.Protocol) -> None:  # noqa: ARG001
        for turn in ("first", "second", "third"):
            with suppress(asyncio.CancelledError):
                await asyncio.get_running_loop().create_future()
            missed.append(turn)
        await asyncio.get_running_loop().create_future()

    async def story() -> None:
        async with Field(tmp_path) as here:
            monkeypatch.setattr(To, "connect", deaf)
            here.fleet.apply((ssh("n"),))
            await settled(lambda: here.node("n") is not None)

    run(story())
    assert missed == ["first", "second", "third"]
