"""The file service of a master: the jail, its uploads, and the threads in which both are called.

Quick calls and calls that may take hours have separate threads, so that ten copies of data sets keep nobody from
listing a folder. Owns that; the operations are the jail's, which is made, and loaded, at the first request for a file.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from master.files.drafts import UPLOAD_BYTES, Drafts
from master.files.needed import Needed
from master.files.owners import Owners, Who
from master.files.threads import NOBODYS, Threads, Tick, Whose
from wire.errors import MusterError

if TYPE_CHECKING:
    from master.files.jail import Jail
    from master.files.upload import RemoveAs, Uploads

log = logging.getLogger("muster.files")

T = TypeVar("T")

LONG_AT_ONCE = 4
SWEEP_EVERY_S = 3600.0


class Seen(msgspec.Struct, frozen=True):
    """The files as somebody sees them."""

    jail: Jail
    uploads: Uploads
    whose: Whose = NOBODYS


class Files:
    """All files beneath the visible folders. `book`: the file that lists drafts; `upload_bytes` gives how large an
    upload that begins now may be; `needed`: places that the master cannot do without; `owners`: the rules of ownership.
    `remove_as`: see `Uploads.sweep`."""

    def __init__(
        self,
        root: Path,
        visible: tuple[str, ...],
        *,
        book: Path | None = None,
        upload_bytes: Callable[[], int] = lambda: UPLOAD_BYTES,
        needed: tuple[Needed, ...] = (),
        owners: Owners | None = None,
    ) -> None:
        self.drafts = Drafts(book, upload_bytes)
        self.remove_as: RemoveAs | None = None
        self.root = root
        self.owners = owners or Owners()
        self.needed = needed
        self._visible = visible
        self.quick = Threads()
        self.long = Threads(per_key=LONG_AT_ONCE)
        self._next_sweep = 0.0
        self._sweeping: asyncio.Future[None] | None = None

    @cached_property
    def jail(self) -> Jail:
        """The files of somebody who may see everything."""
        from master.files.jail import Jail  # noqa: PLC0415  (see above)

        return Jail(self.root, self._visible, drafts=self.drafts, needed=self.needed)

    @cached_property
    def uploads(self) -> Uploads:
        """The uploads of somebody who may see everything."""
        from master.files.upload import Uploads  # noqa: PLC0415  (see above)

        return Uploads(self.jail, self.drafts)

    def seen_by(self, who: Who) -> Seen:
        """Return the files and uploads as this user may see and change them."""
        sight = self.owners.sight(who)
        jail = self.jail if sight is None else self.jail.seen_by(sight)
        return Seen(jail, self.uploads.seen_by(jail, self.drafts.of(who.user)), Whose(user=who.user))

    async def call(self, path: str, work: Callable[[], T], whose: Whose = NOBODYS) -> T:
        """Run something quick that touches `path`. Raises MusterError: its own, or that the storage hangs."""
        return await self.quick.call(self._storage(path), lambda _tick: work(), whose)

    async def call_long(self, path: str, work: Callable[[Tick], T], whose: Whose = NOBODYS) -> T:
        """Run something that may take hours and shows that it goes on by calling its argument."""
        return await self.long.call(self._storage(path), work, whose)

    def sweep(self) -> None:
        """Now and then, remove abandoned drafts. Called at every change; waits for nothing."""
        if time.monotonic() < self._next_sweep:
            return
        self._next_sweep = time.monotonic() + SWEEP_EVERY_S
        self._sweeping = asyncio.ensure_future(self._sweep())

    async def _sweep(self) -> None:
        try:
            await self.long.call("abandoned uploads", lambda _tick: self.uploads.sweep(self.remove_as))
        except MusterError as error:
            log.warning("abandoned uploads are not removed: %s", error)

    def _storage(self, path: str) -> str:
        # A bad path is refused here already, without a thread.
        return self.jail.beneath.spot(path).visible
