"""`muster top` without a terminal: what stands on its screen, and the keys that somebody presses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.pilot import Pilot
from textual.strip import Strip

from client.top.app import Top
from tests.waiting import settled


class Screen:
    """The program, and the pilot that presses its keys."""

    def __init__(self, app: Top, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    async def press(self, *keys: str) -> None:
        """Press keys, and let it act."""
        await self.pilot.press(*keys)
        await self.pilot.pause()

    def strips(self) -> list[Strip]:
        """What is drawn, line by line."""
        return self.app.screen._compositor.render_strips()

    def lines(self) -> list[str]:
        """What stands on the screen."""
        return ["".join(segment.text for segment in strip).rstrip() for strip in self.strips()]

    def text(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines())

    async def until(self, what: str, condition: Callable[[], Any]) -> None:
        """Wait for it, while the program goes on."""
        await settled(condition, what, seen=self.text, turn=lambda: self.pilot.pause(0.02))

    async def shows(self, text: str) -> None:
        """Wait until it stands on the screen."""
        await self.until(f"{text!r} appears", lambda: text in self.text())
