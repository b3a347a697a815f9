"""What a client may say of a task that it wants, and the way from there to a Task. Checks what can be checked alone;
whether a node could ever run it is the core's to say."""

from __future__ import annotations

import os
import re
from copy import copy
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from master.core.activation import is_env_name
from master.core.task import After, Task, TaskState, Terms
from master.verbs.base import Context
from master.verbs.convert import convert
from wire.errors import BadRequestError
from wire.message import Message

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
Count = Annotated[int, Meta(ge=0, le=4096)]
WORD_BYTES = 128 * 1024 - 4096
"""The kernel gives a program no longer word than 128 KiB; what activates the environment goes before the command."""
ALL_BYTES = 1 << 20
"""Words and variables together: half of what the kernel takes, the rest is for what is there already."""
PATH_MAX = 4096
_MOST_BYTES = 4
"""Of one character, in UTF-8."""
_TEXTS = ("name", "project", "setup", "cwd", "env")
_texts_of = attrgetter(*_TEXTS)


class Predecessor(After, frozen=True, forbid_unknown_fields=True):
    """`on`: `ok` (must succeed), `fail` (must not), `any`."""

    id: Annotated[int, Meta(ge=1)]
    on: Literal["ok", "fail", "any"] = "ok"


class Spec(Terms, kw_only=True, forbid_unknown_fields=True, omit_defaults=False):
    """The fields of a submit, less the command. Empty means: as conf.json has it. What stands here is narrower than on
    disk, where what was queued in another time, with other limits, must still load."""

    name: Annotated[str, Meta(max_length=200)] = ""
    project: Annotated[str, Meta(max_length=200)] = ""
    gpus: Count | None = None  # type: ignore[assignment]  # None: as many as `gpu_ids` names
    gpu_ids: list[Count] | None = None
    cpus: Annotated[int, Meta(ge=1, le=65536)] | None = None
    after: list[Predecessor] = msgspec.field(default_factory=list)  # type: ignore[assignment]  # nobody appends
    priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)] = 0
    time_limit_s: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    share: bool = False
    log: str | None = None
    hold: bool = False


class Editable(Spec, kw_only=True, forbid_unknown_fields=True):
    """What an edit may change: a Spec and the command."""

    command: list[str] | str


def draft_of(spec: Spec, command: list[str] | str, context: Context) -> Task:
    """The task that a spec describes, without id and log path. Raises BadRequestError naming the field."""
    check_command(command, spec.setup)
    if spec.variables:
        _check_variables(spec.variables)
    _check_texts(spec)
    if spec.env and not spec.env.startswith("/") and not is_env_name(spec.env):
        raise BadRequestError(Message("env_no_name", env=spec.env))
    if spec.share:
        raise BadRequestError(Message("no_sharing"))
    terms = {name: getattr(spec, name) for name in Terms.__struct_fields__}
    terms["gpus"], terms["gpu_ids"] = _gpus(spec)
    terms["cwd"] = _beneath(context.master.root, spec.cwd)
    if spec.after:
        terms["after"] = [After(one.id, one.on) for one in spec.after]
    state = TaskState.HELD if spec.hold else TaskState.WAITING
    return Task(id=0, owner=context.user, state=state, command=command, **terms)


def log_path_of(asked: str | None, task_id: int, context: Context) -> str:
    """Where the task's output goes: what was asked for (beneath root if relative), else the log folder."""
    if asked:
        if "\0" in asked:
            raise BadRequestError(Message("field_with_nul", field="log"))
        return _beneath(context.master.root, asked)
    return f"{context.master.log_folder}/{task_id}.log"


def _beneath(root: str, path: str) -> str:
    """Beneath root if relative."""
    return _joined(root, path) if len(path) < PATH_MAX else _joined.__wrapped__(root, path)


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
    wanted = {"command": task.command, "setup": task.setup, **changes}
    spec = convert(wanted, Editable)
    if changes.keys().isdisjoint(("command", "setup")):
        spec = msgspec.structs.replace(spec, command="true", setup="")
    draft = draft_of(spec, spec.command, context)
    edited = copy(task)
    for field in changes:
        if field != "log":
            setattr(edited, field, getattr(draft, field))
    if changes.get("gpu_ids") is not None or "gpus" in changes:
        edited.gpus, edited.gpu_ids = draft.gpus, draft.gpu_ids
    if "log" in changes:
        edited.log_path = log_path_of(spec.log, task.id, context)
    return edited


def _gpus(spec: Spec) -> tuple[int, list[int] | None]:
    if spec.gpu_ids is None:
        return spec.gpus or 0, None
    ids = sorted(set(spec.gpu_ids))
    if not ids or len(ids) != len(spec.gpu_ids):
        raise BadRequestError(Message("bad_gpu_ids", gpus=tuple(spec.gpu_ids or ())))
    if spec.gpus not in (None, len(ids)):
        raise BadRequestError(Message("gpus_said_twice", gpus=spec.gpus, named=len(ids)))
    return len(ids), ids


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
