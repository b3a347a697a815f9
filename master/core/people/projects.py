"""Projects of which more is known than that tasks name them: the group that one belongs to, and its quota.

Pure. Each is a piece of the state of its own (`project/NAME`). Users may give a project any name; a project is kept
here as long as more than its name is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from master.core.outcome import Pending
from master.core.people.quota import NO_QUOTA, Quota

PIECE = "project/"
"""How the pieces are named, before the project's name."""


class Project(msgspec.Struct, frozen=True, omit_defaults=True):
    """`group`: the id of the group that it belongs to; one that is no more is none."""

    name: str
    group: int | None = None
    quota: Quota = NO_QUOTA


class Projects:
    """`known`: those of which there is something to say, by name."""

    def __init__(self, pending: Pending) -> None:
        self.known: dict[str, Project] = {}
        self._pending = pending

    def load(self, pieces: Mapping[str, msgspec.Raw]) -> None:
        """Take over what was written down. A piece that says `null` is of one of which there is nothing to say."""
        for name, raw in pieces.items():
            if name.startswith(PIECE) and bytes(raw) != b"null":
                project = msgspec.json.decode(raw, type=Project)
                self.known[project.name] = project

    def get(self, name: str) -> Project:
        """Return what is known of a project, even if that is nothing."""
        return self.known.get(name) or Project(name)

    def edit(self, name: str, **fields: Any) -> Project:
        """Change these fields of a project."""
        project = msgspec.structs.replace(self.get(name), **fields)
        if project == Project(name):
            self.known.pop(name, None)
        else:
            self.known[name] = project
        said = msgspec.json.encode(project) if name in self.known else b"null"
        self._pending.piece(f"{PIECE}{name}", msgspec.Raw(said))
        self._pending.plan_needed = True
        return project
