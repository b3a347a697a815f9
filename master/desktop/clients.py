"""The desktop clients of this master: who may come in so and as whom, and what all their connections share."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import time

from master.config import DesktopClient
from master.core.heard import Passed
from master.core.task import Task
from master.desktop.outbox import Outbox
from master.desktop.pushes import FIRST_S, NodePushes, Reader, TaskPushes
from master.engine import Engine
from master.peer import Peer, identify
from master.rates import Rates
from master.tls.policy import is_loopback
from master.verbs.base import Context, Surroundings

log = logging.getLogger("muster.desktop")

TOLD_EVERY_S = 60.0
_ADDRESSES_KEPT = 1000


class DesktopClients:
    """What the sessions share. `access`: the networks and the user of conf.json; `frame`: bytes that one may have."""

    def __init__(
        self,
        engine: Engine,
        master: Surroundings,
        access: DesktopClient,
        rates: Rates,
        *,
        frame: int,
        outbox: int,
    ) -> None:
        self.engine = engine
        self.master = master
        self.user = access.user
        self.rates = rates
        self.frame = frame
        self.outbox = outbox
        self._networks = [ipaddress.ip_network(network) for network in access.networks]
        self._tasks = TaskPushes(engine, master.root)
        self._nodes = NodePushes(engine)
        self._pushes: dict[str, TaskPushes | NodePushes] = {
            "train_state_port": self._tasks,
            "monitor_port": self._nodes,
        }
        self._told_at: dict[str, float] = {}
        engine.observers.append(self)

    # -- who may come in --------------------------------------------------------------------------------------

    def may_come_from(self, address: str) -> bool:
        """Whether conf.json names a network that the address lies in."""
        try:
            ip = ipaddress.ip_address(address)
        except ValueError:
            return False
        mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
        return any((mapped or ip) in network for network in self._networks)

    def lets_in(self, sock: socket.socket, address: str) -> bool:
        """Whether a client may come in; the log says why not. On this machine the kernel tells who it is: its other
        users are strangers, whichever dialect they speak."""
        if not self.may_come_from(address):
            why = "conf.json's desktop_client.networks does not name its network"
        elif is_loopback(address) and _user(sock) is None:
            why = "on this machine only the user who runs the master, and root, may"
        else:
            return True
        if self.seldom(address):
            log.warning("a desktop client at %s was not let in: %s", address, why)
        return False

    def seldom(self, address: str) -> bool:
        """Whether there may be another line in the log about this address: one a minute."""
        now = time.monotonic()
        if now - self._told_at.get(address, -TOLD_EVERY_S) < TOLD_EVERY_S:
            return False
        self._told_at.pop(address, None)
        self._told_at[address] = now
        if len(self._told_at) > _ADDRESSES_KEPT:
            del self._told_at[next(iter(self._told_at))]
        return True

    def context(self, peer: Peer) -> Context:
        """What a verb is given when this peer calls it."""
        return Context(self.engine, self.master, peer, time.time())

    # -- pushes -----------------------------------------------------------------------------------------------

    def join(self, port: str, outbox: Outbox, arrived_at: float) -> Subscription | None:
        """Begin to tell a client what its port is for, not before it can hear it. None: nothing is pushed there.
        `arrived_at` is the loop's time."""
        pushes = self._pushes.get(port)
        return None if pushes is None else Subscription(pushes, Reader(outbox), arrived_at + FIRST_S)

    def sample(self, node: str, sample: Passed) -> None:
        """The newest sample of a node."""
        self._nodes.sample(node, sample)

    def published(self, tasks: list[Task], gone: list[int], _nodes: set[str]) -> None:
        """Something has become durable."""
        if tasks or gone:
            self._tasks.note(tasks, gone)

    def let_out(self) -> None:
        """Pushes have their own time."""

    def close(self) -> None:
        """No more pushes."""
        self._tasks.close()
        self._nodes.close()


def _user(sock: socket.socket) -> str | None:
    try:
        return identify(sock).user
    except OSError:
        return None  # it is gone again


class Subscription:
    """A client's place among the readers of a port, from `at` (the loop's time) on."""

    def __init__(self, pushes: TaskPushes | NodePushes, reader: Reader, at: float) -> None:
        self._pushes = pushes
        self._reader = reader
        self._timer = asyncio.get_running_loop().call_at(at, pushes.join, reader)

    def end(self) -> None:
        """It is told nothing any more."""
        self._timer.cancel()
        self._pushes.leave(self._reader)
