"""The feeds: each follows one subscription of the master in a thread of its own and hands on what it receives.

Does not interpret the messages; the state does. A lost connection is reported and opened again, for as long as it
takes.
"""

from __future__ import annotations

import random

from client.answers import SUSPECT
from client.live.worker import Worker
from client.session import ConnectionLostError
from client.task_list import whole_tasks
from client.watch import changes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.address import Address
    from client.caller import What
    from client.live.worker import Tell

SILENCE_S = 10.0
"""After so long without news the master is asked whether it is there; it has as long for its answer."""
PAUSES_S = (0.25, 5.0)
"""Before the first try to connect again, and the longest."""


class Feed(Worker):
    """Follows one subscription, `nodes` or `tasks`: the snapshot, then what changes, again after each break."""

    def __init__(self, what: What, address: Address, token: str | None, tell: Tell) -> None:
        super().__init__(what, address, token)
        self._what = what
        self._tell = tell
        self._pause = PAUSES_S[0]

    def _run(self) -> None:
        from wire.errors import MusterError

        while not self.ended.is_set():
            try:
                self._follow()
            except (ConnectionLostError, MusterError, *SUSPECT) as error:
                self._told("lost", {"feed": self._what, "why": self.told_of(error)})
            finally:
                self._session.close()
            self.ended.wait(self._pause * random.uniform(0.7, 1.3))  # noqa: S311  (not all at once after a restart)
            self._pause = min(self._pause * 2, PAUSES_S[1])

    def _follow(self) -> None:
        with self.client() as client:
            port = client.push_port(self._what)
        self._session = self.new_session(port)
        if self._what == "nodes":
            nodes = self._session.call("subscribe", {}, repeatable=False)["nodes"]
            self._told("nodes", nodes)
        else:
            # Subscribed first, listed second, in the short form: ten thousand tasks are megabytes in the long one.
            self._session.call("subscribe", {"snapshot": "none"}, repeatable=False)
            self._told("tasks", whole_tasks(self._session.call("task.list", {"sparse": True}, repeatable=False)))
        self._pause = PAUSES_S[0]
        for message in changes(self._session, SILENCE_S):
            self._told(message["method"], message.get("params", {}))

    def _told(self, method: str, params: Any) -> None:
        if not self.ended.is_set():
            self._tell({"method": method, "params": params})
