"""What a PC of a desktop network does to the master: run there, as a program of its own, with the standard library.

It connects without end: half of its connections say nothing, half ask as the desktop client does; some of these go on
with a frame of 15 MiB that they do not end. What the master closes is dropped, the rest is held on to.

    python3 flood.py ADDRESS PORT,PORT,PORT FOLDER

writes `begun` into FOLDER when so many connections have been tried, and ends when `enough` lies there.
"""

from __future__ import annotations

import errno
import resource
import selectors
import socket
import sys
from contextlib import suppress
from pathlib import Path

CONNECTIONS = 10_000
AT_ONCE = 300
ROUND = 100
LARGE = 20
"""One of so many has a frame that it does not end."""
ASKS = b'{"mode": "get_root", "ui": "main", "info": ""}_<END_SEND>_'
SAVES = b'{"mode": "save_file", "ui": "main", "info": {"path": "/data/x", "content": "' + b"A" * (15 << 20)


class Flood:
    """Connections, and what each still has to say."""

    def __init__(self, address: str, ports: list[int]) -> None:
        self.tried = 0
        self._address = address
        self._ports = ports
        self._unsaid: dict[socket.socket, memoryview] = {}
        self._selector = selectors.DefaultSelector()

    def open_some(self) -> None:
        """As many more as fit."""
        for _ in range(min(ROUND, AT_ONCE - len(self._unsaid))):
            sock = socket.socket()
            sock.settimeout(0)
            to = self._address, self._ports[self.tried % len(self._ports)]
            if sock.connect_ex(to) not in (0, errno.EINPROGRESS):
                sock.close()
                return
            number = self.tried // len(self._ports)
            self.tried += 1
            self._unsaid[sock] = memoryview(b"" if number % 2 else ASKS if number % LARGE else ASKS + SAVES)
            self._selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE)

    def turn(self) -> None:
        """Say what can be said, and drop what was closed."""
        for key, events in self._selector.select(0.01):
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            try:
                if events & selectors.EVENT_WRITE:
                    self._say(sock)
                if events & selectors.EVENT_READ and not sock.recv(65536):
                    self._drop(sock)
            except OSError:
                self._drop(sock)

    def _say(self, sock: socket.socket) -> None:
        with suppress(BlockingIOError):
            self._unsaid[sock] = self._unsaid[sock][sock.send(self._unsaid[sock]) :]
        if not self._unsaid[sock]:
            self._selector.modify(sock, selectors.EVENT_READ)

    def _drop(self, sock: socket.socket) -> None:
        if self._unsaid.pop(sock, None) is not None:
            self._selector.unregister(sock)
            sock.close()


def main(address: str, ports: str, folder: str) -> None:
    """Flood until it is enough."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    flood = Flood(address, [int(port) for port in ports.split(",")])
    while not Path(folder, "enough").exists():
        flood.open_some()
        flood.turn()
        if flood.tried >= CONNECTIONS:
            Path(folder, "begun").touch()


if __name__ == "__main__":
    main(*sys.argv[1:])
