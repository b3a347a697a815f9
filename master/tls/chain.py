"""Whether a chain of certificates holds at a given time, and up to which authority. Pure: what is trusted is given.

Owns the conversion from cryptography's certificates to OpenSSL's verification by pyOpenSSL, and back. `pair` words the
errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import crypto

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_NO_ISSUER = (2, 20, 21)
"""X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, ..._LOCALLY, UNABLE_TO_VERIFY_LEAF_SIGNATURE."""


class ChainError(Exception):
    """The chain does not hold: the message is OpenSSL's; `certificate` is where. `is_incomplete`: the certificate of
    its issuer was found nowhere."""

    def __init__(self, why: str, certificate: x509.Certificate, *, is_incomplete: bool) -> None:
        super().__init__(why)
        self.certificate = certificate
        self.is_incomplete = is_incomplete


def verified(
    chain: Sequence[x509.Certificate], trusted: Iterable[bytes], now: datetime, *, is_partial: bool = False
) -> list[x509.Certificate]:
    """The chain from its first certificate up to one of `trusted` (PEM) or one in it that signed itself; `is_partial`:
    up to any but the first. Raises ChainError."""
    store = crypto.X509Store()
    if is_partial:
        store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)
    store.set_time(now)
    anchors = chain[1:] if is_partial else [one for one in chain if is_self_signed(one)]
    for one in anchors:
        store.add_cert(crypto.X509.from_cryptography(one))
    for pem in trusted:
        store.add_cert(crypto.load_certificate(crypto.FILETYPE_PEM, pem))
    return _verified(store, chain)


def leads_to(chain: Sequence[x509.Certificate], authority: bytes, now: datetime) -> bool:
    """Whether who has pinned the authority (PEM) believes the chain: what `wire.pinning` lets clients check."""
    store = crypto.X509Store()
    store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)
    store.set_time(now)
    store.add_cert(crypto.load_certificate(crypto.FILETYPE_PEM, authority))
    try:
        _verified(store, chain)
    except ChainError:
        return False
    return True


def certificates_in(bundle: bytes) -> list[bytes]:
    """The certificates of a file, each in PEM; what stands between them is left out."""
    return _PEM.findall(bundle)


def is_self_signed(certificate: x509.Certificate) -> bool:
    """Whether it names itself as its issuer; verifying it tells whether that is true."""
    return certificate.issuer == certificate.subject


def pem_of(certificate: x509.Certificate) -> str:
    """Return the certificate as PEM."""
    return certificate.public_bytes(Encoding.PEM).decode("ascii")


def _verified(store: crypto.X509Store, chain: Sequence[x509.Certificate]) -> list[x509.Certificate]:
    first, *others = (crypto.X509.from_cryptography(one) for one in chain)
    try:
        found = crypto.X509StoreContext(store, first, others).get_verified_chain()
    except crypto.X509StoreContextError as error:
        is_incomplete = error.errors[0] in _NO_ISSUER
        raise ChainError(str(error), error.certificate.to_cryptography(), is_incomplete=is_incomplete) from None
    return [one.to_cryptography() for one in found]
