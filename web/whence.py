"""Whence a request comes and what it was addressed to, and whether it is heard at all.

Owns what a browser that somebody lured is kept from: a Host that is none of ours (a name that was bound to our address
anew), a page of another origin that asks in its reader's name, a password in plain text. Of a reverse proxy that
conf.json names (`web.proxies`) it is believed for whom it asks; of nobody else.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from starlette.datastructures import Headers
from starlette.types import Scope

from web.accounts import account_of, is_loopback
from wire.console import is_address
from wire.errors import ForbiddenError
from wire.message import Message

_HOST = re.compile(r"(\[(?P<bare>[0-9a-fA-F:.]+)\]|(?P<name>[A-Za-z0-9.-]+))(:(?P<port>[0-9]{1,5}))?")
_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*")
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class Whence(NamedTuple):
    """`address`: of the caller; `scheme`, `host` (with the port) and `prefix`: the names that the caller used;
    `is_plain`: others on the way can hear it. `account`: the uid of the caller, if that is a process of this machine
    and no proxy."""

    address: str
    scheme: str
    host: str
    prefix: str
    is_plain: bool
    account: int | None = None

    @property
    def origin(self) -> str:
        """As browsers call it."""
        return f"{self.scheme}://{self.host}"

    @property
    def base(self) -> str:
        """Beneath which everything of ours stands: ends with a slash."""
        return f"{self.prefix}/"


class Gate:
    """`hosts`: the names and addresses that are ours; `proxies`: whom to believe."""

    def __init__(self, hosts: Iterable[str], proxies: Iterable[str]) -> None:
        self._hosts = frozenset(host.lower() for host in hosts) | LOOPBACK_NAMES
        self._proxies = [ipaddress.ip_network(one) for one in proxies]

    def whence(self, scope: Scope) -> Whence:
        """Whence this request comes. Raises ForbiddenError for a host that is not ours."""
        headers = Headers(scope=scope)
        address = str((scope.get("client") or ("0.0.0.0", 0))[0])  # noqa: S104  (nobody's)
        scheme = str(scope["scheme"]).replace("ws", "http")
        host: str = headers.get("host") or ""
        prefix = ""
        is_plain = scheme == "http" and not is_loopback(address)
        forwarded = ""
        if self._is_proxy(address):
            scheme = "https" if headers.get("x-forwarded-proto", scheme) == "https" else "http"
            host = headers.get("x-forwarded-host", host)
            prefix = _prefix(headers.get("x-forwarded-prefix", ""))
            forwarded = self._forwarded(headers.getlist("x-forwarded-for"))
            is_plain = scheme == "http" and not is_loopback(forwarded or address)
            address = forwarded or address
        self._check_host(host)
        account = None if forwarded else account_of(scope.get("server"), scope.get("client"))
        return Whence(address, scheme, host, prefix, is_plain, account)

    def _is_proxy(self, address: str) -> bool:
        if not is_address(address):
            return False
        ip = ipaddress.ip_address(address)
        return any(ip in network for network in self._proxies)

    def _forwarded(self, values: list[str]) -> str:
        """Return the address that the proxy asks for: the last one that is not a proxy's own. Anybody may have written
        the addresses before it."""
        for word in reversed(",".join(values).split(",")):
            address = word.strip().strip("[]")
            if not is_address(address):
                return ""
            if not self._is_proxy(address):
                return address
        return ""

    def _check_host(self, host: str) -> None:
        """An address in it is ours, whoever bound a name to it; of names only those that we were given."""
        found = _HOST.fullmatch(host)
        name = "" if found is None else (found["bare"] or found["name"]).lower()
        if not (name in self._hosts or is_address(name)):
            raise ForbiddenError(Message("foreign_host", host=host))

    @staticmethod
    def check_origin(whence: Whence, headers: Any, *, needed: bool) -> None:
        """Raise ForbiddenError for a request that a page of another origin makes. `needed`: it must say of which it is,
        as every browser does where it matters."""
        said = headers.get("origin")
        if said == whence.origin or (said is None and not needed):
            return
        raise ForbiddenError(Message("foreign_origin", origin=said or "", expected=whence.origin))


def _prefix(said: str) -> str:
    """Beneath which path the proxy has us; nothing where it says nothing that makes sense."""
    said = said.rstrip("/")
    return said if _PREFIX.fullmatch(said) else ""
