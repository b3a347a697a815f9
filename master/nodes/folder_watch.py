"""Looks again and again whether the nodes see the folders that they share, and closes those that do not.

Owns when a node is asked: as soon as its agent has said what it has, and as long as that connection stands. What is
asked and what an answer means is `shared_folders`'s.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from master.nodes import shared_folders
from master.nodes.link import Link
from master.nodes.own_folders import OwnFolders
from wire.errors import NodeUnreachableError

log = logging.getLogger("muster.fleet")

FOLDERS = "folders"
"""The kind of its cordons."""


class FolderWatch:
    """`cordon(node, FOLDERS, reason)` closes a node for new tasks, and with None opens it again."""

    def __init__(self, folders: OwnFolders, cordon: Callable[[str, str, str | None], None]) -> None:
        self._folders = folders
        self._cordon = cordon
        self._jobs: dict[Link, asyncio.Task[None]] = {}

    def begin(self, link: Link) -> None:
        """The agent is there: until the first answer, it gets nothing."""
        if not self._folders.wanted:
            return
        self.end(link)
        self._cordon(link.node, FOLDERS, "its shared folders are being looked at")
        job = self._jobs[link] = asyncio.create_task(self._look(link), name=f"folders of {link.node}")
        job.add_done_callback(partial(self._ended, link.node))

    def end(self, link: Link) -> None:
        """Ask no more, and let no answer that is still on its way count."""
        job = self._jobs.pop(link, None)
        if job is not None:
            job.cancel()

    async def _look(self, link: Link) -> None:
        while link.is_up:  # the next connection begins anew
            folders = await self._folders.here()
            fault: str | None
            try:
                answer = await link.questions.ask(shared_folders.question(folders), timeout_s=shared_folders.CHECK_S)
            except NodeUnreachableError as error:
                fault = str(error)
            else:
                fault = shared_folders.fault(folders, answer)
            self._cordon(link.node, FOLDERS, fault)
            await asyncio.sleep(shared_folders.AGAIN_MISSING_S if fault else shared_folders.AGAIN_S)

    def _ended(self, node: str, job: asyncio.Task[None]) -> None:
        # What is wrong with looking at one node's folders is no reason to end the master.
        if not job.cancelled() and (error := job.exception()) is not None:
            log.error("node %s: looking at its shared folders met a defect", node, exc_info=error)
            self._cordon(node, FOLDERS, f"its shared folders cannot be looked at: a defect of Muster ({error!r})")
