"""Is the old system's master still at work? Its ports and its process tell. Looks only, and stops nothing."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from wire.message import Message

PROGRAM = "main.py"


def signs(folder: Path, ports: Mapping[str, int], proc: Path = Path("/proc")) -> tuple[Message, ...]:
    """Return the signs that it runs; none if it does not. `folder`: where its main.py lies."""
    program = str(folder / PROGRAM)
    found = [Message("process_runs", pid=pid, program=program) for pid in processes(folder, proc)]
    busy = [f"{port} ({name})" for name, port in ports.items() if in_use(port)]
    if busy:
        found.append(Message("ports_in_use", ports=tuple(busy)))
    return tuple(found)


def processes(folder: Path, proc: Path = Path("/proc")) -> list[int]:
    """The processes that run the folder's main.py. Those of other users are seen only by root."""
    program = (folder / PROGRAM).resolve()
    return sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdigit() and _runs(entry, program))


def in_use(port: int) -> bool:
    """Tell whether a process listens on the port, at any address. It does not connect: an old master would log it."""
    with socket.socket() as probe:
        # Connections that ended a moment ago do not count, and a listener does even so.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def own_addresses(towards: Iterable[str]) -> list[str]:
    """The addresses of this machine from which it would talk to these, each once; nothing is sent."""
    found: list[str] = []
    for address in towards:
        with suppress(OSError, UnicodeError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            own = probe.getsockname()[0]
            if own not in found and not own.startswith("127."):
                found.append(own)
    return found


def _runs(entry: Path, program: Path) -> bool:
    with suppress(OSError):
        words = os.fsdecode((entry / "cmdline").read_bytes()).split("\0")[1:]
        named = [word for word in words if word.endswith(PROGRAM)]
        here = (entry / "cwd").readlink() if named else program
        return any((here / word).resolve() == program for word in named)
    return False
