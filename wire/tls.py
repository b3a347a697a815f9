"""Versions and ciphers of the lab's TLS servers: the master's ports and the console. SECURITY.md lists them, and a test
compares.

Owns the versions and the ciphers. Which certificate is shown is the caller's matter.
"""

from __future__ import annotations

import ssl

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2: those with forward secrecy and authenticated encryption. All ciphers of TLS 1.3 have both."""


def server_context() -> ssl.SSLContext:
    """Return a context for the server's side, without a certificate: TLS 1.2 and 1.3, no renegotiation."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    return context
