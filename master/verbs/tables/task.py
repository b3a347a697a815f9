"""The verbs `task.…`: see `master.verbs.table`."""

from __future__ import annotations

from master.core.tasks.task import TaskPage, TaskView
from master.verbs import archived, diff, places, tasks
from master.verbs.archived import (
    ArchivedTasks,
    ListArchived,
    list_archived,
    named,
    or_after,
    or_read,
    or_recalled,
    told_whole,
    told_why,
)
from master.verbs.arrays import ArrayView, EditArray, SubmitArray, edit_array, submit_array
from master.verbs.base import Verb
from master.verbs.submit import Batch, Preview, Submit, SubmitBatch, Submitted, submit, submit_batch
from master.verbs.task_list import ListTasks, SparseTaskList, TaskList, list_tasks
from master.verbs.tasks import OneTask

VERBS: dict[str, Verb] = {
    "task.submit": Verb(Submit, Submitted | Preview, or_after(submit, named), "user", "submit", "none"),
    "task.submit_batch": Verb(SubmitBatch, Batch, or_after(submit_batch, named), "user", "submit", "none"),
    "task.submit_array": Verb(SubmitArray, Batch, or_after(submit_array, named), "user", "submit", "none"),
    "task.places": Verb(
        places.Places, places.Missing, places.places, "user", "submit", "none", repeatable=True, quiet=True
    ),
    "task.list": Verb(
        ListTasks, TaskList | SparseTaskList, list_tasks, "viewer", "read", "any", repeatable=True, on_wall=True
    ),
    "task.archived": Verb(ListArchived, ArchivedTasks, list_archived, "viewer", "read", "any", repeatable=True),
    "task.show": Verb(OneTask, TaskPage, or_read(tasks.show, told_whole), "viewer", "read", "any", repeatable=True),
    "task.why": Verb(OneTask, tasks.Why, or_read(tasks.why, told_why), "viewer", "read", "any", repeatable=True),
    "task.diff": Verb(diff.Diff, diff.Differing, diff.diff, "viewer", "read", "any", repeatable=True),
    "task.cancel": Verb(tasks.Cancel, tasks.Cancelled, archived.cancelled, "user", "submit", "group", repeatable=True),
    "task.edit": Verb(tasks.Edit, TaskView, archived.edited, "user", "submit", "group", repeatable=True),
    "task.edit_array": Verb(EditArray, ArrayView, edit_array, "user", "submit", "any", repeatable=True),
    "task.hold": Verb(OneTask, TaskView, or_recalled(tasks.hold), "user", "submit", "group", repeatable=True),
    "task.release": Verb(OneTask, TaskView, or_recalled(tasks.release), "user", "submit", "group", repeatable=True),
    "task.pause": Verb(OneTask, TaskView, or_recalled(tasks.pause), "user", "submit", "group", repeatable=True),
    "task.resume": Verb(OneTask, TaskView, or_recalled(tasks.resume), "user", "submit", "group", repeatable=True),
    "task.move": Verb(tasks.Move, TaskView, or_recalled(tasks.move), "user", "submit", "group", repeatable=True),
    "task.start": Verb(OneTask, TaskView, or_recalled(tasks.start), "user", "submit", "group"),
    "task.retry": Verb(OneTask, TaskView, or_recalled(tasks.retry), "user", "submit", "own"),
    "task.remove": Verb(tasks.Remove, tasks.Removed, archived.removed, "user", "submit", "own"),
}
