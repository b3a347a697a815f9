"""The three ports, and those of the desktop client where it has its own: all connections, and what they share.

Each port understands JSON-RPC and the desktop client's dialect, and the agents that dial in; `connection` finds out who
speaks what, `connection_counts` says how many there may be. From other machines plain text is taken from desktop
clients only, who know nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from typing import Protocol

import msgspec

from master.callers.peer import Peer, identify
from master.callers.rates import Rates
from master.config.conf_file import DesktopClient
from master.config.settings import Caps
from master.core.attempts.agent_messages import EncodedSample
from master.desktop.clients import DesktopClients
from master.engine.engine import Engine
from master.nodes.task_accounts import is_of_tasks, runs_own_tasks
from master.ports.connection import NODES, TASKS, AcceptedConnection, AgentReception, Speaks
from master.ports.connection_counts import ConnectionCounts
from master.ports.local_accounts import LocalAccounts
from master.sessions.streams import Streams
from master.tls.entrance import Listener, listen
from master.tls.policy import Tls
from master.verbs.access import Identify, by_kernel
from master.verbs.call import VerbDispatcher
from master.verbs.surroundings import Surroundings
from wire.message import Message

__all__ = ["NODES", "TASKS", "PortServer"]

log = logging.getLogger("muster.ports")


class LoopTurns(Protocol):
    """The loop that all of this runs in."""

    def began(self) -> float:
        """When this turn did, by its clock."""

    def behind(self, fd: int) -> None:
        """Read this connection after the known ones."""

    def before(self, fd: int) -> None:
        """Hear it like all others."""

    def is_alone(self) -> bool:
        """Was one connection heard in this turn, and nothing else?"""


class PortServer:
    """All connections, and what they share. `desktop` decides which clients may use the desktop client's dialect, `tls`
    which must speak TLS, and `reports` receives agents that dial in; without one of these none may, or must.
    `descriptors`: how many connections the process can have open at all; `loop`: its measurements, and the order in
    which it reads connections."""

    def __init__(
        self,
        engine: Engine,
        master: Surroundings,
        descriptors: int,
        desktop: DesktopClient | None = None,
        *,
        tls: Tls | None = None,
        reports: AgentReception | None = None,
        loop: LoopTurns | None = None,
    ) -> None:
        self.engine = engine
        self.master = master
        self.tls = tls
        self.reports = reports
        self.connections: set[AcceptedConnection] = set()
        self.places = ConnectionCounts(
            lambda: engine.core.settings.limits, descriptors, only_root=master.config.local_admin == "root"
        )
        self._accounts = LocalAccounts()
        self.dispatcher = VerbDispatcher(engine, master, Rates(lambda: engine.core.settings.limits))
        self.loop = loop
        if loop is not None:
            self.dispatcher.turns.began = loop.began
            engine.is_alone = loop.is_alone
        engine.compacting.is_busy = lambda: self.dispatcher.turns.busy
        self.streams = Streams(engine, master, self.dispatcher.turns)
        access = desktop or DesktopClient(networks=())
        self._looks_again: asyncio.Handle | None = None
        self._looks_once_more = False
        self._to_look_at: list[AcceptedConnection] = []
        engine.core.people.listeners.append(self._people_changed)
        self.desktop = DesktopClients(self.dispatcher, access)

    @property
    def limits(self) -> Caps:
        """Return those that hold now."""
        return self.engine.core.settings.limits

    async def listen(self, port_name: str, address: str, port: int, backlog: int, speaks: Speaks = "both") -> Listener:
        """Open one of the ports. `speaks`: what is understood there. Raises OSError."""
        return await listen(address, port, backlog, lambda sock: self._receive(port_name, speaks, sock))

    def _receive(self, port_name: str, speaks: Speaks, sock: socket.socket) -> None:
        try:
            peer = identify(sock)
        except OSError:
            sock.close()  # it is gone again
        else:
            AcceptedConnection(self, port_name, speaks, sock, peer).wait()

    async def looked_up(self, peer: Peer) -> Peer:
        """Return the peer with its account on this machine, or with why that account gives no access."""
        if self.master.config.local_users is None or not peer.is_here or peer.is_ours or peer.uid is None:
            return peer
        person = await self._accounts.person(peer.uid)
        if not person.name:
            return msgspec.structs.replace(peer, refused=person.refused)
        configs, nodes = self.master.fleet.configs.values(), self.engine.core.inventory.nodes.values()
        active, notes = list(self.engine.core.active()), self.engine.core.notes
        if is_of_tasks(person.name, configs, nodes, active, notes):
            return msgspec.structs.replace(peer, refused=Message("account_of_tasks", account=person.name))
        runs_tasks = runs_own_tasks(person.name, configs, nodes, active, notes)
        return msgspec.structs.replace(peer, account=person.name, runs_tasks=runs_tasks)

    def identify(self, peer: Peer) -> Identify:
        """Return how to identify a peer that has shown no token yet."""
        config = self.master.config
        return by_kernel(peer, local_users=config.local_users is not None, local_admin=config.local_admin)

    def _people_changed(self) -> None:
        self._looks_once_more = True
        if self._looks_again is None:
            self._looks_again = asyncio.get_running_loop().call_soon(self._look_again)

    def _look_again(self) -> None:
        """Disconnect everybody who lost access, listeners included. With many connections that takes several turns of
        the loop; a change in between is looked at when all have been asked."""
        self._looks_again = None
        if not self._to_look_at:
            self._looks_once_more = False
            self._to_look_at = list(self.connections)
        end = self.dispatcher.turns.ends
        while self._to_look_at:
            connection = self._to_look_at.pop()
            if connection in self.connections:
                connection.look_again()
            if time.monotonic() > end:
                break
        if self._to_look_at or self._looks_once_more:
            self._looks_again = asyncio.get_running_loop().call_soon(self._look_again)

    def sample(self, node: str, sample: EncodedSample) -> None:
        """Pass a sample of a node on."""
        self.streams.sample(node, sample)
        self.desktop.sample(node, sample)

    def admit(self, connection: AcceptedConnection) -> Message | None:
        """A new connection; why there is no place for it, if there is none."""
        self.connections.add(connection)
        return self.places.enter(connection)

    def expect_desktop_clients(self, address: str) -> None:
        """A desktop client has spoken: its other connections, opened just before, will not."""
        for connection in self.connections:
            if connection.peer.address == address:
                connection.wait_no_longer()

    def close(self) -> None:
        """Close all connections, sending what is in their buffers."""
        self.desktop.close()
        self.dispatcher.turns.close()
        for connection in list(self.connections):
            connection.finish()
