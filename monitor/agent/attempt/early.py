"""The signal that a command may get some time before its time limit, so that it can write down how far it came.

It owns when, and to whom: each process of the tree that heeds it. One that does not would only die of it, and mostly it
is the shell around the program that was meant.
"""

from __future__ import annotations

import signal
from typing import Any, Dict, List, Optional

from .. import tree


class EarlySignal:
    """`at`: when it is due, in monotonic seconds; `reached`: how many processes got it, None before."""

    def __init__(self, number: int, at: float, *, main_only: bool) -> None:
        self.at = at
        self.reached: Optional[int] = None
        self._number = number
        self._main_only = main_only

    @classmethod
    def of(cls, launch: Dict[str, Any], limit: float) -> Optional[EarlySignal]:
        """Return the signal that the launch asks for, whose time limit is at `limit`; None where it asks for nothing,
        or for a signal that this machine does not have."""
        wanted = launch.get("signal") or {"name": ""}
        number = getattr(signal, f"SIG{wanted['name']}", None)
        if not isinstance(number, signal.Signals):
            return None
        return cls(int(number), limit - wanted["before_s"], main_only=wanted["main_only"])

    def send(self, members: List[tree.Process], main: int) -> None:
        """Now, to these, or to the one of them that is the command itself."""
        heeding = [
            process
            for process in members
            if (process.pid == main or not self._main_only) and tree.heeds(process, self._number)
        ]
        self.reached = len(heeding)
        tree.send(heeding, self._number)


def wrong(launch: Dict[str, Any]) -> Optional[str]:
    """Return the problem with the signal of a launch, None if there is none."""
    wanted = launch.get("signal")
    if wanted is None:
        return None
    if not isinstance(wanted, dict) or not isinstance(wanted.get("name"), str):
        return "signal is not an object with a name"
    if not isinstance(wanted.get("before_s"), (int, float)):
        return "signal.before_s is not a number"
    wanted["main_only"] = wanted.get("main_only") is True
    return None
