"""Waiting for tasks: what is known of them, then each change, until all are where they are wanted.

Owns the subscription, the watch over a silent connection, and asking anew after a break.
"""

from __future__ import annotations

import time
from contextlib import suppress

from client.session import ConnectionLostError, Session
from client.states import ENDED
from client.task_list import whole_tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from client.caller import Caller
    from client.shapes import Task

    OnChange = Callable[[dict[int, Task]], None]

SILENCE_S = 20.0
"""After so long without news the master is asked whether it is there."""


def wait(
    caller: Caller,
    ids: Iterable[int],
    timeout: float | None = None,
    on_change: OnChange | None = None,
    *,
    until: str = "ended",
    silence_s: float = SILENCE_S,
) -> dict[int, Task]:
    """See `client.api.Client.wait`."""
    wanted = list(dict.fromkeys(ids))
    deadline = None if timeout is None else time.monotonic() + timeout
    where, asked = caller.address, caller.session
    port = caller.push_port("tasks")
    pushes = Session(where.host, port, caller.token, asked.patience, where.trust, proxy=where.proxy, end=where.end)
    pushes.on_retry = asked.on_retry
    wait = _Wait(caller, pushes, wanted, until, silence_s)
    try:
        while True:
            try:
                return wait.once(deadline, on_change)
            except ConnectionLostError as error:
                pushes.close()
                if asked.on_retry is not None:
                    asked.on_retry(str(error))
                asked.call("server.info", {})
    finally:
        pushes.close()


class _Wait:
    """For tasks `wanted`, whose changes come over `pushes`."""

    def __init__(self, caller: Caller, pushes: Session, wanted: list[int], until: str, silence_s: float) -> None:
        self._caller = caller
        self._pushes = pushes
        self._wanted = wanted
        self._until = until
        self._silence_s = silence_s

    def once(self, deadline: float | None, on_change: OnChange | None) -> dict[int, Task]:
        """Over one connection. Raises ConnectionLostError when it breaks, NotFoundError, TimeoutError."""
        # Subscribed first, asked second: a change between the two is seen twice, never missed.
        self._pushes.call("subscribe", {"ids": self._wanted, "snapshot": "none"})
        known = self._known()
        while True:
            if on_change is not None:
                on_change(known)
            if all(self._is_reached(task) for task in known.values()):
                return known
            self._take_change(known, deadline)

    def _is_reached(self, task: Task) -> bool:
        there = task["state"] in ENDED or (self._until == "started" and task["state"] in ("running", "paused"))
        return there and not task.get("unsaved")

    def _known(self) -> dict[int, Task]:
        from wire.errors import NotFoundError

        listed: dict[int, Task] = {}
        with suppress(NotFoundError):  # of them all, if one has ended so long ago that only the history has it
            asked = {"ids": self._wanted, "active": True, "ended": True, "sparse": True}
            listed = {task["id"]: task for task in whole_tasks(self._caller.call("task.list", asked))}
        return {task_id: listed.get(task_id) or self._shown(task_id) for task_id in self._wanted}

    def _shown(self, task_id: int) -> Task:
        """As the master knows it, which looks into its history, too. Raises NotFoundError."""
        task: Task = self._caller.call("task.show", {"id": task_id})
        return task

    def _take_change(self, known: dict[int, Task], deadline: float | None) -> None:
        left = self._silence_s if deadline is None else deadline - time.monotonic()
        if left <= 0:
            from wire.message import Message

            raise TimeoutError(Message("not_all_ended"))
        for message in self._pushes.notifications(min(left, self._silence_s)):
            params = message.get("params", {})
            task = params.get("task")
            if params.get("gone") and params.get("id") in known:
                # A finished task goes into the history sooner or later, and others may delete it; its result is known
                # here.
                if self._is_reached(known[params["id"]]):
                    continue
                task = self._shown(params["id"])
            if task and task["id"] in known:
                known[task["id"]] = task
                return
        # Silence: see that the master is there at all, so that a connection that died unseen is noticed.
        try:
            self._pushes.call("server.info", {}, timeout=self._silence_s, repeatable=False)
        except Exception as error:
            from wire.errors import UnreachableError

            if isinstance(error, UnreachableError):
                raise ConnectionLostError(*error.args) from None
            raise
