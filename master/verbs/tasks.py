"""The verbs about tasks: request -> core, result -> what the client sees."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from master.core.backlog import order_of
from master.core.inventory import Request, request_of
from master.core.scheduler import Room, details
from master.core.task import ACTIVE, ENDED, QUEUED, Task, TaskState, TaskView
from master.verbs.base import Context
from master.verbs.spec import Spec, check_command, draft_of, edited_copy, log_path_of
from wire.errors import BadRequestError, MusterError

TaskId = Annotated[int, Meta(ge=1)]


class Submit(Spec, kw_only=True):
    """task.submit: a Spec with its command."""

    command: list[str] | str
    request_id: str | None = None
    dry_run: bool = False


class SubmitBatch(Spec, kw_only=True):
    """task.submit_batch: one task per command line, all else alike."""

    commands: list[str]
    request_id: str | None = None


class OneTask(msgspec.Struct, forbid_unknown_fields=True):
    """A task by its id."""

    id: TaskId


class Remove(OneTask, forbid_unknown_fields=True):
    """task.remove."""

    successors: bool = False


class Move(OneTask, forbid_unknown_fields=True):
    """task.move: 1 is the next one."""

    position: Annotated[int, Meta(ge=1)]


class Edit(msgspec.Struct, forbid_unknown_fields=True):
    """task.edit: some fields of a Spec, with their new values."""

    id: TaskId
    changes: dict[str, Any]


class Cancel(msgspec.Struct, forbid_unknown_fields=True):
    """task.cancel: ids, or all, or all of the caller's."""

    ids: list[TaskId] = []
    all: bool = False
    mine: bool = False


class ListTasks(msgspec.Struct, forbid_unknown_fields=True):
    """task.list: which, and which part of them. `sparse`: leave out of each task what is as in `defaults`, and tell
    the reasons of waiting tasks once for all who share one; a long list is a third as long then, and as dear."""

    states: list[TaskState] | None = None
    active: bool = True
    ended: bool = False
    ids: list[TaskId] | None = None
    user: str | None = None
    search: str | None = None
    limit: Annotated[int, Meta(ge=0)] | None = None
    offset: Annotated[int, Meta(ge=0)] = 0
    sparse: bool = False


_DEFAULTS = {
    name: value
    for name, value in msgspec.to_builtins(TaskView(id=0, command="")).items()
    if name not in ("id", "command")
}


def view(context: Context, task: Task) -> TaskView:
    """The task as clients see it, with the reason worked out."""
    seen = msgspec.convert(task, TaskView, from_attributes=True)
    seen.reason = context.core.reason(task)
    seen.warning = context.core.warning(task)
    return seen


def submit(context: Context, params: Submit) -> Any:
    """File one task; the answer leaves once it is durable."""
    if params.request_id is not None and params.request_id in context.core.answered:
        context.engine.check_durable()
        return context.core.answered[params.request_id]
    draft = draft_of(params, params.command, context)
    if params.dry_run:
        return preview(context, draft)

    def change() -> dict[str, int]:
        core = context.core
        draft.log_path = log_path_of(params.log, core.next_id, context)
        result = {"id": core.submit([draft], context.now)[0].id}
        if params.request_id is not None:
            core.remember_answer(params.request_id, msgspec.Raw(msgspec.json.encode(result)))
        return result

    return context.engine.client_change(change)


def submit_batch(context: Context, params: SubmitBatch) -> Any:
    """File one task per command, with consecutive ids: all or none."""
    if params.request_id is not None and params.request_id in context.core.answered:
        context.engine.check_durable()
        return context.core.answered[params.request_id]
    if not params.commands:
        raise BadRequestError("the batch holds no command")
    if params.log is not None:
        raise BadRequestError("the tasks of a batch cannot share one log file: leave `log` out")
    for command in params.commands:
        check_command(command, params.setup)
    draft = draft_of(params, params.commands[0], context)
    folder = context.master.log_folder

    def change() -> dict[str, int]:
        core = context.core
        tasks = core.submit_many(draft, params.commands, lambda number: f"{folder}/{number}.log", context.now)
        result = {"first": tasks[0].id, "count": len(tasks)}
        if params.request_id is not None:
            core.remember_answer(params.request_id, msgspec.Raw(msgspec.json.encode(result)))
        return result

    return context.engine.client_change(change)


def preview(context: Context, draft: Task) -> dict[str, Any]:
    """Where the task would go if it were submitted now, or why it would wait."""
    never = context.core.inventory.why_never(request_of(draft))
    if never is not None:
        return {"placement": None, "reason": f"can never start: {never}"}
    allocation = Room(context.core.inventory).place(request_of(draft))
    if allocation is not None and not any(context.core.find(after.id).state not in ENDED for after in draft.after):
        return {"placement": allocation, "reason": None}
    draft.waits_for = [after for after in draft.after if context.core.find(after.id).state not in ENDED]
    return {"placement": None, "reason": context.core.reason(draft)}


def list_tasks(context: Context, params: ListTasks) -> dict[str, Any]:
    """Running ones first, then the queue in its order, then the ended ones, newest first."""
    states = frozenset(params.states) if params.states is not None else _states(params)
    tasks = [task for task in _in_order(context, params, states) if task.state in states]
    if params.user is not None:
        tasks = [task for task in tasks if task.owner == params.user]
    if params.search:
        needle = params.search.casefold()
        tasks = [task for task in tasks if needle in _text(task)]
    total = len(tasks)
    tasks = tasks[params.offset : None if params.limit is None else params.offset + params.limit]
    if params.sparse:
        return {"tasks": tasks, **_apart(context, tasks), "total": total}
    return {"tasks": _views(context, tasks), "total": total}


def _in_order(context: Context, params: ListTasks, states: frozenset[TaskState]) -> list[Task]:
    core = context.core
    if params.ids is not None:
        return sorted((core.find(task_id) for task_id in set(params.ids)), key=_place)
    tasks = core.active() + core.queue()
    if states & ENDED:
        tasks += sorted((task for task in core.tasks.values() if task.state in ENDED), key=_place)
    return tasks


def _views(context: Context, tasks: list[Task]) -> list[TaskView]:
    views = msgspec.convert(tasks, list[TaskView], from_attributes=True)
    told = {task_id: reason for reason, ids in _reasons(context, tasks).items() for task_id in ids}
    warnings = _warnings(context, tasks)
    for seen in views:
        seen.reason = told.get(seen.id, seen.reason)
        seen.warning = warnings.get(seen.id)
    return views


def _apart(context: Context, tasks: list[Task]) -> dict[str, Any]:
    """What a sparse list tells beside the tasks."""
    warned: dict[str, list[int]] = {}
    for task_id, warning in _warnings(context, tasks).items():
        warned.setdefault(warning, []).append(task_id)
    return {"defaults": _DEFAULTS, "reasons": _reasons(context, tasks), "warnings": warned}


def _warnings(context: Context, tasks: list[Task]) -> dict[int, str]:
    core = context.core
    if not core.warnings:
        return {}
    return {task.id: warning for task in tasks if (warning := core.warning(task)) is not None}


def _reasons(context: Context, tasks: list[Task]) -> dict[str, list[int]]:
    """Why each queued task waits: the ids by the reason. Tasks that ask for the same share one, worked out once."""
    core = context.core
    shared: dict[Request, list[int]] = {}
    reasons: dict[str, list[int]] = {}
    for task in tasks:
        if task.state in QUEUED:
            request = core.backlog.group_of(task.id)
            if request is None:
                reasons.setdefault(core.reason(task) or "", []).append(task.id)
            elif request in shared:
                shared[request].append(task.id)
            else:
                shared[request] = reasons.setdefault(core.reason(task) or "", [])
                shared[request].append(task.id)
    return reasons


def _states(params: ListTasks) -> frozenset[TaskState]:
    if params.ids is not None:
        return frozenset(TaskState)
    return (QUEUED | ACTIVE if params.active else frozenset()) | (ENDED if params.ended else frozenset())


def _text(task: Task) -> str:
    command = task.command if isinstance(task.command, str) else " ".join(task.command)
    return f"{task.id} {task.name} {task.project} {command} {task.cwd}".casefold()


def _place(task: Task) -> tuple[Any, ...]:
    if task.state in ACTIVE:
        return (0, task.started_at or float("inf"), task.id)
    if task.state in QUEUED:
        return (1, *order_of(task))
    return (2, -(task.ended_at or 0.0), -task.id)


def show(context: Context, params: OneTask) -> TaskView:
    """One task, whole."""
    return view(context, context.core.find(params.id))


def why(context: Context, params: OneTask) -> dict[str, Any]:
    """What a task waits for, by name, and what stands in the way on each node."""
    core = context.core
    task = core.find(params.id)
    lines: list[str] = []
    if task.state is TaskState.WAITING and not task.waits_for:
        lines = details(request_of(task), core.inventory)
        ahead = sum(1 for other in core.queue() if other.id != task.id and order_of(other) < order_of(task))
        lines.append(f"{ahead} waiting {'task stands' if ahead == 1 else 'tasks stand'} before it in the queue")
    elif task.waits_for:
        lines = [f"task {after.id} is {core.find(after.id).state}" for after in task.waits_for]
    return {
        "id": task.id,
        "state": task.state,
        "reason": core.reason(task),
        "warning": core.warning(task),
        "blocked_by": [after.id for after in task.waits_for],
        "details": lines,
    }


def cancel(context: Context, params: Cancel) -> dict[str, Any]:
    """Cancel some tasks; those that cannot be are told apart, with the reason."""
    core = context.core
    live = QUEUED | ACTIVE
    ids = params.ids
    if params.all or params.mine:
        ids = [t.id for t in core.tasks.values() if t.state in live and (params.all or t.owner == context.user)]
    elif not ids:
        raise BadRequestError("say which tasks: ids, `all` or `mine`")
    cancelled: list[int] = []
    signalled: list[int] = []
    refused: dict[int, str] = {}
    codes: dict[int, str] = {}

    def change() -> None:
        # Successors first: a cancelled predecessor would otherwise end them with its own reason.
        for task_id in sorted(set(ids), reverse=True):
            try:
                (cancelled if core.cancel(task_id, context.now) else signalled).append(task_id)
            except MusterError as error:
                refused[task_id] = str(error)
                codes[task_id] = error.code

    context.engine.client_change(change, grows=False)
    return {"cancelled": cancelled[::-1], "signalled": signalled[::-1], "refused": refused, "codes": codes}


def edit(context: Context, params: Edit) -> TaskView:
    """Change a waiting task; an ended one queues again."""
    edited = edited_copy(context.core.find(params.id), params.changes, context)
    return view(context, context.engine.client_change(lambda: context.core.edit(edited, context.now)))


def hold(context: Context, params: OneTask) -> TaskView:
    """Keep a waiting task from starting."""
    return view(context, context.engine.client_change(lambda: context.core.hold(params.id)))


def release(context: Context, params: OneTask) -> TaskView:
    """Let a held task wait again."""
    return view(context, context.engine.client_change(lambda: context.core.release(params.id)))


def move(context: Context, params: Move) -> TaskView:
    """Give a waiting task another place in the queue."""
    return view(context, context.engine.client_change(lambda: context.core.move(params.id, params.position)))


def start(context: Context, params: OneTask) -> TaskView:
    """Start a waiting task as soon as it fits, before all others."""
    return view(context, context.engine.client_change(lambda: context.core.force(params.id)))


def retry(context: Context, params: OneTask) -> TaskView:
    """Queue an ended task again."""
    return view(context, context.engine.client_change(lambda: context.core.retry(params.id)))


def remove(context: Context, params: Remove) -> dict[str, Any]:
    """Forget a task, and with `successors` all that wait for it."""
    removed = context.engine.client_change(
        lambda: context.core.remove(params.id, context.now, successors=params.successors)
    )
    return {"removed": removed}
