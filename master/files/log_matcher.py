"""Finds lines in blocks of a log: a program of its own, since a pattern may take for ever, and Python's lock with it.

It is run from its text, without our code at hand, and imports nothing of it. It reads what to look for, a JSON object
in a line; then blocks, each after a line with its length, how many lines to find at most and whether the last ones are
meant (0 or 1). It answers each with a line of JSON: first null, or what is wrong with the pattern; then, for each line
found, where it begins (bytes in the block), the line or what is around the match, the match therein (characters: begin,
end), and whether something is cut off. Lines end with a line feed or a carriage return. Owns what matches.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice

NOBODY = 65534
"""The number of the account that owns nothing."""
CPU_S = 10
MEMORY = 1 << 30
"""The limits of a pattern: CPU time in seconds, and memory in bytes."""
AROUND = 200
"""Characters that are shown on either side of where a match begins in a long line."""
_LINE = re.compile(rb"[^\r\n]+")
Line = tuple[int, bytes, int, int]
"""Where it begins (bytes), the line, and the match therein (characters)."""
Find = Callable[[bytes], Iterator[Line]]


def finder(pattern: str, *, regex: bool, ignore_case: bool) -> Find:
    """Return a function that finds the pattern in a block. Raises re.error, OverflowError, RecursionError,
    MemoryError."""
    flags = re.IGNORECASE if ignore_case else 0
    if regex or (ignore_case and not all(map(_is_one_in_any_case, pattern))):
        return _by_line(re.compile(pattern if regex else re.escape(pattern), flags))
    return _by_block(re.compile(re.escape(pattern.encode()), flags))


def _is_one_in_any_case(letter: str) -> bool:
    """Are bytes enough to tell a letter from its capital? Of ASCII `re` knows; Chinese signs have none."""
    return letter.isascii() or letter.lower() == letter == letter.upper()


def _by_block(wanted: re.Pattern[bytes]) -> Find:
    def find(block: bytes) -> Iterator[Line]:
        at = 0
        while (match := wanted.search(block, at)) is not None:
            begin = max(block.rfind(end, 0, match.start()) for end in (b"\n", b"\r")) + 1
            line = next(_LINE.finditer(block, begin))
            before, upto = block[begin : match.start()], block[begin : match.end()]
            yield begin, line[0], len(_text(before)), len(_text(upto))
            at = line.end()

    return find


def _by_line(wanted: re.Pattern[str]) -> Find:
    def find(block: bytes) -> Iterator[Line]:
        for line in _LINE.finditer(block):
            match = wanted.search(_text(line[0]))
            if match is not None:
                yield line.start(), line[0], match.start(), match.end()

    return find


def told(line: Line) -> tuple[int, str, int, int, bool]:
    """A line as it is answered."""
    at, data, begin, end = line
    text = _text(data)
    first, after = 0, len(text)
    if after > 2 * AROUND:
        first, after = max(0, begin - AROUND), min(after, begin + AROUND)
    return at, text[first:after], begin - first, min(end, after) - first, after - first < len(text)


def found(find: Find, block: bytes, most: int, *, last: bool) -> list[Line]:
    """At most `most` lines, the first or the last ones, in their order."""
    lines = find(block)
    return list(deque(lines, most) if last else islice(lines, most))


def main() -> None:
    """Serve until nothing comes any more."""
    _lay_down_rights()
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    source = sys.stdin.buffer
    try:
        find = finder(**json.loads(source.readline()))
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        _answer(str(error) or type(error).__name__)
        return
    _answer(None)
    while header := source.readline():
        length, most, last = map(int, header.split())
        _answer([told(line) for line in found(find, source.read(length), most, last=bool(last))])


def _lay_down_rights() -> None:
    """It opens no file, and a pattern comes from anybody: root's rights are of no use here."""
    if os.geteuid() == 0:
        with suppress(OSError):  # a container may forbid it, and a namespace have no such account
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)


def _answer(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


if __name__ == "__main__":
    main()
