"""What there is to say of a task: why it waits, how it ended, what looks wrong with it. Pure."""

from __future__ import annotations

from collections.abc import Callable

from master.core.book import Book
from master.core.dispatch import Dispatch
from master.core.nodes import Nodes
from master.core.request import demand_of
from master.core.scheduler import explain
from master.core.task import Task, TaskState
from wire.message import Message

_AWAITED: dict[str, Callable[[int], Message]] = {
    "ok": lambda number: Message("to_succeed", id=number),
    "fail": lambda number: Message("to_fail", id=number),
    "any": lambda number: Message("to_end", id=number),
}


class Telling:
    """`warnings`: what looks wrong with tasks that run, filled by whoever watches them; not kept over a restart."""

    def __init__(self, book: Book, nodes: Nodes, dispatch: Dispatch) -> None:
        self.warnings: dict[int, Message] = {}
        self._book = book
        self._nodes = nodes
        self._dispatch = dispatch

    def reason(self, task: Task) -> str | None:
        """Why it waits, or what there is to say of its end."""
        waits = self.why_it_waits(task)
        return task.reason if waits is None else str(waits)

    def why_it_waits(self, task: Task) -> Message | None:
        """Why it does not start now, or is held; None for one that is not in the queue."""
        if task.state is TaskState.HELD:
            if task.reason_key == "owner_disabled":  # it is not released, but goes on with him
                args = task.reason_args or {}
                return Message("owner_disabled", name=args.get("name", task.owner), by=args.get("by", ""))
            if task.reason:
                return Message("held_because", id=task.id, why=task.reason)
            return Message("held", id=task.id)
        if task.state is not TaskState.WAITING:
            return None
        if task.waits_for:
            return Message("waits_for", tasks=tuple(_AWAITED[after.on](after.id) for after in task.waits_for))
        return explain(demand_of(task), self._nodes.inventory).message()

    def warning(self, task: Task) -> str | None:
        """What looks wrong with a task that runs, as a sentence."""
        wrong = self.what_looks_wrong(task)
        return None if wrong is None else str(wrong)

    def what_looks_wrong(self, task: Task) -> Message | None:
        """What looks wrong with a task that runs. Nothing of it is kept over a restart."""
        if task.state is not TaskState.RUNNING:
            return None
        of_log, of_watcher = self._dispatch.log_warning(task), self.warnings.get(task.id)
        if of_log is not None and of_watcher is not None:
            return Message("warnings", warnings=(of_log, of_watcher))
        return of_log or of_watcher

    def warn(self, task_id: int, warning: Message | None) -> None:
        """What looks wrong with a task, in the eyes of who watches it; None: nothing any more."""
        if warning is None:
            self.warnings.pop(task_id, None)
        else:
            self.warnings[task_id] = warning

    def warned(self) -> list[int]:
        """The tasks that there is a warning about."""
        marked = sorted(i for i in {*self.warnings, *self._dispatch.large_logs} if i in self._book.tasks)
        return [task_id for task_id in marked if self.warning(self._book.tasks[task_id]) is not None]
