"""The ports that a master listens at, as conf.json has them, and how many connections there can be.

Owns which port speaks what, and how many connections the descriptors of the process allow. `master.ports` handles the
connections.
"""

from __future__ import annotations

import errno
import logging
import os
import resource
from collections.abc import Iterator

from master.config.config import Config
from master.core.tuning import Tuning
from master.ports.connection import Speaks
from master.ports.port_server import PortServer
from master.tls.entrance import Listener
from wire.file_fault import fault
from wire.listener import holder
from wire.message import Message

log = logging.getLogger("muster")

DESCRIPTORS_KEPT = 512
"""So many open files, or half of all where there are few, are for the journal, logs, uploads and nodes."""


async def listen(port_server: PortServer, config: Config) -> list[Listener]:
    """Open all ports. Raises ConfigError that names the one that cannot be opened; then none is."""
    servers: list[Listener] = []
    # Those that answer come last: who got an answer finds the push ports open, too.
    for section, name, port, speaks in sorted(_doors(config), key=lambda dispatcher: dispatcher[1] == "data_port"):
        try:
            servers.append(await port_server.listen(name, config.bind, port, config.ports.listen, speaks))
        except OSError as error:
            for server in servers:
                server.close()
            raise fault(config.path, _refused(f"{section}.{name}", config.bind, port, error)) from None
    return servers


def _refused(key: str, bind: str, port: int, error: OSError) -> Message:
    place = f"{bind}:{port}"
    # The errors of name look-ups are not among the system's: theirs are negative and bring their own text.
    detail = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
    if error.errno == errno.EADDRINUSE:
        found = holder(bind, port)
        if found:
            return Message("port_held", key=key, place=place, detail=detail, holder=found)
        return Message("port_held_unseen", key=key, place=place, detail=detail)
    if error.errno == errno.EACCES:
        return Message("port_of_root", key=key, place=place, detail=detail)
    return Message("port_refused", key=key, place=place, detail=detail)


def _doors(config: Config) -> Iterator[tuple[str, str, int, Speaks]]:
    """Section and key of conf.json, port, and what is spoken there."""
    own = config.desktop_client.ports
    for name, port in config.ports.all.items():
        yield "socket_info", name, port, "both" if own is None else "ours"
    for name, port in own.all.items() if own is not None else ():
        yield "desktop_client.ports", name, port, "desktop"


def open_files_left() -> int:
    """Return how many connections there may be, so that enough descriptors are left for the master's own files and
    links."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return descriptors - min(DESCRIPTORS_KEPT, descriptors // 2)


def tell_connections(tuning: Tuning, most: int) -> None:
    """Log, now and at each change, that `limits.connections` is more than the `most` that the process can have."""
    told = 0

    def tell() -> None:
        nonlocal told
        wanted = tuning.settings.limits.connections
        if wanted > most and wanted != told:
            log.warning(
                "of limits.connections, %d, only %d are in force: the process may have %d files open (`ulimit -Hn`, or "
                "LimitNOFILE= in the unit)",
                wanted,
                most,
                resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            )
        told = wanted

    tell()
    tuning.listeners.append(tell)


def raise_descriptor_limit() -> None:
    """Have as many open files as the process may have at all."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
