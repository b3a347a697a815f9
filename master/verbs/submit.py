"""task.submit and task.submit_batch: filing tasks, and saying where one would go."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from master.core.tasks.attempt import Allocation
from master.core.tasks.request import demand_of
from master.core.tasks.task import ENDED, After, Task, TaskState
from master.verbs.access import check_token_given
from master.verbs.base import Context
from master.verbs.many import check_size
from master.verbs.places import strictly
from master.verbs.priority_rights import check_wish
from master.verbs.projects import check_project
from master.verbs.spec import Spec, check_command, draft_of, log_path_of
from master.views.messages import shown
from wire.errors import BadRequestError, ConflictError, ForbiddenError
from wire.message import Message


class Submit(Spec, kw_only=True, omit_defaults=True):
    """task.submit: what a task may ask for, and its `command`: a list of words, or a text for bash. `request_id`: two
    submits with the same one are one submit. `dry_run`: nothing is filed; the answer says where the task would go.
    `strict`: what would keep it from starting well, as task.places tells it, is refused. `as`: in whose name, of root
    on the master's machine alone, who must say so once there are users."""

    command: Annotated[list[str] | str, Meta(examples=[["python3", "train.py"]])]
    as_user: str | None = msgspec.field(default=None, name="as")
    request_id: str | None = None
    dry_run: bool = False
    strict: bool = False


class SubmitBatch(Spec, kw_only=True, omit_defaults=True):
    """task.submit_batch: the `commands` are texts for bash; all else is alike. `request_id`, `as` and `strict` as for
    one task."""

    commands: Annotated[list[str], Meta(examples=[["python3 a.py", "python3 b.py"]])]
    as_user: str | None = msgspec.field(default=None, name="as")
    request_id: str | None = None
    strict: bool = False


class Submitted(msgspec.Struct, frozen=True):
    """The `id` of the task that was filed."""

    id: int


class Batch(msgspec.Struct, frozen=True):
    """The tasks that were filed: `count` of them, with ids without a gap from `first` on."""

    first: int
    count: int


class Preview(msgspec.Struct, frozen=True):
    """With `dry_run`: where the task would go if it were submitted now (`placements`, a part for each node, of
    which `placement` is the first), or why it would wait: `reason`,
    and the same for programs. `possible`: false where a submit would be refused, for no node could ever run it."""

    possible: bool
    placement: Allocation | None
    placements: list[Allocation]
    reason: str | None
    reason_key: str | None
    reason_args: dict[str, Any] | None


def submit(context: Context, params: Submit) -> Submitted | Preview | Awaitable[Submitted | Preview]:
    """File a task. The answer means that it is on the disk."""
    draft, core = draft_of(params, params.command, context), context.core
    check_token_given(context.caller, draft.token)
    draft.owner = owner_of(context, params.as_user)
    check_wish(context, draft)
    check_project(context, draft)
    if params.strict:
        said = msgspec.structs.replace(params, strict=False)
        return strictly(context, draft, [params.command], lambda later: submit(later, said), Submitted)
    if params.dry_run:
        return preview(context, draft)

    def change() -> Submitted:
        draft.log_path = log_path_of(params.log, core.next_id, context)
        waits = context.caller.waits_for_nodes
        return Submitted(core.submit([draft], context.now, context.past, waits=waits)[0].id)

    return context.change(change)


def submit_batch(context: Context, params: SubmitBatch) -> Batch | Awaitable[Batch]:
    """File a task for each of several commands, with consecutive ids: all or none."""
    if not params.commands:
        raise BadRequestError(Message("empty_batch"))
    if params.log is not None:
        raise BadRequestError(Message("batch_with_log"))
    for command in params.commands:
        check_command(command, params.setup)
    draft = draft_of(params, params.commands[0], context)
    check_token_given(context.caller, draft.token)
    draft.owner = owner_of(context, params.as_user)
    check_wish(context, draft)
    check_project(context, draft)
    check_size(draft, len(params.commands), sum(map(len, params.commands)))
    if params.strict:
        said = msgspec.structs.replace(params, strict=False)
        return strictly(context, draft, params.commands, lambda later: submit_batch(later, said), Batch)
    folder = context.master.log_folder

    def change() -> Batch:
        core = context.core
        tasks = core.submit_many(
            draft, params.commands, lambda number: f"{folder}/{number}.log", context.now, context.past
        )
        return Batch(tasks[0].id, len(tasks))

    return context.change(change)


def owner_of(context: Context, name: str | None) -> str:
    """Return the owner that the task will have. Raises ForbiddenError, BadRequestError, NotFoundError,
    ConflictError."""
    caller, everybody = context.caller, context.core.people
    if name is None:
        if caller.is_root and everybody.is_shared:
            raise BadRequestError(Message("root_needs_a_name"))
        return context.user
    if not caller.is_root:
        raise ForbiddenError(Message("name_for_root"))
    user = everybody.find(name)
    if not user.is_enabled(context.rights_now):
        raise ConflictError(Message("user_is_disabled", name=name))
    return user.name


def preview(context: Context, draft: Task) -> Preview:
    """Where the task would go if it were submitted now, or why it would wait. Raises LimitError."""
    quotas, demand = context.core.quotas, demand_of(draft)
    context.core.check_room([draft])
    context.core.allocations.check(draft)
    never = context.core.inventory.why_never(demand.request) or quotas.why_never(demand)
    if never is not None:
        return _preview(Message("never", why=never), possible=False)
    if draft.state is TaskState.HELD:
        return _preview(Message("held_when_filed"))
    if draft.begin_at is not None and draft.begin_at > context.now:
        return _preview(Message("begins_at", at=draft.begin_at))
    parts = context.core.preview(draft, context.now)
    draft.waits_for = [after for after in draft.after if not _is_over(context, after)]
    if parts is not None and not draft.waits_for:
        return _preview(None, parts=parts)
    waits = context.core.why_it_waits(draft)
    return _preview(None if waits is None else context.sight.said(waits))


def _is_over(context: Context, after: After) -> bool:
    """Has a predecessor ended? Raises NotFoundError where there is none."""
    if after.array:
        return not any(True for _ in context.core.dependencies.awaited(after))
    return (context.past.get(after.id) or context.core.find(after.id).state) in ENDED


def _preview(why: Message | None, *, possible: bool = True, parts: list[Allocation] | None = None) -> Preview:
    return Preview(possible, parts[0] if parts else None, parts or [], *shown(why))
