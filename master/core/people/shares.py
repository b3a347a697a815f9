"""Shares: how much of the queue each owner's tasks take, and how many bytes large tasks hold.

Pure. Nobody may fill the queue, or the master's memory, so that others cannot submit. Of what the tasks of others leave
of a limit, those of one user may take a part (`limits.user_share`): with a half the first user may have a half of all,
the second a half of the rest, and so on, so that a newcomer always finds room, however many fill what they may.
Until a user is added there is one user, who may have all of it.

Only new tasks are refused: those that come, that are tried again because somebody wants that, or that an edit makes
larger. Tasks in the queue stay, whatever a limit is set to, and are counted: also one that waits again by itself, or
has another owner now. The counts follow the moves of tasks; nothing is searched. Of each large task the size is
kept as it was counted, so that what is taken away later is what was added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from master.core.people.people import People
from master.core.tasks.size import large_size, large_sizes
from master.core.tasks.task import ACTIVE, ENDED, QUEUED, Task
from master.core.tasks.task_table import TaskTable
from master.core.tasks.transitions import State
from master.core.tuning import Tuning
from wire.errors import LimitError
from wire.message import Message


class Share(msgspec.Struct, frozen=True):
    """The tasks of a user that wait, and the bytes of the large ones that are not over, each with how many they may
    be."""

    waiting: int
    most_waiting: int
    size: int
    most_size: int


NEAR = 0.8
"""From this part of what a user may have on, others are told."""


class Shares:
    """`ended_size`: the bytes of large finished tasks that are kept at hand."""

    def __init__(self, task_table: TaskTable, people: People, tuning: Tuning) -> None:
        self._task_table = task_table
        self._people = people
        self._tuning = tuning
        self._waiting: dict[str, int] = {}
        self._all_waiting = 0
        self._limits = tuning.settings.limits
        self._anybodys = self._free_for_anybody()
        self._large: dict[int, int] = {}
        self._sizes: dict[str, int] = {}
        self._live_size = 0
        self.ended_size = 0

    # -- what happens to tasks --------------------------------------------------------------------------------

    def load(self, tasks: Iterable[Task]) -> None:
        """Count those of which the task table tells nobody as it is loaded, or tells this one nothing: all but the
        active ones."""
        waiting: dict[str, int] = {}
        for task in tasks:
            if task.state in QUEUED:
                waiting[task.owner] = waiting.get(task.owner, 0) + 1
            elif task.state in ACTIVE:
                continue
            if size := large_size(task):
                self._add(task, size)
        self._waiting = waiting
        self._all_waiting = sum(waiting.values())

    def concerns(self, before: State, after: State) -> bool:
        """All but new ones that wait, which `filed` counts, and moves that change nothing here."""
        if before is None:
            return after not in QUEUED
        if before is after:
            return before not in ENDED
        return after is None or _kind(before) != _kind(after)

    def moved(self, task: Task, before: State, after: State) -> None:
        """It waits now, or does not any more; and it may have another size."""
        queued = (after in QUEUED) - (before in QUEUED)
        if queued:
            self._queued(task.owner, queued)
        size = self._large.pop(task.id, 0)
        if size:
            self._pool(task.owner, before, -size)
        if before is None or before is after or after in QUEUED or before in ENDED:
            size = 0 if after is None else large_size(task)  # it may say something else, or have an attempt more
        if size and after is not None:
            self._add(task, size)

    def filed(self, tasks: Sequence[Task], sizes: Sequence[int] | None) -> None:
        """They are filed now, and have these sizes; None: none of them is large."""
        waiting = self._waiting
        self._all_waiting += len(tasks)
        for task in tasks:
            owner = task.owner
            waiting[owner] = waiting.get(owner, 0) + 1
        if sizes is not None:
            for task, size in zip(tasks, sizes, strict=True):
                if size:
                    self._add(task, size)

    def given(self, task: Task, before: str) -> None:
        """It has another owner now, and counts for that one."""
        if task.state in QUEUED:
            self._queued(before, -1)
            self._queued(task.owner, 1)
        size = self._large.get(task.id)
        if size is not None and task.state not in ENDED:
            self._pool(before, task.state, -size)
            self._pool(task.owner, task.state, size)

    # -- what people ask --------------------------------------------------------------------------------------

    def check(self, tasks: Sequence[Task], *, alike: bool = False) -> list[int] | None:
        """Check that there is room for tasks of one owner that are to wait; return their sizes, as `filed` takes them.
        `alike`: they differ in command, name, log and sweep alone. Raises LimitError."""
        if not tasks:
            return None
        if len(tasks) == 1:
            self.check_count(tasks[0].owner, 1)
            size = large_size(tasks[0])
            if not size:
                return None
            self._check_size(tasks[0].owner, size)
            return [size]
        self.check_count(tasks[0].owner, len(tasks))
        sizes = large_sizes(tasks) if alike else list(map(large_size, tasks))
        self._check_size(tasks[0].owner, sum(sizes or ()))
        return sizes

    def check_count(self, owner: str, count: int) -> None:
        """Check that so many tasks more of this owner may wait. Raises LimitError."""
        waiting, limits = self._all_waiting, self._tuning.settings.limits
        if limits is not self._limits:
            self._limits = limits
            self._anybodys = self._free_for_anybody()
        if waiting + count <= self._anybodys:  # as a rule; this is asked for each submit
            return
        own, total = self._waiting.get(owner, 0), limits.waiting_tasks
        if waiting + count > total:
            raise LimitError(Message("queue_full", waiting=waiting, most=total))
        most = self._most_waiting(waiting - own)
        if own + count > most:
            raise LimitError(Message("queue_share", owner=owner, waiting=own, count=count, most=most, total=total))

    def check_growth(self, task: Task, edited: Task) -> None:
        """Check that a task that is not over may become this one. Raises LimitError."""
        self._check_size(task.owner, max(0, large_size(edited) - self._large.get(task.id, 0)))

    def _check_size(self, owner: str, more: int) -> None:
        if not more:
            return
        total = self._tuning.settings.limits.task_bytes
        if self._live_size + more > total:
            raise LimitError(Message("tasks_too_large", size=self._live_size, more=more, most=total))
        own, most = self._sizes.get(owner, 0), self._most_size(owner)
        if own + more > most:
            raise LimitError(Message("size_share", owner=owner, size=own, more=more, most=most, total=total))

    # -- looking ----------------------------------------------------------------------------------------------

    def of(self, owner: str) -> Share:
        """Return what this user's tasks take, and may take as long as others have what they have."""
        own = self._waiting.get(owner, 0)
        most = self._most_waiting(self._all_waiting - own)
        return Share(own, most, self._sizes.get(owner, 0), self._most_size(owner))

    def whole(self) -> Share:
        """Return what all tasks together take, and may take."""
        limits = self._tuning.settings.limits
        return Share(self._all_waiting, limits.waiting_tasks, self._live_size, limits.task_bytes)

    def near(self) -> dict[str, Share]:
        """Return the owners whose tasks take `NEAR` or more of what they may, by name."""
        shares = {owner: self.of(owner) for owner in sorted(self._waiting.keys() | self._sizes.keys())}
        return {
            owner: share
            for owner, share in shares.items()
            if share.waiting >= NEAR * share.most_waiting or 0 < share.size >= NEAR * share.most_size
        }

    def large_ended(self, keep: int) -> list[Task]:
        """Return the large tasks beyond the newest that come to `keep` bytes, the oldest end first."""
        surplus = self.ended_size - keep
        if surplus <= 0:
            return []
        tasks = (self._task_table.tasks[number] for number in self._large)
        found: list[Task] = []
        for task in sorted((one for one in tasks if one.state in ENDED), key=lambda one: (one.ended_at or 0.0, one.id)):
            if surplus <= 0:
                break
            surplus -= self._large[task.id]
            found.append(task)
        return found

    def discrepancies(self) -> list[str]:
        """Where what is counted differs from what there is."""
        tasks = self._task_table.tasks.values()
        waiting = dict(Counter(task.owner for task in tasks if task.state in QUEUED))
        is_so = waiting == self._waiting and sum(waiting.values()) == self._all_waiting
        found = [] if is_so else [f"{self._waiting} tasks are counted as waiting, and {waiting} do"]
        large = {task.id: size for task in tasks if (size := large_size(task))}
        if large != self._large:
            found.append("the sizes of large tasks are not what they are counted as")
        sizes: Counter[str] = Counter()
        for number, size in large.items():
            task = self._task_table.tasks[number]
            sizes["" if task.state in ENDED else f" {task.owner}"] += size
        counted = Counter({f" {owner}": size for owner, size in self._sizes.items()}) + Counter({"": self.ended_size})
        if sizes != counted or self._live_size != sum(self._sizes.values()):
            found.append("the sum of the sizes of large tasks is not what is counted")
        return found

    def _free_for_anybody(self) -> int:
        """While no more tasks wait than this, of whom ever, nobody is beyond their share."""
        return int(self._limits.user_share * self._limits.waiting_tasks)

    def _most_waiting(self, others: int) -> int:
        """How many tasks of one owner may wait, where so many of others do. A place that is free is anybody's who has
        none."""
        limits = self._tuning.settings.limits
        return max(1, int(self._part() * (limits.waiting_tasks - others)))

    def _most_size(self, owner: str) -> int:
        others = self._live_size - self._sizes.get(owner, 0)
        return max(0, int(self._part() * (self._tuning.settings.limits.task_bytes - others)))

    def _part(self) -> float:
        return self._tuning.settings.limits.user_share if self._people.is_shared else 1.0

    def _queued(self, owner: str, count: int) -> None:
        self._all_waiting += count
        waiting = self._waiting.get(owner, 0) + count
        if waiting:
            self._waiting[owner] = waiting
        else:
            del self._waiting[owner]

    def _add(self, task: Task, size: int) -> None:
        self._large[task.id] = size
        self._pool(task.owner, task.state, size)

    def _pool(self, owner: str, state: State, size: int) -> None:
        """So much more, or less, of the ended ones, or of those of this owner."""
        if state in ENDED:
            self.ended_size += size
            return
        self._live_size += size
        left = self._sizes.get(owner, 0) + size
        if left:
            self._sizes[owner] = left
        else:
            del self._sizes[owner]


def _kind(state: State) -> str:
    return "queued" if state in QUEUED else "active" if state in ACTIVE else "ended"
