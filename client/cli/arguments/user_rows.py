"""A CSV file of users: a head, and a row for each. It reports all mistakes at once, by line and column."""

from __future__ import annotations

import argparse
import csv
import io
import re

from client.cli.arguments import fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

ROLES = ("viewer", "user", "admin")
LANGUAGES = ("en", "zh")
_COLUMNS = ("name", "display", "mail", "role", "groups", "expires", "language")
_NAME = r"[a-z_][a-z0-9_-]{0,31}"
_BETWEEN_GROUPS = r"[\s;|]+"
_TOLD = 20
"""It reports so many mistakes; a file with more is of another kind."""


def read(path: str, said: bytes, users: Collection[str], groups: Collection[str]) -> list[dict[str, Any]]:
    """The rows, as `user.add` takes them, each with its `groups`. `users`, `groups`: names that there are. Raises
    BadRequestError."""
    try:
        return _read(path, said, users, groups)
    except csv.Error as error:
        raise _refused(path, [f"it is no CSV file: {error}"]) from None


def _read(path: str, said: bytes, users: Collection[str], groups: Collection[str]) -> list[dict[str, Any]]:
    wrong: list[str] = []
    lines = csv.DictReader(io.StringIO(_text(path, said)), skipinitialspace=True)
    if ";" in (lines.fieldnames or [""])[0]:  # as some spreadsheets write it
        lines = csv.DictReader(io.StringIO(_text(path, said)), skipinitialspace=True, delimiter=";")
    head = [name.strip().lower() for name in lines.fieldnames or ()]
    wrong += [
        f"line 1: there is no column {name!r}; there are {', '.join(_COLUMNS)}" for name in head if name not in _COLUMNS
    ]
    wrong += [f"line 1: the column {name!r} is there twice" for name in dict.fromkeys(head) if head.count(name) > 1]
    if "name" not in head:
        wrong.append(f"line 1: a head with the column `name` is expected; there are {', '.join(_COLUMNS)}")
    if wrong:
        raise _refused(path, wrong)
    lines.fieldnames = head
    rows: list[dict[str, Any]] = []
    seen: dict[str, int] = {}
    for cells in lines:
        if not any(isinstance(value, str) and value.strip() for value in cells.values()):
            continue
        if None in cells or None in cells.values():
            wrong.append(f"line {lines.line_num}: {len(head)} cells are expected, as in the head")
            continue
        row = _Row(lines.line_num, {key: str(value).strip() for key, value in cells.items()})
        rows.append(row.read(users, groups, seen))
        wrong += row.wrong
    if not rows and not wrong:
        wrong.append("line 2: there is nobody in it")
    if wrong:
        raise _refused(path, wrong)
    return rows


class _Row:
    def __init__(self, line: int, cells: dict[str, str]) -> None:
        self.wrong: list[str] = []
        self._line = line
        self._cells = cells

    def read(self, users: Collection[str], groups: Collection[str], seen: dict[str, int]) -> dict[str, Any]:
        cells = self._cells
        self._check_name(cells["name"], users, seen)
        row: dict[str, Any] = {"name": cells["name"], "groups": self._groups(groups)}
        row.update({key: cells[key] for key in ("display", "mail") if cells.get(key)})
        row.update({key: cells[key].lower() for key in ("role", "language") if cells.get(key)})
        for key, words in (("role", ROLES), ("language", LANGUAGES)):
            if row.get(key, words[0]) not in words:
                self._tell(key, f"{cells[key]!r} is none of {', '.join(words)}")
        if cells.get("expires"):
            try:
                row["expires_at"] = fields.until(cells["expires"])
            except argparse.ArgumentTypeError as error:
                self._tell("expires", str(error))
        return row

    def _check_name(self, name: str, users: Collection[str], seen: dict[str, int]) -> None:
        if not re.fullmatch(_NAME, name):
            self._tell("name", f"{name!r} is not 1 to 32 small letters, digits, `_` and `-`, the first a letter or `_`")
        elif name in seen:
            self._tell("name", f"{name} stands in line {seen[name]} already")
        elif name in users:
            self._tell("name", f"there is a user {name} already")
        seen.setdefault(name, self._line)

    def _groups(self, groups: Collection[str]) -> list[str]:
        named = [name for name in re.split(_BETWEEN_GROUPS, self._cells.get("groups", "")) if name]
        for name in dict.fromkeys(named):
            if name not in groups:
                self._tell("groups", f"there is no group {name!r}: `muster groups add` it first")
        return list(dict.fromkeys(named))

    def _tell(self, column: str, what: str) -> None:
        self.wrong.append(f"line {self._line}, {column}: {what}")


def _text(path: str, said: bytes) -> str:
    try:
        return said.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = said[: error.start].count(b"\n") + 1
        raise _refused(path, [f"line {line}: it is not UTF-8: save it as `CSV UTF-8`"]) from None


def _refused(path: str, wrong: list[str]) -> Exception:
    from wire.errors import BadRequestError

    more = f"; and {len(wrong) - _TOLD} more" if len(wrong) > _TOLD else ""
    return BadRequestError(f"{path}: nobody was added: {'; '.join(wrong[:_TOLD])}{more}")
