"""task.submit_array and task.edit_array: tasks that are filed as one, and what holds for them together."""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterable
from itertools import islice
from typing import Annotated, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from master.core.tasks.arrays import Array
from master.core.tasks.task import ArrayPlace, Task
from master.verbs.access import check_owner, check_token_given
from master.verbs.array_spec import INDEX, Template, check_sweep, points_of, read_indices
from master.verbs.base import Context
from master.verbs.idempotency import answered
from master.verbs.many import MOST_BYTES, check_size
from master.verbs.places import strictly
from master.verbs.priority_rights import check_wish
from master.verbs.projects import check_project
from master.verbs.spec import ALL_BYTES, Spec, check_command, draft_of
from master.verbs.submit import Batch, owner_of
from master.verbs.turns import Work
from wire.errors import BadRequestError, LimitError, NotFoundError
from wire.message import Message

Place: TypeAlias = tuple[int, dict[str, str]]
"""The index of a task of an array, and its point of a sweep."""
Filing: TypeAlias = Generator[None, None, Batch]
SLICE, LOOKED_AT = 200, 2000
"""Tasks that are made, and looked at, between two chances for others: about 1 ms of them."""
_NAME = 200
AtOnce = Annotated[int, Meta(ge=1, le=10**6)]
Fails = Annotated[int, Meta(ge=1, le=10**6)]
Value = Annotated[str, Meta(max_length=4096)]


class SubmitArray(Spec, kw_only=True, omit_defaults=True):
    """task.submit_array: a task for each index of `array` (`0-9`, `0-9:2`, `1,5,7`; `%2` behind it: at most two run at
    once), or for each point of a `sweep`, the values of all names in all combinations. In `command` and `name`,
    `{index}` and `{NAME}` become the index and the value of NAME. `cap`: at most so many run at once; `max_fails`:
    after so many failures the rest is held. `request_id`, `as` and `strict` as for one task."""

    command: Annotated[list[str] | str, Meta(examples=[["python3", "train.py", "--lr", "{lr}"]])]
    array: Annotated[str, Meta(max_length=100_000, examples=["0-9%2"])] | None = None
    sweep: Annotated[dict[str, list[Value]], Meta(max_length=32, examples=[{"lr": ["0.1", "0.01"]}])] = msgspec.field(
        default_factory=dict
    )
    cap: AtOnce | None = None
    max_fails: Fails | None = None
    as_user: str | None = msgspec.field(default=None, name="as")
    request_id: str | None = None
    strict: bool = False


class EditArray(msgspec.Struct, forbid_unknown_fields=True):
    """task.edit_array: `id`: of its first task; what is not said stays, null: no such bound."""

    id: Annotated[int, Meta(ge=1, examples=[12])]
    cap: AtOnce | UnsetType | None = UNSET
    max_fails: Fails | UnsetType | None = UNSET


class ArrayView(msgspec.Struct, frozen=True):
    """An array and its limits. `cap`: so many run at once; `max_fails`: after so many failures the rest is held; null:
    no such limit. `failed`: the tasks that count as failures."""

    id: int
    count: int
    cap: int | None
    max_fails: int | None
    failed: list[int]


def submit_array(context: Context, params: SubmitArray) -> Filing | Awaitable[Batch]:
    """File the tasks of an array or of a sweep, with consecutive ids: all or none."""
    draft, indices, cap = _judged(context, params)
    if params.strict:
        relaxed = replace(params, strict=False)
        return strictly(context, draft, [params.command], lambda later: submit_array(later, relaxed), Batch)
    return _filed(context, params, cap, _Drafts(draft, Template(params.command, params.sweep), context), indices)


def _judged(context: Context, params: SubmitArray) -> tuple[Task, list[int], int | None]:
    """Return what its tasks have in common, their indices, and how many may run at once. Raises what a refusal is told
    with."""
    if (params.array is None) is not bool(params.sweep):
        raise BadRequestError(Message("array_or_sweep"))
    if params.log is not None:
        raise BadRequestError(Message("batch_with_log"))
    most = context.core.settings.limits.waiting_tasks
    cap = params.cap
    if params.array is not None:
        indices, said = read_indices(params.array, most)
        if said is not None and cap not in (None, said):
            raise BadRequestError(Message("cap_said_twice", cap=said, other=cap or 0))
        cap = said or cap
    else:
        indices = list(range(check_sweep(params.sweep, most)))
    draft = draft_of(params, params.command, context)
    check_token_given(context.caller, draft.token)
    draft.owner = owner_of(context, params.as_user)
    check_wish(context, draft)
    check_project(context, draft)
    _check_size(draft, params, len(indices))
    context.core.check_count(draft.owner, len(indices))  # before they are made, and again when they are filed
    return draft, indices, cap


def _filed(context: Context, params: SubmitArray, cap: int | None, drafts: _Drafts, indices: list[int]) -> Filing:
    """Make the tasks in slices, and file them all at once."""
    yield from drafts.make(_places(indices, params.sweep))
    if context.once is not None:  # the same request may have come again meanwhile
        known: Batch | None = answered(context.engine, *context.once, Batch)
        if known is not None:
            return known
    if context.seen != context.core.people.version:  # rights may have changed meanwhile
        drafts.settle(_judged(replace(context, caller=context.caller_now()), params)[0])

    def change() -> Batch:
        core, tasks = context.core, drafts.numbered()
        core.submit_array(tasks, context.now, context.past, cap=cap, max_fails=params.max_fails)
        return Batch(tasks[0].id, len(tasks))

    return context.change(change)


def edit_array(context: Context, params: EditArray) -> Generator[None, None, ArrayView]:
    """Say how many of an array's tasks may run at once, and after how many failures the rest is held."""
    core = context.core
    for task in (yield from _one_of_each_owner(context, params.id)):
        check_owner(context.caller_now(), "task.edit_array", "group", task)
    said = {"cap": params.cap, "max_fails": params.max_fails}
    changes = {name: value for name, value in said.items() if value is not UNSET}
    if not changes:
        raise BadRequestError(Message("array_unchanged"))
    return _view(context.change(lambda: core.edit_array(params.id, **changes)))


def _one_of_each_owner(context: Context, array_id: int) -> Generator[None, None, list[Task]]:
    """Look in slices: an array may be all of a long queue. Raises NotFoundError as `tasks_of_array`."""
    tasks, sight, found = context.core.arrays.tasks(array_id), context.sight, dict[str, Task]()
    while part := list(islice(tasks, LOOKED_AT)):
        for task in part:
            if not sight.hides_others or sight.searched(task).array is not None:
                found.setdefault(task.owner, task)
        yield
    if not found:
        raise NotFoundError(Message("no_array", id=array_id))
    return list(found.values())


def _view(array: Array) -> ArrayView:
    return ArrayView(array.id, array.count, array.cap, array.max_fails, list(array.failed))


class _Drafts:
    """The tasks of an array, each with its place, its command, its name and its log, as copies of `draft`."""

    def __init__(self, draft: Task, template: Template, context: Context) -> None:
        self._draft = draft
        self._template = template
        self._core = context.core
        self._folder = context.master.log_folder
        self._first = context.core.next_id
        self._made: list[Task] = []

    def make(self, places: Iterable[Place]) -> Work:
        """Make them, numbered as they would be now. Raises BadRequestError for a command that no machine can be
        given."""
        is_told = "{" in self._draft.name
        for number, (index, point) in enumerate(places, self._first):
            values = {INDEX: str(index), **point}
            name = self._template.text(self._draft.name, values)[:_NAME] if is_told else self._draft.name
            command = self._template.filled(values)
            check_command(command, self._draft.setup)
            log, place = self._log(number), ArrayPlace(self._first, index)
            made = replace(self._draft, command=command, name=name, log_path=log, array=place, sweep=point)
            self._made.append(made)
            if len(self._made) % SLICE == 0:
                yield

    def settle(self, draft: Task) -> None:
        """Give them what people decide, as this draft has it."""
        for made in self._made:
            made.owner, made.by_admin = draft.owner, draft.by_admin

    def numbered(self) -> list[Task]:
        """Return them, with the ids that are next now."""
        first = self._core.next_id
        if first != self._first:  # others have filed some meanwhile
            for number, made in enumerate(self._made, first):
                made.log_path = self._log(number)
                made.array = ArrayPlace(first, made.array.index if made.array is not None else 0)
        return self._made

    def _log(self, number: int) -> str:
        return f"{self._folder}/{number}.log"


def _places(indices: list[int], sweep: dict[str, list[str]]) -> Iterable[Place]:
    """Each index with the values of its point; without a sweep it has none."""
    return zip(indices, points_of(sweep), strict=True) if sweep else ((index, {}) for index in indices)


def _check_size(draft: Task, params: SubmitArray, count: int) -> None:
    """Check the size of all its tasks together: one request must not fill the disk. Raises LimitError."""
    longest = {name: max(len(value.encode()) for value in values) for name, values in params.sweep.items()}
    words = [params.command] if isinstance(params.command, str) else params.command
    text = sum(len(word) + sum(word.count("{" + name + "}") * size for name, size in longest.items()) for word in words)
    if text > 4 * ALL_BYTES:
        raise LimitError(Message("array_too_long", size=text, count=count, most=MOST_BYTES))
    check_size(draft, count, (text + sum(longest.values())) * count)
