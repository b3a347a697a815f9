"""The end of a command's log: its last lines, which of them are progress, and which one says most of a bad end.

It owns the reading, with a patience: a log's disk may hang, and whoever waits for the end of a task shall not.
`exhaustion` says what the lines mean.
"""

from __future__ import annotations

import _thread
import os
import re
import select
import stat
from typing import List, Optional, Union

from ..log import plain

TAIL_BYTES = 64 * 1024
PATIENCE_S = 2.0
MAX_LINE = 300
"""Characters that are kept of the line that says most."""
GOES_ON = 3
"""So many different states of progress behind a message, and the program went on after it: one that dies tells the last
state of each of its bars again."""
TRACEBACKS = 20
"""So many are looked at, from the last one on."""
_BAR = (b"%|", b"it/s", b"s/it", b"ETA", b"examples/s")
_STEP = re.compile(rb"(\d+) ?/ ?\d+|\b(?:epoch|step|iter|iteration)s?\b\D{0,4}(\d+)", re.IGNORECASE)
_NAMED = re.compile(rb"\b(?:epoch|step|iter|iteration)s?\b\D{0,4}\d", re.IGNORECASE)
_END = b"Program Exit With Code "
"""How each attempt's log ends; what stands before it is of an earlier one."""
_TRACEBACK = b"Traceback (most recent call last):"
_PREFIX = re.compile(rb"\[[^\]]{1,40}\]:? ?")
_NO_WORD = re.compile(r"[\W_]*\Z")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_OF_OTHERS = (b"ChildFailedError", b"CalledProcessError")
"""Exceptions that only tell that another process failed."""


class Tail:
    """`text`: the bytes."""

    def __init__(self, text: bytes) -> None:
        end = text.rfind(_END)
        if end >= 0:
            text = text[end:].partition(b"\n")[2]
        self.text = text.replace(b"\r", b"\n")

    def line_at(self, at: int) -> bytes:
        """The line in which this byte stands."""
        begin = self.text.rfind(b"\n", 0, at) + 1
        end = self.text.find(b"\n", at)
        return self.text[begin : len(self.text) if end < 0 else end]

    @staticmethod
    def is_code(line: bytes) -> bool:
        """Is it a line of a program, as tracebacks show them?"""
        match = _PREFIX.match(line)
        rest = line[match.end() :] if match else line
        return rest.startswith((b"    ", b"\t", b"  File "))

    def goes_on_after(self, at: int) -> bool:
        """Did the program get on behind this byte?"""
        states = set()
        for line in self.text[at:].split(b"\n")[1:]:
            if _is_progress(line):
                states.add(tuple(match.group() for match in _STEP.finditer(line)) or line)
                if len(states) >= GOES_ON:
                    return True
        return False

    def last_line(self) -> str:
        """The line that says most of the end: the exception of the last traceback, else the last line with a word in it
        that is no progress; "" where there is none."""
        line = self._exception() or next(filter(_says_something, reversed(self.text.split(b"\n"))), b"")
        return shown(line)

    def _exception(self) -> bytes:
        end, second = len(self.text), b""
        for _ in range(TRACEBACKS):
            at = self.text.rfind(_TRACEBACK, 0, end)
            if at < 0 or self.goes_on_after(at):
                return second
            found = self._exception_of(at)
            if found and not any(name in found for name in _OF_OTHERS):
                return found
            second, end = second or found, at
        return second

    def _exception_of(self, at: int) -> bytes:
        """The line behind the frames of the traceback that begins there."""
        begin = self.text.rfind(b"\n", 0, at) + 1
        prefix = self.text[begin:at]
        for line in self.text[at:].split(b"\n")[1:]:
            rest = line[len(prefix) :] if prefix and line.startswith(prefix) else line
            if rest.strip() and not rest.startswith((b" ", b"\t")):
                return b"" if rest.startswith(_TRACEBACK) else rest
        return b""


def shown(line: bytes) -> str:
    """A line of a log, for showing: short, without colours, its control characters as escapes."""
    text = plain(_COLOUR.sub("", line[: 4 * MAX_LINE].decode("utf-8", "replace")).strip())
    return text if len(text) <= MAX_LINE else text[: MAX_LINE - 1] + "…"


def read(log: Union[str, int], patience_s: float = PATIENCE_S) -> Tail:
    """The end of the log at this path, or of what is open as that; of what is no file, or does not answer in so many
    seconds, nothing."""
    done, write = os.pipe()
    found: List[bytes] = []

    def run() -> None:
        try:
            found.append(_read(log))
        except OSError:
            return  # somebody removed it, or its disk is away
        finally:
            os.close(write)

    try:
        _thread.start_new_thread(run, ())
    except RuntimeError:  # none is to be had
        os.close(write)
    poller = select.poll()
    poller.register(done, select.POLLIN)
    poller.poll(int(patience_s * 1000))
    os.close(done)
    return Tail(found[0] if found else b"")


def _read(log: Union[str, int]) -> bytes:
    fd = log if isinstance(log, int) else os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            return b""
        return os.pread(fd, TAIL_BYTES, max(0, info.st_size - TAIL_BYTES))
    finally:
        if fd is not log:
            os.close(fd)


def _is_progress(line: bytes) -> bool:
    return any(sign in line for sign in _BAR) or _NAMED.search(line) is not None


def _says_something(line: bytes) -> Optional[bool]:
    return not _is_bar(line) and _NO_WORD.match(line[: 4 * MAX_LINE].decode("utf-8", "replace")) is None


def _is_bar(line: bytes) -> bool:
    return any(sign in line for sign in _BAR)
