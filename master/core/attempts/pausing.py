"""Tasks that stand still for a while, with all that they hold: who wants that, and what their nodes say of it. Pure.

That somebody wants it is a wish, `Task.pause_asked`, which is kept; that a task is paused is the agents' word alone, of
every part of its attempt. The wish is told anew to an agent that says a part of it runs: after a reconnect, and of one
that had not begun. So is the other one, that it may go on, `Task.to_resume`, until an agent answers that the part runs:
when it was asked the node may have been away, or the master not have heard yet that it stood, or its agent have died
when it had let go on only some of it. Requests of a user who asks again and again do not pile up at a node: until its
agent has answered that a part runs, it is neither asked that again nor asked to stop it. A gang stands as a whole:
where somebody lets one part go on by hand, the others go on, too.
"""

from __future__ import annotations

from master.core.attempts.dispatch import Dispatch
from master.core.effects import Pause, Resume
from master.core.nodes.accounts import OWN
from master.core.nodes.nodes import Nodes
from master.core.outcome import Pending
from master.core.tasks.attempt import Part, sent_as
from master.core.tasks.nothing import NO_LIST
from master.core.tasks.task import ACTIVE, PauseAsked, Task, TaskState, give_reason
from master.core.tasks.task_table import TaskTable
from master.core.tasks.transitions import Event, State, allows
from wire.agent import PAUSES
from wire.errors import ConflictError
from wire.message import Message


class Pausing:
    """Which parts stand, by launch id, as their agents said last; and which were let go on and not heard to run since:
    an agent answers that in any case."""

    def __init__(self, task_table: TaskTable, nodes: Nodes, dispatch: Dispatch, pending: Pending) -> None:
        self._task_table = task_table
        self._nodes = nodes
        self._dispatch = dispatch
        self._pending = pending
        self._stand: set[str] = set()
        self._unanswered: set[str] = set()

    def concerns(self, before: State, after: State) -> bool:
        """Tell whether a task was paused when it was written down, or an attempt is over."""
        return (before is None and after is TaskState.PAUSED) or (before in ACTIVE and after not in ACTIVE)

    def moved(self, task: Task, before: State, _after: State) -> None:
        """Note an attempt that was paused when it was written down; forget the pause of one that is over, and the
        request for it."""
        launch_ids = {part.launch_id for part in task.allocation}
        if before is None:
            self._stand |= launch_ids
        else:
            self._stand -= launch_ids
            self._unanswered -= launch_ids
            task.pause_asked = None
            task.to_resume = NO_LIST

    # -- what people ask --------------------------------------------------------------------------------------

    def pause(self, task_id: int, by: str, now: float) -> Task:
        """Somebody wants it to stand still: tell its nodes, which will say when it does. Raises ConflictError."""
        task = self._task_table.admit(Event.PAUSE, task_id)
        if task.is_allocation:
            raise ConflictError(Message("allocation_runs_nothing", id=task_id))
        if task.asked_end is not None:
            raise ConflictError(Message("is_being_ended", id=task_id))
        for part in task.allocation:
            self._check_agent(part.node)
        if task.pause_asked is not None:
            return task
        task.pause_asked = PauseAsked(by, now)
        self._give_reason(task)
        self._task_table.changed(task)
        for part in task.allocation:
            stands = part.launch_id in self._stand and part.launch_id not in task.to_resume
            if not stands and part.launch_id not in self._unanswered:
                self._pending.effect(Pause(part.node, part.launch_id, part.login))
        return task

    def resume(self, task_id: int) -> Task:
        """It may go on: tell its nodes. Raises ConflictError."""
        task = self._task_table.admit(Event.RESUME, task_id)
        if task.is_allocation:
            raise ConflictError(Message("allocation_runs_nothing", id=task_id))
        if task.pause_asked is not None or task.state is TaskState.PAUSED:
            task.pause_asked = None
            task.to_resume = [part.launch_id for part in task.allocation if not part.is_free]
            if task.state is not TaskState.PAUSED:
                give_reason(task, None)
            self._task_table.changed(task)
            self._let_go(task)
        return task

    # -- what agents tell -------------------------------------------------------------------------------------

    def told(self, node: str, launch_id: str, *, stands: bool, found: bool = False, login: str = OWN) -> None:
        """A part of an attempt runs, or `stands` still. `found`: as an agent found it when it came, or we did, which is
        no answer to what we asked."""
        task = self._dispatch.find(node, launch_id, login)
        part = None if task is None else sent_as(task.allocation, launch_id)
        if task is None or part is None:
            return
        answers = launch_id in self._unanswered and not (stands or found)
        if found or answers:
            self._unanswered.discard(launch_id)
        was_to_go_on = launch_id in task.to_resume
        if was_to_go_on and (task.pause_asked is not None if stands else not found):
            task.to_resume = [one for one in task.to_resume if one != launch_id] or NO_LIST
            self._task_table.changed(task)
        if task.pause_asked is None:
            self._told_while_it_may_run(task, part, stands=stands, ask=was_to_go_on and (stands or found))
        elif stands:
            self._stands(task, part)
        elif launch_id not in self._stand:
            self._stop(task, part)
        elif was_to_go_on or answers:  # it was let go on before it was to stand again
            self._goes_on(task, part, task.pause_asked)
            self._stop(task, part)
        else:
            self._goes_on(task, part, None)

    def _told_while_it_may_run(self, task: Task, part: Part, *, stands: bool, ask: bool) -> None:
        """`ask`: it is to go on, and may have heard nothing of that; or its agent died when it had let go on but some
        of it, which shows as a part that runs."""
        if stands and ask:
            self._stand.add(part.launch_id)
        elif stands:
            self._stands(task, part)
        elif part.launch_id in self._stand:
            self._goes_on(task, part, None)
        if ask:
            self._ask_to_go_on(part)

    def _stop(self, task: Task, part: Part) -> None:
        if task.asked_end is None and allows(Event.STOPPED, task.state):
            self._pending.effect(Pause(part.node, part.launch_id, part.login))

    def _stands(self, task: Task, part: Part) -> None:
        self._stand.add(part.launch_id)
        if allows(Event.STOPPED, task.state) and all(
            one.launch_id in self._stand or one.is_free for one in task.allocation
        ):
            self._task_table.move(task, TaskState.PAUSED)
            self._give_reason(task)

    def _goes_on(self, task: Task, part: Part, wish: PauseAsked | None) -> None:
        """`wish`: that it stands, where that is wanted all the same; else whoever let it go on has taken it back."""
        self._stand.discard(part.launch_id)
        if not allows(Event.CONTINUED, task.state):
            return
        by_hand = wish is None and task.pause_asked is not None and task.asked_end is None
        task.pause_asked = wish
        self._task_table.move(task, TaskState.RUNNING)
        if wish is not None:
            self._give_reason(task)
        else:
            give_reason(task, Message("continued_by_hand", id=task.id, node=part.node) if by_hand else None)
        if by_hand:
            self._let_go(task)

    def _let_go(self, task: Task) -> None:
        for part in task.allocation:
            self._ask_to_go_on(part)

    def _ask_to_go_on(self, part: Part) -> None:
        if part.launch_id not in self._unanswered:
            self._unanswered.add(part.launch_id)
            self._pending.effect(Resume(part.node, part.launch_id, part.login))

    def _give_reason(self, task: Task) -> None:
        asked, names = task.pause_asked, tuple(part.node for part in task.allocation)
        if asked is None:
            give_reason(task, Message("stands_still", id=task.id, nodes=names))
        elif task.state is TaskState.PAUSED:
            give_reason(task, Message("paused", id=task.id, by=asked.by))
        else:
            give_reason(task, Message("to_be_paused", by=asked.by, nodes=names))

    def _check_agent(self, name: str) -> None:
        node = self._nodes.get(name)
        facts = None if node is None else node.facts
        if facts is not None and facts.protocol < PAUSES:
            raise ConflictError(Message("agent_cannot_pause", node=name))
