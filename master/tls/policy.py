"""Which connections are encrypted, and with what certificate: `tls` of conf.json, made usable.

Owns the policy; the certificate is `own`'s or `brought`'s. Nothing is made or loaded for one of our own making before
somebody comes who speaks TLS, or could: a lab of one machine never pays for it.
"""

from __future__ import annotations

import asyncio.sslproto
import fcntl
import ipaddress
import logging
import socket
import ssl
import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from master.config.config import Config
from master.tls.brought import Brought
from master.tls.certificates import OwnCertificates
from master.tls.own import Own
from master.tls.shown import Shown
from wire.console import TlsFiles
from wire.file_fault import fault
from wire.message import Message
from wire.pinning import fingerprint

log = logging.getLogger("muster.tls")

HANDSHAKE_S = 5.0
SHUTDOWN_S = 2.0
READ_BYTES = 32 << 10
"""Each TLS connection has a buffer of this size for as long as it lasts; asyncio's own choice is 256 KiB, which makes
a quarter of a gigabyte for a thousand agents. A TLS record has 16 KiB at most."""
_SIOCGIFADDR = 0x8915
_ANY = ("", "0.0.0.0", "::")  # noqa: S104  (names of it, nothing is bound here)

asyncio.sslproto.SSLProtocol.max_size = READ_BYTES


class Told(msgspec.Struct, frozen=True):
    """The state of the certificate, for people. `authority`: its fingerprint; `ends`: when the certificate, or one
    above it, does. Both are None as long as there is none."""

    mode: Literal["off", "own", "brought"]
    authority: str | None
    ends: datetime | None
    problems: tuple[Message, ...]


class Source(Protocol):
    """Where a certificate comes from: `own`, or `brought` by the lab."""

    shown: Shown | None

    def begin(self, now: datetime) -> tuple[Message, ...]:
        """Have one to show; else what is wrong. Raises ConfigError."""

    def look(self, now: datetime) -> bool:
        """Whether another one is shown from now on. Connections that are open stay as they are."""

    def problems(self, now: datetime) -> tuple[Message, ...]:
        """Return the messages that people should see about the certificate."""


class Tls:
    """The certificate of the three ports. `mode`: `off`, `own` or `brought`."""

    def __init__(self, mode: Literal["off", "own", "brought"], source: Source, conf: Path) -> None:
        self.mode = mode
        self._source = source
        self._conf = conf

    @classmethod
    def of(cls, config: Config) -> Tls:
        """As conf.json says. Nothing is read yet."""
        folder, names = config.task_info / "tls", our_names(config.bind)
        if isinstance(config.tls, TlsFiles):
            cert, key = (config.folder / Path(name).expanduser() for name in (config.tls.cert, config.tls.key))
            called = names if listens_outside(config.bind) else ()
            return cls("brought", Brought(cert, key, folder, called), config.path)
        own = Own(OwnCertificates(folder, names))
        return cls("off" if config.tls == "off" else "own", own, config.path)

    @property
    def is_on(self) -> bool:
        """Whether other machines must speak TLS."""
        return self.mode != "off"

    def context(self) -> ssl.SSLContext:
        """For the next connection. Raises ConfigError when there is no usable certificate."""
        return self._shown().context

    def authority(self) -> str:
        """Return what clients and agents pin, PEM: our own authority, or the top of the chain of the lab's certificate.
        Raises ConfigError."""
        return self._shown().authority

    def fingerprint(self) -> str:
        """Of the authority: `sha256:…`. Raises ConfigError."""
        return fingerprint(self.authority())

    def callable_as(self, host: str) -> str:
        """How clients must call the host to believe its certificate. Raises ConfigError."""
        return self._shown().callable_as(host)

    def look(self, now: datetime) -> None:
        """Renew the certificate, or take what the lab has put in its place. Where nobody has asked for one yet, none is
        made for this."""
        if self._source.look(now):
            log.info("new connections are shown the new certificate, which ends on %s", self.told(now).ends)

    def told(self, now: datetime) -> Told:
        """For `server.info` and the log. Where nobody has asked for a certificate yet, none is made for this."""
        shown = self._source.shown
        if shown is None:
            return Told(self.mode, None, None, ())
        return Told(self.mode, fingerprint(shown.authority), shown.ends, self._source.problems(now))

    def _shown(self) -> Shown:
        shown = self._source.shown
        if shown is None:
            wrong = self._source.begin(datetime.now(UTC))
            shown = self._source.shown
            if wrong or shown is None:
                raise fault(self._conf, Message("tls_faults", faults=wrong))
        return shown


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
