"""`psw_file`: the passwords with which the master logs in to nodes that have no key.

Owns the file's format and who may read it. One line: the password of every node (so the old system wrote it); where it
could as well be an entry, `*:` goes before it. Several lines: `NAME:PASSWORD` each, where NAME is a node's name, or a
`user_name`, or `*` for all others; blank lines, and lines that begin with `#`, say nothing. No message ever shows a
password.
"""

from __future__ import annotations

import re
import stat
from contextlib import suppress
from pathlib import Path

import msgspec

from master.nodes.registry import NodeConfig
from wire.errors import ConfigError
from wire.file_fault import fault
from wire.message import Message
from wire.regular_file import read_regular

EVERYBODY = "*"
_BOM = "\ufeff"
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class PasswordTable(msgspec.Struct, frozen=True):
    """Passwords by node name, by user name, or for everybody (`*`)."""

    by_name: dict[str, str] = {}

    def of(self, node: NodeConfig) -> str | None:
        """Return the password for a node: by its name, else by its user, else everybody's; None if there is none."""
        for name in (node.name, node.user_name, EVERYBODY):
            if name in self.by_name:
                return self.by_name[name]
        return None


class Passwords:
    """The file, read at each use: an admin who corrects it need not restart anything."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def of(self, node: NodeConfig) -> str | None:
        """The password for a node, None where the file has none. Raises ConfigError when it must not be used."""
        return load(self.path).of(node)


def load(path: Path) -> PasswordTable:
    """Read the file if nobody else may; one that is missing holds no password. Raises ConfigError as `read` does."""
    with suppress(OSError):  # `read` tells it
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise ConfigError(Message("passwords_open", path=str(path)))
    return read(path)


def read(path: Path) -> PasswordTable:
    """Read the file, even if others may read it. Raises ConfigError with the cure, never with a password."""
    try:
        text = read_regular(path).decode("utf-8").removeprefix(_BOM)
    except FileNotFoundError:
        return PasswordTable()
    except OSError as error:
        raise ConfigError(Message("passwords_unreadable", path=str(path), detail=error.strerror)) from None
    except UnicodeDecodeError:
        raise fault(path, Message("passwords_not_utf8")) from None
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(lines) == 1:
        return PasswordTable({EVERYBODY: _of_all(path, lines[0][1].removesuffix("\r"))})
    return PasswordTable(dict(_entry(path, number, line.removesuffix("\r")) for number, line in _said(lines)))


def _of_all(path: Path, line: str) -> str:
    """The password in a file of one line. One that could as well be the last entry of several is not sent to all."""
    name, colon, password = line.partition(":")
    if colon and name == EVERYBODY:
        return password
    if colon and _NAME.fullmatch(name):
        raise fault(path, Message("passwords_ambiguous"))
    return line


def _said(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    return [(number, line) for number, line in lines if not line.startswith("#")]


def _entry(path: Path, number: int, line: str) -> tuple[str, str]:
    name, colon, password = line.partition(":")
    if not colon or not name.strip() or not password:
        raise fault(path, Message("passwords_line", line=number))
    return name.strip(), password
