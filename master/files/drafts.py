"""The list of drafts: unfinished uploads and copies, so that abandoned ones are removed.

A small JSON file, replaced at each change and never synced: a power cut can only lose the record of a hidden file. Owns
the list; the callers pass in how a draft is found and deleted.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from wire.errors import LimitError, MusterError
from wire.message import Message

log = logging.getLogger("muster.files")

ABANDONED_S = 86_400.0
UPLOAD_BYTES = 16 << 30
MOST_OF_ONE = 1000
"""Unfinished uploads of one user: the list is written anew at each change, and whoever changes it next waits for that.
"""


class Draft(msgspec.Struct, frozen=True):
    """One draft: the path that it will become, its own name, and when it was begun (seconds since the epoch);
    `account`: with whose rights, "" for the master's; `user`: who began it, "" where that is not known; `most`: how
    many bytes an upload might have then."""

    path: str
    name: str
    at: float
    account: str = ""
    user: str = ""
    most: int = 0


class Noting(Protocol):
    """Where drafts are noted, for somebody."""

    def note(self, path: str, name: bytes, account: str = "") -> None:
        """A draft is about to be made."""

    def most(self, name: bytes | None = None) -> int:
        """Return how many bytes an upload may have that begins now, or that has this draft."""

    def forget(self, name: bytes) -> None:
        """A draft is in its place, or gone."""

    def noted(self, path: str, name: bytes, account: str = "") -> AbstractContextManager[None]:
        """A draft that lives as long as the body, however long that is."""

    def sweep(self, remove: Callable[[Draft], bool]) -> None:
        """Offer all that nobody works on and that are a day old to `remove`."""


class Drafts:
    """All drafts of a master. `path`: where they are noted down, None for memory only; `upload_bytes` gives how large a
    file that begins now may be. For use by several threads."""

    def __init__(self, path: Path | None, upload_bytes: Callable[[], int] = lambda: UPLOAD_BYTES) -> None:
        self._path = path
        self._upload_bytes = upload_bytes
        self._lock = threading.Lock()
        self._known = {draft.name: draft for draft in _load(path)}
        self._working: set[str] = set()

    def of(self, user: str) -> DraftsOf:
        """The same list, for one user."""
        return DraftsOf(self, user)

    def check_room(self, user: str) -> None:
        """Raise LimitError where the user may begin no further upload."""
        with self._lock:
            begun = sum(draft.user == user and draft.name not in self._working for draft in self._known.values())
        if begun >= MOST_OF_ONE:
            raise LimitError(Message("uploads_unfinished", most=MOST_OF_ONE, hours=round(ABANDONED_S / 3600)))

    def note(self, path: str, name: bytes, account: str = "", user: str = "") -> None:
        """A draft is about to be made."""
        draft = Draft(path, name.decode(), time.time(), account, user, self._upload_bytes())
        with self._lock:
            self._known[draft.name] = draft
            self._save()

    def most(self, name: bytes | None = None) -> int:
        """Return how many bytes an upload may have: one that begins now, or that of this draft, which may still have
        what it might have when it began."""
        draft = None if name is None else self._known.get(name.decode())
        return self._upload_bytes() if draft is None else max(self._upload_bytes(), draft.most)

    def forget(self, name: bytes) -> None:
        """A draft is in its place, or gone."""
        with self._lock:
            if self._known.pop(name.decode(), None) is not None:
                self._save()

    @contextmanager
    def noted(self, path: str, name: bytes, account: str = "", user: str = "") -> Iterator[None]:
        """A draft that lives as long as the body, however long that is."""
        self._working.add(name.decode())
        self.note(path, name, account, user)
        try:
            yield
        finally:
            self.forget(name)
            self._working.discard(name.decode())

    def sweep(self, remove: Callable[[Draft], bool]) -> None:
        """Offer all that are a day old and that nobody works on to `remove`, which says whether the draft is gone."""
        with self._lock:
            old = [
                draft
                for draft in self._known.values()
                if draft.at < time.time() - ABANDONED_S and draft.name not in self._working
            ]
        for draft in old:
            try:
                gone = remove(draft)
            except MusterError as error:
                log.warning("the abandoned draft of %s is not removed: %s", draft.path, error)
                continue
            if gone:
                self.forget(draft.name.encode())

    def _save(self) -> None:
        if self._path is None:
            return
        new = self._path.with_name(self._path.name + ".new")
        try:
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(msgspec.json.encode(list(self._known.values())))
            new.replace(self._path)
        except OSError as error:
            log.warning("the book of drafts %s is not written: %s", self._path, error.strerror)


class DraftsOf:
    """The drafts of one user, in the list of all. See `Noting`."""

    def __init__(self, drafts: Drafts, user: str) -> None:
        self._drafts = drafts
        self._user = user

    def note(self, path: str, name: bytes, account: str = "") -> None:
        """See `Noting`."""
        self._drafts.note(path, name, account, self._user)

    def most(self, name: bytes | None = None) -> int:
        """See `Noting`."""
        return self._drafts.most(name)

    def forget(self, name: bytes) -> None:
        """See `Noting`."""
        self._drafts.forget(name)

    def noted(self, path: str, name: bytes, account: str = "") -> AbstractContextManager[None]:
        """See `Noting`."""
        return self._drafts.noted(path, name, account, self._user)

    def sweep(self, remove: Callable[[Draft], bool]) -> None:
        """See `Noting`."""
        self._drafts.sweep(remove)


def _load(path: Path | None) -> list[Draft]:
    if path is None:
        return []
    try:
        return msgspec.convert(json.loads(path.read_bytes()), list[Draft])
    except FileNotFoundError:
        return []
    except (OSError, ValueError, msgspec.ValidationError) as error:
        log.warning("the book of drafts %s is not read, and begun anew: %s", path, error)
        return []
