"""Puts together what touches files and logs for people: which way to helpers there is, and when they are wanted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from master.config.config import Config
from master.core.core import Core
from master.core.nodes.inventory import NodeState
from master.core.nodes.notes import Note
from master.core.people.run_as import RunAs
from master.files.service import Files
from master.helpers.acting import Acting
from wire.account import can_change
from wire.agent import Probed

if TYPE_CHECKING:
    from master.helpers.means import Means


class Ask(Protocol):
    """Runs a command on a node, as its agent's own account."""

    def __call__(self, node: str, argv: Sequence[str], *, timeout_s: float) -> Awaitable[Probed]:
        """As `Fleet.probe`."""


def acting_for(core: Core, files: Files, log_folder: str, *, config: Config, account_of: RunAs, ask: Ask) -> Acting:
    """Return what acts for users in this master. Root makes helpers itself as soon as any node runs tasks as their
    owners; a master of another account has root's agent on its own machine make them, once there is one."""
    umask = os.umask(0o077)
    os.umask(umask)
    loop, is_root = asyncio.get_running_loop(), os.geteuid() == 0
    wanted = ("here", "there") if is_root else ("here",)

    def holds() -> bool:
        nodes = core.inventory.nodes
        return any(name in nodes and note.as_owners in wanted for name, note in core.notes.items())

    def means() -> Means:
        from master.helpers import means  # noqa: PLC0415  (where none is needed a start does not wait for what makes it)

        setup = means.setup_of(config, files, log_folder)
        if is_root:
            return means.of_root(setup, config.run_as_allowed, umask)
        return means.of_agent(
            setup,
            config.run_as_allowed,
            umask,
            node=partial(_root_agent_here, core),
            probe=lambda node, argv, timeout_s: ask(node, argv, timeout_s=timeout_s),
            folder=config.task_info,
            loop=loop,
        )

    has_means = not is_root or can_change()
    return Acting(files, log_folder, means if has_means else None, holds=holds, account_of=account_of)


def _root_agent_here(core: Core) -> str | None:
    """A node whose agent is root on this machine, as was seen, and connected."""
    for node in core.inventory.nodes.values():
        is_here = core.notes.get(node.name, Note()).as_owners == "here"
        if is_here and node.state is NodeState.ONLINE and node.facts is not None and node.facts.can_run_as:
            return node.name
    return None
