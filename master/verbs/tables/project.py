"""The verbs `project.…`: see `master.verbs.table`."""

from __future__ import annotations

from master.verbs import projects
from master.verbs.base import Nothing, Verb

VERBS: dict[str, Verb] = {
    "project.list": Verb(
        Nothing, list[projects.ProjectView], projects.list_projects, "viewer", "read", "none", repeatable=True
    ),
    "project.edit": Verb(
        projects.EditProject, projects.ProjectView, projects.edit, "admin", "admin", "none", repeatable=True
    ),
}
