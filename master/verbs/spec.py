"""The request for a task, as a client may send it, and how it becomes a Task. Checks what can be checked alone; the
core decides whether a node could ever run it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from copy import copy
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta

from master.core.attempts.activation import is_env_name
from master.core.attempts.preflight import OWN_ID
from master.core.tasks.task import HELD, WAITING, After, EarlySignal, Snapshot, Task, Terms
from master.core.tasks.time_limit import limit_of
from master.verbs.base import Context
from master.verbs.convert import convert
from master.verbs.task_list import check_array
from master.verbs.where import WHICH, check_where, where_so_far
from wire.errors import BadRequestError
from wire.message import Message

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
Count = Annotated[int, Meta(ge=0, le=4096)]
Mib = Annotated[int, Meta(ge=1, le=1 << 40)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
WORD_BYTES = 128 * 1024 - 4096
"""The kernel gives a program no longer word than 128 KiB; what activates the environment goes before the command."""
ALL_BYTES = 1 << 20
"""Words and variables together: half of what the kernel takes; the rest is for the node's own variables."""
PATH_MAX = 4096
MOST_NODES = 1024
MOST_ITEMS = {"after": 10_000, "gpu_ids": 4096, "retry_on": 16}
"""The most items of these fields: each list of tasks sends all of them. A whole array counts as one predecessor. Not in
the schema, which only has limits that have always applied."""
LAST_S = 253_402_300_799.0
"""The last second of the year 9999."""
MOST_RETRIES = 1000
RetryOn = Literal["fail", "oom", "lost"]
_SAID_OF = {"retry_on": "max_retries", "on_timeout": "time_limit_s"}
"""Fields that mean something only beside another one."""
_MOST_BYTES = 4
"""Of one character, in UTF-8."""
_TEXTS = ("name", "project", "setup", "cwd", "env", "checkpoint")
_texts_of = attrgetter(*_TEXTS)
_TERMS = frozenset(Terms.__struct_fields__)
_PLACED = frozenset({"cwd", "time_limit_s"})
"""Terms that every task has, whatever is said."""
_GPU_TERMS = ("gpu_memory_mib", "gpu_models", "gpus_max", "min_free_util", "share")
"""Fields about GPUs, besides which and how many."""
_gpu_terms_of = attrgetter(*_GPU_TERMS)


class Predecessor(After, frozen=True, forbid_unknown_fields=True):
    """`on`: `ok` (must succeed), `fail` (must not), `any`. `array`: it is all of the array whose first task this is,
    and of each of its tasks that is true."""

    id: Annotated[int, Meta(ge=1)]
    on: Literal["ok", "fail", "any"] = "ok"


SignalName = Literal["ABRT", "ALRM", "CONT", "HUP", "INT", "QUIT", "TERM", "URG", "USR1", "USR2", "WINCH", "XCPU"]
"""Signals that a program can handle, and that have no other meaning for the program that runs it."""


class Warned(EarlySignal, frozen=True, forbid_unknown_fields=True):
    """`name`: of the signal, without SIG; `before_s`: so many seconds before the time limit; `main_only`: only for the
    command itself, not for what it started."""

    name: SignalName
    before_s: Annotated[float, Meta(gt=0, le=1e9)]
    main_only: bool = False


Path = Annotated[str, Meta(min_length=1, max_length=4096)]


class Copied(Snapshot, frozen=True, forbid_unknown_fields=True):
    """`cwd` is a copy of the folder `of`, made by the client that submits; `digest`: of all in it, in hex; `files`,
    `bytes`: how much that is; `commit`: git's there, `changed`: and something was not as in it."""

    of: Path
    digest: Annotated[str, Meta(pattern="^[0-9a-f]{16,128}$")]
    files: Annotated[int, Meta(ge=0, le=1 << 53)] = 0
    bytes: Annotated[int, Meta(ge=0, le=1 << 53)] = 0
    commit: Annotated[str, Meta(pattern="^([0-9a-f]{7,64})?$")] = ""
    changed: bool = False


class Spec(Terms, kw_only=True, forbid_unknown_fields=True, omit_defaults=False):
    """The fields of a submit, less the command. Empty means: as conf.json has it. These limits are narrower than those
    on disk, where tasks that were queued under other limits must still load. `node_list`: on one of these nodes, with
    `nodes` on so many of them at once; `gpus_on`: on all of these at once, with these GPUs of each, for example
    {"gpu1": [0, 1], "gpu2": [2, 3]}, as many on each. `begin_at`: not before this time, in seconds since the epoch.
    `on_timeout`: past its limit it goes behind all others and on from there, as often as `max_retries` says if that is
    said. `max_retries`: so many attempts more, after ends that `retry_on` names (left empty: `fail`, `oom`, `lost`).
    `within`: name or id of an allocation of the owner's, whose GPUs it uses. `elastic`: while it runs it is given more
    GPUs or fewer, from `gpus` to `gpus_max`; each time it is ended, and started again where something that matches
    `checkpoint` (from `cwd`; `*`, `?`, `[…]`, `**`) is newer than the attempt."""

    name: Annotated[str, Meta(max_length=200)] = ""
    project: Annotated[str, Meta(max_length=200)] = ""
    gpus: Count | None = None  # type: ignore[assignment]  # None: as many as `gpu_ids` names
    gpus_max: Annotated[int, Meta(ge=1, le=4096)] | None = None
    gpu_ids: list[Count] | None = None
    gpu_memory_mib: Mib | None = None
    gpu_models: Annotated[list[Annotated[str, Meta(min_length=1, max_length=100)]], Meta(max_length=32)] = (
        msgspec.field(default_factory=list)  # nobody appends
    )
    min_free_util: Annotated[float, Meta(ge=0, le=100)] = 0.0
    cpus: Annotated[int, Meta(ge=1, le=65536)] | None = None
    memory_mib: Mib | None = None
    tmp_disk_mib: Mib | None = None
    licences: Annotated[dict[Name, Annotated[int, Meta(ge=1, le=65536)]], Meta(max_length=32)] = msgspec.field(
        default_factory=dict
    )
    nodes: Annotated[int, Meta(ge=1, le=MOST_NODES)] | None = None  # type: ignore[assignment]  # None: see `_nodes`
    node_list: Annotated[list[Name], Meta(max_length=MOST_NODES)] = msgspec.field(default_factory=list)
    gpus_on: Annotated[dict[Name, Annotated[list[Count], Meta(min_length=1)]], Meta(max_length=MOST_NODES)] = (
        msgspec.field(default_factory=dict)
    )
    exclude: Annotated[list[Name], Meta(max_length=MOST_NODES)] = msgspec.field(default_factory=list)
    after: list[Predecessor] = msgspec.field(default_factory=list)  # type: ignore[assignment]  # nobody appends
    priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)] = 0
    time_limit_s: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    begin_at: Annotated[float, Meta(ge=0, le=LAST_S)] | None = None
    on_timeout: Literal["fail", "requeue"] = "fail"
    max_retries: Annotated[int, Meta(ge=0, le=MOST_RETRIES)] = 0
    retry_on: list[RetryOn] = msgspec.field(default_factory=list)  # type: ignore[assignment]  # nobody appends
    signal: Warned | None = None
    snapshot: Copied | None = None
    token: Literal["", "submit"] = ""
    within: Annotated[int, Meta(ge=1)] | Name | None = None  # type: ignore[assignment]  # on disk it is the id
    checkpoint: Annotated[str, Meta(max_length=PATH_MAX, examples=["out/*.pt"])] = ""
    log: str | None = None
    hold: bool = False


class Editable(Spec, kw_only=True, forbid_unknown_fields=True):
    """The fields that an edit may change: a Spec and the command."""

    command: list[str] | str


def draft_of(spec: Spec, command: list[str] | str, context: Context) -> Task:
    """The task that a spec describes, without id; in the path of a log that was asked for, `{id}` stands. Raises
    BadRequestError naming the field."""
    draft = _drafted(spec, command, context)
    if draft.signal is not None:
        _check_signal(draft)
    if draft.elastic or draft.checkpoint:
        _check_elastic(draft)
    return draft


def _drafted(spec: Spec, command: list[str] | str, context: Context) -> Task:
    check_command(command, spec.setup)
    limit = limit_of(spec.time_limit_s, context.core.settings.scheduler)
    # A submit says few of the terms, and leaves out of its encoding those that it does not say.
    said = _TERMS.intersection(msgspec.to_builtins(spec))
    terms = _terms(spec, said, limit, context) if said else {}
    cwd = _beneath(context.master.root, "cwd", spec.cwd)
    state = HELD if spec.hold else WAITING
    if spec.log:
        terms["log_path"] = _log_path(spec.log, context)
    draft = Task(
        id=0,
        owner=context.caller.user or "",
        state=state,
        command=command,
        cwd=cwd,
        time_limit_s=limit,
        by_admin=context.caller.speaks_as_admin,
    )
    for name, value in terms.items():  # as `**terms` it takes half as long again
        setattr(draft, name, value)
    return draft


def _terms(spec: Spec, said: Iterable[str], limit: float | None, context: Context) -> dict[str, Any]:
    """The fields of the task that are `said`, but where it runs and how long; `limit`: that. Raises BadRequestError."""
    if spec.variables:
        _check_variables(spec.variables)
    _check_lengths(spec)
    _check_texts(spec)
    if spec.env and not spec.env.startswith("/") and not is_env_name(spec.env):
        raise BadRequestError(Message("env_no_name", env=spec.env))
    _check_gpu_terms(spec)
    check_where(spec, context.core.inventory)
    if spec.retry_on and not spec.max_retries:
        raise BadRequestError(Message("retries_not_counted"))
    if spec.on_timeout == "requeue" and limit is None:
        raise BadRequestError(Message("no_limit_to_requeue_at"))
    terms = {name: getattr(spec, name) for name in said if name not in _PLACED}
    terms["gpus"], terms["gpu_ids"] = _gpus(spec)
    terms["nodes"] = spec.nodes or len(spec.gpus_on) or 1
    if spec.gpus_on:
        terms["gpus_on"] = {node: sorted(gpus) for node, gpus in spec.gpus_on.items()}
    if spec.after:
        terms["after"] = [_after(one, context) for one in spec.after]
    if spec.signal is not None:
        terms["signal"] = EarlySignal(spec.signal.name, spec.signal.before_s, spec.signal.main_only)
    if spec.snapshot is not None:
        terms["snapshot"] = _snapshot(spec.snapshot)
    if spec.within is not None:
        terms["within"] = context.core.allocations.find(spec.within, context.sight.knows).id
    return terms


def _check_lengths(spec: Spec) -> None:
    lists = [(field, getattr(spec, field) or ()) for field in MOST_ITEMS]
    lists += [("gpu_ids", gpus) for gpus in spec.gpus_on.values()]
    for field, items in lists:
        if len(items) > MOST_ITEMS[field]:
            raise BadRequestError(Message("too_many_items", field=field, count=len(items), most=MOST_ITEMS[field]))
    _check_path("env", spec.env or "")


def _check_path(field: str, path: str) -> None:
    if len(path) > PATH_MAX:
        raise BadRequestError(Message("text_too_long", field=field, count=len(path), most=PATH_MAX))


def _after(said: Predecessor, context: Context) -> After:
    """Raises NotFoundError for an array of which the caller may not know."""
    if said.array:
        check_array(context, said.id)
    return After(said.id, said.on, said.array or UNSET)


def _snapshot(said: Snapshot) -> Snapshot:
    """Raises BadRequestError."""
    if "\0" in said.of:
        raise BadRequestError(Message("field_with_nul", field="snapshot"))
    return Snapshot(said.of, said.digest, said.files, said.bytes, said.commit, said.changed)


def log_path_of(asked: str | None, task_id: int, context: Context) -> str:
    """Where the task's output goes: what was asked for (beneath root if relative; `{id}` is the task's), else the log
    folder."""
    if asked:
        return _log_path(asked.replace(OWN_ID, str(task_id)), context)
    return f"{context.master.log_folder}/{task_id}.log"


def _log_path(asked: str, context: Context) -> str:
    """Raises BadRequestError."""
    if "\0" in asked:
        raise BadRequestError(Message("field_with_nul", field="log"))
    if asked.endswith(("/", "/.", "/..")):
        raise BadRequestError(Message("log_names_folder", path=asked))
    return _beneath(context.master.root, "log", asked)


def _beneath(root: str, field: str, path: str) -> str:
    """Beneath root if relative. Raises BadRequestError."""
    if len(path) > PATH_MAX:
        _check_path(field, path)
    return _joined(root, path)


@lru_cache(maxsize=256)
def _joined(root: str, path: str) -> str:
    """People submit from a few folders, thousands of times."""
    return os.path.normpath(os.path.join(root, path))  # noqa: PTH118  (no file is touched)


def edited_copy(task: Task, changes: dict[str, Any], context: Context) -> Task:
    """The task with some fields changed, checked as a submit is. Raises BadRequestError naming the field."""
    unknown = sorted(set(changes) - set(Editable.__struct_fields__) | {"hold"} & set(changes))
    if unknown or not changes:
        allowed = sorted(set(Editable.__struct_fields__) - {"hold"})
        raise BadRequestError(Message("cannot_be_edited", keys=tuple(unknown), allowed=tuple(allowed)))
    # Only what is changed is looked at: what stands there may be of another time, with other rules.
    so_far = where_so_far(task, changes) | _gpus_so_far(task, changes)
    wanted = {"command": task.command, "setup": task.setup, **so_far, **changes}
    for said, what in _SAID_OF.items():
        if said in changes:
            wanted.setdefault(what, getattr(task, what))
    spec = convert(wanted, Editable)
    if changes.keys().isdisjoint(("command", "setup")):
        spec = msgspec.structs.replace(spec, command="true", setup="")
    draft = _drafted(spec, spec.command, context)
    edited = copy(task)
    for field in changes:
        if field != "log":
            setattr(edited, field, getattr(draft, field))
    if changes.get("gpu_ids") is not None or changes.get("gpus_on") or "gpus" in changes:
        edited.gpus, edited.gpu_ids, edited.gpus_max = draft.gpus, draft.gpu_ids, draft.gpus_max
        edited.gpus_on = draft.gpus_on
    if not changes.keys().isdisjoint(WHICH):
        edited.node, edited.node_list, edited.gpus_on = draft.node, draft.node_list, draft.gpus_on
        edited.nodes = draft.nodes
    if "cwd" in changes and "snapshot" not in changes:
        edited.snapshot = None
    if "log" in changes:
        edited.log_path = log_path_of(spec.log, task.id, context)
    if not changes.keys().isdisjoint(("signal", "time_limit_s")):
        _check_signal(edited)
    if not changes.keys().isdisjoint(_OF_ELASTIC):
        _check_elastic(edited)
    return edited


def _check_signal(task: Task) -> None:
    """Check that a signal before the time limit has a limit, and enough time before it."""
    if task.signal is None:
        return
    if task.time_limit_s is None:
        raise BadRequestError(Message("signal_without_limit", name=task.signal.name))
    if task.signal.before_s >= task.time_limit_s:
        early, limit = task.signal.before_s, task.time_limit_s
        raise BadRequestError(Message("signal_before_start", name=task.signal.name, early=early, limit=limit))


_OF_ELASTIC = frozenset({"elastic", "checkpoint", "gpus", "gpus_max", "gpu_ids", "gpus_on", "nodes", "share"})


def _check_elastic(task: Task) -> None:
    """Check that an elastic task, whose GPUs change while it runs, has a range of GPUs, and a checkpoint to go on
    from."""
    if not task.elastic:
        if task.checkpoint:
            raise BadRequestError(Message("checkpoint_for_nothing"))
        return
    if task.share or task.nodes > 1:
        raise BadRequestError(Message("elastic_beside", field="share" if task.share else "nodes"))
    if task.gpus_max is None or task.gpus_max <= task.gpus:
        raise BadRequestError(Message("elastic_without_range"))
    if not task.checkpoint.strip():
        raise BadRequestError(Message("elastic_without_checkpoint"))


_OF_GPUS = frozenset({"gpus", "gpu_ids", "gpus_on", *_GPU_TERMS})
_HOW_MANY = frozenset({"gpus", "gpus_max", "gpu_ids", "gpus_on"})


def _gpus_so_far(task: Task, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the task's fields about GPUs if an edit changes some of them: together they have to make sense. An edit of
    how many GPUs replaces all fields that say how many."""
    if _OF_GPUS.isdisjoint(changes):
        return {}
    kept = _OF_GPUS - _HOW_MANY if not _HOW_MANY.isdisjoint(changes) else _OF_GPUS
    said = {field: getattr(task, field) for field in kept}
    if not any(changes.get(field) for field in _HOW_MANY) and "gpus" not in changes:
        said["gpus"] = task.gpus  # only which ones was taken back
    return {**said, "gpus": None} if said.get("gpu_ids") or said.get("gpus_on") else said


def _gpus(spec: Spec) -> tuple[int, list[int] | None]:
    if spec.gpus_on:
        return len(next(iter(spec.gpus_on.values()))), None
    if spec.gpu_ids is None:
        return spec.gpus or 0, None
    ids = sorted(set(spec.gpu_ids))
    if not ids or len(ids) != len(spec.gpu_ids):
        raise BadRequestError(Message("bad_gpu_ids", gpus=tuple(spec.gpu_ids or ())))
    if spec.gpus not in (None, len(ids)):
        raise BadRequestError(Message("gpus_said_twice", gpus=spec.gpus, named=len(ids)))
    return len(ids), ids


def _check_gpu_terms(spec: Spec) -> None:
    """Refuse fields that would do nothing. Raises BadRequestError naming the field."""
    gpus = spec.gpu_ids or spec.gpus or spec.gpus_on
    if not gpus and any(_gpu_terms_of(spec)):
        field = next(field for field, value in zip(_GPU_TERMS, _gpu_terms_of(spec), strict=True) if value)
        raise BadRequestError(Message("needs_gpus", field=field))
    if spec.gpus_max is not None and (spec.gpu_ids or spec.gpus_max < (spec.gpus or 0)):
        raise BadRequestError(Message("bad_gpus_max", least=spec.gpus or len(spec.gpu_ids or ()), most=spec.gpus_max))


def check_command(command: list[str] | str, setup: str = "") -> None:
    """Refuse a command that no machine could be given. Raises BadRequestError."""
    text = command if isinstance(command, str) else "".join(command)
    if not text or text.isspace():
        raise BadRequestError(Message("no_command"))
    if "\0" in text:
        raise BadRequestError(Message("command_with_nul"))
    if (len(setup) + len(text)) * _MOST_BYTES <= WORD_BYTES:
        return
    words = [command] if isinstance(command, str) else command
    sizes = [len(word.encode()) for word in (setup + words[0], *words[1:])]
    if max(sizes) > WORD_BYTES or sum(sizes) > ALL_BYTES:
        raise BadRequestError(
            Message("command_too_long", word=max(sizes), all=sum(sizes), most_word=WORD_BYTES, most_all=ALL_BYTES)
        )


def _check_variables(variables: dict[str, str]) -> None:
    for name, value in variables.items():
        if not VARIABLE.fullmatch(name) or "\0" in value:
            raise BadRequestError(Message("bad_variable", name=name))
        if name.startswith("MUSTER_") or name in {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"}:
            raise BadRequestError(Message("own_variable", name=name))
    sizes = [len(name) + len(value.encode()) for name, value in variables.items()]
    if max(sizes, default=0) > WORD_BYTES or sum(sizes) > ALL_BYTES // 2:
        raise BadRequestError(Message("variables_too_long", most_word=WORD_BYTES, most_all=ALL_BYTES // 2))


def _check_texts(spec: Spec) -> None:
    texts = _texts_of(spec)
    if "\0" in "".join(texts):
        field = next(field for field, text in zip(_TEXTS, texts, strict=True) if "\0" in text)
        raise BadRequestError(Message("field_with_nul", field=field))
