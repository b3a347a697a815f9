"""Ports of 127.0.0.1 for the servers that tests start, end and start again.

A port that was free when it was chosen is anybody's until its server listens, and again whenever that server is down.
So each one is held by a socket that is bound to it and does not listen: the kernel gives it to nobody, who looks for
one finds it taken, and a server that says SO_REUSEADDR, as servers do, may listen on it.
"""

from __future__ import annotations

import random
import socket
from collections import deque

from tests.waiting import NeverError

CHOOSE_FROM = range(12_000, 30_000)
"""Below the ports that the kernel gives to clients: one that waits for its master may otherwise connect to itself."""
TRIES = 500
MOST = 150
"""So many are held by this process. The first of them was a test's that is long over."""

_held: deque[socket.socket] = deque()


def free_ports(count: int) -> list[int]:
    """Ports that nobody has, held from now on. Raises NeverError."""
    found: list[int] = []
    for port in random.sample(CHOOSE_FROM, TRIES):
        if len(found) == count:
            return found
        if _hold(port):
            found.append(port)
    raise NeverError(f"{count} free ports among {TRIES}")


def _hold(port: int) -> bool:
    """Take a port; whether it is ours now."""
    holder = socket.socket()
    try:
        holder.bind(("127.0.0.1", port))  # which does not share it with anybody
    except OSError:
        holder.close()
        return False
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # from here on a server may
    _held.append(holder)
    while len(_held) > MOST:
        _held.popleft().close()
    return True
