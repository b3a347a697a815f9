"""Uploads: a file that comes in pieces becomes a draft beside its place, and takes its place when it is complete.

The draft's own size is the progress, so an upload goes on after a restart of the master. A draft that is not complete
within a day is removed. Owns the pieces; the jail owns where files may lie.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import msgspec

from master.files import place, tree
from master.files.drafts import ABANDONED_S, Draft, Noting
from master.files.errors import shown
from master.files.jail import Entry, Jail, check_target
from master.files.tree import NEW, open_regular, write_at
from master.files.walk import Found
from wire.errors import BadRequestError, ConflictError, LimitError, NotFoundError, StorageError
from wire.message import Message
from wire.pattern import Pattern

MAX_PIECE = 1 << 20
SYNC_EVERY = 64 << 20
"""Bytes after which a piece waits for the disk, so that the end of an upload need not wait for all of it."""
RemoveAs = Callable[[str, str, str], bool]
"""Removes an abandoned draft with the rights of an account: that, the path and the name; whether it is gone."""
_ID = Pattern(r"[0-9a-f]{16}")


class Begun(msgspec.Struct, frozen=True):
    """An upload: its id, how many bytes are there already, and how many one piece may have."""

    upload: str
    received: int
    piece: int = MAX_PIECE


class Uploads:
    """The uploads into a jail. `drafts` says how many bytes each may have."""

    def __init__(self, jail: Jail, drafts: Noting) -> None:
        self._jail = jail
        self._drafts = drafts

    def seen_by(self, jail: Jail, drafts: Noting) -> Uploads:
        """The uploads of somebody, into the jail as they see it. `drafts`: theirs."""
        return Uploads(jail, drafts)

    def begin(
        self, path: str, size: int, *, overwrite: bool = True, upload: str | None = None, mode: int | None = None
    ) -> Begun:
        """Begin a file of `size` bytes, or go on with the upload `upload`. An upload that cannot succeed is refused.

        `mode`: the rights of a file that is new.
        """
        most = self._drafts.most(None if upload is None else draft_of(upload))
        if size > most:
            raise LimitError(Message("upload_too_large", path=shown(path), bytes=size, most=most))
        spot = self._jail.beneath.spot(path)
        with self._jail.beneath.find(spot, follow=True) as found:
            check_target(found, spot, overwrite=overwrite)
            if upload is not None:
                return Begun(upload, _received(found, draft_of(upload), spot.text))
            room = os.statvfs(found.folder)
            left = room.f_bavail * room.f_frsize
            if size > left:
                raise StorageError(Message("upload_does_not_fit", path=shown(spot.text), bytes=size, left=left))
            draft = place.draft_name("upload")
            self._drafts.note(spot.text, draft)
            os.close(os.open(draft, NEW, place.new_mode(mode), dir_fd=found.folder))
        return Begun(draft.decode().rpartition("-")[2], 0)

    def piece(self, path: str, upload: str, offset: int, data: bytes) -> int:
        """Take a piece; how many bytes are there then. The same piece twice is fine, a gap is not. A full disk ends the
        upload and frees what it took."""
        if len(data) > MAX_PIECE:
            raise LimitError(Message("piece_too_large", most=MAX_PIECE, bytes=len(data)))
        draft = draft_of(upload)
        most = self._drafts.most(draft)
        if offset + len(data) > most:
            raise LimitError(Message("upload_beyond", path=shown(path), most=most))
        spot = self._jail.beneath.spot(path)
        with self._jail.beneath.find(spot, follow=True) as found:
            size = _received(found, draft, spot.text)
            if offset > size:
                raise ConflictError(Message("upload_gap", path=shown(spot.text), here=size, begin=offset))
            fd = open_regular(found.folder, draft, os.O_WRONLY, spot.text)
            try:
                write_at(fd, data, offset)
                if offset // SYNC_EVERY != (offset + len(data)) // SYNC_EVERY:
                    os.fdatasync(fd)
            except OSError:
                self._remove(found, draft)
                raise
            finally:
                os.close(fd)
        return max(size, offset + len(data))

    def commit(self, path: str, upload: str, size: int, *, overwrite: bool = True) -> Entry:
        """Put the file in its place, if it is complete. Durable on return."""
        spot = self._jail.beneath.spot(path)
        draft = draft_of(upload)
        with self._jail.beneath.find(spot, follow=True) as found:
            here = _received(found, draft, spot.text)
            if here != size:
                raise ConflictError(Message("upload_incomplete", path=shown(spot.text), here=here, bytes=size))
            check_target(found, spot, overwrite=overwrite)
            fd = open_regular(found.folder, draft, os.O_WRONLY, spot.text)
            try:
                place.settle(fd, place.standing(found.folder, found.name))
            finally:
                os.close(fd)
            place.put(found.folder, draft, found.folder, found.name, overwrite=overwrite)
            self._drafts.forget(draft)
        return self._jail.stat(spot.text)

    def cancel(self, path: str, upload: str) -> None:
        """Forget an upload and free what it took; one that is gone is fine."""
        spot = self._jail.beneath.spot(path)
        draft = draft_of(upload)
        with self._jail.beneath.find(spot, follow=True) as found:
            self._remove(found, draft)

    def sweep(self, remove_as: RemoveAs | None = None) -> None:
        """Remove the drafts, also those of copies, that nobody has worked on for a day."""

        def remove(draft: Draft) -> bool:
            if draft.account:
                return remove_as is not None and remove_as(draft.account, draft.path, draft.name)
            return self.remove_abandoned(draft.path, draft.name)

        self._drafts.sweep(remove)

    def remove_abandoned(self, path: str, name: str) -> bool:
        """Remove the draft of this name for what was to become `path`, if it is old; whether it is gone."""
        draft = name.encode()
        if not place.DRAFT.fullmatch(draft):
            return True
        try:
            with self._jail.beneath.find(self._jail.beneath.spot(path), follow=True) as found:
                info = place.standing(found.folder, draft)
                if info is not None and not _is_old(info):
                    return False
                if info is not None:
                    tree.delete(found.folder, draft, path, lambda: None)
        except NotFoundError:
            return True
        return True

    def _remove(self, found: Found, draft: bytes) -> None:
        if place.standing(found.folder, draft) is not None:
            os.unlink(draft, dir_fd=found.folder)
        self._drafts.forget(draft)


def draft_of(upload: str) -> bytes:
    """Return the name of the draft of this upload. Raises BadRequestError for what names none."""
    if not _ID.fullmatch(upload):
        raise BadRequestError(Message("no_upload_id", upload=shown(upload[:40])))
    return f".muster-upload-{upload}".encode()


def _received(found: Found, draft: bytes, path: str) -> int:
    info = place.standing(found.folder, draft)
    if info is None:
        raise NotFoundError(Message("upload_over", path=shown(path)))
    return info.st_size


def _is_old(info: os.stat_result) -> bool:
    return info.st_mtime < time.time() - ABANDONED_S
