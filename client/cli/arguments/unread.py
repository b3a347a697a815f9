"""Lines at the head of a script that are options of a queue, and that are not read: the script is a word of the
command, or the lines are for another queue. Owns no options: `submitting` and `sbatch` read those that are read."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

OTHERS = ("#PBS", "#BSUB", "#$ -")
"""Marks of other queues, whose lines are never read."""
_READ = ("#MUSTER", "#SBATCH")
_SHELLS = ("bash", "sh")
_MOST = 8192


def mark_of(text: str, marks: tuple[str, ...]) -> str:
    """Return the first of these marks with which a line at the head of a script begins; "" if there is none."""
    return next((mark.removesuffix(" -") for line in _head(text) for mark in marks if line.startswith(mark)), "")


def script_with_options(command: list[str] | str, folder: str) -> str:
    """Return a note about a script whose options are not read, because it is a word of a command, else ""."""
    if isinstance(command, str) or not command:
        return ""
    name = command[1] if os.path.basename(command[0]) in _SHELLS and len(command) > 1 else command[0]
    path = os.path.join(folder, name)
    if "/" not in name and name is command[0]:
        return ""
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, "rb") as file:
            mark = mark_of(file.read(_MOST).decode(errors="replace"), _READ)
    except (OSError, ValueError):
        return ""  # it cannot be read here, or is no path
    if not mark:
        return ""
    from shlex import quote

    what = f"the {mark} lines of {name} are not read, for it is a word of the command"
    return f"{what}: --script {quote(name)} reads them"


def _head(text: str) -> Iterator[str]:
    for raw in text.splitlines():
        line = raw.strip()
        if line and not line.startswith("#"):
            return
        yield line
