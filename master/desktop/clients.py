"""The desktop clients of this master: which may connect, as which user each acts, and what their connections share."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections import Counter
from collections.abc import Sequence
from math import inf

from master.callers.addresses import plain
from master.callers.peer import Peer
from master.config.conf_file import DesktopClient
from master.core.attempts.agent_messages import EncodedSample
from master.core.outcome import Move
from master.desktop.news import News
from master.desktop.pushes import FIRST_S, NodePushes, Reader, TaskPushes
from master.desktop.send_queue import SendQueue
from master.verbs.call import Calls, VerbDispatcher

log = logging.getLogger("muster.desktop")

TOLD_EVERY_S = 60.0
REMEMBERED_S = 60.0
"""For so long after its last request somebody is taken for a desktop client who opens a connection and says nothing."""
_ADDRESSES_KEPT = 1000


class DesktopClients:
    """The state that the sessions share. `access`: the networks and the user of conf.json."""

    def __init__(
        self,
        dispatcher: VerbDispatcher,
        access: DesktopClient,
    ) -> None:
        self.user = access.user
        self.silent_s = access.silent_s
        self._users = {_plain(address): user for address, user in access.users.items()}
        self._core = dispatcher.engine.core
        self.news: News | None = None
        self._networks = [ipaddress.ip_network(network) for network in access.networks]
        self._tasks = TaskPushes(dispatcher.engine, dispatcher.master.root)
        self._nodes = NodePushes(dispatcher.engine)
        self._pushes: dict[str, TaskPushes | NodePushes] = {
            "train_state_port": self._tasks,
            "monitor_port": self._nodes,
        }
        self._told_at: dict[str, float] = {}
        self._open: Counter[str] = Counter()
        self._heard_at: dict[str, float] = {}
        dispatcher.engine.observers.append(self)

    @property
    def frame(self) -> int:
        """Return the most bytes of a frame."""
        return self._core.settings.limits.frame_bytes

    @property
    def outbox(self) -> int:
        """Return how many bytes of replies may wait for a client."""
        return self._core.settings.limits.outbox_bytes

    # -- who may connect --------------------------------------------------------------------------------------

    def may_come_from(self, address: str) -> bool:
        """Whether conf.json names a network that the address lies in."""
        try:
            ip = ipaddress.ip_address(address)
        except ValueError:
            return False
        mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
        return any((mapped or ip) in network for network in self._networks)

    def objection(self, peer: Peer) -> str | None:
        """Return why this client may not connect; None if it may. On this machine the kernel tells its user: other
        users are strangers, from any address and in any dialect."""
        if not self.may_come_from(peer.address):
            return "conf.json's desktop_client.networks does not name its network"
        if peer.is_here and not peer.is_ours:
            return "on this machine only the user who runs the master, and root, may"
        return None

    def user_at(self, address: str) -> str:
        """Return the user as which a client at this address acts."""
        return self._users.get(_plain(address), self.user)

    # -- where they are ---------------------------------------------------------------------------------------

    def is_at(self, address: str) -> bool:
        """Tell whether a client at this address has an open connection with requests, or had one a moment ago. Only
        there does silence mean a desktop client: any other silent connection may still begin with another protocol."""
        return bool(self._open[address]) or time.monotonic() - self._heard_at.get(address, -inf) < REMEMBERED_S

    def came(self, peer: Peer) -> None:
        """A client has begun to ask for things; of its three connections, the one on the data port counts."""
        self._open[peer.address] += 1
        if self.news is not None:
            self.news.came(peer.address)

    def went(self, peer: Peer) -> None:
        """One that came has left."""
        self._open[peer.address] -= 1
        if not self._open[peer.address]:
            del self._open[peer.address]
        if self.news is not None:
            self.news.went(peer.address)

    def asked(self, address: str) -> None:
        """A client at this address has asked for something."""
        self._heard_at.pop(address, None)
        self._heard_at[address] = time.monotonic()
        if len(self._heard_at) > _ADDRESSES_KEPT:
            del self._heard_at[next(iter(self._heard_at))]

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

    # -- pushes -----------------------------------------------------------------------------------------------

    def join(self, port: str, calls: Calls, send_queue: SendQueue, arrived_at: float) -> Subscription | None:
        """Begin to tell a client what its port is for, not before it can hear it. None: nothing is pushed there.
        `arrived_at` is the loop's time. Raises ForbiddenError if it may not be told."""
        pushes = self._pushes.get(port)
        if pushes is None:
            return None
        calls.check("subscribe")
        return Subscription(pushes, Reader(send_queue, lambda: calls.sight), arrived_at + FIRST_S)

    def sample(self, node: str, sample: EncodedSample) -> None:
        """The newest sample of a node."""
        self._nodes.sample(node, sample)

    def published(self, moves: Sequence[Move], _nodes: set[str]) -> None:
        """Something has become durable."""
        if moves:
            self._tasks.note(moves)

    def close(self) -> None:
        """Push nothing more."""
        self._tasks.close()
        self._nodes.close()


class Subscription:
    """A client's place among the readers of a port, from `at` (the loop's time) on."""

    def __init__(self, pushes: TaskPushes | NodePushes, reader: Reader, at: float) -> None:
        self._pushes = pushes
        self._reader = reader
        self._timer = asyncio.get_running_loop().call_at(at, pushes.join, reader)

    def end(self) -> None:
        """Send nothing more."""
        self._timer.cancel()
        self._pushes.leave(self._reader)


def _plain(address: str) -> str:
    """Return an address in one form; a text that is no address stays as it is."""
    try:
        return str(plain(address))
    except ValueError:
        return address
