"""`attach`: bytes between this process's stdin and stdout and the agent's socket, until either side ends."""

from __future__ import annotations

import os
import select
import socket


def bridge(sock: socket.socket) -> None:
    """Copy both ways. Blocking writes are its back-pressure."""
    poller = select.poll()
    poller.register(0, select.POLLIN)
    poller.register(sock, select.POLLIN)
    while True:
        for fd, _ in poller.poll():
            if fd == 0:
                data = os.read(0, 65536)
                if not data:
                    return
                sock.sendall(data)
            else:
                data = sock.recv(65536)
                if not data:
                    return
                _write_all(1, data)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
