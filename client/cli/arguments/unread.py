"""Lines at the head of a script that are options of a queue, and that are not read: the script is a word of the
command, or the lines are for another queue. Owns no options: `submitting` and `sbatch` read those that are read."""

from __future__ import annotations

import os
import stat

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
    """Return a note about a script in this folder whose options are not read, because it is a word of a command, else
    "". A script elsewhere is not looked at, nor behind a link: its disk may hang."""
    if isinstance(command, str) or not command:
        return ""
    is_shell = os.path.basename(command[0]) in _SHELLS and len(command) > 1
    name = command[1] if is_shell else command[0]
    if not is_shell and "/" not in name:
        return ""  # a program
    plain = name.removeprefix(f"{folder}/").removeprefix("./")
    if not plain or "/" in plain:
        return ""
    try:
        mark = mark_of(_beginning(os.path.join(folder, plain)), _READ)
    except (OSError, ValueError):
        return ""  # it cannot be read here, or is no path
    if not mark:
        return ""
    from shlex import quote

    what = f"the {mark} lines of {name} are not read, for it is a word of the command"
    return f"{what}: --script {quote(name)} reads them"


def _beginning(path: str) -> str:
    """Return the first part of a file; "" of what is none. Raises OSError, ValueError."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        is_file = stat.S_ISREG(os.fstat(fd).st_mode)
        return os.read(fd, _MOST).decode(errors="replace") if is_file else ""
    finally:
        os.close(fd)


def _head(text: str) -> Iterator[str]:
    for raw in text.splitlines():
        line = raw.strip()
        if line and not line.startswith("#"):
            return
        yield line
