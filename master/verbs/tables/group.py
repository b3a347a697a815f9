"""The verbs `group.…`: see `master.verbs.table`."""

from __future__ import annotations

from master.verbs import groups
from master.verbs.base import Done, Nothing, Verb

VERBS: dict[str, Verb] = {
    "group.list": Verb(Nothing, list[groups.GroupView], groups.list_groups, "viewer", "read", "none", repeatable=True),
    "group.add": Verb(groups.OneGroup, groups.GroupView, groups.add, "admin", "admin", "none"),
    "group.edit": Verb(groups.EditGroup, groups.GroupView, groups.edit, "admin", "admin", "none", repeatable=True),
    "group.remove": Verb(groups.OneGroup, Done, groups.remove, "admin", "admin", "none"),
}
