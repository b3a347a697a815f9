"""The accounts that own subordinate uids, which they have besides their own for containers and namespaces (subuid(5)).

With them one account is as many as it likes to the kernel. Where the file cannot be read, or a directory service has it
in its place, nobody is known to have any. The file names accounts, whose own uids /etc/passwd tells, or a directory
service: that may hang, so it is asked in a thread of its own, and until it has answered the account counts by its name.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from pwd import getpwnam

SUBUID, PASSWD = Path("/etc/subuid"), Path("/etc/passwd")


def subordinate_of(uid: int) -> int | str | None:
    """The account of which this uid is a subordinate one: its own uid, or its name in /etc/subuid while that is not
    known; None where it is of none."""
    try:
        changed = SUBUID.stat().st_mtime_ns
    except OSError:
        return None
    owner = next((owner for owner, first, count in _ranges(changed) if first <= uid < first + count), None)
    return None if owner is None else _uid_of(owner, changed)


@lru_cache(maxsize=1)
def _ranges(_changed: int) -> tuple[tuple[str, int, int], ...]:
    words = [line.split(":") for line in _lines(SUBUID)]
    return tuple((name, int(first), int(count)) for name, first, count in filter(_is_range, words))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _uid_of(owner: str, changed: int) -> int | str:
    """The file may have the uid in the place of the name."""
    return int(owner) if owner.isdecimal() else _Asked.of(owner, changed).uid or owner


class _Asked:
    """An account of this name, and its uid once that is known. Asked once, until /etc/subuid changes."""

    def __init__(self, name: str) -> None:
        found = [words[2] for words in (line.split(":") for line in _lines(PASSWD)) if words[0] == name and words[2:]]
        self.uid = int(found[0]) if found and found[0].isdecimal() else None
        if self.uid is None:
            threading.Thread(target=self._ask, args=(name,), daemon=True).start()

    def _ask(self, name: str) -> None:
        with suppress(KeyError, OSError):
            self.uid = getpwnam(name).pw_uid

    @staticmethod
    @lru_cache(maxsize=1000)
    def of(name: str, _changed: int) -> _Asked:
        """The one that was asked already, or a new one."""
        return _Asked(name)


def _is_range(words: list[str]) -> bool:
    return len(words) == 3 and words[1].isdecimal() and words[2].isdecimal()  # noqa: PLR2004  (name, first, count)
