"""Why the tasks on the screen wait. It changes with every other task and node, and the master tells it only when it is
asked: so it is asked about those in sight, when something changed, and not too often."""

from __future__ import annotations

import time

from client.task_list import whole_tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.live.asker import Answers
    from client.live.state import State

EVERY_S = 2.0
MARK = "reasons"
"""Of its answers."""
WHY = ("reason", "reason_key", "reason_args")
"""The keys of a task that tell it."""


class Reasons:
    """Asks through `asker`, and lets the state take what is answered."""

    def __init__(self, state: State, asker: Answers, every_s: float = EVERY_S) -> None:
        self._state = state
        self._asker = asker
        self._every_s = every_s
        self._asked_for: Any = None
        self._asked_at = 0.0

    def ask(self, waiting: list[int]) -> None:
        """Ask about these, if it is due and something changed."""
        state = self._state
        made_of = (state.tasks_version, state.nodes_version, waiting)
        is_due = time.monotonic() - self._asked_at >= self._every_s
        if waiting and is_due and made_of != self._asked_for and not state.lost:
            self._asked_for, self._asked_at = made_of, time.monotonic()
            self._asker.ask(MARK, lambda client: client.call("task.list", {"ids": waiting, "sparse": True}))

    def take(self, answer: dict[str, Any]) -> None:
        """Take an answer. An error means that one of them is gone by now: those in sight then are asked about next
        time."""
        tasks = whole_tasks(answer["result"]) if "result" in answer else []
        reasons = {task["id"]: {key: value for key, value in task.items() if key in WHY} for task in tasks}
        self._state.take({"method": "reasons", "params": reasons}, time.time())
