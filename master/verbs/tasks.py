"""The verbs about tasks: request -> core, result -> what the client sees."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from master.core.request import demand_of
from master.core.scheduler import explain
from master.core.task import ACTIVE, QUEUED, Task, TaskPage, TaskState, TaskView
from master.verbs.access import check_owner
from master.verbs.base import Context
from master.verbs.edit_rights import OWNER, check_edit, check_new_owner
from master.verbs.spec import edited_copy
from master.verbs.whose_turn import check_ahead, check_wish, who_may_be_passed
from master.views.messages import MessageView, message_view
from master.views.tasks import task_page
from wire.errors import BadRequestError, MusterError
from wire.message import Message

TaskId = Annotated[int, Meta(ge=1, examples=[12])]


class OneTask(msgspec.Struct, forbid_unknown_fields=True):
    """A task by its id."""

    id: TaskId


class Remove(OneTask, forbid_unknown_fields=True):
    """task.remove: `successors`: those that wait for it, too."""

    successors: bool = False


class Move(OneTask, forbid_unknown_fields=True):
    """task.move: `position` 1 is the next one."""

    position: Annotated[int, Meta(ge=1)]


class Edit(msgspec.Struct, forbid_unknown_fields=True):
    """task.edit: `changes` are fields of a submit with their new values; admins may also say whose the task is
    (`owner`). Of a task that is not his a mentor may change `priority`, `project` and `urgent`."""

    id: TaskId
    changes: Annotated[dict[str, Any], Meta(examples=[{"priority": 5}])]


class Cancel(msgspec.Struct, forbid_unknown_fields=True):
    """task.cancel: `ids`, or `all`, or all of the caller's (`mine`). `states`: of the latter two only those that are in
    one of these."""

    ids: Annotated[list[TaskId], Meta(examples=[[12, 13]])] = []
    all: bool = False
    mine: bool = False
    states: list[TaskState] | None = None


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why a task is in the `state` in which it is. `brief`: the reason without what `details` tell, a line each; nodes
    of which the same is to be said share a line; `detail_messages`: the same lines for programs. `blocked_by`: ids of
    tasks that it waits for. `warning`: what looks wrong with one that runs, or null. Of a task in the monthly files
    there is no `brief`."""

    id: int
    state: TaskState
    reason: str | None
    reason_key: str | None
    reason_args: dict[str, Any] | None
    brief: str | UnsetType | None = UNSET
    warning: str | None
    warning_key: str | None
    warning_args: dict[str, Any] | None
    blocked_by: list[int]
    details: list[str]
    detail_messages: list[MessageView]


class Cancelled(msgspec.Struct, frozen=True):
    """What became of tasks, by id: `cancelled`, gone from the queue at once; `signalled`, told to end; `refused`, with
    why; in `codes` the error's stable name, in `messages` the same for programs."""

    cancelled: list[int]
    signalled: list[int]
    refused: dict[int, str]
    codes: dict[int, str]
    messages: dict[int, MessageView]

    def refuse(self, task_id: int, error: MusterError) -> None:
        """Note that a task was not cancelled, and why."""
        self.refused[task_id] = str(error)
        self.codes[task_id] = error.code
        if error.key is not None:
            self.messages[task_id] = MessageView(error.key, error.values)


class Removed(msgspec.Struct, frozen=True):
    """`removed`: the ids of the tasks that are forgotten now."""

    removed: list[int]


def show(context: Context, params: OneTask) -> TaskPage:
    """Everything about one task."""
    return task_page(context.core, context.core.find(params.id), context.sight)


def why(context: Context, params: OneTask) -> Why:
    """What a task waits for, by name, and what stands in the way, nodes alike told together. Of a task of which the
    caller may not know more, its state."""
    core = context.core
    task = core.find(params.id)
    lines: list[Message] = []
    seen, said = context.view(task), context.sight.said
    brief = seen.reason
    if task.state is TaskState.WAITING and context.sight.knows(task.owner) and not task.waits_for:
        wait = explain(demand_of(task), core.inventory)
        brief = str(said(wait.brief))
        lines = [*map(said, wait.obstacles), Message("ahead", count=core.standing.before(task))]
    elif seen.waits_for:
        lines = [Message("predecessor_is", id=after.id, state=core.find(after.id).state) for after in seen.waits_for]
    return Why(
        id=task.id,
        state=task.state,
        reason=seen.reason,
        reason_key=seen.reason_key,
        reason_args=seen.reason_args,
        brief=brief,
        warning=seen.warning,
        warning_key=seen.warning_key,
        warning_args=seen.warning_args,
        blocked_by=[after.id for after in seen.waits_for],
        details=list(map(str, lines)),
        detail_messages=list(map(message_view, lines)),
    )


def cancel(context: Context, params: Cancel) -> Cancelled:
    """Cancel some tasks; those that cannot be are told apart, with the reason."""
    core = context.core
    live = (QUEUED | ACTIVE) & frozenset(TaskState if params.states is None else params.states)
    ids = params.ids
    if params.all or params.mine:
        ids = [
            t.id
            for t in core.tasks.values()
            if t.state in live and (params.all or t.owner == context.user) and context.caller.looks_after(t)
        ]
    elif not ids:
        raise BadRequestError(Message("which_tasks"))
    elif params.states is not None:
        raise BadRequestError(Message("states_without_all"))
    done = Cancelled([], [], {}, {}, {})

    def change() -> None:
        # Successors first: a cancelled predecessor would otherwise end them with its own reason.
        for task_id in sorted(set(ids), reverse=True):
            try:
                check_owner(context.caller, "task.cancel", "group", core.find(task_id))
                (done.cancelled if core.cancel(task_id, context.now, by=context.user) else done.signalled).append(
                    task_id
                )
            except MusterError as error:
                done.refuse(task_id, error)

    context.change(change, grows=False)
    return msgspec.structs.replace(done, cancelled=done.cancelled[::-1], signalled=done.signalled[::-1])


def edit(context: Context, params: Edit) -> TaskView:
    """Change a waiting task; an ended one queues again. Whose it is, too: that alone queues nothing."""
    core, task, changes = context.core, context.core.find(params.id), dict(params.changes)
    check_edit(context, task, changes)
    owner = check_new_owner(context, task, changes) if OWNER in changes else task.owner
    changes.pop(OWNER, None)
    edited = edited_copy(task, changes, context) if changes or not params.changes else None
    if edited is not None:
        check_wish(context, edited, task)

    def change() -> Task:
        if edited is not None:
            core.edit(edited, context.past)
        return task if owner == task.owner else core.give_to(task.id, owner)

    return context.view(context.change(change))


def hold(context: Context, params: OneTask) -> TaskView:
    """Keep a waiting task from starting."""
    return context.view(context.change(lambda: context.core.hold(params.id)))


def release(context: Context, params: OneTask) -> TaskView:
    """Let a held task wait again."""
    return context.view(context.change(lambda: context.core.release(params.id)))


def move(context: Context, params: Move) -> TaskView:
    """Give a waiting task another place in the queue."""
    core = context.core
    passes = who_may_be_passed(context, core.find(params.id), params.position)
    return context.view(context.change(lambda: core.move(params.id, params.position, passes)))


def start(context: Context, params: OneTask) -> TaskView:
    """Start a waiting task as soon as it fits, before all others."""
    check_ahead(context, context.core.find(params.id).owner, Message("start_said"))
    return context.view(context.change(lambda: context.core.force(params.id)))


def retry(context: Context, params: OneTask) -> TaskView:
    """Queue an ended task again."""
    task = context.core.find(params.id)
    check_wish(context, task, task)
    return context.view(context.change(lambda: context.core.retry(params.id)))


def remove(context: Context, params: Remove) -> Removed:
    """Forget a task, and with `successors` all that wait for it."""
    if params.successors and not context.caller.owns_all:
        for task in _successors(context, params.id):
            check_owner(context.caller, "task.remove", "own", task)
    removed = context.change(lambda: context.core.remove(params.id, context.now, successors=params.successors))
    return Removed(removed)


def _successors(context: Context, task_id: int) -> list[Task]:
    """All that wait for a task, directly or not."""
    waiting: dict[int, list[Task]] = {}
    for task in context.core.queue():
        for after in task.waits_for:
            waiting.setdefault(after.id, []).append(task)
    found: dict[int, Task] = {}
    ahead = [task_id]
    for one in ahead:
        fresh = {task.id: task for task in waiting.get(one, ()) if task.id not in found}
        found.update(fresh)
        ahead += fresh
    return list(found.values())
