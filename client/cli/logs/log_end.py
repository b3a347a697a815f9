"""The end of the log of a task that failed, for `show` and `why`."""

from __future__ import annotations

from client.text.task_page import FAILED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context
    from client.shapes import TaskPage, Why

MOST = 50
"""Of so many tasks at once the logs are read."""


def log_end_of(context: Context, task: TaskPage | Why) -> dict[str, list[str]]:
    """The last lines, as `log_end`; nothing where there are none, or the caller may not read them."""
    lines = context.client.last_lines(task["id"]) if task["state"] in FAILED else []
    return {"log_end": lines} if lines else {}
