"""`muster top` on a terminal."""

from __future__ import annotations

from tests.client import terminal
from tests.client.terminal import MUSTER


class Terminal(terminal.Terminal):
    """The program and its terminal. `conf`: of the master; `more` is added to the environment."""

    def __init__(self, conf: str, **more: str) -> None:
        super().__init__([*MUSTER, "top", "--conf", conf], more)
