"""A slow network between clients and a master: each piece arrives as late as on a long line, and in the pieces in which
it was sent. Two that are sent close together may arrive together, as they may on a real one."""

from __future__ import annotations

import queue
import random
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from tests.desktop.arrivals import Arrivals

NAMES = ("monitor_port", "data_port", "train_state_port")
_PIECE = 1 << 16


class SlowNetwork:
    """The ports of a master, `delay_s` away in each direction, give or take `jitter_s`; pieces never overtake."""

    def __init__(self, ports: dict[str, int], delay_s: float, jitter_s: float = 0.0) -> None:
        self._delay_s = delay_s
        self._jitter_s = jitter_s
        self._servers = {name: socket.create_server(("127.0.0.1", 0)) for name in NAMES}
        self.ports = {name: server.getsockname()[1] for name, server in self._servers.items()}
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._arrivals: list[Arrivals] = []
        for name, server in self._servers.items():
            self._start(self._accept, server, ports[name])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, work: object, *values: object) -> None:
        thread = threading.Thread(target=work, args=values, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self, server: socket.socket, port: int) -> None:
        while True:
            try:
                near, _ = server.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", port))
            self._sockets += [near, far]
            arrivals = Arrivals(far)
            self._arrivals.append(arrivals)
            ways = ((near.recv, near, far), (lambda size, arrivals=arrivals: arrivals.receive(size)[0], far, near))
            for receive, source, target in ways:
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                line: queue.Queue[tuple[float, bytes]] = queue.Queue()
                self._start(self._enter, receive, line)
                self._start(self._leave, line, target)

    @property
    def too_close(self) -> list[bytes]:
        """The beginnings of frames that the master sent too soon behind others. What leaves here may well be."""
        return [begin for one in self._arrivals for begin in one.too_close]

    def _enter(self, receive: Callable[[int], bytes], line: queue.Queue[tuple[float, bytes]]) -> None:
        """Note when each piece is due; an empty one is the end."""
        due, chance = 0.0, random.Random(1)  # the same in each run
        data = b"?"
        while data:
            try:
                data = receive(_PIECE)
            except OSError:
                data = b""
            late = self._delay_s + chance.uniform(-self._jitter_s, self._jitter_s)
            due = max(due, time.monotonic() + late)
            line.put((due, data))

    @staticmethod
    def _leave(line: queue.Queue[tuple[float, bytes]], target: socket.socket) -> None:
        """Let each piece out when it is due, alone."""
        with suppress(OSError):
            while True:
                due, data = line.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                target.sendall(data)

    def close(self) -> None:
        """Cut everything."""
        for one in (*self._servers.values(), *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(5)
