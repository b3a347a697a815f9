"""The dialect of the desktop client that labs have installed, as bytes and without I/O: frames in, frames out.

A frame is one JSON object `{"mode", "ui", "info"}` followed by a terminator of twelve bytes. The client writes what
its user types into the JSON as it is, so the terminator may stand inside a string: then it is data. Frames to the
client must be ASCII, without the terminator, because its reader deletes that everywhere.

Owns framing and the envelope; the meaning of the modes is the master's. A broken frame is reported and dropped, and the
next one is read, whatever the stream contains.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from wire.framing import FrameError, strict_loads

TERMINATOR = b"_<END_SEND>_"
CLOSE = b"CLIEND_CLOSE"
"""Sent by the client, spelled like this, when its window is closed; in place of JSON."""
MAIN_UI = "main"
MAX_TRIES = 64
"""How many terminators one frame may hold before it is taken for garbage."""
LARGE = 1 << 20
MOST_PARTS = 1000
"""How many values a frame of more than LARGE bytes may hold, and roughly so: what is large in a request is one text,
the content of a file. Parsing millions of small ones would hold everybody up for a second."""
HEAD = 200
"""How much of a broken frame is kept for whoever wants to say something about it."""
HTTP = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64} +(/|\*|[A-Za-z][A-Za-z0-9+.-]*://|\S+ +HTTP/)")
"""How a request of HTTP begins. No frame does."""
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
NO_FRAME = 4096
"""So many bytes that can begin no frame are waited for their end."""
_to_json = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


class Request(msgspec.Struct, frozen=True):
    """A request of the client. `ui` is repeated in the reply; `info` is None where the client left it out."""

    mode: str
    ui: str = MAIN_UI
    info: Any = None


class Closing(msgspec.Struct, frozen=True):
    """The client's window is being closed."""


class Broken(msgspec.Struct, frozen=True):
    """A frame that is no request: how it began, and what is wrong with it. `is_foreign`: a connection begins so that is
    no desktop client's, whatever it says later."""

    head: bytes
    why: str
    is_foreign: bool = False


Event = Request | Closing | Broken


class Decoder:
    """Splits a byte stream into events. `limit` is the size cap of one frame in bytes, without its terminator.

    `from_start`: these are a connection's first bytes. Then the first frame is told to be foreign as soon as it looks
    like HTTP or is not text, or is too large; and no request is looked for inside of it.
    """

    def __init__(self, limit: int, *, from_start: bool = False) -> None:
        self.limit = limit
        self._is_first = from_start
        self._held = bytearray()
        self._piece = 0
        self._searched = 0
        self._tries = 0
        self._in_string = False
        self._too_large: bytes | None = None

    def let(self, limit: int) -> None:
        """Have this limit from now on. A lower one is for frames that begin after the one that is being received."""
        if limit > self.limit or not self._held:
            self.limit = limit

    def feed(self, data: bytes) -> list[Event]:
        """Take what was received, give what is whole in it. However the bytes were cut, the events are the same."""
        self._held += data
        events: list[Event] = []
        if self._is_first and is_foreign(bytes(self._held[: HEAD * 2]), len(self._held)):
            self._is_first = False
            events.append(Broken(self._head(len(self._held)), "what begins so is no frame", is_foreign=True))
        while (at := self._held.find(TERMINATOR, self._searched)) >= 0:
            event = self._at_terminator(at)
            if event is not None:
                events.append(event)
        self._searched = max(self._piece, len(self._held) - len(TERMINATOR) + 1)
        if self._too_large is not None:
            del self._held[: self._searched]
            self._restart(0)
        elif len(self._held) - len(TERMINATOR) >= self.limit:
            self._too_large = self._head(self.limit)
            del self._held[: self._searched]
            self._restart(0)
        return events

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished frame are held."""
        return len(self._held)

    def _at_terminator(self, at: int) -> Event | None:
        """Decide what ends here. None: nothing does, the terminator is data or stood alone."""
        after = at + len(TERMINATOR)
        if self._too_large is not None or at > self.limit:
            head = self._too_large or self._head(self.limit)
            self._forget(after)
            is_first, self._is_first = self._is_first, False
            return Broken(head, f"a frame of more than {self.limit} bytes", is_foreign=is_first)
        if self._is_first and not _may_begin(bytes(self._held[:HEAD])):
            head, self._is_first = self._head(at), False
            self._forget(after)
            return Broken(head, "what begins so is no frame")
        piece = bytes(self._held[self._piece : at])
        self._in_string ^= _ends_in_string(piece)
        self._tries += 1
        event = _read(bytes(self._held[:at])) if not self._in_string else None
        if not isinstance(event, Request) and self._piece and isinstance(alone := _read(piece), Request):
            # The frame before broke off inside a string: a complete request behind it is not part of that string.
            why = "it was broken off, and another request stands behind it"
            broken = Broken(self._head(at), why, is_foreign=self._is_first)
            event = broken if self._is_first else alone
        if event is None and self._in_string:
            if self._tries < MAX_TRIES:
                self._piece = self._searched = after
                return None
            event = Broken(self._head(at), f"a string that is still open after {MAX_TRIES} terminators")
        self._forget(after)
        self._is_first = self._is_first and event is None
        return event

    def _head(self, size: int) -> bytes:
        return bytes(self._held[: min(size, HEAD)])

    def _forget(self, upto: int) -> None:
        del self._held[:upto]
        self._too_large = None
        self._restart(0)

    def _restart(self, at: int) -> None:
        self._piece = self._searched = at
        self._tries = 0
        self._in_string = False


def encode(mode: str, info: Any, ui: str = MAIN_UI) -> bytes:
    """One frame, terminator included. Raises ValueError for NaN and infinities."""
    return frame_of(mode, json_of(info), ui)


def json_of(info: Any) -> bytes:
    """A value as it may stand in a frame. Raises ValueError for NaN and infinities."""
    # Escaped at its `<` and not at its `_`: in `_<END_SEND>_<END_SEND>_` two terminators share one.
    return _to_json(info).encode("ascii").replace(b"<END_SEND>", b"\\u003cEND_SEND>")


def frame_of(mode: str, info: bytes, ui: str = MAIN_UI) -> bytes:
    """One frame, terminator included, from what `json_of` gave or was put together from such pieces."""
    return b'{"mode":%b,"ui":%b,"info":%b}%b' % (json_of(mode), json_of(ui), info, TERMINATOR)


def begins_dialect(head: bytes) -> bool | None:
    """Whether a connection that begins with `head` speaks this dialect; None while that is open.

    Ours are lines: whoever ends a line first does not speak it, whoever ends a frame first does.
    """
    line, newline, _ = head.partition(b"\n")
    in_string = False
    pieces = line.split(TERMINATOR)
    for piece in pieces[:-1]:
        in_string ^= _ends_in_string(piece)
        if not in_string:
            return True
    return False if newline else None


def _may_begin(head: bytes) -> bool:
    """Whether a frame may begin with these bytes, or with so few of them."""
    head = head.lstrip()
    return head[:1] in (b"{", b"") or CLOSE.startswith(head[: len(CLOSE)])


def is_foreign(head: bytes, size: int) -> bool:
    """Is it another protocol's, what a connection begins with: HTTP's, which pages in browsers speak, or one that is
    not text, as TLS and what else browsers can be made to speak (STUN)?"""
    if HTTP.match(head.lstrip()) or CONTROL.search(head):
        return True
    return size > NO_FRAME and not _may_begin(head)


def _ends_in_string(text: bytes) -> bool:
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return bool(text.count(b'"') & 1)


def _read(frame: bytes) -> Event | None:
    """Return the content of a frame; None for an empty one, as a doubled terminator makes."""
    frame = frame.strip()
    if not frame:
        return None
    if frame == CLOSE:
        return Closing()
    if len(frame) > LARGE and sum(map(frame.count, (b",", b"[", b"{"))) > MOST_PARTS:
        return Broken(frame[:HEAD], f"more than {MOST_PARTS} values in {len(frame)} bytes")
    try:
        value = strict_loads(frame)
    except FrameError as error:
        return Broken(frame[:HEAD], str(error))
    if not isinstance(value, dict) or not isinstance(value.get("mode"), str):
        return Broken(frame[:HEAD], "not an object with a `mode`")
    ui = value.get("ui")
    return Request(value["mode"], ui if isinstance(ui, str) else MAIN_UI, value.get("info"))
