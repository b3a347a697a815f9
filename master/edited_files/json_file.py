"""A JSON file that people write by hand: read strictly, given its type, and every mistake told in words.

Owns reading, and where in the file a mistake is; the words for it are `mismatch`'s. It knows nothing of what the files
mean; `config` and `registry` do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from master.edited_files.mismatch import describe, shown
from wire.errors import ConfigError
from wire.framing import FrameError, strict_loads
from wire.pattern import Pattern
from wire.regular_file import read_regular

T = TypeVar("T")

NOT_UTF8 = "not UTF-8: save it as that; `iconv -f GB18030 -t UTF-8` does it for what Windows wrote in Chinese"
"""The error for bytes that are not UTF-8."""

BOM = b"\xef\xbb\xbf"
_POSITION = Pattern(r"^not JSON: (?P<what>.*): line (?P<line>\d+) column (?P<column>\d+) \(char \d+\)$")
_UNDECODABLE = Pattern(r"^not UTF-8 \(byte (?P<byte>\d+)\)$")


def read(path: Path, *, cure: str) -> Any:
    """The file's value. Raises ConfigError; `cure` says what to do where there is no such file."""
    return parse(read_bytes(path, cure=cure), path)


def read_bytes(path: Path, *, cure: str) -> bytes:
    """The file as it lies. Raises ConfigError; `cure` says what to do where there is no such file."""
    try:
        return read_regular(path)
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file; {cure}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


def parse(data: bytes, path: Path) -> Any:
    """The value that a file holds; `path` is for the messages. Raises ConfigError."""
    try:
        return strict_loads(data.removeprefix(BOM))
    except FrameError as error:
        raise ConfigError(f"{path}: {_syntax(str(error), data)}") from None


def convert(value: Any, kind: type[T], path: Path, prefix: str = "") -> T:
    """Give `value` its type. `prefix` is the value's own key path in the file, such as `[3]`. Raises ConfigError."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {describe(str(error), value, kind, prefix)}") from None


def wrong(path: Path, key: str, found: Any, allowed: str) -> ConfigError:
    """The error for a value that has the right type and is still wrong; `key` is its path in the file."""
    return ConfigError(f"{path}: {key}: found {shown(key, found)}, expected {allowed}")


def _syntax(message: str, data: bytes) -> str:
    if undecodable := _UNDECODABLE.match(message):
        lines_before = data.count(b"\n", 0, int(undecodable["byte"]))
        return f"line {lines_before + 1}: {NOT_UTF8}"
    match = _POSITION.match(message)
    if match is None:
        return message
    line, column = int(match["line"]), int(match["column"])
    lines = data.decode("utf-8", "replace").split("\n")
    rest = lines[line - 1][column - 1 :] if line <= len(lines) else ""
    hint = " (JSON has no comments)" if rest.startswith(("#", "//", "/*")) else ""
    return f"line {line}, column {column}: not JSON: {match['what']}{hint}"
