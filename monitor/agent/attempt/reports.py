"""The pipe of reports: what shims have to tell, for whichever agent reads it. Only the bell; the truth is the record.

It owns the form of a report, a line of a launch id and a line of its record, shorter than PIPE_BUF: so the reports of
many shims never mix.
"""

from __future__ import annotations

import json
import os
from typing import Callable, Iterator, Tuple

from . import record

MAX_REPORT = 4000
"""Bytes; PIPE_BUF is 4096."""
PIECE = 1 << 16
"""Bytes; mostly one read empties the pipe, and for a larger one Python would ask the kernel for memory each time."""


def send(pipe: int, launch_id: str, line: record.Line) -> bool:
    """Write a report; what is too long for one says that the record is to be looked at. Whether all of it is said.
    Raises OSError."""
    data = launch_id.encode() + b" " + record.encode(line)
    is_whole = len(data) <= MAX_REPORT
    if not is_whole:
        data = launch_id.encode() + b" " + record.encode({"is": "look"})
    os.write(pipe, data)
    return is_whole


class Reports:
    """The agent's end of the pipe. `complain` is told of what is no report: whoever shares our account can write."""

    def __init__(self, pipe: int, complain: Callable[[str], None]) -> None:
        self._pipe = pipe
        self._complain = complain
        self._head = b""

    def read(self) -> Iterator[Tuple[str, record.Line]]:
        """Yield the reports in the pipe: launch ids, which may be unknown here, and what is told of them."""
        lines = (self._head + self._all()).split(b"\n")
        self._head = lines.pop()
        for line in lines:
            name, _, text = line.partition(b" ")
            try:
                launch_id, told = name.decode("ascii"), json.loads(text)
            except (ValueError, RecursionError) as error:
                self._complain(f"a report that cannot be read: {line[:200]!r} ({error})")
                continue
            if isinstance(told, dict):
                yield launch_id, told
            else:
                self._complain(f"a report that cannot be read: {line[:200]!r} (it tells of nothing)")

    def _all(self) -> bytes:
        parts = []
        while True:
            try:
                parts.append(os.read(self._pipe, PIECE))
            except BlockingIOError:
                break
            if len(parts[-1]) < PIECE:
                break
        return b"".join(parts)
