"""One connection to the agent's socket: bytes in and out. It never waits, and it does not know what messages mean."""

from __future__ import annotations

import socket
from typing import Any, List

from wire.agent import MAX_FRAME
from wire.framing import LineDecoder, encode, strict_loads

MAX_UNSENT = 64 * 1024 * 1024
MAX_UNSENT_SAMPLES = 64 * 1024


class Connection:
    """`since`: when it was accepted, `heard_at`: when bytes last came (monotonic seconds).

    `incarnation`: the master's, once it was welcomed.
    """

    def __init__(self, sock: socket.socket, now: float) -> None:
        self.sock = sock
        self.since = self.heard_at = now
        self.incarnation = ""
        self.closed = False
        self._decoder = LineDecoder(MAX_FRAME)
        self._out = bytearray()
        sock.setblocking(False)  # noqa: FBT003  (the standard library's signature)

    @property
    def wants_to_write(self) -> bool:
        """Whether something waits to be sent."""
        return bool(self._out) and not self.closed

    @property
    def crowded(self) -> bool:
        """Whether so much is unsent that samples should be left out."""
        return len(self._out) > MAX_UNSENT_SAMPLES

    def read(self, now: float) -> List[Any]:
        """The messages that arrived; sets `closed` at the end of the stream. Raises FrameError."""
        try:
            data = self.sock.recv(262144)
        except BlockingIOError:
            return []
        except OSError:
            data = b""  # a reset is an end
        if not data:
            self.closed = True
            return []
        self.heard_at = now
        return [strict_loads(line) for line in self._decoder.feed(data)]

    def send(self, message: Any) -> None:
        """Queue a message. One that does not read is given up."""
        self._out += encode(message)
        if len(self._out) > MAX_UNSENT:
            self.closed = True

    def send_line(self, line: bytes) -> None:
        """Queue a message that is encoded already."""
        self._out += line + b"\n"

    def flush(self) -> None:
        """Send what goes without waiting; sets `closed` when the other side is gone."""
        while self._out and not self.closed:
            try:
                sent = self.sock.send(self._out)
            except BlockingIOError:
                return
            except OSError:
                self.closed = True
                return
            del self._out[:sent]

    def close(self) -> None:
        """Give the connection up."""
        self.closed = True
        self.sock.close()
