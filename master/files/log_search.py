"""Searching a log, a gigabyte or more, in steps: each ends after a time or so many lines, and tells where to go on.

Matches are found by a program of its own (`log_matcher`), which is fed with blocks of whole lines: a pattern that takes
for ever blocks nobody, and is reported. Owns the order of the blocks and the limits of one step. All of it blocks.
"""

from __future__ import annotations

import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from master.files import log_matcher
from master.files.log_pieces import Piece
from wire.errors import BadRequestError, LimitError
from wire.message import Message

STEP_S = 5.0
BYTES_S = 64_000_000
"""So much of a log is read a second at most: the storage is the lab's."""
BLOCK = 1 << 20
"""Bytes that are searched at once; a match in a longer line is found where no border cuts it."""
_PROGRAM = Path(log_matcher.__file__).read_text(encoding="utf-8")
ReadAt = Callable[[int, int], Piece]
"""Reads at most so many bytes from an offset."""


class Ask(NamedTuple):
    """A search: `pattern` as plain text, or as a Python regular expression (`regex`); at most `most` lines. It goes on
    from `offset` (bytes, where a line begins; negative: from the end), or `backwards` from the line that ends before
    it. None: the whole log."""

    pattern: str
    regex: bool = False
    ignore_case: bool = False
    offset: int | None = None
    backwards: bool = False
    most: int = 100


class Match(msgspec.Struct, frozen=True):
    """A line in which it was found: it begins at `offset` (bytes); `text` is the line, or what is around the match in a
    long one (`cut`), and the match is what stands from character `begin` to `end` therein."""

    offset: int
    text: str
    begin: int
    end: int
    cut: bool = False


class Found(NamedTuple):
    """`matches` in the order in which it was searched; `next`: the offset to go on with, None where all was searched;
    `searched` and `size`: bytes."""

    matches: list[Match]
    next: int | None
    searched: int
    size: int


def search(read: ReadAt, ask: Ask, tick: Callable[[], None]) -> Found:
    """Do one step; `tick` is called as it goes on. Raises BadRequestError for an invalid pattern, LimitError for one
    that takes too much, and what `read` raises."""
    began = time.monotonic()
    log = read(0, 0)
    at = _begin(ask, log.size)
    matches: list[Match] = []
    searched = 0
    try:
        with _matcher(ask, began + STEP_S) as matcher:
            while (block := _block(read, at, log.size, backwards=ask.backwards)) is not None:
                offset, data = block
                lines = [Match(offset + begin, *more) for begin, *more in matcher.find(data, ask.most - len(matches))]
                tick()
                matches += reversed(lines) if ask.backwards else lines
                searched += len(data)
                if len(matches) >= ask.most:
                    last = matches[-1].offset
                    at = last if ask.backwards else offset + _line_end(data, last - offset)
                    break
                at = offset if ask.backwards else offset + len(data)
                time.sleep(max(0.0, began + searched / BYTES_S - time.monotonic()))
                if time.monotonic() - began >= STEP_S:
                    break
    except TimeoutError:
        if not searched:  # to go on there would take as long again
            raise LimitError(Message("log_pattern_slow", offset=at, seconds=STEP_S)) from None
    is_over = at <= 0 if ask.backwards else at >= log.size
    return Found(matches, None if is_over else at, searched, log.size)


def _begin(ask: Ask, size: int) -> int:
    if ask.offset is None:
        return size if ask.backwards else 0
    return min(max(size + ask.offset, 0) if ask.offset < 0 else ask.offset, size)


def _block(read: ReadAt, at: int, size: int, *, backwards: bool) -> tuple[int, bytes] | None:
    """The next whole lines with where they begin; None where there are no more, or not any more."""
    begin, end = (max(0, at - BLOCK), at) if backwards else (at, min(size, at + BLOCK))
    data = read(begin, end - begin).data if end > begin else b""
    if backwards and begin:
        cut = _line_end(data, 0) % max(1, len(data))  # of a line that is longer than a block no end is in it
        return (begin + cut, data[cut:]) if data else None
    last = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
    return (begin, data[:last] if last and end < size else data) if data else None


def _line_end(data: bytes, begin: int) -> int:
    """Behind the end of the line in which `begin` is."""
    ends = [end + 1 for end in (data.find(b"\n", begin), data.find(b"\r", begin)) if end >= 0]
    return min(ends, default=len(data))


@contextmanager
def _matcher(ask: Ask, deadline: float) -> Iterator[_Matcher]:
    """The program, told what to look for; gone at the end, whatever it does then. Raises BadRequestError."""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-X", "utf8", "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={},
    ) as process:
        matcher = _Matcher(process, deadline)
        try:
            matcher.begin(ask)
            yield matcher
        finally:
            process.kill()
            matcher.close()


class _Matcher:
    """The program, and until when (by the monotonic clock) it may answer."""

    def __init__(self, process: subprocess.Popen[bytes], deadline: float) -> None:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a program without its ends")
        self._in, self._out = process.stdin, process.stdout
        self._deadline = deadline
        self._last = False

    def begin(self, ask: Ask) -> None:
        """Say what to look for. Raises BadRequestError, TimeoutError."""
        what = {"pattern": ask.pattern, "regex": ask.regex, "ignore_case": ask.ignore_case}
        self._last = ask.backwards
        wrong = self._answer(msgspec.json.encode(what) + b"\n")
        if wrong is not None:
            raise BadRequestError(Message("log_pattern_wrong", pattern=ask.pattern, said=wrong))

    def find(self, data: bytes, most: int) -> list[Any]:
        """The lines found in a block. Raises TimeoutError."""
        found: list[Any] = self._answer(b"%d %d %d\n%b" % (len(data), most, self._last, data))
        return found

    def close(self) -> None:
        """Close the program's input. Bytes that it no longer takes are lost."""
        with suppress(BrokenPipeError):
            self._in.close()

    def _answer(self, words: bytes) -> Any:
        try:
            self._in.write(words)
            self._in.flush()
            ready, _, _ = select.select([self._out], [], [], max(0.0, self._deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            return msgspec.json.decode(self._out.readline())
        except (BrokenPipeError, msgspec.DecodeError):
            raise LimitError(Message("log_pattern_dear")) from None
