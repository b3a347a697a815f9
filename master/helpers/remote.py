"""Files and logs with the rights of an account: the calls of the jail and its uploads, each done in a helper."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec

from master.files import jail, log_pieces
from master.files.drafts import Noting
from master.files.jail import MAX_ENTRIES, MAX_READ, Entry, Listing
from master.files.log_file import Own
from master.files.needed import Needed
from master.files.owners import Who
from master.files.public_paths import public_size
from master.files.threads import Whose
from master.files.tree import Tally, Tick
from master.files.upload import Begun, draft_of
from master.helpers.frames import Call, Place
from master.helpers.operations import OPERATIONS, Bench, perform
from master.helpers.pool import Pool
from wire.errors import ForbiddenError, MusterError, StorageError
from wire.message import Message

NOT_AS_HIM = frozenset({"no_permission", "no_account_here"})
"""Why something cannot be done as the account, and may be done as the master for who may do that."""


def _no_tick() -> None:
    """Nobody watches."""


class As:
    """`account`: with whose rights; `who`: whose call it is, for the rules of `files`; `or_else`: what the same is done
    with, as the master, where the account may not; None: it is refused."""

    def __init__(self, pool: Pool, account: str, who: Who, drafts: Noting, or_else: Bench | None = None) -> None:
        self.account = account
        self._pool = pool
        self._who = who
        self._drafts = drafts
        self._or_else = or_else

    def ask(self, op: str, tick: Tick = _no_tick, needed: Iterable[Needed] = (), **args: Any) -> Any:
        """Return the result of an operation. Raises MusterError."""
        most = self._drafts.most(draft_of(args["upload"]) if args.get("upload") else None)
        call = Call(op, self._who, args, [Place.of(place) for place in needed], most)
        try:
            result = self._pool.call(self.account, call, self._drafts, tick)
        except ForbiddenError as error:
            if self._or_else is None or error.key not in NOT_AS_HIM:
                raise
            return perform(self._or_else, op, args, tick, needed)
        try:
            return msgspec.msgpack.decode(result, type=OPERATIONS[op].result)
        except (msgspec.DecodeError, ValueError) as error:
            raise StorageError(Message("helper_ended", account=self.account, said=str(error))) from None


class JailAs:
    """As `Jail`."""

    def __init__(self, someone: As) -> None:
        self._ask = someone.ask

    def list(self, path: str, *, after: str = "", limit: int = MAX_ENTRIES) -> Listing:
        """As `Jail.list`."""
        found: Listing = self._ask("list", path=path, after=after, limit=limit)
        return found

    def stat(self, path: str) -> Entry:
        """As `Jail.stat`."""
        found: Entry = self._ask("stat", path=path)
        return found

    def read_piece(self, path: str, offset: int = 0, limit: int = MAX_READ) -> jail.Piece:
        """As `Jail.read_piece`."""
        found: jail.Piece = self._ask("read", path=path, offset=offset, limit=limit)
        return found

    def write(
        self, path: str, data: bytes, *, overwrite: bool = True, create: bool = True, mode: int | None = None
    ) -> None:
        """As `Jail.write`."""
        self._ask("write", path=path, data=data, overwrite=overwrite, create=create, mode=mode)

    def make_folder(self, path: str, *, parents: bool = False) -> None:
        """As `Jail.make_folder`."""
        self._ask("make_folder", path=path, parents=parents)

    def make_file(self, path: str) -> None:
        """As `Jail.make_file`."""
        self._ask("make_file", path=path)

    def move(
        self, source: str, target: str, *, overwrite: bool = False, tick: Tick = _no_tick, needed: Iterable[Needed] = ()
    ) -> None:
        """As `Jail.move`."""
        self._ask("move", tick, needed, source=source, target=target, overwrite=overwrite)

    def copy(
        self, source: str, target: str, *, overwrite: bool = False, tick: Tick = _no_tick, needed: Iterable[Needed] = ()
    ) -> Tally:
        """As `Jail.copy`."""
        found: Tally = self._ask("copy", tick, needed, source=source, target=target, overwrite=overwrite)
        return found

    def delete(
        self,
        path: str,
        recursive: bool = True,  # noqa: FBT001, FBT002
        *,
        tick: Tick = _no_tick,
        needed: Iterable[Needed] = (),
    ) -> int:
        """As `Jail.delete`."""
        found: int = self._ask("delete", tick, needed, path=path, recursive=recursive)
        return found


class UploadsAs:
    """As `Uploads`."""

    def __init__(self, someone: As) -> None:
        self._ask = someone.ask

    def begin(
        self, path: str, size: int, *, overwrite: bool = True, upload: str | None = None, mode: int | None = None
    ) -> Begun:
        """As `Uploads.begin`."""
        found: Begun = self._ask("upload_begin", path=path, size=size, overwrite=overwrite, upload=upload, mode=mode)
        return found

    def piece(self, path: str, upload: str, offset: int, data: bytes) -> int:
        """As `Uploads.piece`."""
        found: int = self._ask("upload_piece", path=path, upload=upload, offset=offset, data=data)
        return found

    def commit(self, path: str, upload: str, size: int, *, overwrite: bool = True) -> Entry:
        """As `Uploads.commit`."""
        found: Entry = self._ask("upload_commit", path=path, upload=upload, size=size, overwrite=overwrite)
        return found

    def cancel(self, path: str, upload: str) -> None:
        """As `Uploads.cancel`."""
        self._ask("upload_cancel", path=path, upload=upload)


class SeenAs(msgspec.Struct, frozen=True):
    """The files as a user sees them, accessed with the rights of the user's account."""

    jail: JailAs
    uploads: UploadsAs
    whose: Whose

    @classmethod
    def of(cls, someone: As) -> SeenAs:
        """As the account of this one."""
        return cls(JailAs(someone), UploadsAs(someone), Whose(someone.account))


class LogsAs:
    """As `log_pieces.LogsHere`."""

    def __init__(self, someone: As) -> None:
        self._ask = someone.ask
        self.whose = Whose(someone.account)

    def read(self, path: str, where: log_pieces.Where, offset: int, limit: int, *, collapsed: bool) -> log_pieces.Piece:
        """As `log_pieces.read`; whose what is, the account's `Who` says."""
        within, _, own = where
        told: Own | None = own
        found: log_pieces.Piece = self._ask(
            "read_log",
            path=path,
            offset=offset,
            limit=limit,
            collapsed=collapsed,
            within=list(within or ()),
            own=None if told is None else list(told),
        )
        return found

    def size(self, path: str, where: log_pieces.Where) -> int:
        """As `log_pieces.size`. A follower learns from it whether the size has changed, so the master looks only where
        the account could find that out; elsewhere the account is asked, which costs more."""
        _, sight, own = where
        with suppress(MusterError):
            return log_pieces.known_size(path, where if own is None else ((own.folder,), sight, own))
        known = public_size(path)
        if known is not None:
            return known
        found: int = self._ask("log_size", path=path)
        return found
