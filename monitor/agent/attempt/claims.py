"""Which launch ids are claimed, noted apart from the claims: `DIR/claims`, a line `+ID` for each claim and `-ID` for
each that was forgotten. So a claim that somebody else removed is missed.

Shims and the agent add lines. The agent alone writes the file anew, without what tells nothing any more, in a draft
that takes its place. A writer locks the file and checks that it still has that name, so no line
goes into a file that was replaced. A reboot ends all attempts, so nothing is synced.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from typing import Optional, Set

from ..folder import Folder

MAX_NOTES = 256 * 1024
"""Bytes of notes; beyond, and beyond SPARE times what the claims that are there need, they are written anew."""
SPARE = 4
LINE = 66
"""Bytes of a line, at most."""
TRIES, PAUSE_S = 100, 0.01
"""So often a line waits for the lock; then it is written without, and may be lost. The claim itself is not."""


def note(folder: Folder, what: bytes, launch_id: str) -> None:
    """Note that there is a claim (`+`), or none any more (`-`). A full disk takes no claim either."""
    with suppress(OSError):
        fd = _opened(folder, fcntl.LOCK_SH, TRIES)
        try:
            os.write(fd, b"%s%s\n" % (what, launch_id.encode("ascii")))
        finally:
            os.close(fd)


def noted(folder: Folder) -> Set[str]:
    """Return the noted claims that were not forgotten. Some may not be launch ids."""
    try:
        with open(folder.claims, "rb") as file:
            return _claimed(file.read())
    except OSError:
        return set()


def trim(folder: Folder, count: int) -> None:
    """Write the notes anew if they have outgrown what `count` claims need. A file that cannot be written stays."""
    with suppress(OSError):
        if os.stat(folder.claims).st_size <= max(MAX_NOTES, SPARE * LINE * count):
            return
        fd = _opened(folder, fcntl.LOCK_EX, 1)
        try:
            _write_anew(folder)
        finally:
            os.close(fd)


def _write_anew(folder: Folder) -> None:
    with open(folder.claims, "rb") as file:
        left = sorted(_claimed(file.read()))
    draft = folder.claims + ".new"
    with suppress(FileNotFoundError):
        os.unlink(draft)  # of one who was killed before it was in place
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        data = b"".join(b"+%s\n" % launch_id.encode("ascii") for launch_id in left)
        if os.write(fd, data) == len(data):
            os.rename(draft, folder.claims)
    finally:
        os.close(fd)


def _opened(folder: Folder, kind: int, tries: int) -> int:
    """The file, locked in this way, and still the one of its name. Raises OSError; after so many tries a shared lock is
    done without, and an exclusive one is not to be had."""
    while True:
        fd = os.open(folder.claims, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        tries -= 1
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            if _is_in_place(folder, fd):
                return fd
        except OSError:
            if tries <= 0 and kind == fcntl.LOCK_SH:
                return fd
        os.close(fd)
        if tries <= 0:
            raise BlockingIOError
        time.sleep(PAUSE_S)


def _is_in_place(folder: Folder, fd: int) -> bool:
    ours, found = os.fstat(fd), _stat(folder.claims)
    return found is not None and (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)


def _stat(path: str) -> Optional[os.stat_result]:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _claimed(data: bytes) -> Set[str]:
    found: Set[str] = set()
    for line in data.split(b"\n"):
        name = line[1:].strip().decode("ascii", "replace")
        if line[:1] == b"+":
            found.add(name)
        elif line[:1] == b"-":
            found.discard(name)
    return found
