"""The verbs about groups of users and their mentors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from master.core.people.people import Group, User
from master.core.people.quota import Use
from master.core.people.quotas import Key
from master.verbs.auth import UserName
from master.verbs.base import Context, Done, Nothing
from master.verbs.convert import convert
from master.verbs.quotas import QuotaChanges, QuotaView, UseView, quota_view, use_view


class OneGroup(msgspec.Struct, forbid_unknown_fields=True):
    """A group by its name."""

    name: UserName


class EditGroup(OneGroup, forbid_unknown_fields=True):
    """group.edit: users to `add` and to take out (`remove`), and of those who look after the members, `add_mentors` and
    `remove_mentors`; and in `changes` what the members' tasks may have at a time, null for no bound: `max_total_gpus`
    in use, `max_manual_gpus` in named allocations, `max_gpus_per_task`, `max_running` tasks."""

    add: list[UserName] = []
    remove: list[UserName] = []
    add_mentors: list[UserName] = []
    remove_mentors: list[UserName] = []
    changes: Annotated[dict[str, Any], Meta(examples=[{"max_total_gpus": 16}])] = {}


class GroupView(msgspec.Struct, frozen=True):
    """A group: its members, and the mentors who see, cancel, hold and move their tasks, by name; what their tasks may
    have at a time, and what is in use."""

    id: int
    name: str
    members: list[str]
    mentors: list[str]
    quota: QuotaView
    use: UseView


def list_groups(context: Context, _params: Nothing) -> list[GroupView]:
    """All groups for admins; for others those that they belong to or look after."""
    groups = sorted(context.core.people.groups.values(), key=lambda group: group.name)
    sees_all = context.caller.role == "admin"
    uses = context.core.quotas.uses()
    return [_view(context, group, uses) for group in groups if sees_all or group.name in context.caller.groups]


def add(context: Context, params: OneGroup) -> GroupView:
    """Add a group of nobody."""
    return _view(context, context.change(lambda: context.core.people.add_group(params.name)))


def edit(context: Context, params: EditGroup) -> GroupView:
    """Say who belongs to a group, who looks after it, and what the members' tasks may have."""
    people, changes = context.core.people, convert(params.changes, QuotaChanges)
    group = people.group(params.name)
    members = _changed(context, group.members, params.add, params.remove)
    mentors = _changed(context, group.mentors, params.add_mentors, params.remove_mentors)
    quota = changes.of(group.quota)
    return _view(context, context.change(lambda: people.edit_group(params.name, members, mentors, quota)))


def remove(context: Context, params: OneGroup) -> Done:
    """Remove a group; its users stay."""
    context.change(lambda: context.core.people.remove_group(params.name), grows=False)
    return Done()


def _changed(context: Context, ids: frozenset[int], more: list[str], less: list[str]) -> list[User]:
    people = context.core.people
    gone = {people.find(name).id for name in less}
    return [people.users[number] for number in sorted((ids | {people.find(name).id for name in more}) - gone)]


def _view(context: Context, group: Group, uses: Mapping[Key, Use] | None = None) -> GroupView:
    users = context.core.people.users
    uses = context.core.quotas.uses() if uses is None else uses
    return GroupView(
        group.id,
        group.name,
        sorted(users[number].name for number in group.members),
        sorted(users[number].name for number in group.mentors),
        quota_view(group.quota),
        use_view(uses.get(("group", group.name))),
    )
