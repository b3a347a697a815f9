"""Keeps the tasks of others away from nodes where tasks run as the master's own account.

Whoever runs as that account is the queue's admin by the kernel's word: he could read its keys and command it. While the
queue is one person's nothing is wrong with that; from the second user on such a node is for admins' tasks alone.
"""

from __future__ import annotations

import logging
import os
import time

from master.core.node import Reserved
from master.engine import Engine
from master.nodes.link import Link
from master.nodes.registry import NodeConfig
from master.nodes.same_account import runs_as_us
from master.ownership import user_name
from wire.message import Message

log = logging.getLogger("muster.fleet")


class OwnAccount:
    """`desktop_user`: as whom the desktop client comes in, who is nobody to be kept apart from the first admin;
    `is_allowed`: conf.json lets clients of other machines run tasks on such nodes, while that is so."""

    def __init__(self, engine: Engine, desktop_user: str, *, is_allowed: bool = False) -> None:
        self._engine = engine
        self._account = user_name(os.geteuid())
        self._desktop_user = desktop_user
        self._ours: set[str] = set()
        self._is_allowed = is_allowed
        engine.core.people.listeners.append(self.look_again)

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
        """Something changed of the people that there are: in the same change nodes close to whom they should."""
        reserved = self._for_admins()
        for node in self._ours:
            self._engine.core.reserve(node, reserved)
        self._tell(reserved if self._ours else None)

    def _note(self, node: str, *, ours: bool) -> None:
        if ours:
            self._ours.add(node)
        else:
            self._ours.discard(node)
        reserved = self._for_admins() if ours else None
        self._tell(reserved)
        self._engine.event(lambda: self._engine.core.reserve(node, reserved))

    def _tell(self, reserved: Reserved | None) -> None:
        """Once: what conf.json allows is not so any more."""
        if reserved is not None and self._is_allowed:
            self._is_allowed = False
            told = "desktop_client.local_nodes is `allow`, and has no effect while there are other users: %s"
            log.warning(told, reserved.why)

    def _for_admins(self) -> Reserved | None:
        people, now = self._engine.core.people, time.time()
        added = people.others_than(self._desktop_user, self._account, now=now)
        admins = {user.name for user in added if user.role == "admin"}
        first = min((user for user in added if user.role == "admin"), key=lambda user: user.id, default=None)
        if not any(user is not first for user in added):
            return None
        why = Message("own_account_node", account=self._account)
        return Reserved(frozenset({*admins, self._account}), why)
