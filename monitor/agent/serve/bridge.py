"""`attach`: bytes between this process's stdin and stdout and the agent's socket, until either side ends.

It is what an SSH channel runs. A marker line goes first, because a .bashrc may have printed something before it.
"""

from __future__ import annotations

import os
import select
import signal
import socket

MARKER = b"muster-agent 1\n"


def bridge(sock: socket.socket) -> None:
    """Copy both ways. Blocking writes are its back-pressure. Raises OSError where a side is gone that is written to."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the end of stdin says the same, after what came before it
    _write_all(1, MARKER)
    poller = select.poll()
    poller.register(0, select.POLLIN)
    poller.register(1, 0)  # tells only that nobody can read it any more
    poller.register(sock, select.POLLIN)
    while True:
        for fd, _ in poller.poll():
            if fd == 0:
                data = os.read(0, 65536)
                if not data:
                    return
                sock.sendall(data)
            elif fd == 1:
                return
            else:
                data = sock.recv(65536)
                if not data:
                    return
                _write_all(1, data)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
