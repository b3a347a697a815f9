"""The certificate that the ports show: a context for new connections, what clients pin, and until when it is valid."""

from __future__ import annotations

import os
import ssl
from datetime import datetime

import msgspec

from wire.tls import server_context


class Shown(msgspec.Struct, frozen=True):
    """`authority`: PEM of what clients and agents pin. `ends`: when the first certificate of the chain does. `names`:
    for which hosts it is; none where clients look at no name."""

    context: ssl.SSLContext
    authority: str
    ends: datetime
    names: tuple[str, ...] = ()

    def callable_as(self, host: str) -> str:
        """How clients must call the host to believe it: as it is, or else by a name of the certificate, rather by one
        that begins like it."""
        domain = host.partition(".")[2]
        if not self.names or host in self.names or (domain and f"*.{domain}" in self.names):
            return host
        plain = [name for name in self.names if not name.startswith("*")]
        alike = [name for name in plain if name.partition(".")[0] == host]
        return next(iter((*alike, *plain)), host)


def context_of(pem: bytes) -> ssl.SSLContext:
    """For the server's side, with this key and this chain. Raises OSError.

    It is made of what was looked at, and not of files, which may hold something else by now. It is a new one each time,
    for a context that refuses a key has lost the one that it had.
    """
    context = server_context()
    context.num_tickets = 0  # connections last; nobody comes back to resume one
    fd = os.memfd_create("certificate")
    with os.fdopen(fd, "wb") as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{fd}")
    return context
