"""Carriage returns taken out of logs: of each line only its last state, as a terminal shows it after a progress bar.

Works on pieces as they come and gives the same result for any borders: an undecided line is returned with its offset,
and reading goes on there. Owns this rule; other modules own files and the offsets into them.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_OPEN = 1 << 20
"""Bytes of a line without an end or a carriage return that are kept back; a longer one is passed on as it comes."""


class Collapsed(NamedTuple):
    """`lines`: whole lines, each in its last state. `rest`: the newest state of the line that has no end yet, as the
    file has it from `offset` on: read on from there."""

    lines: bytes
    rest: bytes
    offset: int


def collapse(data: bytes, offset: int) -> Collapsed:
    """Collapse the content of a file from `offset` on; that must be where a line begins, or a state of one."""
    end = data.rfind(b"\n") + 1
    lines, rest = data[:end], data[end:]
    if b"\r" in lines:
        lines = b"\n".join(map(_last_state, lines.split(b"\n")))
    # A carriage return at the very end may belong to a line's end that is not written yet, so it stays.
    begin = rest.rstrip(b"\r").rfind(b"\r") + 1
    offset += end + begin
    rest = rest[begin:]
    if len(rest) > MAX_OPEN:
        return Collapsed(lines + rest, b"", offset + len(rest))
    return Collapsed(lines, rest, offset)


def visible(rest: bytes) -> bytes:
    """Return the visible part of an open line, as a terminal shows it."""
    return rest.rstrip(b"\r")


def _last_state(line: bytes) -> bytes:
    return line.rstrip(b"\r").rpartition(b"\r")[2]
