"""The verbs of logs: they are read in byte ranges, as they are or collapsed, with `wait_s` as soon as there is more;
and searched, in steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from master.core.tasks.task import ENDED, Task
from master.core.tasks.task_log import log_of, may_have_log, part_log
from master.files.log_file import Own
from master.files.log_pieces import HERE, LogsHere, Piece, Source, Where
from master.files.log_reader import LogReader
from master.files.log_search import Ask, Found, Match
from master.verbs.access import check_owner, who
from master.verbs.archived import find
from master.verbs.base import Context
from master.verbs.tasks import TaskId
from wire.errors import BadRequestError, ConflictError, ForbiddenError, MusterError, NotFoundError
from wire.message import Message

T = TypeVar("T")

MAX_READ = 1 << 20
MAX_FOUND = 1000
MAX_WAIT_S = 30.0
Offset = Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)]


class Read(msgspec.Struct, forbid_unknown_fields=True):
    """log.read: that of the task `id` (of several parts that of `rank`), or the master's own (`server`), which is for
    admins once there are users. A negative `offset` counts from the end; `limit` is at most 1 MiB; sizes are bytes.

    `collapse`: of each line only what its last carriage return left; `limit` is then how much is enough. `wait_s`, up
    to 30 seconds: if there is nothing to read, wait so long for it, and answer as soon as there is more; collapsed,
    nothing but the `seen` first bytes of the file.
    """

    id: Annotated[TaskId | None, Meta(examples=[12])] = None
    rank: Annotated[int, Meta(ge=0, le=1024)] = 0
    server: bool = False
    offset: Offset = 0
    limit: Annotated[int, Meta(ge=0, le=MAX_READ)] = MAX_READ
    collapse: bool = False
    wait_s: Annotated[float, Meta(ge=0, le=MAX_WAIT_S)] = 0.0
    seen: Offset | None = None


class LogPiece(msgspec.Struct):
    """A piece of a log: `data` (base64) stands from `offset`. `size`: bytes of the whole file; `ended`: nothing will be
    added to it any more; `path`: where it lies.

    Collapsed also `rest` (base64), the state of the line without an end, and `next`, the offset at which to read on.
    Of a task also `warning`, what looks wrong with it or null, and `missing`: it has written the log, and it is gone.
    """

    data: bytes
    offset: int
    size: int
    ended: bool
    path: str
    rest: bytes | UnsetType = UNSET
    next: int | UnsetType = UNSET
    warning: str | UnsetType | None = UNSET
    missing: bool | UnsetType = UNSET


class Search(msgspec.Struct, forbid_unknown_fields=True):
    """log.search: lines with `pattern` in the log of the task `id` (of several parts of `rank`), or in the master's own
    (`server`, for admins). The pattern is found as it stands; with `regex` it is a regular expression of Python's,
    which is tried on each line; `ignore_case` tells no capitals from small letters.

    One call ends after `limit` lines, or 5 seconds; no more than 64 MB a second are read. Of a user one goes on at a
    time, of all users three; others wait. Go on with the `next` that it gives as `offset` (bytes; negative: from the
    end). `backwards`: from there, or from the end, to the beginning.
    """

    pattern: Annotated[str, Meta(min_length=1, max_length=1000, examples=["out of memory"])]
    id: Annotated[TaskId | None, Meta(examples=[12])] = None
    rank: Annotated[int, Meta(ge=0, le=1024)] = 0
    server: bool = False
    regex: bool = False
    ignore_case: bool = False
    offset: Offset | None = None
    backwards: bool = False
    limit: Annotated[int, Meta(ge=1, le=MAX_FOUND)] = 100


class LogMatches(msgspec.Struct):
    """The lines found, the nearest first: each begins at `offset`, `text` is the line, or what is around the match in a
    long one (`cut`), and the match stands from character `begin` to `end` in it. A carriage return ends a line, too.

    `next`: the offset at which to go on, null where all was searched; `searched`: bytes, this time; `size`: of the
    whole file; `ended`: nothing will be added to it any more; `path`: where it lies.
    """

    matches: list[Match]
    next: int | None
    searched: int
    size: int
    ended: bool
    path: str


class _Way(NamedTuple):
    """How a log may be read: which it may be (`log_pieces.Where`), and with whose rights."""

    where: Where
    source: Source = HERE


class _Log(NamedTuple):
    """The log at `path`, whether nothing will be added to it, and the ways to it. `begun`: there can be one; if not,
    what lies there is somebody else's."""

    path: str
    ended: bool
    ways: list[_Way]
    begun: bool = True


class _Got(NamedTuple, Generic[T]):
    """The result of reading a log, and the way that was open."""

    value: T
    way: _Way


async def read(context: Context, params: Read) -> LogPiece:
    """Read a piece of a log, of a task or the master's own."""
    log, (piece, way) = await _read(context, params)
    seen = piece.offset if params.seen is None else params.seen
    if params.wait_s and not log.ended and not piece.data and piece.size == piece.end == seen:
        logs = context.master.logs
        if log.begun or params.id is None:
            await logs.grown(log.path, seen, params.id, params.wait_s, where=way.where, source=way.source)
        else:
            await logs.begun(params.id, params.wait_s)
        # A caller who no longer mentors the owner, for example, does not get what was written since.
        log, (piece, _) = await _read(msgspec.structs.replace(context, caller=context.caller_now()), params)
    answer = LogPiece(piece.data, piece.offset, piece.size, log.ended, log.path)
    if params.collapse:
        answer.rest, answer.next = piece.rest, piece.next
    if params.id is not None:
        task = await find(context, params.id)
        answer.warning = context.core.warning(task)
        answer.missing = piece.missing and task.started_at is not None
    return answer


async def search(context: Context, params: Search) -> LogMatches:
    """Search a log, of a task or the master's own."""
    if not params.regex and set(params.pattern) & set("\r\n\0"):
        raise BadRequestError(Message("log_pattern_lines"))
    ask = Ask(params.pattern, params.regex, params.ignore_case, params.offset, params.backwards, params.limit)
    log = await _log(context, params)
    if not log.begun:
        return LogMatches([], None, 0, 0, log.ended, log.path)
    logs: LogReader = context.master.logs
    user = context.caller.counted_as

    def search_so(way: _Way) -> Awaitable[Found]:
        return logs.search(log.path, ask, way.where, way.source, user=user)

    found = (await _by_a_way(log, search_so)).value
    return LogMatches(found.matches, found.next, found.searched, found.size, log.ended, log.path)


async def _read(context: Context, params: Read) -> tuple[_Log, _Got[Piece]]:
    log = await _log(context, params)
    if not log.begun:
        return log, _Got(Piece(0, b"", b"", 0, 0, missing=True), log.ways[0])

    def read_so(way: _Way) -> Awaitable[Piece]:
        return context.master.logs.read(
            log.path, params.offset, params.limit, way.where, collapsed=params.collapse, source=way.source
        )

    return log, await _by_a_way(log, read_so)


async def _log(context: Context, params: Read | Search) -> _Log:
    """Which log is meant, and how it may be read. Raises BadRequestError, ForbiddenError, NotFoundError."""
    if params.server:
        if context.core.people.is_shared and context.caller.role != "admin":
            raise ForbiddenError(Message("server_log_for_admins"))
        return _Log(context.master.server_log, ended=False, ways=[_Way((None, None, None))])
    if params.id is None:
        raise BadRequestError(Message("which_log"))
    task = await find(context, params.id)
    check_owner(context.caller, "log.read" if isinstance(params, Read) else "log.search", "group", task)
    # Looked up before the file is read: what was written before the end is then in what we read.
    path, begun = _path(context, task, params.rank), may_have_log(task, context.master.log_folder, params.rank)
    return _Log(path, task.state in ENDED, _ways(context, task, params.rank), begun)


async def _by_a_way(log: _Log, do: Callable[[_Way], Awaitable[T]]) -> _Got[T]:
    """The first way that is open. Raises why the first is not."""
    error: MusterError | None = None
    for way in log.ways:
        try:
            return _Got(await do(way), way)
        except (ConflictError, ForbiddenError) as refused:
            error = error or refused
    raise error or RuntimeError("there is no way to read a log")


def _path(context: Context, task: Task, rank: int) -> str:
    """The log of a part. Raises NotFoundError."""
    if task.is_allocation:
        raise NotFoundError(Message("allocation_runs_nothing", id=task.id))
    count = max(task.nodes, len(task.allocation))
    if rank >= count:
        raise NotFoundError(Message("no_rank", id=task.id, rank=rank, count=count, last=count - 1))
    return part_log(task, rank, context.master.log_folder)


def _ways(context: Context, task: Task, rank: int) -> list[_Way]:
    """A task's log is read with the rights of its owner, whoever may read it; where these are not enough, as for one
    that was made by another account, with the master's, but only what lies in the log folder under the task's number.
    """
    caller, master = context.caller, context.master
    within = _folders(context)
    sight = master.files.owners.sight(who(caller))
    if sight is not None:
        # Of what lies in the log folder `own` says which is whose, also where `files` would make it nobody's.
        sight = sight.from_slash(str(master.files.root), but=master.log_folder)
    own = None if caller.owns_all else Own(master.log_folder, log_of(f"{task.id}.log", rank))
    account = master.acting.account(task.owner)
    as_owner = [] if account is None else [_Way((within, sight, own), master.acting.logs(who(caller), account))]
    if caller.is_ours:
        return [_Way((None, None, None)), *as_owner]
    if account is not None and not caller.owns_all:
        within = (master.log_folder,)
    return [*as_owner, _Way((within, sight, own), LogsHere(caller.counted_as))]


def masters_place(context: Context, task: Task) -> Where:
    """Where the master, for this caller, may look for a task's log with rights of its own."""
    return _ways(context, task, 0)[-1].where


def _folders(context: Context) -> tuple[str, ...]:
    """Where people may see files: a log elsewhere is shown to the master's own user only."""
    files = context.master.files
    return (context.master.log_folder, *(f"{files.root}/{name}" for name in files.jail.beneath.visible))
