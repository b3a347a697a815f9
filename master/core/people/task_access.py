"""How long the token of a task opens: as long as its attempt is not over, and nobody wants its end. Pure.

Nothing is kept of such a token. Its conditions are looked up when it is shown, and looked up again when people are told
that something changed; so they are told of the end of each attempt that has one. A user who ends a task wants no tasks
that it submits meanwhile.
"""

from __future__ import annotations

from master.core.attempts.dispatch import Dispatch
from master.core.people.people import People
from master.core.tasks.task import ACTIVE, Task
from master.core.tasks.transitions import State


class TaskAccess:
    """The attempts whose tokens open something."""

    def __init__(self, dispatch: Dispatch, people: People) -> None:
        self._dispatch = dispatch
        self._people = people

    def concerns(self, before: State, after: State) -> bool:
        """Attempts that are over, or of which something else has changed: their end may be wanted."""
        return before in ACTIVE and (after not in ACTIVE or before == after)

    def moved(self, task: Task, _before: State, after: State) -> None:
        """Look again at the connections that came in with its token."""
        if task.token and (after not in ACTIVE or task.asked_end is not None):
            self._people.look_again()

    def holder(self, launch_id: str) -> Task | None:
        """The task for whose present attempt, of this id, a token opens; None where it opens nothing."""
        task = self._dispatch.attempt(launch_id)
        return task if task is not None and task.token and task.asked_end is None else None
