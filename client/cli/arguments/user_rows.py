"""A CSV file of users: a head, and a row for each. It reports all mistakes at once, by line and column."""

from __future__ import annotations

import argparse
import csv
import io
import re

from client.cli.arguments import fields
from client.refusals import coded_error
from wire.message import Message

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
        raise _refused(path, [Message("not_csv", detail=str(error))]) from None


def _read(path: str, said: bytes, users: Collection[str], groups: Collection[str]) -> list[dict[str, Any]]:
    wrong: list[Message] = []
    lines = csv.DictReader(io.StringIO(_text(path, said)), skipinitialspace=True)
    if ";" in (lines.fieldnames or [""])[0]:  # as some spreadsheets write it
        lines = csv.DictReader(io.StringIO(_text(path, said)), skipinitialspace=True, delimiter=";")
    head = [name.strip().lower() for name in lines.fieldnames or ()]
    columns = tuple(_COLUMNS)
    wrong += [Message("no_column", name=name, columns=columns) for name in head if name not in _COLUMNS]
    wrong += [Message("column_twice", name=name) for name in dict.fromkeys(head) if head.count(name) > 1]
    if "name" not in head:
        wrong.append(Message("no_column_of_names", columns=columns))
    if wrong:
        raise _refused(path, wrong)
    lines.fieldnames = head
    rows: list[dict[str, Any]] = []
    seen: dict[str, int] = {}
    for cells in lines:
        if not any(isinstance(value, str) and value.strip() for value in cells.values()):
            continue
        if None in cells or None in cells.values():
            wrong.append(Message("cells_expected", line=lines.line_num, count=len(head)))
            continue
        row = _Row(lines.line_num, {key: str(value).strip() for key, value in cells.items()})
        rows.append(row.read(users, groups, seen))
        wrong += row.wrong
    if not rows and not wrong:
        wrong.append(Message("nobody_in_file"))
    if wrong:
        raise _refused(path, wrong)
    return rows


class _Row:
    def __init__(self, line: int, cells: dict[str, str]) -> None:
        self.wrong: list[Message] = []
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
                self._tell(key, Message("none_of_words", found=cells[key], words=tuple(words)))
        if cells.get("expires"):
            try:
                row["expires_at"] = fields.until(cells["expires"])
            except argparse.ArgumentTypeError as error:
                self._tell("expires", Message("cell_wrong", detail=str(error)))
        return row

    def _check_name(self, name: str, users: Collection[str], seen: dict[str, int]) -> None:
        if not re.fullmatch(_NAME, name):
            self._tell("name", Message("cell_no_name", name=name))
        elif name in seen:
            self._tell("name", Message("name_in_line", name=name, line=seen[name]))
        elif name in users:
            self._tell("name", Message("user_exists", name=name))
        seen.setdefault(name, self._line)

    def _groups(self, groups: Collection[str]) -> list[str]:
        named = [name for name in re.split(_BETWEEN_GROUPS, self._cells.get("groups", "")) if name]
        for name in dict.fromkeys(named):
            if name not in groups:
                self._tell("groups", Message("group_to_add", name=name))
        return list(dict.fromkeys(named))

    def _tell(self, column: str, what: Message) -> None:
        self.wrong.append(Message("wrong_cell", line=self._line, column=column, what=what))


def _text(path: str, said: bytes) -> str:
    try:
        return said.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = said[: error.start].count(b"\n") + 1
        raise _refused(path, [Message("csv_not_utf8", line=line)]) from None


def _refused(path: str, wrong: list[Message]) -> Exception:
    more = max(0, len(wrong) - _TOLD)
    return coded_error("bad_request", "nobody_added", path=path, faults=tuple(wrong[:_TOLD]), more=more)
