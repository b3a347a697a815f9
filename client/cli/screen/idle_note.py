"""Tells whoever sits at a terminal and attends a task that it does nothing, and that it works again.

On stderr, and only at a terminal: what a program reads is the log and nothing else.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context


class IdleNote:
    """Called with what looks wrong with a task that runs (None: nothing), as often as it is told. `before`: leaves the
    line that the terminal is in."""

    def __init__(self, context: Context, before: str = "\n") -> None:
        self._context = context
        self._before = before
        self._said: dict[int, str | None] = {}

    def __call__(self, task_id: int, warning: str | None) -> bool:
        """Whether there was something new to say."""
        if warning == self._said.get(task_id) or not sys.stderr.isatty():
            return False
        from wire.harmless import harmless

        self._said[task_id] = warning
        self._context.note(self._before + harmless(f"task {task_id}: {warning or 'it works again'}"))
        return True
