"""Certificates for tests, as labs have them: authorities, those beneath, what a server shows, and when each holds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TypeAlias

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class Made(msgspec.Struct, frozen=True):
    """A certificate and its key."""

    certificate: x509.Certificate
    key: Key

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @property
    def locked_key_pem(self) -> bytes:
        """With a password."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))


def made(
    name: str,
    by: Made | None = None,
    names: Sequence[str] = (),
    days: tuple[float, float] = (-1, 365),
    *,
    now: datetime | None = None,
    key: Key | None = None,
    is_authority: bool = False,
    usage: x509.ObjectIdentifier | None = ExtendedKeyUsageOID.SERVER_AUTH,
) -> Made:
    """The certificate of `name`, signed by `by` (None: by itself), for the host names and addresses `names`. `days`:
    from and until when it holds, counted from `now`, the present moment unless said."""
    now = (now or datetime.now(UTC)).replace(microsecond=0)
    key = key or ec.generate_private_key(ec.SECP256R1())
    signer = by.key if by else key
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=days[0]))
        .not_valid_after(now + timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(_usage(is_authority=is_authority), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_name(one) for one in names]), critical=False)
    if usage is not None and not is_authority:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    return Made(builder.sign(signer, hashes.SHA256()), key)


def authority(name: str = "Lab CA", by: Made | None = None, days: tuple[float, float] = (-1, 3650)) -> Made:
    """An authority, or one beneath another."""
    return made(name, by, days=days, is_authority=True)


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)
