"""Keeps the tasks of others away from nodes where tasks run as the master's own account.

A task with that account can read the keys of the queue and command it. While the queue is one person's nothing is wrong
with that. That there was a second user is a fact of the core's (`core/people/own_account`), and so is which nodes it
concerns, by what their executors say; here the core hears that users changed. Likewise, where an agent is root, the
tasks of that account run as root: only an admin's are taken there.
"""

from __future__ import annotations

import logging
import os
import time

from master.core.nodes.facts import RunsAs
from master.edited_files.ownership import user_name
from master.engine.engine import Engine
from master.nodes.link import Link
from master.nodes.registry import NodeConfig

log = logging.getLogger("muster.fleet")


class OwnAccount:
    """`desktop_user`: the user of the desktop client, who does not count as a second user; `is_allowed`: conf.json lets
    clients of other machines run tasks on such nodes, while nobody else exists."""

    def __init__(self, engine: Engine, desktop_user: str, *, is_allowed: bool = False) -> None:
        self._engine = engine
        self._fence = engine.core.own_account
        self._account = self._fence.account = user_name(os.geteuid())
        self._is_allowed = is_allowed
        self._fence.exempt, self._fence.desktop = frozenset({desktop_user, self._account}), desktop_user
        engine.core.people.listeners.append(self.look_again)
        # Written down with the first event of the start: one of its own now, before the fleet is there, would let nodes
        # go that have left the registry and still have tasks.
        self._look()

    def link_made(self, link: Link, config: NodeConfig) -> None:
        """As `LinkWatcher`: an agent that the master starts itself has its account, also before it has said so."""
        runs_as: RunsAs = "us" if config.traits.has_our_account else "another"
        self._engine.event(lambda: self._engine.core.runs_as_told(link.node, runs_as))
        self._tell_once(link.node)

    def link_up(self, link: Link, config: NodeConfig) -> None:  # noqa: ARG002
        """As `LinkWatcher`: the agent has said which account tasks get."""
        self._tell_once(link.node)

    def link_gone(self, link: Link) -> None:
        """As `LinkWatcher`: what is known stays so until another one says something else."""

    def look_again(self) -> None:
        """Something changed of the users: in the same change nodes close to whom they should."""
        self._look()
        for node in self._fence.nodes:
            self._restrict(node)

    def _look(self) -> None:
        self._fence.look(time.time())
        self._engine.core.keep_from_root(self._account if self._engine.core.people.is_shared else None)

    def _restrict(self, node: str) -> None:
        self._engine.core.restrict(node, self._fence.restriction(node))
        self._tell_once(node)

    def _tell_once(self, node: str) -> None:
        restriction = self._fence.restriction(node)
        if restriction is not None and self._is_allowed:
            self._is_allowed = False
            told = "desktop_client.local_nodes is `allow`, and has no effect while there are other users: %s"
            log.warning(told, restriction.why)
