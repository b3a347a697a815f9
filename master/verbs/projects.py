"""The verbs about projects: which there are, to which group one belongs, and what its tasks may have."""

from __future__ import annotations

from collections.abc import Generator
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from master.core.people.projects import Project
from master.core.tasks.task import ENDED, Task
from master.verbs.auth import UserName
from master.verbs.base import Context, Nothing
from master.verbs.convert import convert
from master.verbs.quotas import QuotaChanges, QuotaView, UseView, quota_view, use_view
from wire.errors import BadRequestError, ForbiddenError
from wire.message import Message

SLICE = 5000
"""Tasks that are looked at between two chances for others: about 2 ms of them."""
ProjectName = Annotated[str, Meta(min_length=1, max_length=200)]


class _Changes(QuotaChanges, frozen=True, forbid_unknown_fields=True):
    group: UserName | UnsetType | None = UNSET


class EditProject(msgspec.Struct, forbid_unknown_fields=True):
    """project.edit: what is to be changed of the project `name`: the `group` that it belongs to (null: none), and what
    its tasks may have at a time, null for no bound: `max_total_gpus` in use, `max_manual_gpus` in named
    allocations, `max_gpus_per_task`, `max_running` tasks."""

    name: ProjectName
    changes: Annotated[dict[str, Any], Meta(examples=[{"group": "vision", "max_total_gpus": 8}])]


class ProjectView(msgspec.Struct, frozen=True):
    """A project: the `group` whose members alone may use it (null: it belongs to none), its quota, what is in use, and
    how many `tasks` of it are not over."""

    name: str
    group: str | None
    quota: QuotaView
    use: UseView
    tasks: int


def list_projects(context: Context, _params: Nothing) -> Generator[None, None, list[ProjectView]]:
    """Projects that somebody said something of, or that tasks have which are not over; not those of others' groups."""
    core, sight = context.core, context.sight
    counts, tasks = dict[str, int](), list(core.tasks.values())
    for begin in range(0, len(tasks), SLICE):  # a queue may hold a hundred thousand
        for task in tasks[begin : begin + SLICE]:
            if task.project and task.state not in ENDED and sight.knows(task.owner):
                counts[task.project] = counts.get(task.project, 0) + 1
        yield
    known = [one.name for one in core.projects.values() if _may_see(context, one)]
    names = sorted({*known, *(name for name in counts if name not in core.projects)})
    uses = core.quotas.uses()
    return [_view(context, name, use_view(uses.get(("project", name))), counts.get(name, 0)) for name in names]


def edit(context: Context, params: EditProject) -> ProjectView:
    """Say to which group a project belongs, and what its tasks may have."""
    name, core = params.name, context.core
    if name != name.strip() or not name.isprintable():
        raise BadRequestError(Message("bad_project_name", name=name))
    changes = convert(params.changes, _Changes)
    group = changes.group
    fields: dict[str, int | None] = {}
    if group is not UNSET:
        fields["group"] = None if group is None else core.people.group(group).id

    def change() -> ProjectView:
        before = core.projects.get(name) or Project(name)
        core.edit_project(name, quota=changes.of(before.quota), **fields)
        tasks = sum(task.project == name and task.state not in ENDED for task in core.tasks.values())
        return _view(context, name, use_view(core.quotas.uses().get(("project", name))), tasks)

    return context.change(change, grows=False)


def check_project(context: Context, task: Task) -> None:
    """Raise ForbiddenError for a task of a project that belongs to a group which its owner does not belong to, unless
    an admin says so."""
    people, caller = context.core.people, context.caller
    project = context.core.projects.get(task.project) if task.project else None
    if project is None or project.group is None or not people.is_shared or caller.owns_all:
        return
    user, group = people.named(task.owner), people.groups.get(project.group)
    if group is not None and (user is None or not context.core.quotas.may_use(user, project)):
        raise ForbiddenError(Message("project_of_group", project=project.name, group=group.name, owner=task.owner))


def _may_see(context: Context, project: Project) -> bool:
    group = None if project.group is None else context.core.people.groups.get(project.group)
    return group is None or context.caller.role == "admin" or group.name in context.caller.groups


def _view(context: Context, name: str, use: UseView, tasks: int) -> ProjectView:
    project = context.core.projects.get(name) or Project(name)
    group = None if project.group is None else context.core.people.groups.get(project.group)
    return ProjectView(name, None if group is None else group.name, quota_view(project.quota), use, tasks)
