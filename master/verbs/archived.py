"""Verbs about tasks that were moved to the monthly files: the same as about all others, once the files were asked.

A task that is in memory never waits for them. One that is not is read for those who look (`or_read`), and taken back
into the queue's books for those who change it (`or_recalled`); what then waits again is out of the archive.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from functools import wraps
from typing import Annotated, Any, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from master.core.tasks.task import ENDED, Task, TaskPage, TaskState, TaskView
from master.durable.archive_index import Wanted
from master.verbs.base import Context
from master.verbs.spec import Spec
from master.verbs.task_list import SortKey
from master.verbs.tasks import Cancel, Cancelled, Cancelling, Edit, Remove, Removed, Why, cancel, edit, names_of, remove
from master.views.tasks import task_page
from wire.errors import ConflictError, MusterError, NotFoundError, StoreUnavailableError
from wire.message import Message

log = logging.getLogger("muster.archive")

PAGE = 1_000
"""As many at once; who wants all asks again from where these end."""


class OfTask(Protocol):
    """Parameters that name one task."""

    id: Any


P = TypeVar("P", bound=OfTask)
Explained: TypeAlias = Cancelled | Awaitable[Cancelled]
"""The answer of a cancel; awaited if it must look among archived tasks."""


class ListArchived(msgspec.Struct, forbid_unknown_fields=True):
    """task.archived: which, and which part of them, at most 1000 at once; the filters are those of `task.list`. Sorted
    by what the files are not indexed by, they come in the order of their ends. Every verb that takes the id of a task
    also takes the id of an archived one."""

    states: list[TaskState] | None = None
    mine: bool = False
    user: str | None = None
    search: str | None = None
    since: float | None = None
    sort: SortKey | None = None
    reverse: bool = False
    limit: Annotated[int, Meta(ge=0, le=PAGE)] = PAGE
    offset: Annotated[int, Meta(ge=0, le=1 << 53)] = 0


class ArchivedTasks(msgspec.Struct, frozen=True):
    """A page of ended `tasks`, and how many there are in `total`, without limit and offset. `unreadable`: numbers of
    damaged lines, by file."""

    tasks: list[TaskView]
    total: int
    unreadable: dict[str, int]


async def list_archived(context: Context, params: ListArchived) -> ArchivedTasks:
    """Ended tasks that `task.list` does not know any more, beyond `scheduler.keep_history`; the newest end first."""
    states = ENDED if params.states is None else ENDED & frozenset(params.states)
    owners = [owner for owner in (params.user, context.user if params.mine else None) if owner is not None]
    wanted = Wanted(
        states=tuple(state.value for state in sorted(states)),
        owners=tuple(owners),
        search=params.search or "",
        known=_known(context),
        since=params.since,
        sort=params.sort,
        reverse=params.reverse,
        limit=params.limit,
        offset=params.offset,
    )
    page = await context.engine.archive.page(wanted)
    # A kill just after archiving, or after a retry, leaves a task in both; the one in memory is the newer.
    tasks = [task for task in page.tasks if task.id not in context.core.tasks]
    total = page.total - (len(page.tasks) - len(tasks))
    return ArchivedTasks([context.view(task) for task in tasks], total, page.unreadable)


def _known(context: Context) -> tuple[str, ...] | None:
    """Return the users whose tasks a search may look into; it sees only the ids of all others. None: everybody's."""
    sight = context.sight
    return tuple(sorted({sight.user or "", *sight.mentored})) if sight.hides_others else None


async def find(context: Context, task_id: int) -> Task:
    """The task, wherever it is. Raises NotFoundError, StorageError."""
    return context.core.tasks.get(task_id) or await context.engine.archive.find(task_id)


def or_read(handle: Callable[[Context, P], Any], told: Callable[[Context, Task], Any]) -> Callable[[Context, P], Any]:
    """`handle`, and for an archived task what `told` makes of it."""

    @wraps(handle)
    def handled(context: Context, params: P) -> Any:
        return later(context, params) if _may_be_archived(context, params.id) else handle(context, params)

    async def later(context: Context, params: P) -> Any:
        return told(context, await context.engine.archive.find(params.id))

    return handled


def told_whole(context: Context, task: Task) -> TaskPage:
    """task.show of one that has ended long ago."""
    return task_page(context.core, task, context.sight)


def told_why(context: Context, task: Task) -> Why:
    """task.why of one that has ended long ago."""
    task = context.sight.veiled(task)
    return Why(
        id=task.id,
        state=task.state,
        reason=task.reason,
        reason_key=task.reason_key,
        reason_args=task.reason_args,
        warning=None,
        warning_key=None,
        warning_args=None,
        blocked_by=[],
        details=[],
        detail_messages=[],
    )


def or_recalled(handle: Callable[[Context, P], Any]) -> Callable[[Context, P], Any]:
    """`handle`, with an archived task taken back first; if it is refused, the task stays where it was."""

    @wraps(handle)
    def handled(context: Context, params: P) -> Any:
        return later(context, params) if _may_be_archived(context, params.id) else handle(context, params)

    async def later(context: Context, params: P) -> Any:
        task = await context.engine.archive.find(params.id)
        core = context.core
        if task.id in core.tasks:
            return handle(context, params)  # somebody else was faster
        context.change(lambda: core.recall(task))
        try:
            result = handle(context, params)
        except MusterError:
            context.engine.event(lambda: core.drop_archived([task.id]))
            raise
        # Out of the files only once the journal has it: a kill between the two must leave it somewhere.
        await context.engine.durable()
        if task.id in context.core.tasks:
            await _forget(context, task.id)
        return result

    return handled


def or_after(
    handle: Callable[[Context, Any], Any], predecessors: Callable[[Any], list[int]]
) -> Callable[[Context, Any], Any]:
    """`handle`, with the ends of archived tasks that the caller wants to come after."""

    @wraps(handle)
    def handled(context: Context, params: Any) -> Any:
        named = predecessors(params)
        missing = [task_id for task_id in named if _may_be_archived(context, task_id)] if named else []
        return later(context, params, missing) if missing else handle(context, params)

    async def later(context: Context, params: Any, missing: list[int]) -> Any:
        past: dict[int, TaskState] = {}
        for task_id in missing:
            with suppress(NotFoundError):  # the core says so, in its own words
                past[task_id] = (await context.engine.archive.find(task_id)).state
        result = handle(msgspec.structs.replace(context, past=past), params)
        return await result if inspect.isawaitable(result) else result

    return handled


def named(spec: Spec) -> list[int]:
    """The single predecessors that a submit names."""
    return [after.id for after in spec.after if not after.array] if spec.after else []


def named_in_changes(params: Edit) -> list[int]:
    """The predecessors that an edit names, of which nothing was checked yet."""
    after = params.changes.get("after")
    ids = (
        [one.get("id") for one in after if isinstance(one, dict) and not one.get("array")]
        if isinstance(after, list)
        else []
    )
    return [task_id for task_id in ids if type(task_id) is int]


def removed(context: Context, params: Remove) -> Removed | Awaitable[Removed]:
    """Forget a task that is not alive, wherever it is."""
    if _may_be_archived(context, params.id):
        return _remove_archived(context, params)
    answer = remove(context, params)
    return _with_copies(context, answer) if context.engine.archive.is_there else answer


async def _remove_archived(context: Context, params: Remove) -> Removed:
    task = await context.engine.archive.find(params.id)
    await context.engine.archive.forget([params.id])
    if params.id in context.core.tasks:  # somebody took it back meanwhile
        return remove(context, params)
    return Removed([params.id], names_of([task]))


async def _with_copies(context: Context, answer: Removed) -> Removed:
    """A kill just after a task was put away, or taken back, leaves it in the files too: it would be there again."""
    await context.engine.durable()
    await context.engine.archive.forget(answer.removed)
    return answer


def cancelled(context: Context, params: Cancel) -> Explained | Generator[None, None, Explained]:
    """End some tasks; the answer lists apart those that cannot be ended, with the reason."""
    answer = cancel(context, params)
    return _explained_if_missing(context, answer) if isinstance(answer, Cancelled) else _then_explained(context, answer)


def _then_explained(context: Context, work: Cancelling) -> Generator[None, None, Explained]:
    answer = yield from work
    return _explained_if_missing(context, answer)


def _explained_if_missing(context: Context, answer: Cancelled) -> Explained:
    """Say of an archived task that it has ended, rather than that there is none."""
    missing = [task_id for task_id, code in answer.codes.items() if code == NotFoundError.code]
    return _explained(context, answer, missing) if missing and context.engine.archive.is_there else answer


async def _explained(context: Context, answer: Cancelled, missing: list[int]) -> Cancelled:
    for task_id in missing:
        try:
            task = await context.engine.archive.find(task_id)
        except MusterError as error:
            answer.refuse(task_id, error)
        else:
            answer.refuse(task_id, ConflictError(Message("has_ended", id=task_id, state=task.state)))
    return answer


def _may_be_archived(context: Context, task_id: int) -> bool:
    return task_id not in context.core.tasks and context.engine.archive.is_there


async def _forget(context: Context, task_id: int) -> None:
    try:
        await context.engine.archive.forget([task_id])
    except StoreUnavailableError as error:
        log.warning("task %d is in the queue again, and still in the history: %s", task_id, error)


edited = or_after(or_recalled(edit), named_in_changes)
"""task.edit."""
