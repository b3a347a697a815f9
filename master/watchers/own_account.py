"""Keeps the tasks of others away from nodes where tasks run as the master's own account.

A task with that account can read the keys of the queue and command it. While the queue is one person's nothing is wrong
with that. That there was a second user is a fact of the core's (`core/people/own_account`); which nodes it concerns is
seen here. Likewise, where an agent is root, the tasks of that account run as root: only an admin's are taken there.
"""

from __future__ import annotations

import logging
import os
import time

from master.core.nodes.node import Restriction
from master.edited_files.ownership import user_name
from master.engine.engine import Engine
from master.nodes.link import Link
from master.nodes.registry import NodeConfig
from master.nodes.same_account import runs_as_us
from wire.message import Message

log = logging.getLogger("muster.fleet")


class OwnAccount:
    """`desktop_user`: the user of the desktop client, who does not count as a second user; `is_allowed`: conf.json lets
    clients of other machines run tasks on such nodes, while nobody else exists."""

    def __init__(self, engine: Engine, desktop_user: str, *, is_allowed: bool = False) -> None:
        self._engine = engine
        self._fence = engine.core.own_account
        self._account = user_name(os.geteuid())
        self._is_allowed = is_allowed
        self._fence.exempt, self._fence.desktop = frozenset({desktop_user, self._account}), desktop_user
        engine.core.people.listeners.append(self.look_again)
        # Written down with the first event of the start: one of its own now, before the fleet is there, would let nodes
        # go that have left the registry and still have tasks.
        self._look()

    def link_made(self, link: Link, config: NodeConfig) -> None:
        """As `LinkWatcher`: an agent that the master starts itself has its account."""
        self._note(link.node, ours=config.driver == "local")

    def link_up(self, link: Link, config: NodeConfig) -> None:
        """As `LinkWatcher`: the agent has said who it is, and where."""
        facts = self._engine.core.node(link.node).facts
        is_owners = facts is not None and facts.can_run_as
        is_here = config.driver == "local" or (facts is not None and runs_as_us(facts))
        self._note(link.node, ours=is_here and not is_owners)

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

    def _note(self, node: str, *, ours: bool) -> None:
        if ours:
            self._fence.nodes.add(node)
        else:
            self._fence.nodes.discard(node)
        self._engine.event(lambda: self._restrict(node))

    def _restrict(self, node: str) -> None:
        restriction = self._for_admins(node)
        self._engine.core.restrict(node, restriction)
        if restriction is not None and self._is_allowed:
            self._is_allowed = False  # it is told once
            told = "desktop_client.local_nodes is `allow`, and has no effect while there are other users: %s"
            log.warning(told, restriction.why)

    def _for_admins(self, node: str) -> Restriction | None:
        if not self._fence.is_closed(node):
            return None
        why = Message("own_account_node", account=self._account)
        return Restriction(self._fence.admins() | {self._account}, why)
