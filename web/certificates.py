"""The certificate that browsers are shown: the lab's own, or one by an authority that is made for browsers alone.

People install that authority's root once, and so it is worth less than any other: it is bound (*name constraints*) to
the names of this console, and to the addresses of its machine; browsers believe it for nothing else. The authority of
the master's ports is not bound, and never goes into a browser. Owns the files in `task_info/web`.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import secrets
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from web.settings import Settings
from wire.console import TlsFiles, is_address
from wire.file_fault import fault
from wire.message import Message
from wire.tls import server_context

ROOT_DAYS = 10 * 365
SHOWN_DAYS = 397
RENEW_DAYS = 132
_BACKDATED = timedelta(days=2)
_HERE = ("localhost", "127.0.0.1", "::1")


class Certificates:
    """`names`: of the console. `root`: the file that people install; None where the lab brings its own."""

    def __init__(self, settings: Settings) -> None:
        brought = settings.web.tls
        self._brought = brought if isinstance(brought, TlsFiles) else None
        self._conf = settings.conf
        self._folder = settings.folder
        self._names = sorted({*settings.hosts, *_HERE})
        self.root = None if self._brought else self._folder / "authority.pem"

    def context(self) -> ssl.SSLContext:
        """For new connections; what is missing or ends soon is made first. Raises ConfigError."""
        context = server_context()
        context.set_alpn_protocols(["http/1.1"])
        cert, key = self._files()
        try:
            context.load_cert_chain(cert, key)
        except (OSError, ssl.SSLError) as error:
            detail = error.strerror or getattr(error, "reason", None) or str(error)
            what = Message("web_pair_refused", cert=str(cert), key=str(key), detail=detail)
            raise fault(self._conf, what) from None
        return context

    def ends(self) -> datetime:
        """When the one that lies there does. Raises ConfigError."""
        cert, _ = self._files()
        try:
            return x509.load_pem_x509_certificates(cert.read_bytes())[0].not_valid_after_utc
        except (OSError, ValueError) as error:
            raise fault(
                cert, Message("file_unreadable", detail=getattr(error, "strerror", None) or str(error))
            ) from None

    def fingerprint(self) -> str | None:
        """Of the root; None where there is none of ours."""
        return None if self.root is None else "sha256:" + hashlib.sha256(self.der()).hexdigest()

    def der(self) -> bytes:
        """The root, as Windows and phones want it."""
        held = b"" if self.root is None else self.root.read_bytes()
        return x509.load_pem_x509_certificate(held).public_bytes(serialization.Encoding.DER)

    def _files(self) -> tuple[Path, Path]:
        if self._brought is not None:
            base = self._conf.absolute().parent
            return base / Path(self._brought.cert).expanduser(), base / Path(self._brought.key).expanduser()
        shown = self._folder / "server.pem"
        try:
            self._ensure(shown, datetime.now(UTC))
        except (OSError, ValueError, TypeError) as error:
            raise fault(self._folder, Message("web_certificate_unmakable", detail=str(error))) from None
        return shown, shown

    def _ensure(self, shown: Path, now: datetime) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        root, key = self._folder / "authority.pem", self._folder / "authority.key"
        if not (root.exists() and key.exists() and self._is_bound_so(root, now)):
            self._make_root(root, key, now)
        if not (shown.exists() and self._is_good(shown, root, now)):
            self._issue(shown, root, key, now)

    def _is_bound_so(self, root: Path, now: datetime) -> bool:
        """Does it allow all that it is to be called by? Names that came to it need another root."""
        held = x509.load_pem_x509_certificate(root.read_bytes())
        bound = held.extensions.get_extension_for_class(x509.NameConstraints).value
        return set(_trees(self._names)) <= set(bound.permitted_subtrees or ()) and held.not_valid_after_utc > now

    def _is_good(self, shown: Path, root: Path, now: datetime) -> bool:
        ours, signer = x509.load_pem_x509_certificates(shown.read_bytes())
        names = ours.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        is_signed = signer == x509.load_pem_x509_certificate(root.read_bytes())
        # It does not hold yet where it was made by a clock that was ahead.
        is_young = ours.not_valid_before_utc <= now < ours.not_valid_after_utc - timedelta(days=RENEW_DAYS)
        return is_signed and is_young and names == _alternatives(self._names)

    def _make_root(self, root: Path, key_file: Path, now: datetime) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"Muster console of {self._names[-1]} {secrets.token_hex(4)}")
        made = (
            _builder(name, name, key, now, ROOT_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.NameConstraints(_trees(self._names), None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        _write(key_file, _pem(key))
        _write(root, made.public_bytes(serialization.Encoding.PEM))

    def _issue(self, shown: Path, root: Path, key_file: Path, now: datetime) -> None:
        authority = x509.load_pem_x509_certificate(root.read_bytes())
        signer = load_pem_private_key(key_file.read_bytes(), None)
        if not isinstance(signer, ec.EllipticCurvePrivateKey) or signer.public_key() != authority.public_key():
            raise ValueError(f"{key_file.name} is not the key of {root.name}")
        key = ec.generate_private_key(ec.SECP256R1())
        made = (
            _builder(_name("Muster"), authority.subject, key, now, SHOWN_DAYS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(_alternatives(self._names), critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()),  # type: ignore[arg-type]
                critical=False,
            )
            .sign(signer, hashes.SHA256())
        )
        _write(shown, _pem(key) + made.public_bytes(serialization.Encoding.PEM) + root.read_bytes())


def _trees(names: list[str]) -> list[x509.GeneralName]:
    """Return the names that a root may sign for. A name allows those beneath it, too, as the standard says."""
    return [x509.IPAddress(ipaddress.ip_network(name)) if is_address(name) else x509.DNSName(name) for name in names]


def _alternatives(names: list[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName(
        [x509.IPAddress(ipaddress.ip_address(name)) if is_address(name) else x509.DNSName(name) for name in names]
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=signs, crl_sign=signs, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, data: bytes) -> None:
    """Whole, synced, and for nobody else to read."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)
    draft.replace(path)
