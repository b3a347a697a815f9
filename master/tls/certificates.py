"""The certificates that a master makes for itself: an authority of its own, and what it shows, signed by that.

Owns the files in `task_info/tls` and when they are made anew. The authority is made once and pinned by clients and
agents; the certificate shown changes with the machine's names and addresses and before it ends, and nobody notices.
cryptography is loaded only when there is something to look at or to make.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from master.tls.files import write_secret
from wire.file_fault import fault
from wire.message import Message
from wire.pinning import OWN_AUTHORITY

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

AUTHORITY_DAYS = 30 * 365
"""It cannot be renewed without telling everybody, so it outlives the lab."""
CERTIFICATE_DAYS = 397
RENEW_DAYS = 132
"""With a third of its life to go. A master runs for months; `watch` looks again and again."""
_BACKDATED = timedelta(days=2)


class OwnCertificates:
    """The files beneath `folder`. `names`: host names and addresses under which the master is reached."""

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self.authority = folder / "ca.pem"
        self.shown = folder / "server.pem"
        self._authority_key = folder / "ca.key"
        self._folder = folder
        self._names = sorted(set(names))

    def ensure(self, now: datetime | None = None) -> None:
        """Make what is missing or ends soon. `shown` holds key, certificate and authority in one file, so that they
        always belong together. Raises ConfigError."""
        now = now or datetime.now(UTC)
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            if not self.authority.exists():
                self._make_authority(now)
            if not self._is_good(now):
                self._issue(now)
        except (OSError, ValueError, TypeError) as error:
            raise fault(self._folder, Message("certificate_unmakable", detail=str(error))) from None

    def read(self) -> tuple[bytes, str, datetime]:
        """Key, certificate and authority in one, the authority alone, and when the certificate ends. Raises
        ConfigError."""
        from cryptography import x509  # noqa: PLC0415

        try:
            shown = self.shown.read_bytes()
            ends = x509.load_pem_x509_certificates(shown)[0].not_valid_after_utc
            return shown, self.authority.read_text(encoding="ascii").strip() + "\n", ends
        except (OSError, ValueError) as error:
            raise fault(self._folder, Message("certificate_unreadable", detail=str(error))) from None

    def _is_good(self, now: datetime) -> bool:
        from cryptography import x509  # noqa: PLC0415

        if not self.shown.exists():
            return False
        shown, signer = x509.load_pem_x509_certificates(self.shown.read_bytes())
        if signer != x509.load_pem_x509_certificate(self.authority.read_bytes()):
            return False
        value = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        # It does not hold yet where it was made by a clock that was ahead.
        is_young = shown.not_valid_before_utc <= now < shown.not_valid_after_utc - timedelta(days=RENEW_DAYS)
        return value == _alternatives(self._names) and is_young

    def _make_authority(self, now: datetime) -> None:
        from cryptography import x509  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"{OWN_AUTHORITY} {secrets.token_hex(4)}")
        unsigned = _builder(name, name, key, key, _life(now, AUTHORITY_DAYS))
        unsigned = unsigned.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        unsigned = unsigned.add_extension(_usage(signs=True), critical=True)
        write_secret(self._authority_key, _pem_of_key(key))
        write_secret(self.authority, _signed(unsigned, key))

    def _issue(self, now: datetime) -> None:
        from cryptography import x509  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415
        from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415

        authority = x509.load_pem_x509_certificate(self.authority.read_bytes())
        signer = load_pem_private_key(self._authority_key.read_bytes(), None)
        if not isinstance(signer, ec.EllipticCurvePrivateKey) or signer.public_key() != authority.public_key():
            raise ValueError(f"{self._authority_key.name} is not the key of {self.authority.name}")
        key = ec.generate_private_key(ec.SECP256R1())
        unsigned = _builder(_name("Muster"), authority.subject, key, signer, _life(now, CERTIFICATE_DAYS))
        unsigned = unsigned.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        unsigned = unsigned.add_extension(_usage(signs=False), critical=True)
        unsigned = unsigned.add_extension(_alternatives(self._names), critical=False)
        unsigned = unsigned.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        write_secret(self.shown, _pem_of_key(key) + _signed(unsigned, signer) + self.authority.read_bytes())


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: EllipticCurvePrivateKey,
    signer: EllipticCurvePrivateKey,
    life: tuple[datetime, datetime],
) -> x509.CertificateBuilder:
    from cryptography import x509  # noqa: PLC0415

    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    origin = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(life[0])
        .not_valid_after(life[1])
        .add_extension(identifier, critical=False)
        .add_extension(origin, critical=False)
    )


def _life(now: datetime, days: int) -> tuple[datetime, datetime]:
    """From when to when; clocks differ."""
    return now - _BACKDATED, now + timedelta(days=days)


def _usage(*, signs: bool) -> x509.KeyUsage:
    """Return the use of a key: signing certificates, or TLS handshakes."""
    from cryptography import x509  # noqa: PLC0415

    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _alternatives(names: list[str]) -> x509.SubjectAlternativeName:
    from cryptography import x509  # noqa: PLC0415

    known: list[x509.GeneralName] = []
    for name in names:
        try:
            known.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            known.append(x509.DNSName(name))
    return x509.SubjectAlternativeName(known)


def _name(text: str) -> x509.Name:
    from cryptography import x509  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _signed(unsigned: x509.CertificateBuilder, signer: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415

    return unsigned.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _pem_of_key(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
