"""A JSON file that people write by hand: read strictly, given its type, and every mistake is a message.

Owns reading, and where in the file a mistake is; the messages of wrong types are `mismatch`'s. It knows nothing of
what the files mean; `config` and `registry` do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from master.edited_files.mismatch import explain, shown
from wire.errors import ConfigError
from wire.file_fault import fault
from wire.framing import FrameError, strict_loads
from wire.message import Message
from wire.pattern import Pattern
from wire.regular_file import read_regular

T = TypeVar("T")

NOT_UTF8 = Message("not_utf8")
"""The error for bytes that are not UTF-8."""

BOM = b"\xef\xbb\xbf"
_POSITION = Pattern(r"^not JSON: (?P<what>.*): line (?P<line>\d+) column (?P<column>\d+) \(char \d+\)$")
_UNDECODABLE = Pattern(r"^not UTF-8 \(byte (?P<byte>\d+)\)$")


def read(path: Path, *, cure: Message) -> Any:
    """The file's value. Raises ConfigError; `cure` says what to do where there is no such file."""
    return parse(read_bytes(path, cure=cure), path)


def read_bytes(path: Path, *, cure: Message) -> bytes:
    """The file as it lies. Raises ConfigError; `cure` says what to do where there is no such file."""
    try:
        return read_regular(path)
    except FileNotFoundError:
        raise fault(path, Message("file_missing", cure=cure)) from None
    except OSError as error:
        raise fault(path, Message("file_unreadable", detail=error.strerror)) from None


def parse(data: bytes, path: Path) -> Any:
    """The value that a file holds; `path` is for the messages. Raises ConfigError."""
    try:
        return strict_loads(data.removeprefix(BOM))
    except FrameError as error:
        raise fault(path, _syntax(str(error), data)) from None


def convert(value: Any, kind: type[T], path: Path, prefix: str = "") -> T:
    """Give `value` its type. `prefix` is the value's own key path in the file, such as `[3]`. Raises ConfigError."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise fault(path, explain(str(error), value, kind, prefix)) from None


def wrong(path: Path, key: str, found: Any, allowed: Message) -> ConfigError:
    """The error for a value that has the right type and is still wrong; `key` is its path in the file."""
    return fault(path, Message("wrong_value", where=key, found=shown(key, found), expected=allowed))


def _syntax(message: str, data: bytes) -> Message:
    if undecodable := _UNDECODABLE.match(message):
        lines_before = data.count(b"\n", 0, int(undecodable["byte"]))
        return Message("not_utf8_at", line=lines_before + 1)
    match = _POSITION.match(message)
    if match is None:
        return Message("json_refused", detail=message)
    line, column = int(match["line"]), int(match["column"])
    lines = data.decode("utf-8", "replace").split("\n")
    rest = lines[line - 1][column - 1 :] if line <= len(lines) else ""
    if rest.startswith(("#", "//", "/*")):
        return Message("json_comment_at", line=line, column=column, detail=match["what"])
    return Message("not_json_at", line=line, column=column, detail=match["what"])
