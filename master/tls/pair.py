"""A certificate and its key that a lab brings, as bytes: what is wrong with them at a given time, and what is doubtful.

Pure: bytes and a time go in, messages come out. Where the bytes lie, and what becomes of a pair, is `brought`'s.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from master.tls.chain import ChainError, certificates_in, pem_of, verified
from wire.message import Message

TOLD_DAYS = 30
"""So long before a certificate ends people are warned."""
_KEY = re.compile(rb"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.+?-----END \1PRIVATE KEY-----", re.DOTALL)
_MOST_NAMES = 8


class Files(NamedTuple):
    """The names of the two files, for people."""

    cert: str
    key: str


class Pair(msgspec.Struct, frozen=True):
    """A pair that clients can be shown. `pem`: key and chain in one. `authority`: what clients pin, PEM: the top of the
    chain. `ends`: when the first of the chain does, which is `subject`'s; `warnings`: what is doubtful about it."""

    pem: bytes
    chain: tuple[x509.Certificate, ...]
    authority: str
    ends: datetime
    subject: str
    warnings: tuple[Message, ...]

    def ending(self, cert: str, now: datetime) -> Message | None:
        """Return a warning that it ends soon, or has ended; None before. `cert`: the name of the file, for people."""
        if self.ends <= now:
            return Message("tls_ended", cert=cert, subject=self.subject, ends=moment(self.ends))
        left = self.ends - now
        if left > timedelta(days=TOLD_DAYS):
            return None
        ends = moment(self.ends)
        return Message("tls_ends_soon", cert=cert, subject=self.subject, ends=ends, days=left.days)


def examine(
    files: Files, cert: bytes, key: bytes, *, roots: bytes, called: Sequence[str], now: datetime
) -> Pair | tuple[Message, ...]:
    """The pair, or all that is wrong with it. `roots`: the authorities that this system trusts, PEM; `called`: the
    names and addresses by which this machine is reached, none where nobody else can."""
    try:
        chain = x509.load_pem_x509_certificates(cert)
    except ValueError as error:
        return (Message("tls_no_certificate", file=files.cert, why=_first_line(error)),)
    wrong = [*_of_key(files, chain[0], key), *_of_leaf(files, chain[0]), *_of_dates(files, chain[0], now)]
    if wrong:
        return tuple(wrong)
    try:
        found, warnings = _climbed(files, chain, certificates_in(roots), now)
    except ChainError as error:
        return (_of_chain(files, error, now),)
    first = min(found, key=lambda one: one.not_valid_after_utc)
    warnings += _of_names(files, chain[0], called)
    pem = key_in(key) + b"\n" + "".join(pem_of(one) for one in chain).encode()
    return Pair(pem, tuple(chain), pem_of(found[-1]), first.not_valid_after_utc, named(first), tuple(warnings))


def key_in(data: bytes) -> bytes:
    """The private key in what a file holds, which may hold parameters or certificates, too; empty without one."""
    found = _KEY.search(data)
    return found.group() if found else b""


def names_of(certificate: x509.Certificate) -> list[str]:
    """The host names and addresses that a certificate is for."""
    try:
        value = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*value.get_values_for_type(x509.DNSName), *map(str, value.get_values_for_type(x509.IPAddress))]


def named(certificate: x509.Certificate) -> str:
    """Return the subject of a certificate, for people."""
    return certificate.subject.rfc4514_string() or ", ".join(names_of(certificate)) or "nobody"


def moment(at: datetime) -> str:
    """Return a time for people, in UTC: certificates end to the second everywhere at once."""
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _climbed(
    files: Files, chain: Sequence[x509.Certificate], roots: Sequence[bytes], now: datetime
) -> tuple[list[x509.Certificate], list[Message]]:
    """The chain up to its authority; where that is nowhere, up to the highest issuer in the file. Raises ChainError."""
    try:
        found = verified(chain, roots, now)
    except ChainError as error:
        if not error.is_incomplete or len(chain) == 1:
            raise
        found = verified(chain, roots, now, is_partial=True)
        return found, [Message("tls_no_authority", cert=files.cert, subject=named(found[-1]))]
    if len(found) == 1:
        return found, [Message("tls_self_signed", cert=files.cert, subject=named(found[0]))]
    return found, []


def _of_key(files: Files, leaf: x509.Certificate, data: bytes) -> Iterator[Message]:
    try:
        key = load_pem_private_key(key_in(data) or data, None)
    except TypeError:
        yield Message("tls_key_locked", file=files.key)
    except (ValueError, UnsupportedAlgorithm) as error:
        yield Message("tls_no_key", file=files.key, why=_first_line(error))
    else:
        if key.public_key() != leaf.public_key():
            yield Message("tls_key_of_another", key=files.key, cert=files.cert, subject=named(leaf))


def _of_leaf(files: Files, leaf: x509.Certificate) -> Iterator[Message]:
    if not names_of(leaf):
        yield Message("tls_no_names", cert=files.cert, subject=named(leaf))
    try:
        usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    if not {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE} & set(usage):
        yield Message("tls_not_for_servers", cert=files.cert, subject=named(leaf))


def _of_dates(files: Files, certificate: x509.Certificate, now: datetime) -> Iterator[Message]:
    if certificate.not_valid_before_utc > now:
        begins = moment(certificate.not_valid_before_utc)
        yield Message("tls_not_begun", cert=files.cert, subject=named(certificate), begins=begins)
    if certificate.not_valid_after_utc <= now:
        ends = moment(certificate.not_valid_after_utc)
        yield Message("tls_ended", cert=files.cert, subject=named(certificate), ends=ends)


def _of_chain(files: Files, error: ChainError, now: datetime) -> Message:
    where = error.certificate
    if error.is_incomplete:
        issuer = where.issuer.rfc4514_string()
        return Message("tls_chain_incomplete", cert=files.cert, issuer=issuer, subject=named(where))
    for dated in _of_dates(files, where, now):
        return dated
    return Message("tls_chain_wrong", cert=files.cert, subject=named(where), why=str(error))


def _of_names(files: Files, leaf: x509.Certificate, called: Iterable[str]) -> Iterator[Message]:
    """A doubt only: a name server may call this machine by names that it does not know itself."""
    names, ours = names_of(leaf), [name for name in called if not _is_only_here(name)]
    if ours and not any(_covers(name, our) for name in names for our in ours):
        yield Message("tls_other_names", cert=files.cert, names=_listed(names), called=_listed(ours))


def _covers(name: str, our: str) -> bool:
    """Whether a certificate's name is ours; of a host name that has no domain the first part must be."""
    name, our = name.lower(), our.lower()
    if _is_address(name) or _is_address(our):
        return name == our
    if "." not in our:
        return name.partition(".")[0] in (our, "*")
    return name == our or (name.startswith("*.") and name[2:] == our.partition(".")[2])


def _is_only_here(name: str) -> bool:
    return name == "localhost" or (_is_address(name) and ipaddress.ip_address(name).is_loopback)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
