"""The request of an allocation: a task's fields about GPUs, time and order, and none about a command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from master.core.tasks.task import Task
from master.verbs.base import Context
from master.verbs.spec import LAST_S, MOST_NODES, Count, Mib, Name, Spec, draft_of
from wire.errors import BadRequestError, ConflictError
from wire.message import Message

NAME = re.compile(r"(?=.*[^0-9])[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
"""Not digits only: `--in 12` is an id."""


class AllocationSpec(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields of a submit that make sense for an allocation, which runs nothing. `gpus`: on each of `nodes`, held as
    a whole."""

    name: Annotated[str, Meta(max_length=100, examples=["exp"])]
    gpus: Annotated[int, Meta(ge=1, le=4096)] | None = None
    gpus_max: Annotated[int, Meta(ge=1, le=4096)] | None = None
    gpu_ids: list[Count] | None = None
    gpu_memory_mib: Mib | None = None
    gpu_models: Annotated[list[Annotated[str, Meta(min_length=1, max_length=100)]], Meta(max_length=32)] = []
    nodes: Annotated[int, Meta(ge=1, le=MOST_NODES)] | None = None
    node: str | None = None
    node_list: Annotated[list[Name], Meta(max_length=MOST_NODES)] = []
    gpus_on: Annotated[dict[Name, Annotated[list[Count], Meta(min_length=1)]], Meta(max_length=MOST_NODES)] = {}
    exclude: Annotated[list[Name], Meta(max_length=MOST_NODES)] = []
    project: Annotated[str, Meta(max_length=200)] = ""
    priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)] = 0
    urgent: bool = False
    time_limit_s: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    begin_at: Annotated[float, Meta(ge=0, le=LAST_S)] | None = None
    hold: bool = False


FIELDS = AllocationSpec.__struct_fields__


def allocation_of(spec: AllocationSpec, context: Context) -> Task:
    """The task that holds this, without an id. Raises BadRequestError naming the field."""
    _check_name(context, spec.name)
    said = {field: value for field in FIELDS if (value := getattr(spec, field)) not in (None, [], {})}
    # A program that does not know allocations shows this command, or runs it, without harm.
    task = draft_of(Spec(**said), f"# allocation {spec.name}", context)
    task.is_allocation = True
    check_holds_something(task)
    return task


def check_holds_something(task: Task) -> None:
    """Raise BadRequestError for an allocation without GPUs."""
    if task.is_allocation and not task.gpus:
        raise BadRequestError(Message("missing_key", where="", key="gpus"))


def check_allocation_edit(context: Context, task: Task, changes: Mapping[str, Any]) -> None:
    """Raise BadRequestError for what an allocation cannot have, ConflictError for a name that another has of which the
    caller learns nothing more."""
    if not task.is_allocation:
        return
    if "name" in changes:
        _check_name(context, str(changes["name"]))
    allowed = [field for field in FIELDS if field != "hold"]
    if others := sorted({*changes} - {*allowed, "owner"}):
        raise BadRequestError(Message("allocation_edit", id=task.id, keys=tuple(others), allowed=tuple(allowed)))


def _check_name(context: Context, name: str) -> None:
    if not NAME.fullmatch(name):
        raise BadRequestError(Message("bad_allocation_name", name=name))
    known = context.core.allocations.named(name)
    if known is not None and not context.sight.knows(known.owner):
        raise ConflictError(Message("allocation_name_in_use", name=name))
