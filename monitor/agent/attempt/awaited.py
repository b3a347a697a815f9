"""Launches that wait for what a log-in of their owner's account gives.

Nothing of them is claimed yet, so none of them is in an inventory; where this agent ends before, the master sends them
again.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Set

from wire.account import AccountError

from ..probe.login import Answer
from ..probe.logins import Logins
from . import blame

Message = Dict[str, Any]


class Awaited:
    """`start` is given a launch that can be started, `refuse` the id of one that cannot, why, and whose fault it is."""

    def __init__(
        self, logins: Logins, start: Callable[[str, Message], None], refuse: Callable[[str, str, str], None]
    ) -> None:
        self._logins = logins
        self._start = start
        self._refuse = refuse
        self._ids: Set[str] = set()

    @property
    def any(self) -> bool:
        """Whether there are some."""
        return bool(self._ids)

    def drop(self, launch_id: str) -> None:
        """It is not to be started any more, if it waits here."""
        self._ids.discard(launch_id)

    def begin(self, launch_id: str, message: Message) -> None:
        """Start it once all is known of its account; one that waits goes on waiting."""
        if launch_id in self._ids:
            return
        self._ids.add(launch_id)

        def known(login: Optional[Answer]) -> None:
            if launch_id in self._ids:  # else it was killed meanwhile
                self._ids.discard(launch_id)
                self._known(launch_id, message, login)

        try:
            self._logins.ask(message, known)
        except AccountError as error:
            self._ids.discard(launch_id)
            self._refuse(launch_id, str(error), blame.NODE if error.is_nodes else blame.TASK)
        except OSError as error:
            self._ids.discard(launch_id)
            self._refuse(launch_id, f"no process could be made for the launch: {error.strerror}", blame.NODE)

    def _known(self, launch_id: str, message: Message, login: Optional[Answer]) -> None:
        if login is None:
            self._start(launch_id, message)
        elif login.refusal:
            self._refuse(launch_id, login.refusal, blame.TASK)
        else:
            told = {"variables": login.variables, "umask": login.umask, "fault": login.fault}
            self._start(launch_id, {**message, "login": told})
