"""The key `web` of conf.json: the master checks it, and the console uses it.

It also gives the address of the console, for links to it.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec

from wire.message import Message
from wire.pattern import Pattern

PORT = 8443
_NAME = Pattern(
    r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*"
)
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class TlsFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A certificate and its key that the lab brings itself."""

    cert: _Text
    key: _Text


class Web(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`bind`: as that of conf.json, which it is unless said. `hosts`: names and addresses by which browsers call it,
    for its certificate. `tls`: `auto`, an own authority for browsers, or a certificate that the lab brings. `proxies`:
    addresses and networks of reverse proxies, which are believed who it is that they ask for."""

    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = PORT
    bind: _Text | None = None
    hosts: tuple[_Text, ...] = ()
    tls: Literal["auto"] | TlsFiles = "auto"
    proxies: tuple[_Text, ...] = ()


def faults(web: Web) -> Iterator[tuple[str, Any, Message]]:
    """Yield faults beyond wrong types: the key, the value, and the allowed values."""
    if web.bind is not None and not is_address(web.bind) and not _NAME.fullmatch(web.bind):
        yield "web.bind", web.bind, Message("bind_of_console")
    for index, host in enumerate(web.hosts):
        if not (is_address(host) or _NAME.fullmatch(host)):
            allowed = Message("host_of_console")
            yield f"web.hosts[{index}]", host, allowed
    for index, proxy in enumerate(web.proxies):
        try:
            ipaddress.ip_network(proxy)
        except ValueError as error:
            yield f"web.proxies[{index}]", proxy, Message("proxy_of_console", detail=str(error))


def url(web: Web, bind: str) -> str:
    """Return the URL of the console, with a slash at its end. `bind`: that of conf.json."""
    host = web.hosts[0] if web.hosts else web.bind or bind
    if host in ("0.0.0.0", "::", ""):  # noqa: S104  (all of this machine's: then its name)
        host = socket.gethostname()
    return f"https://{f'[{host}]' if ':' in host else host}:{web.port}/"


def is_address(text: str) -> bool:
    """Is it an IPv4 or IPv6 address?"""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
