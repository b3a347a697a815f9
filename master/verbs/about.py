"""What the master as a whole says of itself. What the core and the store know comes on top (`server.info`)."""

from __future__ import annotations

import msgspec


class TlsInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`mode`: `off`, `own` (a certificate of the master's own making) or `brought`. `authority`: the fingerprint that
    clients pin; null as long as nobody has come who speaks TLS."""

    mode: str
    authority: str | None


class About(msgspec.Struct, kw_only=True):
    """Which master this is, and what it was started with. Paths are absolute; `started_at` is in seconds since the
    epoch; `registry_fault` tells why the registry, as it is now, is not followed, or is null."""

    version: str
    pid: int
    started_at: float
    conf: str
    task_info: str
    root: str
    visible_folders: list[str]
    bind: str
    ports: dict[str, int]
    desktop_ports: dict[str, int] | None
    registry_fault: str | None
    tls: TlsInfo
