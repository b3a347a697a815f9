"""Which account has the other end of a connection within this machine, by the kernel's word.

Within a machine nothing is encrypted, and any of its accounts may take the master's port while that is down. So before
anything is said the kernel is asked who accepted *this* connection: who listens says nothing, for others may listen at
the same port of another address, or accept in the place of whoever listens. Nothing is sent to find out. Which
accounts are right is the caller's to say, and so is how to wait: the command line sleeps, the console does not.
"""

from __future__ import annotations

import os
import select
import socket
import time

from wire import netlink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Allowed = Callable[[int], bool]

_FIRST_S, _LONGEST_S = 0.00002, 0.01
_ELSEWHERE_S = 0.02
"""For so long the kernel may not know yet of a connection that leads to somebody here."""
_LISTENER_S, _LISTENER_AGAIN_S = 0.5, 1.0
"""After so long without being accepted it is looked up who listens, so that a stranger who accepts nothing is named.
That reads a table of all sockets, so it is done again only after so long."""
_LATER = 0.05
"""Of the time that was waited already, so much passes until the next look, and at most a second."""


def is_local(sock: socket.socket) -> bool:
    """Does the connection stay within this machine, by its addresses?"""
    here, there = sock.getsockname()[0], sock.getpeername()[0]
    return bool(here == there or netlink.is_here(there))


class Finding:
    """Looks until somebody has accepted the connection: an iterator over how many seconds to wait before the next look.

    `uid` is known when it ends: whose the other end is; or whose whoever listens, where that is somebody who is not
    allowed and does not accept. None where the kernel cannot tell: it is an account that has no number here, or the
    connection leads out of our network namespace. `give_up`: of the monotonic clock. It raises TimeoutError then, and
    ConnectionResetError where the other side closed the connection."""

    def __init__(self, sock: socket.socket, is_allowed: Allowed, give_up: float) -> None:
        self.uid: int | None = None
        self._sock = sock
        self._is_allowed = is_allowed
        self._give_up = give_up
        self._look_for_listeners = _LISTENER_S
        self._ours, self._theirs = sock.getsockname()[:2], sock.getpeername()[:2]

    def __iter__(self) -> Iterator[float]:
        began, pause = time.monotonic(), _FIRST_S
        while not self._is_found(time.monotonic() - began):
            now = time.monotonic()
            if now >= self._give_up:
                raise TimeoutError("nobody accepts the connection")
            yield min(pause, self._give_up - now)
            pause = min(pause * 2, max(_LONGEST_S, min((now - began) * _LATER, 1.0)))

    def _is_found(self, since: float) -> bool:
        uid = netlink.other_end(self._ours, self._theirs)
        if uid >= 0:
            self.uid = None if _has_no_number(uid) else uid
            return True
        if _is_closed(self._sock):
            raise ConnectionResetError("the other side closed the connection")
        if uid == netlink.ELSEWHERE:
            return since >= _ELSEWHERE_S
        if since >= self._look_for_listeners:
            self._look_for_listeners = since + _LISTENER_AGAIN_S
            self.uid = _stranger_who_listens(self._theirs, self._is_allowed)
        return self.uid is not None


def account_of(sock: socket.socket) -> int | None:
    """The uid of whoever has the other end, if the kernel can tell it at once."""
    uid = netlink.other_end(sock.getsockname()[:2], sock.getpeername()[:2])
    return None if uid < 0 or _has_no_number(uid) else uid


def _is_closed(sock: socket.socket) -> bool:
    poller = select.poll()
    poller.register(sock.fileno(), getattr(select, "POLLRDHUP", select.POLLHUP))
    return bool(poller.poll(0))


def _stranger_who_listens(place: tuple[str, int], is_allowed: Allowed) -> int | None:
    from wire.listener import listening

    found = {one.uid for one in listening(*place)}
    return min(found) if found and not any(map(is_allowed, found)) else None


def _has_no_number(uid: int) -> bool:
    """In a namespace of users, as some containers have, all accounts that are not of it have one number."""
    return uid != 0 and uid == _nobody() and not _knows_all_accounts()


def _nobody() -> int:
    try:
        with open("/proc/sys/kernel/overflowuid", "rb") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 65534


def _knows_all_accounts() -> bool:
    try:
        with open("/proc/self/uid_map", "rb") as file:
            return file.read().split() == [b"0", b"0", b"%d" % ((1 << 32) - 1)]
    except OSError:
        return os.geteuid() == 0
