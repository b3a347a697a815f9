"""The labs that `muster init` made or took over as this account: the conf.json of each, in `~/.config/muster/labs`.

A new lab gets other ports than these, also while they are down. Entries that cannot be read or written there are
skipped: nothing else depends on them. Labs of other accounts are not known here: of them the kernel tells the ports of
those that run.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import contextmanager, suppress

from client import own_folder
from client.address import MAX_PORT, load
from client.refusals import coded_error
from wire.errors import ConfigError
from wire.regular_file import read_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PORTS = ("monitor_port", "data_port", "train_state_port")
FIRST = 63004
_STEP = 10
_MOST = 200
"""Labs that are remembered; the oldest are forgotten."""
_WAIT_S = 30.0
"""For another `muster init` of this account to be done; then it does not count any more."""
_LOOK_S = 0.02


def known() -> list[str]:
    """Those that are still there, the newest last."""
    try:
        lines = os.fsdecode(read_regular(_path())).splitlines()
    except OSError:
        return []
    return [line for line in dict.fromkeys(lines) if os.path.isabs(line) and os.path.isfile(line)]


@contextmanager
def alone() -> Iterator[None]:
    """Meanwhile no other command of this account chooses ports, or notes a lab: two labs that are made at once get
    different ones. Where no lock is to be had, as without a home, it is done without."""
    fd = _locked()
    try:
        yield
    finally:
        if fd is not None:
            os.close(fd)


def _locked() -> int | None:
    import fcntl

    path = f"{_path()}.lock"
    try:
        own_folder.make(os.path.dirname(path))
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(_LOOK_S)
                continue
        except OSError:  # a file server without locks
            pass
        return fd


def remember(conf: str) -> None:
    """Note a lab, and forget those that are gone. Called within `alone`."""
    path, real = _path(), os.path.realpath(conf)
    if "\n" in real:
        return
    draft = f"{path}.{os.getpid()}.new"
    with suppress(OSError):
        own_folder.make(os.path.dirname(path))
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                labs = [*(one for one in known() if one != real), real][-_MOST:]
                file.write(b"".join(os.fsencode(one) + b"\n" for one in labs))
            os.replace(draft, path)
        finally:
            if os.path.exists(draft):
                os.unlink(draft)


def ports_of(conf: str) -> set[int]:
    """All ports that a conf.json names; none where it cannot be read."""
    try:
        said = load(conf)
    except ConfigError:
        return set()
    return set(_ports_in(said.get(key) for key in ("socket_info", "desktop_client", "web")))


def own_ports(conf: str) -> list[int] | None:
    """The three ports of `socket_info`, in the order of `PORTS`; None where it does not name three."""
    try:
        info = load(conf).get("socket_info")
    except ConfigError:
        return None
    said = list(map(info.get, PORTS)) if isinstance(info, dict) else []
    found = [port for port in said if isinstance(port, int) and _is_port(port)]
    return found if len(set(found)) == len(PORTS) else None


def free_ports(taken: set[int]) -> list[int]:
    """Three ports that follow on each other, of which none is `taken` or in use on this machine: 63004 to 63006 if that
    may be. Raises ConflictError."""
    return _free(range(FIRST, MAX_PORT - len(PORTS), _STEP), len(PORTS), taken)


def free_port(first: int, taken: set[int]) -> int:
    """Likewise one, the first of `first`, ten further, and so on."""
    return _free(range(first, MAX_PORT, _STEP), 1, taken)[0]


def _free(firsts: Iterable[int], count: int, taken: set[int]) -> list[int]:
    for first in firsts:
        ports = list(range(first, first + count))
        if taken.isdisjoint(ports) and all(map(is_free, ports)):
            return ports
    raise coded_error("conflict", "no_free_ports")


def is_free(port: int) -> bool:
    """Does nobody listen there, at whatever address?"""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("", port))
        except OSError:
            return False
    return True


def _ports_in(values: Iterable[object]) -> Iterator[int]:
    for value in values:
        for key, port in value.items() if isinstance(value, dict) else ():
            if isinstance(port, dict):
                yield from _ports_in([port])
            elif str(key).endswith("port") and _is_port(port):
                yield port


def _is_port(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_PORT


def _path() -> str:
    kept = own_folder.config()
    return os.path.join(kept, "muster", "labs") if kept else ""
