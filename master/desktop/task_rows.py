"""A task as the desktop client's tables show it, and back: ids, states, the client's words for "nothing".

Every value has exactly the type and spelling that the client's tables take: one of another type leaves its rows shifted
for the rest of its session.
"""

from __future__ import annotations

import os
import shlex
from typing import Any

from master.core.tasks.task import QUEUED, Task, TaskState
from master.views.sight import Depth, at_depth
from wire.errors import BadRequestError
from wire.numbers import whole_number

ANY_NODE = "<默认>"
NO_TASK = "(无)"
NOTHING = frozenset({"", ANY_NODE, NO_TASK})
ANOTHERS = "（他人的任务）"
"""Replaces a command that the viewer may not see."""
STATES = {
    TaskState.WAITING: "wait",
    TaskState.HELD: "wait",
    TaskState.STARTING: "pexec",
    TaskState.RUNNING: "exec",
    TaskState.PAUSED: "exec",
    TaskState.SUCCEEDED: "accp",
    TaskState.FAILED: "err",
    TaskState.TIMED_OUT: "err",
    TaskState.CANCELLED: "term",
    TaskState.LOST: "offline_error",
}
SHOWN_COMMAND = 2000
"""Characters of a command that a row holds; all rows are sent every two seconds."""
CUT = " … (cut here)"
_LONGEST_ID = 15


def row(task: Task, home: str) -> dict[str, Any]:
    """One entry of the three lists. `home`: the folder that the client calls so."""
    return {
        "task_id": id_text(task.id),
        "envs": task.env,
        "path": path_text(task.cwd, home),
        "exec": command_text(task),
        "need_gpus": str(task.gpus),
        "slaver": node_text(task),
        "prev": id_text(task.after[0].id) if task.after else NO_TASK,
        "is_urgent": int(task.urgent),
        "is_reuse_gpu": int(task.share),
        "state": STATES[task.state],
    }


def bare_row(task: Task) -> dict[str, Any]:
    """Likewise for a viewer who may only know that the task exists."""
    return row(at_depth(task, Depth.BARE), "/") | {"path": "/", "exec": ANOTHERS}


def id_text(task_id: int) -> str:
    """14 digits, as the client's tables want an id."""
    return f"{task_id:014d}"


def read_id(value: Any) -> int:
    """The id that the client sent. Raises BadRequestError."""
    text = value if isinstance(value, str) else str(value) if isinstance(value, int) else ""
    number = whole_number(text, _LONGEST_ID)
    if not number:
        raise BadRequestError(f"{str(value)[:40]!r} is not the id of a task; wait until the table is shown anew")
    return number


def path_text(folder: str, home: str) -> str:
    """A folder as the client names it: from home on, with a slash at both ends; another one as it is."""
    inside = os.path.relpath(folder, home) if folder.startswith("/") else folder
    if inside == ".":
        return "/"
    return folder if inside == ".." or inside.startswith("../") else f"/{inside.strip('/')}/"


def folder_of(path: str, home: str) -> str:
    """The folder that the client's path means. Raises BadRequestError for one outside home."""
    folder = os.path.normpath(f"{home}/{path}")
    if folder != home and not folder.startswith(f"{home.rstrip('/')}/"):
        raise BadRequestError(f"path: {path!r} lies outside the home folder; choose one of the folders that are shown")
    return folder


def command_text(task: Task) -> str:
    """The command as one text; a long one is cut, and ends with CUT."""
    text = task.command if isinstance(task.command, str) else shlex.join(task.command)
    return text if len(text) <= SHOWN_COMMAND else text[: SHOWN_COMMAND - len(CUT)] + CUT


def node_text(task: Task) -> str:
    """The node that the user chose; once started, the one that runs it."""
    if task.state not in QUEUED and task.allocation:
        return task.allocation[0].node
    return task.node or ANY_NODE
