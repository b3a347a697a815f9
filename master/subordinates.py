"""Whose the uids are that an account has besides its own, for containers and namespaces (subuid(5)).

With them one account is as many as it likes to the kernel. Where the file cannot be read, or a directory service has it
in its place, nobody is known to have any.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

SUBUID = Path("/etc/subuid")


def subordinate_of(uid: int) -> str | None:
    """The account of which this uid is a subordinate one, as /etc/subuid names it; None where it is of none."""
    try:
        changed = SUBUID.stat().st_mtime_ns
    except OSError:
        return None
    return next((name for name, first, count in _ranges(changed) if first <= uid < first + count), None)


@lru_cache(maxsize=1)
def _ranges(_changed: int) -> tuple[tuple[str, int, int], ...]:
    try:
        lines = SUBUID.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    words = [line.split(":") for line in lines]
    return tuple((name, int(first), int(count)) for name, first, count in filter(_is_range, words))


def _is_range(words: list[str]) -> bool:
    return len(words) == 3 and words[1].isdecimal() and words[2].isdecimal()  # noqa: PLR2004  (name, first, count)
