"""Looks again and again whether the nodes see the folders that they share, and closes those that do not.

Owns when a node is asked: as soon as its agent has said what it has, and as long as that connection stands.
`shared_folders` says what is asked and what an answer means.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from master.engine.engine import Engine
from master.nodes.link import Link
from master.nodes.registry import NodeConfig
from master.watchers import shared_folders
from master.watchers.own_folders import OwnFolders
from wire.errors import NodeUnreachableError
from wire.message import Message

log = logging.getLogger("muster.fleet")

FOLDERS = "folders"
"""The kind of its cordons."""


class FolderWatcher:
    """`folders`: those of this machine. The fleet tells of its links; a node is closed for new tasks by a cordon."""

    def __init__(self, engine: Engine, folders: OwnFolders) -> None:
        self._engine = engine
        self._folders = folders
        self._jobs: dict[Link, asyncio.Task[None]] = {}

    def link_made(self, link: Link, config: NodeConfig) -> None:
        """As `LinkWatcher`. The master's own folders are its own, whatever was said of another machine's."""
        if config.traits.shares_our_files:
            self._cordon(link.node, None)

    def link_up(self, link: Link, config: NodeConfig) -> None:
        """As `LinkWatcher`: until the first answer, the node gets nothing."""
        if config.traits.shares_our_files or not self._folders.wanted:
            return
        self.link_gone(link)
        self._cordon(link.node, Message("folders_looked_at"))
        job = self._jobs[link] = asyncio.create_task(self._look(link), name=f"folders of {link.node}")
        job.add_done_callback(partial(self._ended, link.node))

    def link_gone(self, link: Link) -> None:
        """As `LinkWatcher`: ask no more, and let no answer that is still on its way count."""
        job = self._jobs.pop(link, None)
        if job is not None:
            job.cancel()

    def _cordon(self, node: str, reason: Message | None) -> None:
        self._engine.event(lambda: self._engine.core.cordon(node, FOLDERS, reason))

    async def _look(self, link: Link) -> None:
        while link.is_up:  # the next connection begins anew
            folders = await self._folders.here()
            fault: Message | None
            try:
                answer = await link.questions.ask(shared_folders.question(folders), timeout_s=shared_folders.CHECK_S)
            except NodeUnreachableError as error:
                fault = Message("folders_not_asked", said=error.args[0])
            else:
                fault = shared_folders.fault(folders, answer)
            self._cordon(link.node, fault)
            await asyncio.sleep(shared_folders.AGAIN_MISSING_S if fault else shared_folders.AGAIN_S)

    def _ended(self, node: str, job: asyncio.Task[None]) -> None:
        # A defect in looking at one node's folders is no reason to end the master.
        if not job.cancelled() and (error := job.exception()) is not None:
            log.error("node %s: looking at its shared folders met a defect", node, exc_info=error)
            self._cordon(node, Message("folders_defect", said=repr(error)))
