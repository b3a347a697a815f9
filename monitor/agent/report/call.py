"""One call to the master: dial, encrypted and pinned, say who we are, and carry bytes between it and the agent.

Owns the connection and what is said before the conversation begins; when to call again is `reporter`'s. The agent
itself knows nothing of this: to it the master is whoever has come through its socket, as over SSH.
"""

from __future__ import annotations

import hashlib
import json
import select
import socket
import ssl
import time
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

from wire.agent import HEARTBEAT_S
from wire.framing import encode
from wire.pinning import ENDED, NOT_YET, OTHER_NAMES, doubt, pinned, unverified

from .settings import Settings

CONNECT_S = 10.0
PATIENCE_S = 4 * HEARTBEAT_S
"""A master that says nothing for so long, or takes nothing, is gone. It pings every HEARTBEAT_S."""
MAX_LINE = 64 * 1024
MAX_ARCHIVE = 16 * 1024 * 1024
_USER_TIMEOUT = 18
"""TCP_USER_TIMEOUT, which not every Python names; in milliseconds."""
_FAULTS = {
    ENDED: "shows an expired certificate: replace it there, unless the clock here is wrong",
    NOT_YET: "shows a certificate that is not valid yet: check the clock of this machine",
    OTHER_NAMES: "shows a certificate for other names: call the master by one of the names in it",
    "": (
        "has another certificate authority than this agent was given, so nothing was sent: if the master was set up "
        "anew, begin with the one that `muster status` on its machine shows (--authority sha256:...)"
    ),
}
"""How a certificate is refused, by what `doubt` says of it."""

Place = Tuple[int, Tuple[Any, ...]]
"""One address of the master's name: its family, and what `connect` takes."""
_T = TypeVar("_T")


class CallError(Exception):
    """The master was not reached, or broke off; the message says why. `answered`: somebody was there."""

    def __init__(self, message: str, *, answered: bool = True) -> None:
        super().__init__(message)
        self.answered = answered


class RefusedError(CallError):
    """The master does not want us. `final`: nor will it later."""

    def __init__(self, message: str, *, final: bool) -> None:
        super().__init__(message)
        self.final = final


class OutdatedError(Exception):
    """The master wants us to run from another archive."""

    def __init__(self, version: str, size: int, sha256: str) -> None:
        super().__init__(version)
        self.version = version
        self.size = size
        self.sha256 = sha256


def learn_master(settings: Settings) -> None:
    """Ask for the authority's certificate, keep it if it is the pinned one, and then ask the master, who has proved to
    be it, for its lab. Raises CallError, SettingsError."""
    pem = _somewhere(settings, lambda place: _authority(settings, place))
    with _dial(settings, pinned(pem)) as sock:
        settings.learned(pem, str(_ask(sock, {"op": "authority"}).get("cluster", "")))


def _authority(settings: Settings, place: Place) -> str:
    with _dial_at(settings, place, unverified()) as sock:
        pem = str(_ask(sock, {"op": "authority"}).get("certificate", ""))
    if not settings.is_pinned(pem):
        raise CallError(
            f"what answers at {settings.master} does not show the authority {settings.authority}: it is another "
            "master, or somebody stands in between"
        )
    return pem


def fetch_archive(settings: Settings, wanted: OutdatedError) -> bytes:
    """The archive that the master runs agents from. Raises CallError."""
    data = bytearray()
    with _dial(settings, pinned(settings.certificate)) as sock:
        try:
            sock.sendall(encode({"op": "archive"}))
            while len(data) < min(wanted.size, MAX_ARCHIVE):
                piece = sock.recv(65536)
                if not piece:
                    break
                data += piece
        except OSError as error:
            raise CallError(f"the archive did not arrive: {_why(error)}") from None
    if data.startswith(b"{"):
        raise CallError(f"the archive did not arrive: {bytes(data).decode('utf-8', 'replace').strip()}")
    if hashlib.sha256(data).hexdigest() != wanted.sha256:
        raise CallError("the archive arrived damaged")
    return bytes(data)


def report(settings: Settings, who: Dict[str, Any]) -> ssl.SSLSocket:
    """Dial in. Gives the connection over which the master is about to begin the conversation. `who`: what a report
    tells besides node and token (docs/wire.md).

    Raises CallError, RefusedError, OutdatedError.
    """
    sock = _dial(settings, pinned(settings.certificate))
    try:
        _check(_ask(sock, {"op": "report", "node": settings.node, "token": settings.token, **who}))
    except BaseException:
        sock.close()
        raise
    return sock


def _check(answer: Dict[str, Any]) -> None:
    """Raises what the answer to a report means, unless that is a welcome."""
    if answer.get("op") == "reported":
        return
    if answer.get("op") == "outdated":
        try:
            wanted = OutdatedError(str(answer["version"]), int(answer["size"]), str(answer["sha256"]))
        except (KeyError, TypeError, ValueError) as error:
            raise CallError(f"the master's answer cannot be understood: {error!r}") from None
        raise wanted
    raise RefusedError(str(answer.get("message", "no reason")), final=answer.get("final") is True)


def carry(master: ssl.SSLSocket, agent: socket.socket) -> str:
    """Copy both ways until a side ends; says which. Blocking writes are its back-pressure."""
    poller = select.poll()
    poller.register(master, select.POLLIN)
    poller.register(agent, select.POLLIN)
    heard = time.monotonic()
    while True:
        for fd, _ in poller.poll(1000):
            if fd == agent.fileno():
                data = agent.recv(65536)
                if not data:
                    return "the agent ended the conversation"
                master.sendall(data)
            elif _take_all(master, agent):
                heard = time.monotonic()
            else:
                return "the master closed the connection"
        if time.monotonic() - heard > PATIENCE_S:
            return f"the master said nothing for {PATIENCE_S:.0f} s"


def _take_all(master: ssl.SSLSocket, agent: socket.socket) -> bool:
    """Pass on what has come; False at the end. Data that was decrypted already wakes no poll, so nothing of it is
    left."""
    while True:
        data = master.recv(65536)
        if not data:
            return False
        agent.sendall(data)
        if not master.pending():
            return True


def _dial(settings: Settings, context: ssl.SSLContext) -> ssl.SSLSocket:
    return _somewhere(settings, lambda place: _dial_at(settings, place, context))


def _somewhere(settings: Settings, attempt: Callable[[Place], _T]) -> _T:
    """Return the result of this at the first address of the master's name where it succeeds: at another one somebody
    else may have its port. Raises CallError: what was wrong with the first where somebody answered."""
    failures: List[CallError] = []
    for place in _places(settings):
        try:
            return attempt(place)
        except CallError as error:  # noqa: PERF203  (it dials)
            failures.append(error)
    raise next((error for error in failures if error.answered), failures[-1])


def _places(settings: Settings) -> List[Place]:
    host, port = settings.place
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        raise CallError(f"{settings.master}: {_why(error)}", answered=False) from None
    return list(dict.fromkeys((int(family), where) for family, _, _, _, where in found))


def _dial_at(settings: Settings, place: Place, context: ssl.SSLContext) -> ssl.SSLSocket:
    family, where = place
    host = settings.place[0]
    bare: Optional[socket.socket] = None
    try:
        bare = socket.socket(family, socket.SOCK_STREAM)
        bare.settimeout(CONNECT_S)
        bare.connect(where)
        bare.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bare.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, int(PATIENCE_S * 1000))
        sock = context.wrap_socket(bare, server_hostname=host)
        sock.settimeout(PATIENCE_S)
    except ssl.SSLCertVerificationError as error:
        _close(bare)
        raise CallError(f"the server at {settings.master} {_FAULTS[doubt(error)]}") from None
    except (OSError, ValueError) as error:
        _close(bare)
        answered = isinstance(error, (ssl.SSLError, ValueError))
        raise CallError(f"{settings.master}: {_why(error)}", answered=answered) from None
    return sock


def _close(sock: Optional[socket.socket]) -> None:
    if sock is not None:
        sock.close()


def _ask(sock: ssl.SSLSocket, message: Dict[str, Any]) -> Dict[str, Any]:
    """Send a line and give the one that comes back. Raises CallError.

    Read byte by byte up to its end: what follows is the conversation's.
    """
    line = bytearray()
    try:
        sock.sendall(encode(message))
        while not line.endswith(b"\n"):
            byte = sock.recv(1)
            if not byte:
                raise CallError("the master closed the connection instead of answering")
            line += byte
            if len(line) > MAX_LINE:
                raise CallError("what answers there is not a master")
    except OSError as error:
        raise CallError(_why(error)) from None
    try:
        answer: Dict[str, Any] = dict(json.loads(bytes(line)))
    except (ValueError, TypeError, RecursionError):
        raise CallError("what answers there is not a master") from None
    return answer


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"no TLS came about ({error.reason or error})"
    if isinstance(error, socket.timeout):
        return "no answer in time"
    return str(getattr(error, "strerror", None) or error)
