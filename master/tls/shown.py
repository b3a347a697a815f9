"""What the ports show: a context for new connections, what clients pin, and until when it holds."""

from __future__ import annotations

import os
import ssl
from datetime import datetime
from typing import NamedTuple


class Shown(NamedTuple):
    """`authority`: PEM of what clients and agents pin. `ends`: when the first certificate of the chain does."""

    context: ssl.SSLContext
    authority: str
    ends: datetime


def context_of(pem: bytes) -> ssl.SSLContext:
    """For the server's side, with this key and this chain. Raises OSError.

    It is made of what was looked at, and not of files, which may hold something else by now. It is a new one each time,
    for a context that refuses a key has lost the one that it had.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0  # connections last; nobody comes back to resume one
    fd = os.memfd_create("certificate")
    with os.fdopen(fd, "wb") as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{fd}")
    return context
