"""The changes that have not been taken yet: one Change for the journal, and the effects that may happen once that is
durable.

Pure. Every part of the core tells it here, and nothing of it is told anywhere else; whether the planner should look
again stands here, too, since every part may have made room, or a wish.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from master.core.effects import Effect
from master.core.tasks.records import Change, NotedMove
from master.core.tasks.task import Task
from master.core.tasks.transitions import State

Move: TypeAlias = tuple[Task, State, State]
"""A task, its state before and its state after. Before is None for a new task, after is None for a removed one; both
are the same if something else of the task changed. The task itself is as it is now, not as it was between two moves."""


class Outcome(msgspec.Struct):
    """The results of one event, or of several. `moves`: in the order in which they happened; `nodes`: of which
    something changed, by name."""

    change: Change
    effects: list[Effect]
    nodes: set[str]
    moves: list[Move]

    def noted_moves(self) -> list[NotedMove]:
        """Return the moves as the journal notes them."""
        return [NotedMove(task.id, before, after) for task, before, after in self.moves if before is not after]


MANY = 1000
"""More tasks than this are written, and planned for, each in a turn of the loop of its own."""


class Pending:
    """Collects until somebody takes it. `tasks`: those that came or changed, by id; what is written of each is how it
    is when the outcome is taken. `moves`: see `Move`. `seq`: the number of the journal's record that will hold them.
    `touched`: how often a task that was there changed or went; who looks at many in turn sees whether they are as they
    were. `plan_needed`: something changed since the last plan that may matter to it; `to_look_at`: the nodes of which
    something did, `sampled`: those of which nothing did but what samples tell of their GPUs."""

    def __init__(self) -> None:
        self.plan_needed = False
        self.tasks: dict[int, Task] = {}
        self.seq = 0
        self.touched = 0
        self.moves: list[Move] = []
        self.to_look_at: set[str] = set()
        self.sampled: set[str] = set()
        self._gone: list[int] = []
        self._pieces: dict[str, msgspec.Raw] = {}
        self._answers: dict[str, msgspec.Raw] = {}
        self._effects: list[Effect] = []
        self._nodes: set[str] = set()

    def number(self, seq: int) -> None:
        """Changes from now on will be in the journal's record of this number."""
        self.seq = seq

    def moved(self, task: Task, before: State) -> None:
        """This task came (`before` is None), or has another state than before."""
        self.moves.append((task, before, task.state))
        self._touch(task)

    def changed(self, task: Task) -> None:
        """Something of this task changed besides its state."""
        if task.id not in self.tasks:  # else a move tells of it that is not published yet
            self.moves.append((task, task.state, task.state))
        self._touch(task)

    def seen_anew(self, task: Task) -> None:
        """People see something else of this task, and what is written down of it is as it was."""
        self.moves.append((task, task.state, task.state))

    def _touch(self, task: Task) -> None:
        task.seq = self.seq
        self.tasks[task.id] = task
        self.touched += 1

    def gone(self, task: Task) -> None:
        """This task is no more."""
        self.moves.append((task, task.state, None))
        self.tasks.pop(task.id, None)
        self._gone.append(task.id)
        self.touched += 1

    def piece(self, name: str, value: msgspec.Raw) -> None:
        """A piece of state that is not a task, whole."""
        self._pieces[name] = value

    def answer(self, request_id: str, result: msgspec.Raw) -> None:
        """Note the result of a request."""
        self._answers[request_id] = result

    def effect(self, effect: Effect) -> None:
        """Something to be done once all this is durable."""
        self._effects.append(effect)

    def node(self, name: str) -> None:
        """Something of a node changed that people see."""
        self._nodes.add(name)
        self.to_look_at.add(name)

    def shown(self, name: str) -> None:
        """People see something else of a node, and to the planner it is as it was."""
        self._nodes.add(name)

    def node_for_plan(self, name: str) -> None:
        """Something of a node changed that people see, and the planner might do otherwise for it."""
        self.node(name)
        self.plan_needed = True

    def has_outcome(self) -> bool:
        """Has something happened that nobody has taken yet?"""
        return bool(
            self.tasks or self.moves or self._effects or self._nodes or self._answers or self._gone or self._pieces
        )

    @property
    def has_many(self) -> bool:
        """Have so many tasks come or changed that to write them takes a while?"""
        return len(self.tasks) > MANY

    def take(self) -> Outcome | None:
        """All of it, or None if there is nothing; from then on it begins anew."""
        if not self.has_outcome():
            return None
        gone = self._gone
        if gone and self.tasks:
            gone = [task_id for task_id in gone if task_id not in self.tasks]  # others were taken back since
        change = Change(list(self.tasks.values()), gone, self._pieces, self._answers)
        outcome = Outcome(change, self._effects, self._nodes, self.moves)
        self.tasks, self._gone, self._pieces, self._answers = {}, [], {}, {}
        self._effects, self._nodes, self.moves = [], set(), []
        return outcome
