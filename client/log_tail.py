"""The last lines that a task wrote, for whoever asks what became of it.

They are read from the log like any other part of it, by the same rights, each time somebody asks; they are no part of a
task, and so of nothing that others are told. What acts on a terminal is taken out.
"""

from __future__ import annotations

import re

from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Asked(Protocol):
        """What this asks: a client."""

        def read_log(
            self, task_id: int, offset: int, limit: int | None = None, **how: Any
        ) -> tuple[bytes, dict[str, Any]]:
            """See `client.api.Client.read_log`."""


LINES = 8
WIDEST = 500
"""So many characters of a line are told."""
_READ = 16 * 1024
# Control sequences, strings for the terminal (with what they say), and other escapes: ECMA-48.
_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
_TRAILER = re.compile(r"Program Exit With Code \d+")


def last_lines(client: Asked, task_id: int, most: int = LINES) -> list[str]:
    """At most `most` of them, the last one last, without what stood under a progress bar before. None where there is
    nothing, or where the caller may not read the log."""
    from wire.errors import MusterError

    try:
        data, state = client.read_log(task_id, -_READ, _READ)
    except MusterError:
        return []  # what else is known of the task is told all the same
    return lines_of(data, most, is_whole=state["offset"] == 0)


def lines_of(data: bytes, most: int = LINES, *, is_whole: bool = True) -> list[str]:
    """The last lines of this end of a log. `is_whole`: its first line is whole."""
    lines = [_shown(line) for line in data.decode(errors="replace").split("\n")]
    if not is_whole and len(lines) > 1:
        del lines[0]
    while lines and (not lines[-1] or _TRAILER.fullmatch(lines[-1])):
        lines.pop()
    return [line for line in lines if line][-most:] if most > 0 else []


def _shown(line: str) -> str:
    """As a terminal would show it in the end, on one line, with nothing that acts on a terminal."""
    states = [state for state in _ESCAPE.sub("", line).split("\r") if state.strip()]
    text = harmless(states[-1].expandtabs().rstrip()) if states else ""
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"
