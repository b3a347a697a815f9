"""The addresses of a name, and connections to each of them.

A name may lead to several: `localhost` to ::1 and 127.0.0.1. Another account may have the master's port at one of them
while the master listens at another. So whoever dials tries all, and says what one of them did wrong only if none is
the master's.
"""

from __future__ import annotations

import errno
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CONNECT_TIMEOUT_S = 5.0


class Place:
    """One address of a name: its family and what `connect` takes."""

    def __init__(self, family: int, where: tuple[Any, ...]) -> None:
        self.family = family
        self.where = where

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self.where == other.where

    def __hash__(self) -> int:
        return hash(self.where)

    def connect(self) -> socket.socket:
        """A connection to it. Raises OSError."""
        sock = socket.socket(self.family, socket.SOCK_STREAM)
        try:
            sock.settimeout(CONNECT_TIMEOUT_S)
            sock.connect(self.where)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            sock.close()
            raise
        return sock


def places(host: str, port: int) -> list[Place]:
    """All addresses of this name, in the order of the system. Raises OSError if there are none, UnicodeEncodeError
    for a name that is not UTF-8."""
    # As bytes where that is possible: for a str the interpreter loads its idna codec, which is felt at each start.
    name: Any = host.encode() if host.isascii() else _encoded(host, port)
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(Place(family, where) for family, _, _, _, where in found))


def _encoded(host: str, port: int) -> bytes:
    f"{host}:{port}".encode()
    try:
        return host.encode("idna")
    except UnicodeError:
        from wire.message import Message

        raise OSError(errno.EINVAL, Message("no_host_name")) from None
