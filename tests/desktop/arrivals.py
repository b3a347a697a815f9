"""What arrives at a socket, as frames, and whether any of them was sent too soon behind the one before.

The client that labs have loses frames that one receive gives it together, so a master leaves a gap between them. What
one receive gives is not the sender's choice alone: who gets the processor late finds together what was sent apart. So
each arrival is told within bounds of the receiver's own clock: it was not there yet when he last looked. Frames are
called too close only where even these bounds are closer than the gap: a late receiver accuses nobody, and one in time
misses nothing.
"""

from __future__ import annotations

import select
import socket
import time
from typing import NamedTuple

from master.desktop.send_queue import GAP_S

TERMINATOR = "_<END_SEND>_"
_END = TERMINATOR.encode()
_LOOK_S = 0.02
"""So often it is looked whether something came: well within the gap."""


class Arrival(NamedTuple):
    """One frame, without its terminator. The end of it came after `since` and was there at `at` (monotonic clock)."""

    since: float
    at: float
    data: bytes


class Arrivals:
    """The frames of one connection. `too_close`: the beginnings of those that were sent too soon."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._nothing_at = self._ended_since = float("-inf")
        """When there was nothing yet of what was not given before; after which time the last frame's end came."""
        self._begun = bytearray()
        self.too_close: list[bytes] = []

    def receive(self, size: int) -> tuple[bytes, list[Arrival]]:
        """What one receive gives, b"" at the end, and the frames that end in it. Raises OSError."""
        while True:
            looked_at = time.monotonic()
            try:
                data = self._socket.recv(size, socket.MSG_DONTWAIT)
            except BlockingIOError:
                self._nothing_at = looked_at
                self._poll.poll(_LOOK_S * 1000)
                continue
            since = self._nothing_at
            if len(data) < size:
                self._nothing_at = looked_at
            return data, self._frames(data, since, time.monotonic())

    def _frames(self, data: bytes, since: float, at: float) -> list[Arrival]:
        found = []
        if data and not self._begun:
            self._judge(data, at)
        searched = max(0, len(self._begun) - len(_END) + 1)
        self._begun += data
        while (end := self._begun.find(_END, searched)) >= 0:
            found.append(Arrival(since, at, bytes(self._begun[:end])))
            del self._begun[: end + len(_END)]
            searched = 0
            self._ended_since = since
            if self._begun:
                self._judge(self._begun, at)
        return found

    def _judge(self, begin: bytes | bytearray, at: float) -> None:
        if at - self._ended_since < GAP_S:
            self.too_close.append(bytes(begin[:100]))
