"""Keep the terminal in order while the program is stopped and continues.

Textual gives the terminal back at Ctrl-Z, and takes it again when the program goes on. After a SIGSTOP it gave nothing
back: it would take its own settings for the terminal's earlier ones, leave them behind at its end, and draw nothing.
Owns these two signals, and draws nothing itself.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

from textual.app import App


def come_back_whole(app: App[Any]) -> None:
    """See to it, on a terminal, that whatever stopped the program it comes back as it was."""
    stop, go_on = signal.getsignal(signal.SIGTSTP), signal.getsignal(signal.SIGCONT)
    if not callable(stop) or not callable(go_on):
        return  # nothing is drawn on a terminal
    gave_it_back = False

    def stopped(number: int, frame: FrameType | None) -> None:
        nonlocal gave_it_back
        gave_it_back = True
        stop(number, frame)

    def goes_on(number: int, frame: FrameType | None) -> None:
        nonlocal gave_it_back
        if gave_it_back:
            gave_it_back = False
            go_on(number, frame)
            return
        with app.suspend():
            pass

    signal.signal(signal.SIGTSTP, stopped)
    signal.signal(signal.SIGCONT, goes_on)
