"""Which of the shared folders this machine has: what the lab does not have, no node need have.

Owns when that is looked at, in threads that the master can do without: each of the folders may hang. `folder_watcher`
asks what the nodes have.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence

from master.files.threads import Threads
from master.watchers.shared_folders import AGAIN_MISSING_S
from wire.errors import MusterError

log = logging.getLogger("muster.fleet")

HERE_S = 4.0
"""How long a folder may take to answer."""


class OwnFolders:
    """`wanted`: what conf.json names. A folder that was here once counts from then on: that it is away now is no reason
    to ask no node for it."""

    def __init__(self, wanted: Sequence[str], is_folder: Callable[[str], bool] = os.path.isdir) -> None:
        self.wanted = tuple(wanted)
        self._is_folder = is_folder
        self._here: set[str] = set()
        self._threads = Threads()
        self._turn = asyncio.Lock()
        self._next_look: float | None = None

    async def here(self) -> tuple[str, ...]:
        """Those that were here at the last look. One look serves all who ask within a while."""
        async with self._turn:
            now = asyncio.get_running_loop().time()
            if self._next_look is None or now >= self._next_look:
                await self._look()
                self._next_look = now + AGAIN_MISSING_S
        return tuple(folder for folder in self.wanted if folder in self._here)

    async def _look(self) -> None:
        missing = [folder for folder in self.wanted if folder not in self._here]
        found = await asyncio.gather(*map(self._is_here, missing))
        came = [folder for folder, is_here in zip(missing, found, strict=True) if is_here]
        if came and self._next_look is not None:
            log.info("%s: here now, so the nodes are asked for it too", ", ".join(came))
        self._here.update(came)

    async def _is_here(self, folder: str) -> bool:
        try:
            async with asyncio.timeout(HERE_S):
                return await self._threads.call(folder, lambda _: self._is_folder(folder))
        except (TimeoutError, MusterError):
            return True  # it hangs, as only a mount does: the lab has it
