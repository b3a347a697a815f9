"""Bytes to frames to values, without I/O: one JSON object per line, with a cap that holds before anything is kept.

Used by the master, the clients and the agent; it travels to the nodes, so: standard library only, Python 3.8 syntax.
The JSON read here is strict (RFC 8259 leaves these open, and each has been an attack on somebody): no duplicate keys,
no NaN or infinities, no numbers that overflow a double, bounded depth, strict UTF-8.
"""

from __future__ import annotations

import json
import math

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` itself takes 3 ms to import, at each start of the command line and of an agent
    from typing import Any

MAX_DEPTH = 64


class FrameError(ValueError):
    """The bytes are not a frame of this dialect. `fatal`: the stream cannot be followed any further."""

    def __init__(self, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.fatal = fatal


class LineDecoder:
    """Splits a byte stream at newlines. `limit` is the size cap of one frame in bytes, without its newline."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._head = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take what was received, give the whole lines in it (empty ones left out).

        Raises FrameError(fatal=True) when a line outgrows the cap; nothing beyond the cap is kept.
        """
        lines = data.split(b"\n")
        if len(lines) == 1:
            self._keep(data)
            return []
        if self._head:
            self._keep(lines[0])
            lines[0] = bytes(self._head)
            self._head.clear()
        last = lines.pop()
        for line in lines:
            self._check(len(line))
        self._keep(last)
        return [line for line in lines if line and line != b"\r"]

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished line are held."""
        return len(self._head)

    def _keep(self, data: bytes) -> None:
        self._check(len(self._head) + len(data))
        self._head += data

    def _check(self, size: int) -> None:
        if size > self.limit:
            raise FrameError(f"a frame of more than {self.limit} bytes", fatal=True)


def encode(value: Any) -> bytes:
    """One value as one line. Raises ValueError for NaN and infinities."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def strict_loads(frame: bytes) -> Any:
    """Parse one frame. Raises FrameError saying what is wrong with it."""
    try:
        text = frame.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FrameError(f"not UTF-8 (byte {error.start})") from None
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(text)
    try:
        value = _decode(text)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except FrameError:
        raise
    except UnicodeEncodeError:
        raise FrameError("half of a surrogate pair is not a character") from None
    except ValueError as error:
        raise FrameError(f"not JSON: {error}") from None
    return value


def _check_depth(text: str) -> None:
    depth = 0
    in_string = False
    escaped = False
    for char in text:
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise FrameError(f"nested deeper than {MAX_DEPTH}")
        elif char in "]}":
            depth -= 1


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [name for name, _ in pairs]
        raise FrameError(f"the key {next(n for n in names if names.count(n) > 1)!r} stands twice in one object")
    return value


def _no_constant(name: str) -> Any:
    raise FrameError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise FrameError(f"the number {text[:20]} is out of range")
    return value


_decode = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_float=_finite).decode
"""Made once: `json.loads` with hooks makes a decoder at each call, which costs as much as a small frame."""
