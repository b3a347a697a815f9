"""The verbs about tasks: request -> core, result -> what the client sees."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import islice
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from master.core.core import Core
from master.core.people.barred import why_barred
from master.core.planning.scheduler import Wait
from master.core.tasks.gpu_use import HeldBy
from master.core.tasks.size import large_size
from master.core.tasks.task import ACTIVE, QUEUED, After, Task, TaskPage, TaskState, TaskView
from master.durable.portions import MOST_BYTES, portions
from master.verbs.access import check_owner
from master.verbs.allocation_spec import check_allocation_edit, check_holds_something
from master.verbs.base import Context
from master.verbs.edit_rights import OWNER, check_edit, check_new_owner, check_said, leaves_what_it_runs
from master.verbs.priority_rights import check_ahead, check_wish, may_put_ahead, who_may_be_passed
from master.verbs.projects import check_project
from master.verbs.spec import edited_copy
from master.views.messages import MessageView, message_view
from master.views.tasks import holders_seen, task_page
from wire.errors import BadRequestError, ConflictError, MusterError
from wire.message import Message, ids

NAMED = 100
"""So many tasks of an array are named that another one waits for; in a sentence `FEW` ranges."""
FEW, FIRST_ENDS = 4, 2
MOST_NAMES = 200

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
    (`owner`). A mentor may change `priority`, `project` and `urgent` of a member's task. `if_seq`: only while
    the task's `seq` is this one, so that no caller changes an unseen version."""

    id: TaskId
    changes: Annotated[dict[str, Any], Meta(examples=[{"priority": 5}])]
    if_seq: int | None = None


SLICE = 5000
"""Tasks that are cancelled between two chances for others: about 25 ms of them."""


class Cancel(msgspec.Struct, forbid_unknown_fields=True):
    """task.cancel: `ids`, or `all`, or all of the caller's (`mine`). `states`: of the latter two only those that are in
    one of these; `name`: of the caller's only those of this name."""

    ids: Annotated[list[TaskId], Meta(examples=[[12, 13]])] = []
    all: bool = False
    mine: bool = False
    states: list[TaskState] | None = None
    name: Annotated[str, Meta(min_length=1)] | None = None


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why a task is in the `state` in which it is. `brief`: the reason without what `details` tell, a line each; nodes
    of which the same is to be said share a line; `detail_messages`: the same lines for programs. `blocked_by`: ids of
    tasks that it waits for, of an array the first 100. `would_start`: what would let a task start that waits for room,
    each way by itself, the soonest first; `would_start_messages`: the same for programs. `warning`: what looks wrong
    with one that runs, or null. Of a task in the monthly files there is no `brief`."""

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
    would_start: list[str] | UnsetType = UNSET
    would_start_messages: list[MessageView] | UnsetType = UNSET


class Cancelled(msgspec.Struct, frozen=True):
    """The result of a cancel, by task id. `cancelled`: gone from the queue at once; `signalled`: told to end;
    `refused`, with the reason: also tasks of which no process could be signalled, which end as cancelled all the same;
    `codes`: the error's stable name; `messages`: the same for programs; `names`: the names of the first 200 that were
    ended and have one."""

    cancelled: list[int]
    signalled: list[int]
    refused: dict[int, str]
    codes: dict[int, str]
    messages: dict[int, MessageView]
    names: dict[int, str] | UnsetType = UNSET

    def refuse(self, task_id: int, error: MusterError) -> None:
        """Note that a task was not cancelled, and why."""
        self.refused[task_id] = str(error)
        self.codes[task_id] = error.code
        if error.key is not None:
            self.messages[task_id] = MessageView(error.key, error.values)


Cancelling: TypeAlias = Generator[Any, None, Cancelled]
"""Many, in slices."""


class Removed(msgspec.Struct, frozen=True):
    """`removed`: the ids of the tasks that are forgotten now; in `names` the names of the first 200 that have one."""

    removed: list[int]
    names: dict[int, str] | UnsetType = UNSET


def show(context: Context, params: OneTask) -> TaskPage:
    """Everything about one task."""
    return task_page(context.core, context.core.find(params.id), context.sight)


def why(context: Context, params: OneTask) -> Why:
    """Return what a task waits for, by name, and the obstacles, with equal nodes in one line. A caller who may not know
    more about the task gets its state."""
    core = context.core
    task = core.find(params.id)
    lines: list[Message] = []
    ways: list[Message] = []
    seen, said = context.view(task), context.sight.said
    brief = seen.reason
    is_for_room = task.state is TaskState.WAITING and not task.waits_for and task.id not in core.later
    if is_for_room and context.sight.knows(task.owner):
        wait = core.wait(task)
        brief = str(said(wait.brief))
        lines = [*map(said, wait.obstacles), *_holders(context, task), *_ends(context, task, wait)]
        lines.append(Message("ahead", count=core.queue_order.before(task)))
        known = core.would_start(task, wait, context.now, lambda one: context.sight.knows(core.tasks[one].owner))
        ways = list(map(said, known))
    elif seen.waits_for:
        lines = [_awaited(core, after) for after in seen.waits_for]
    elif task.state in ACTIVE and task.is_ending and context.sight.knows(task.owner):
        told = _being_ended(task)
        brief, lines = (brief, [told]) if seen.warning else (str(told), [])  # the warning may say why it lives
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
        blocked_by=[one.id for after in seen.waits_for for one in islice(core.dependencies.awaited(after), NAMED)],
        details=list(map(str, lines)),
        detail_messages=list(map(message_view, lines)),
        would_start=list(map(str, ways)) or UNSET,
        would_start_messages=list(map(message_view, ways)) or UNSET,
    )


def _being_ended(task: Task) -> Message:
    """Return as a message that a task is to end, and who cancelled it."""
    asked = task.asked_end
    by_whom = asked is not None and asked.why == "cancel" and asked.by
    return Message("being_cancelled", by=by_whom) if by_whom else Message("being_ended")


def _holders(context: Context, task: Task) -> list[Message]:
    """Return a message about the tasks that hold what it lacks: their owners and names."""
    count, found = holders_seen(context.core, task, context.sight)
    if not found:
        return []
    return [Message("held_by_tasks", holders=tuple(map(_holder, found)), more=count - len(found))]


def _holder(one: HeldBy) -> Message:
    if one.name:
        return Message("holder_named", id=one.id, owner=one.owner, name=one.name)
    return Message("holder", id=one.id, owner=one.owner)


def _ends(context: Context, task: Task, wait: Wait) -> list[Message]:
    """When the first of those have ended that have what it lacks; of tasks of which the caller may know more."""
    if wait.brief.key != "needs" or task.within is not None:
        return []
    core = context.core
    ends = [one for one in core.ends_of(task, context.now) if context.sight.knows(core.tasks[one[0]].owner)]
    known = [Message("expected_to_end", id=number, at=at) for number, at in ends[:FIRST_ENDS] if at is not None]
    return known or ([Message("ends_unknown", tasks=ids([number for number, _ in ends], FEW))] if ends else [])


def _awaited(core: Core, after: After) -> Message:
    """How far a predecessor is."""
    if not after.array:
        return Message("predecessor_is", id=after.id, state=core.find(after.id).state)
    awaited = [one.id for one in core.dependencies.awaited(after)]
    return Message("array_has_left", id=after.id, left=len(awaited), tasks=ids(awaited, FEW))


def cancel(context: Context, params: Cancel) -> Cancelled | Cancelling:
    """Cancel some tasks; the answer lists apart those that cannot be cancelled, with the reason."""
    if params.name is not None and (params.all or not params.mine):
        raise BadRequestError(Message("name_without_mine"))
    if not (params.all or params.mine):
        if not params.ids:
            raise BadRequestError(Message("which_tasks"))
        if params.states is not None:
            raise BadRequestError(Message("states_without_all"))
        if len(params.ids) <= SLICE and _size(context, params.ids) <= MOST_BYTES:
            done = Cancelled([], [], {}, {}, {})
            _cancel_each(context, _last_first(params.ids), done)
            return _in_order(context, done)
    return _cancelled_in_slices(context, params)


def _last_first(ids: Iterable[int]) -> list[int]:
    """Successors first: a cancelled predecessor would otherwise end them with its own reason."""
    return sorted(set(ids), reverse=True)


def _cancelled_in_slices(context: Context, params: Cancel) -> Cancelling:
    """Each of them by itself: who asks again after a crash ends those that are left."""
    done = Cancelled([], [], {}, {}, {})
    ids = _last_first((yield from _chosen(context, params)) if params.all or params.mine else params.ids)
    for part in portions(ids, SLICE, lambda number: _size(context, [number])):
        is_large = _size(context, part) >= MOST_BYTES
        _cancel_each(context, part, done)
        yield is_large  # each task is written whole: the next ones in a turn, and a record, of their own
    return _in_order(context, done)


def _size(context: Context, ids: Iterable[int]) -> int:
    """The bytes of the large ones of these tasks."""
    tasks = context.core.tasks
    return sum(large_size(task) for number in ids if (task := tasks.get(number)) is not None)


def _chosen(context: Context, params: Cancel) -> Generator[None, None, list[int]]:
    """Look for them in slices: a queue may hold a hundred thousand, and who asks again and again takes nobody's
    turn."""
    live = (QUEUED | ACTIVE) & frozenset(TaskState if params.states is None else params.states)
    caller, user, name = context.caller, None if params.all else context.user, params.name
    tasks, found = list(context.core.tasks.values()), list[int]()
    for begin in range(0, len(tasks), SLICE):
        found += [
            task.id
            for task in tasks[begin : begin + SLICE]
            if task.state in live
            and user in (None, task.owner)
            and name in (None, task.name)
            and caller.looks_after(task)
        ]
        yield
    return found


def _cancel_each(context: Context, ids: list[int], done: Cancelled) -> None:
    core, caller = context.core, context.caller_now()

    def change() -> None:
        for task_id in ids:
            try:
                check_owner(caller, "task.cancel", "group", core.find(task_id))
                if core.cancel(task_id, context.now, by=context.user):
                    done.cancelled.append(task_id)
                elif (why := core.why_not_ended(core.find(task_id))) is not None:
                    done.refuse(task_id, ConflictError(why))
                else:
                    done.signalled.append(task_id)
            except MusterError as error:
                done.refuse(task_id, error)

    context.change(change, grows=False)


def _in_order(context: Context, done: Cancelled) -> Cancelled:
    core, cancelled, signalled = context.core, done.cancelled[::-1], done.signalled[::-1]
    names = names_of(core.tasks[task_id] for task_id in (*cancelled, *signalled) if task_id in core.tasks)
    return msgspec.structs.replace(done, cancelled=cancelled, signalled=signalled, names=names)


def names_of(tasks: Iterable[Task]) -> dict[int, str] | UnsetType:
    """The names of the first of these tasks, by id; of those that have one."""
    return {task.id: task.name for task in islice(tasks, MOST_NAMES) if task.name} or UNSET


def edit(context: Context, params: Edit) -> TaskView:
    """Change a waiting task; a finished one is queued again. The owner can be changed, too; that alone queues
    nothing."""
    core, task, changes = context.core, context.core.find(params.id), dict(params.changes)
    check_edit(context, task, changes)
    if params.if_seq not in (None, task.seq):
        raise ConflictError(Message("task_changed", id=task.id))
    check_allocation_edit(context, task, changes)
    owner = check_new_owner(context, task, changes) if OWNER in changes else task.owner
    changes.pop(OWNER, None)
    said_by = "" if task.owner == context.user else task.said_by  # who asks for it again has said it, too
    edited = edited_copy(task, changes, context) if changes or not params.changes else None
    by_admin = context.caller.speaks_as_admin
    if edited is not None:
        edited.by_admin = by_admin or leaves_what_it_runs(task, changes)
        check_holds_something(edited)
        check_wish(context, edited, task)
        if edited.project != task.project or not leaves_what_it_runs(task, changes):
            check_project(context, edited)

    def change() -> Task:
        if edited is not None:
            task.said_by = said_by
            last, waits = not may_put_ahead(context, task.owner), context.caller.waits_for_nodes
            core.edit(edited, context.past, last=last, waits=waits)
        return task if owner == task.owner else core.give_to(task.id, owner, by_admin=by_admin)

    return context.view(context.change(change))


def hold(context: Context, params: OneTask) -> TaskView:
    """Keep a waiting task from starting."""
    return context.view(context.change(lambda: context.core.hold(params.id)))


def release(context: Context, params: OneTask) -> TaskView:
    """Let a held task wait again."""
    task = context.core.find(params.id)
    check_said(context, task)
    _check_may_begin(context, task)

    def change() -> Task:
        _say_too(context, task)
        return context.core.release(task.id)

    return context.view(context.change(change))


def pause(context: Context, params: OneTask) -> TaskView:
    """Have a task that runs stand still, with all that it holds."""
    core = context.core
    return context.view(context.change(lambda: core.pause(params.id, context.user, context.now), grows=False))


def resume(context: Context, params: OneTask) -> TaskView:
    """Let a paused task go on."""
    return context.view(context.change(lambda: context.core.resume_task(params.id), grows=False))


def move(context: Context, params: Move) -> TaskView:
    """Give a waiting task another place in the queue."""
    core = context.core
    passes = who_may_be_passed(context, core.find(params.id), params.position)
    return context.view(context.change(lambda: core.move(params.id, params.position, passes)))


def start(context: Context, params: OneTask) -> TaskView:
    """Start a waiting task as soon as it fits, before all others; no predecessor, hold or time keeps it, and for an
    admin no quota."""
    task = context.core.find(params.id)
    check_ahead(context, task.owner, Message("start_said"))
    check_said(context, task)
    _check_may_begin(context, task)
    over_quota = context.caller.owns_all

    def change() -> Task:
        _say_too(context, task)
        return context.core.force(task.id, over_quota=over_quota)

    return context.view(context.change(change))


def _say_too(context: Context, task: Task) -> None:
    """An owner who lets a task begin has said, too, what it does."""
    if task.owner == context.user:
        task.said_by = ""


def _check_may_begin(context: Context, task: Task) -> None:
    """Raises ConflictError for a task of which the owner is disabled or has expired: it would be held at once; and
    ForbiddenError where they do not belong any more to the group of its project."""
    check_project(context, task)
    owner = context.core.people.named(task.owner)
    why = None if owner is None else why_barred(owner, context.core.people.clock.rights(context.now))
    if why is not None:
        raise ConflictError(why)


def retry(context: Context, params: OneTask) -> TaskView:
    """Queue an ended task again."""
    task = context.core.find(params.id)
    check_said(context, task)
    check_wish(context, task, task)
    _check_may_begin(context, task)

    def change() -> Task:
        _say_too(context, task)
        last, caller = not may_put_ahead(context, task.owner), context.caller
        by_admin, waits = caller.speaks_as_admin, caller.waits_for_nodes
        return context.core.retry(task.id, last=last, by_admin=by_admin, waits=waits)

    return context.view(context.change(change))


def remove(context: Context, params: Remove) -> Removed:
    """Forget a task, and with `successors` all that wait for it."""
    if params.successors and not context.caller.owns_all:
        for successor in context.core.dependencies.chain(params.id)[1:]:
            check_owner(context.caller, "task.remove", "own", context.core.find(successor))
    core = context.core
    task = core.find(params.id)
    known = core.dependencies.chain(task.id) if params.successors else [task.id]
    names = names_of(map(core.find, known))
    removed = context.change(lambda: core.remove(params.id, context.now, successors=params.successors))
    return Removed(removed, names)
