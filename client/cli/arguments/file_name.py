"""The name of a file or folder on the command line. `-` stands for stdin or stdout to people, so where neither
can be meant it is refused, and no file of that name is made; `./-` is one."""

from __future__ import annotations

from client.cli.arguments.wrong import wrong

STREAM = "-"


def folder(text: str) -> str:
    """A folder. Raises ArgumentTypeError."""
    if text == STREAM:
        raise wrong("`-` is stdin or stdout, and a folder is needed: ./- is the folder of that name")
    return text


def log(text: str) -> str:
    """Where a task's output goes. Raises ArgumentTypeError."""
    if text == STREAM:
        raise wrong(
            "`-` is stdout, and a task has none of yours: leave it out, and `muster logs ID` prints what it writes"
        )
    return text
