"""The table of tasks: which there are, and the only place where the state of one changes.

Pure. It decides nothing: callers check the transition table first. It tells each change, as `Moved`, to the listeners,
in the order in which they were named; each knows by itself what that means to it, and this module knows none of them. A
listener may move other tasks in turn, if it is the last: those before it have then heard all there was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from master.core.outcome import Pending
from master.core.tasks.nothing import NO_LIST
from master.core.tasks.task import ACTIVE, ENDED, QUEUED, Task, TaskState, give_reason
from master.core.tasks.transitions import TRANSITIONS, Event, State, check
from wire.errors import NotFoundError
from wire.message import Message


class Listener(Protocol):
    """A part that is notified of changes of tasks, or of some: `concerns` is asked once for each pair of states."""

    def concerns(self, before: State, after: State) -> bool:
        """Is it to be told of moves from this state to that one?"""

    def moved(self, task: Task, before: State, after: State, /) -> None:
        """It has happened to this task: it came (`before` is None), went (`after` is None), changed its state, or (both
        alike) something else of it. The task still has the resources that it held before."""


@runtime_checkable
class BulkListener(Protocol):
    """A listener that is told of many new tasks at once, which differ in command, name, log and place in an array
    alone: what it would find out of each it finds out of the first."""

    def filed(self, tasks: Sequence[Task], /) -> None:
        """They came."""


Moved: TypeAlias = Callable[[Task, State, State], None]


ANYWHERE: tuple[State, ...] = (None, *TaskState)


class IllegalTransitionError(Exception):
    """A defect of ours: some code tried to move a task in a way that the transition table does not allow."""


class _Told(dict[State, tuple[Moved, ...]]):
    """The listeners that are notified of moves from one state, by the state that follows. An entry is filled in at the
    first such move: most moves never happen, and a start of the master would otherwise ask one question for each pair
    of states and each listener."""

    def __init__(self, before: State, listeners: Sequence[Listener]) -> None:
        super().__init__()
        self._before = before
        self._listeners = listeners

    def __missing__(self, after: State) -> tuple[Moved, ...]:
        told = tuple(one.moved for one in self._listeners if one.concerns(self._before, after))
        self[after] = told
        return told


class TaskTable:
    """The tasks by id, how many there are in each state, and the next id."""

    def __init__(self, pending: Pending) -> None:
        self.tasks: dict[int, Task] = {}
        self.counts: Counter[TaskState] = Counter()
        self.next_id = 1
        self._pending = pending
        self._listeners: list[Listener] = []
        self._told = {before: _Told(before, self._listeners) for before in ANYWHERE}

    def listen(self, listener: Listener) -> None:
        """From now on this one is told, too, behind those that were named before."""
        self._listeners.append(listener)
        for told in self._told.values():
            told.clear()

    def load(self, tasks: Mapping[int, Task], next_id: int) -> None:
        """Take over what was written down. Of those that have ended nobody is told: there is nothing to do for them."""
        self.tasks.update(tasks)
        self.next_id = next_id
        self.counts.update(task.state for task in tasks.values())
        told = self._told[None]
        for task in tasks.values():
            state = task.state
            if state not in ENDED:
                for moved in told[state]:
                    moved(task, None, state)

    # -- looking ----------------------------------------------------------------------------------------------

    def find(self, task_id: int) -> Task:
        """The task, or NotFoundError."""
        task = self.tasks.get(task_id)
        if task is None:
            raise NotFoundError(Message("no_task", id=task_id))
        return task

    def admit(self, event: Event, task_id: int) -> Task:
        """The task, if this may happen to it. Raises NotFoundError, or ConflictError with the reason."""
        task = self.find(task_id)
        check(event, task_id, task.state)
        return task

    def oldest_ended(self, keep: int) -> list[Task]:
        """The ended tasks beyond the `keep` newest, oldest first."""
        surplus = sum(self.counts[state] for state in ENDED) - keep
        if surplus <= 0:
            return []
        ended = (task for task in self.tasks.values() if task.state in ENDED)
        return sorted(ended, key=lambda task: (task.ended_at or 0.0, task.id))[:surplus]

    # -- writing ----------------------------------------------------------------------------------------------

    def file(self, tasks: Sequence[Task], now: float, *, alike: bool = False) -> None:
        """New tasks, thousands at a time; they get their ids here. `alike`: as `BulkListener` says."""
        task_table, changed, moves, seq = self.tasks, self._pending.tasks, self._pending.moves, self._pending.seq
        counts, told = self.counts, self._told[None]
        for number, task in enumerate(tasks, self.next_id):
            state = task.state
            task.id = number
            task.submitted_at = now
            task.seq = seq
            task_table[number] = changed[number] = task
            moves.append((task, None, state))
            counts[state] += 1
            if not alike:
                for moved in told[state]:
                    moved(task, None, state)
        self.next_id += len(tasks)
        if alike:
            self._tell_filed(tasks)

    def _tell_filed(self, tasks: Sequence[Task]) -> None:
        state = tasks[0].state
        for listener in self._listeners:
            if not listener.concerns(None, state):
                continue
            if isinstance(listener, BulkListener):
                listener.filed(tasks)
            else:
                for task in tasks:
                    listener.moved(task, None, state)

    def take_back(self, task: Task) -> None:
        """A task that was removed is there again."""
        self.tasks[task.id] = task
        self._pending.moved(task, None)
        self.counts[task.state] += 1
        self._tell(task, None, task.state)

    def enter(self, task: Task) -> None:
        """One that runs already is a task from now on; it gets an id here if it has none."""
        if not task.id:
            task.id = self.next_id
            self.next_id += 1
        self.take_back(task)

    def changed(self, task: Task) -> None:
        """Something of it changed besides its state."""
        self._pending.changed(task)
        self._tell(task, task.state, task.state)

    def move(self, task: Task, to: TaskState) -> None:
        """Change its state, or raise IllegalTransitionError."""
        before = self._set(task, to)
        for moved in self._told[before][to]:
            moved(task, before, to)

    def end(self, task: Task, state: TaskState, now: float, reason: Message | None) -> None:
        """It has ended, at `now`. `reason`: what there is to say of it beyond the state."""
        before = self._set(task, state)
        task.ended_at = now
        give_reason(task, reason)
        for moved in self._told[before][state]:
            moved(task, before, state)

    def queue_again(self, task: Task) -> None:
        """One that has ended waits again; its last attempt is one of the earlier ones from now on, and it may be tried
        again as often as at first."""
        before = self._set(task, TaskState.WAITING)
        task.close_attempt()
        task.forced = False
        task.unstarted = NO_LIST
        task.retries = task.resizes = 0
        task.ran_s = 0.0
        task.not_before, task.eligible_at = task.begin_at, None
        self._tell(task, before, TaskState.WAITING)

    def attempt_again(self, task: Task, at: float, reason: Message | None) -> None:
        """Its attempt ended at `at`, for this reason, and it waits for another one. The listeners first give back the
        resources that it held."""
        self.move(task, TaskState.WAITING)
        task.ended_at = at
        give_reason(task, reason)
        task.close_attempt()

    def remove(self, task: Task) -> None:
        """It is no more."""
        del self.tasks[task.id]
        self.counts[task.state] -= 1
        self._pending.gone(task)
        self._tell(task, task.state, None)

    def _set(self, task: Task, to: TaskState) -> TaskState:
        before = task.state
        if to not in TRANSITIONS[before]:
            raise IllegalTransitionError(f"task {task.id}: {before} -> {to}")
        task.state = to
        if before is TaskState.HELD:
            give_reason(task, None)  # why it was held says nothing of what comes now
        self.counts[before] -= 1
        self.counts[to] += 1
        self._pending.moved(task, before)
        return before

    def _tell(self, task: Task, before: State, after: State) -> None:
        for moved in self._told[before][after]:
            moved(task, before, after)

    # -- checking ---------------------------------------------------------------------------------------------

    def discrepancies(self) -> list[str]:
        """Where the counts, or what is kept of a task, differ from what the states say."""
        counted = Counter(task.state for task in self.tasks.values())
        found = [
            f"{self.counts[state]} tasks are counted as {state}, and {counted[state]} are"
            for state in TaskState
            if self.counts[state] != counted[state]
        ]
        for number, task in self.tasks.items():
            if task.id != number:
                found.append(f"task {task.id} is kept as task {number}")
            if task.state in QUEUED and task.allocation:
                found.append(f"task {number} is {task.state} and has an attempt")
            if task.state in ACTIVE and not task.allocation:
                found.append(f"task {number} is {task.state} and holds nothing anywhere")
        return found
