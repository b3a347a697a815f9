"""Addresses of machines as such: what they are without their clothes, and which of them are one machine's. Pure."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

_V4 = 4
_V6_SITE = len("2001:0db8:0000:0000")


@lru_cache(maxsize=1024)
def plain(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address without its zone, and without IPv6's clothes if it is an IPv4 address."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return mapped or ip


def origin(address: str) -> str:
    """Return the origin of an address. For IPv6 it is the /64: a machine has a whole one, and may use any address of
    it."""
    try:
        ip = plain(address)
    except ValueError:
        return address
    return str(ip) if ip.version == _V4 else ip.exploded[:_V6_SITE]
