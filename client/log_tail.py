"""The last lines of a task's log, shown with the result of the task.

Each call reads the log with the caller's permissions. The lines are not stored in the task, so other users never
receive them. Control sequences of terminals are removed.
"""

from __future__ import annotations

import re

from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Asked(Protocol):
        """The one method of a client that this module calls."""

        def read_log(
            self, task_id: int, offset: int, limit: int | None = None, **how: Any
        ) -> tuple[bytes, dict[str, Any]]:
            """See `client.api.Client.read_log`."""


LINES = 8
WIDEST = 500
"""Characters of a line; longer lines are cut."""
_READ = 16 * 1024
# Control sequences, strings for the terminal (with what they say), and other escapes: ECMA-48.
_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
_TRAILER = re.compile(r"Program Exit With Code \d+")


def last_lines(client: Asked, task_id: int, most: int = LINES) -> list[str]:
    """Return at most `most` lines, the last one last; of a progress bar only its last state. The list is empty if the
    log is empty, not found, or closed to the caller."""
    from wire.errors import MusterError

    try:
        data, state = client.read_log(task_id, -_READ, _READ)
    except MusterError:
        return []  # the rest of the page is shown without the log
    return lines_of(data, most, is_whole=state["offset"] == 0)


def lines_of(data: bytes, most: int = LINES, *, is_whole: bool = True) -> list[str]:
    """Return the last lines of `data`, the end of a log. `is_whole`: the first line of `data` is complete."""
    lines = [_shown(line) for line in data.decode(errors="replace").split("\n")]
    if not is_whole and len(lines) > 1:
        del lines[0]
    while lines and (not lines[-1] or _TRAILER.fullmatch(lines[-1])):
        lines.pop()
    return [line for line in lines if line][-most:] if most > 0 else []


def _shown(line: str) -> str:
    """Return the line as a terminal finally shows it, without control characters."""
    states = [state for state in _ESCAPE.sub("", line).split("\r") if state.strip()]
    text = harmless(states[-1].expandtabs().rstrip()) if states else ""
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"
