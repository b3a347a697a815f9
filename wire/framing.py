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
MOST_VALUES = 500_000
"""In one request. More of them, as large as a frame may be, would take seconds to parse, for which everybody waits."""


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

    def let(self, limit: int) -> None:
        """Have this limit from now on. A lower one is for frames that begin after the one that is being received."""
        if limit > self.limit or not self._head:
            self.limit = limit

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
        if len(data) > self.limit:
            for line in lines:
                self._check(len(line))
        if last:
            self._keep(last)
        return [line for line in lines if line and line != b"\r"] if b"" in lines or b"\r" in lines else lines

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
    return _dump(value).encode() + b"\n"


_dump = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
"""Made once, as what decodes is."""


def strict_loads(frame: bytes) -> Any:
    """Parse one frame. Raises FrameError saying what is wrong with it."""
    try:
        text = frame.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FrameError(f"not UTF-8 (byte {error.start})") from None
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(frame)
    try:
        text = text.strip(" \t\r\n")  # to look for it behind the value takes a third of the time of all
        value, end = _raw_decode(text)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except FrameError:
        raise
    except UnicodeEncodeError:
        raise FrameError("half of a surrogate pair is not a character") from None
    except ValueError as error:
        raise FrameError(f"not JSON: {error}") from None
    if end < len(text):
        raise FrameError("not JSON: something stands behind the value")
    return value


def check_shape(frame: bytes) -> None:
    """Raise FrameError for a request of JSON that no reader takes: it has too many values, or is nested too deep."""
    if has_more_values(frame, MOST_VALUES):
        raise FrameError(f"more than {MOST_VALUES:,} values in one request")
    if frame.count(b"[") + frame.count(b"{") > MAX_DEPTH:
        _check_depth(frame)


def has_more_values(frame: bytes, most: int) -> bool:
    """Whether a frame of JSON has more than about `most` values: commas and opening brackets outside of texts. To parse
    millions of small ones takes seconds. This takes at most some tens of milliseconds, and mostly none."""
    if len(frame) <= most or sum(map(frame.count, (b",", b"[", b"{"))) <= most:
        return False
    shape = frame.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NO_BEGINNINGS).replace(b'""', b"")
    outside, found = True, 0
    for at in range(0, len(shape), _PIECE):
        pieces = shape[at : at + _PIECE].split(b'"')
        found += sum(map(len, pieces[0 if outside else 1 :: 2]))
        outside ^= not len(pieces) & 1
    return found > most


def _check_depth(frame: bytes) -> None:
    """Raise FrameError if it is nested too deep. Bracket by bracket, 16 MiB of them would hold everything up for
    seconds; so the work is done by C, and by a table that knows of eight brackets how deep they lead and where to.

    Behind a backslash that stands outside of a string anything may be found, for there it is no JSON any more.
    """
    shape = frame.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_TO_BITS, _NO_BRACKETS).replace(b'""', b"")
    depth = 0
    outside = True
    held = b""
    for at in range(0, len(shape), _PIECE):
        pieces = shape[at : at + _PIECE].split(b'"')
        bits = held + b"".join(pieces[0 if outside else 1 :: 2])
        outside ^= not len(pieces) & 1
        whole = len(bits) & ~7
        bits, held = bits[:whole], bits[whole:]
        depth = _depth_after(bits, depth)
    _depth_after(held.ljust(8, b"0"), depth)


def _depth_after(bits: bytes, depth: int) -> int:
    """The depth after these brackets, whose number is a multiple of eight: 1 for each that opens, 0 for the others."""
    if not bits:
        return depth
    if not _HIGHEST:
        _HIGHEST.extend(map(_highest, range(256)))
    highest, change = _HIGHEST, _CHANGE
    for eight in int(bits, 2).to_bytes(len(bits) >> 3, "big"):
        if depth + highest[eight] > MAX_DEPTH:
            raise FrameError(f"nested deeper than {MAX_DEPTH}")
        depth += change[eight]
    return depth


def _highest(eight: int) -> int:
    return max(2 * bin(eight >> (7 - place)).count("1") - place - 1 for place in range(8))


_PIECE = 1 << 16
_TO_BITS = bytes.maketrans(b"[{]}", b"1100")
_NO_BRACKETS = bytes(set(range(256)) - set(b'[{]}"'))
_NO_BEGINNINGS = bytes(set(range(256)) - set(b'[{,"'))
_HIGHEST: list[int] = []
"""How deep eight brackets lead, by their bits. Made when needed first: every command line loads this module."""
_CHANGE = [2 * bin(eight).count("1") - 8 for eight in range(256)]
"""Where they lead to."""


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise FrameError(f"the key {name[:200]!r} stands twice in one object")
            seen.add(name)
    return value


def _no_constant(name: str) -> Any:
    raise FrameError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise FrameError(f"the number {text[:20]} is out of range")
    return value


_raw_decode = json.JSONDecoder(
    object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_float=_finite
).raw_decode
"""Made once: `json.loads` with hooks makes a decoder at each call, which costs as much as a small frame."""
