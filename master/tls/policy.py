"""Which connections are encrypted, and with what certificate: `tls` of conf.json, made usable.

Owns the policy and the context of the three ports; what the master makes for itself is `certificates`'. Nothing is made
or loaded before somebody comes who speaks TLS, or could: a lab of one machine never pays for it.
"""

from __future__ import annotations

import asyncio.sslproto
import fcntl
import ipaddress
import logging
import os
import socket
import ssl
import struct
import time
from pathlib import Path
from typing import Literal

from master.config import Config, TlsFiles
from master.tls.certificates import OwnCertificates
from wire.errors import ConfigError
from wire.pinning import fingerprint

log = logging.getLogger("muster.tls")

HANDSHAKE_S = 5.0
SHUTDOWN_S = 2.0
LOOK_S = 3600.0
"""How often it is looked whether the certificate is to be renewed, or was changed by whoever brought it."""
READ_BYTES = 32 << 10
"""Each TLS connection has a buffer of this size for as long as it lasts; asyncio's own choice is 256 KiB, which makes
a quarter of a gigabyte for a thousand agents. A TLS record has 16 KiB at most."""
_SIOCGIFADDR = 0x8915
_ANY = ("", "0.0.0.0", "::")  # noqa: S104  (names of it, nothing is bound here)

asyncio.sslproto.SSLProtocol.max_size = READ_BYTES


class Tls:
    """The certificate of the three ports. `mode`: `off`, `own` or `brought`."""

    def __init__(self, mode: Literal["off", "own", "brought"], shown: Path, key: Path | None, authority: Path) -> None:
        self.mode = mode
        self._shown = shown
        self._key = key
        self._authority = authority
        self._own: OwnCertificates | None = None
        self._context: ssl.SSLContext | None = None
        self._loaded: tuple[int, ...] = ()
        self._look_at = 0.0

    @classmethod
    def of(cls, config: Config) -> Tls:
        """As conf.json says. Nothing is read yet."""
        own = OwnCertificates(config.task_info / "tls", our_names(config.bind))
        if isinstance(config.tls, TlsFiles):
            cert, key = (config.folder / Path(name).expanduser() for name in (config.tls.cert, config.tls.key))
            return cls("brought", cert, key, cert)
        made = cls("off" if config.tls == "off" else "own", own.shown, None, own.authority)
        made._own = own
        return made

    @property
    def is_on(self) -> bool:
        """Whether other machines must speak TLS."""
        return self.mode != "off"

    def context(self) -> ssl.SSLContext:
        """For the next connection. Raises ConfigError when there is no usable certificate."""
        now = time.monotonic()
        if self._context is None:
            self._context = self._new_context()
            self._look_at = now + LOOK_S
        elif now > self._look_at:
            self._look_at = now + LOOK_S
            self._renew(self._context)
        return self._context

    def authority(self) -> str:
        """What clients and agents pin, in PEM: our own authority, or the last certificate of the file that the lab
        brought (its issuer, or itself). Raises ConfigError."""
        self.context()
        try:
            text = self._authority.read_text(encoding="ascii")
        except (OSError, ValueError) as error:
            raise ConfigError(f"{self._authority}: the certificate cannot be read: {error}") from None
        begin = text.rfind("-----BEGIN CERTIFICATE-----")
        return text[max(begin, 0) :].strip() + "\n"

    def fingerprint(self) -> str:
        """Of the authority: `sha256:…`. Raises ConfigError."""
        return fingerprint(self.authority())

    def told(self) -> dict[str, str | None]:
        """For `server.info`. Where nobody has asked for a certificate yet, none is made for this."""
        return {"mode": self.mode, "authority": None if self._context is None else self.fingerprint()}

    def _new_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 0  # connections last; nobody comes back to resume one
        if self._own is not None:
            self._own.ensure()
        self._load(context)
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        self._check_key()
        try:
            context.load_cert_chain(self._shown, self._key)
            self._loaded = self._changed_at()
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise ConfigError(f"{self._shown}: the certificate cannot be used: {error}") from None

    def _check_key(self) -> None:
        """One that the lab brings: its group may be one for keys (`ssl-cert`), unless the file is ours to close."""
        if self._key is None:
            return
        try:
            info = self._key.stat()
        except OSError:
            return  # loading it tells why
        if info.st_mode & (0o077 if info.st_uid == os.geteuid() else 0o007):
            raise ConfigError(f"{self._key}: others may read this key: `chmod 600 {self._key}`")

    def _renew(self, context: ssl.SSLContext) -> None:
        """Connections that are open stay as they are."""
        try:
            if self._own is not None:
                self._own.ensure()
            if self._changed_at() != self._loaded:
                self._load(context)
                log.info("the ports show the new certificate in %s", self._shown)
        except (ConfigError, OSError) as error:
            log.error("the certificate is not renewed: %s", error)  # noqa: TRY400  (the line says all)

    def _changed_at(self) -> tuple[int, ...]:
        return tuple(path.stat().st_mtime_ns for path in (self._shown, self._key) if path is not None)


def is_loopback(address: str) -> bool:
    """Whether a peer with this address is on this machine."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_loopback


def listens_outside(bind: str) -> bool:
    """Whether other machines can reach a port that is bound to this address."""
    return bind != "localhost" and not is_loopback(bind)


def our_names(bind: str) -> list[str]:
    """The names and addresses by which this machine may be called. No name server is asked."""
    names = {"localhost", "127.0.0.1", "::1", socket.gethostname(), *_addresses()}
    if bind not in _ANY:
        names.add(bind)
    return sorted(name for name in names if name.isascii() and name)


def _addresses() -> list[str]:
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, interface in socket.if_nameindex():
            request = struct.pack("256s", interface.encode()[:15])
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
            except OSError:
                continue  # an interface without an IPv4 address
            found.append(socket.inet_ntoa(answer[20:24]))
    try:
        table = Path("/proc/net/if_inet6").read_text(encoding="ascii").splitlines()
    except OSError:
        return found  # a kernel without IPv6
    link_local = "fe80"
    return found + [str(ipaddress.IPv6Address(int(line[:32], 16))) for line in table if not line.startswith(link_local)]
