"""How tasks that submit others find the master from their nodes, and which nodes have no way for them.

Owns that address, and the reasons. `verbs.access` says what such a task may do, `people.task_tokens` what it shows.
"""

from __future__ import annotations

import os

from master.callers.addresses import plain
from master.config.config import Config
from master.core.attempts.launching import WayBack
from master.core.nodes.inventory import Facts
from master.engine.engine import Engine
from master.nodes.driver import SeenDriver
from master.nodes.link import Link
from master.nodes.registry import NodeConfig
from master.nodes.same_account import is_this_machine
from master.people.task_tokens import TaskTokens
from master.tls.policy import Tls, listens_outside
from wire.agent import GIVES_TOKENS
from wire.message import Message

MASTER, FINGERPRINT, ACCOUNT = "MUSTER_MASTER", "MUSTER_CA_FINGERPRINT", "MUSTER_MASTER_UID"
PLAIN = "plain://"
"""Before an address, for clients: not encrypted."""
_ANY = ("", "0.0.0.0", "::")  # noqa: S104  (names of it, nothing is bound here)


class WaysBack:
    """For each node that is up, or was, how its tasks call the master. Where conf.json's `task_env` says so, it is
    right: the lab knows its networks better."""

    def __init__(self, engine: Engine, config: Config, tls: Tls, tokens: TaskTokens) -> None:
        self._engine = engine
        self._bind = config.bind
        self._port = config.ports.data_port
        self._said = MASTER in config.task_env
        self._tls = tls
        self._tokens = tokens
        self._places: dict[str, str] = {}

    def give(self, node: str, launch_id: str) -> WayBack:
        """Return the token and the address that an attempt on this node gets. Raises ConfigError where there is no
        usable certificate to believe."""
        place, variables = self._places.get(node, ""), {}
        host, _, port = place.rpartition(":")
        if self._tls.is_on and listens_outside(self._bind):
            place = f"{self._called(host)}:{port}" if place else ""
            variables[FINGERPRINT] = self._tls.fingerprint()
        leads_here = _leads_here(host.strip("[]"))
        if place and not (leads_here and self._tls.is_on):
            # Nothing is encrypted within a machine: it is said to the master's own account alone, whoever has the port.
            variables[ACCOUNT] = str(os.geteuid())
        if place and leads_here and not self._tls.is_on:
            place = f"{PLAIN}{place}"  # of a node of this machine: others have no way
        if place:
            variables[MASTER] = place
        return WayBack(self._tokens.make(launch_id), variables)

    def _called(self, host: str) -> str:
        """By a name of the certificate's, where it has some. On this machine nobody asks for it."""
        if host.startswith("[") or not _leads_here(host):
            return host
        return self._tls.callable_as(host)

    def link_made(self, _link: Link, _config: NodeConfig) -> None:
        """As `LinkWatcher`: nothing is known before it is up."""

    def link_up(self, link: Link, config: NodeConfig) -> None:
        """As `LinkWatcher`: the agent has said where it is, and what it knows."""
        facts = self._engine.core.node(link.node).facts
        found = self._way(facts, link, config)
        self._places[link.node] = "" if isinstance(found, Message) else found
        why_not = found if isinstance(found, Message) else None
        self._engine.event(lambda: self._engine.core.tokens_told(link.node, why_not))

    def link_gone(self, link: Link) -> None:
        """As `LinkWatcher`: what is known stays so until another one says something else."""

    def _way(self, facts: Facts | None, link: Link, config: NodeConfig) -> str | Message:
        if facts is None or facts.protocol < GIVES_TOKENS:
            return Message("agent_without_tokens")
        if config.traits.is_this_machine or (facts.machine and is_this_machine(facts)):
            return _place("127.0.0.1" if self._bind in _ANY else self._bind, self._port)
        if self._said:
            return ""
        if not self._tls.is_on:
            return Message("tokens_need_tls")
        if not listens_outside(self._bind):
            return Message("master_out_of_reach")
        host = link.driver.sees_us_as() if isinstance(link.driver, SeenDriver) else ""
        if config.traits.dials_in and host:
            return host
        host = host if self._bind in _ANY else self._bind
        return _place(host, self._port) if _leads_here(host) else Message("master_out_of_reach")


def _leads_here(host: str) -> bool:
    """Can it mean this machine to another one?"""
    try:
        address = plain(host)
    except ValueError:
        return bool(host) and host != "localhost"
    return not (address.is_loopback or address.is_link_local or address.is_unspecified)


def _place(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
