"""Trust in a master on another machine: the authority that was pinned at the first use.

Owns the handshake, the remembered authorities (`~/.config/muster/authorities`), and what happens when one is not known
yet: it is taken if its fingerprint was given, or if whoever is asked says so, and else refused. `ssl` is loaded only
when such a connection is opened.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from contextlib import suppress

from client import own_folder
from client.refusals import coded_error, config_error, file_error
from wire.framing import encode
from wire.pinning import fingerprint, normal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

    from wire.message import Message

VARIABLE = "MUSTER_CA_FINGERPRINT"
_PATIENCE_S = 5.0
_MAX_LINE = 64 * 1024


class Trust:
    """For one master. `name` (HOST:PORT of its data port) is what it is remembered by. Where it keeps, if that is on
    this machine: `lies_at` its own authority's certificate, `shown_at` the one that a lab brought, which proves it by
    itself, and which of the two it shows if it was started with the conf.json that is there now (`is_brought`).
    `wanted`: the fingerprint that somebody gave; `ask` is given one that is not known, and says whether it is to be
    trusted from now on. `vouches` is given a connection, and says whether the kernel knows that the master has its
    other end, on this machine: then the authority that it shows needs no other proof, and is not remembered."""

    def __init__(
        self, name: str, lies_at: str | None = None, shown_at: str | None = None, *, is_brought: bool = False
    ) -> None:
        self.name = name
        self.wanted = os.environ.get(VARIABLE, "")
        self.ask: Callable[[str], bool] | None = None
        self.vouches: Callable[[socket.socket], bool] | None = None
        self._lies_at = lies_at
        self._shown_at = shown_at
        self._is_brought = is_brought
        self._pem = ""

    def secure(self, dial: Callable[[], socket.socket], host: str) -> ssl.SSLSocket:
        """A connection to the master and nobody else. Raises OSError, UntrustedError."""
        import ssl

        context = self._context(dial, host)
        try:
            return _shake_hands(dial(), context, host)
        except ssl.SSLCertVerificationError as error:
            before = self._of_before()
            if before is not None:
                with suppress(ssl.SSLCertVerificationError):
                    return _shake_hands(dial(), before, host)
            if (why := self._doubt(error)) is not None:
                raise why from None
            raise self._changed(self._accepted(), self._shown_now(dial, host)) from None

    def _context(self, dial: Callable[[], socket.socket], host: str) -> ssl.SSLContext:
        from wire.pinning import pinned

        # It is read each time: a lab replaces its certificate while we are connected.
        shown = self._kept(self._shown_at) if self._is_brought and not self.wanted else ""
        if shown:
            return pinned(shown, is_shown=True)
        self._pem = self._pem or self.known() or self._learn(dial, host)
        return pinned(self._pem)

    def _of_before(self) -> ssl.SSLContext | None:
        """Return the context for a master that has not restarted since `tls` was edited, for example to stop it."""
        from wire.pinning import pinned

        pem = "" if self.wanted else self._kept(self._lies_at if self._is_brought else self._shown_at)
        return pinned(pem, is_shown=not self._is_brought) if pem else None

    @property
    def is_pinned(self) -> bool:
        """Is it known already whom to believe?"""
        return bool(self.wanted or self.known())

    def known(self) -> str:
        """The certificate of the authority that is trusted already, PEM; empty if there is none."""
        for path in (self._lies_at, self._path()):
            pem = self._kept(path)
            if pem and (not self.wanted or fingerprint(pem) == self._wanted()):
                return pem
        return ""

    def _learn(self, dial: Callable[[], socket.socket], host: str) -> str:
        """Ask whoever answers for its authority, and keep it if it is right."""
        from wire.pinning import unverified

        with _shake_hands(dial(), unverified(), host) as sock:
            pem = _asked(sock)
            is_proved = not self.wanted and self.vouches is not None and self.vouches(sock)
        try:
            shown = fingerprint(pem)
        except ValueError:
            raise _no_master() from None
        if self.wanted and shown != self._wanted():
            raise self._changed(self._wanted(), shown)
        if is_proved:
            return pem
        if not self.wanted and (self.ask is None or not self.ask(shown)):
            raise coded_error("untrusted", "authority_unknown", at=self.name, shown=shown, variable=VARIABLE)
        self._keep(pem)
        return pem

    def _shown_now(self, dial: Callable[[], socket.socket], host: str) -> str:
        """The fingerprint that whoever answers shows now; empty where that is not found out."""
        from wire.pinning import unverified

        try:
            with _shake_hands(dial(), unverified(), host) as sock:
                return fingerprint(_asked(sock))
        except (OSError, ValueError):
            return ""

    def _doubt(self, error: ssl.SSLCertVerificationError) -> Exception | None:
        """Return the error for a certificate whose dates or names are wrong; None if it is another authority's."""
        from wire.pinning import ENDED, NOT_YET, OTHER_NAMES, doubt

        why = doubt(error)
        if why == ENDED:
            return coded_error("untrusted", "certificate_expired", at=self.name)
        if why == NOT_YET:
            return coded_error("untrusted", "certificate_not_yet_valid", at=self.name)
        if why == OTHER_NAMES:
            return coded_error("untrusted", "certificate_for_other_names", at=self.name)
        return None

    def _accepted(self) -> str | Message:
        from wire.message import Message

        return fingerprint(self._pem) if self._pem else Message("authority_in", path=self._shown_at)

    def _changed(self, accepted: str | Message, shown: str) -> Exception:
        """That the authority is another one, in one sentence with the next step."""
        from wire.message import Message

        before = Message("as_given", what=accepted) if self.wanted else Message("as_before", what=accepted)
        if shown:
            return coded_error("untrusted", "authority_is_another", at=self.name, shown=shown, before=before)
        return coded_error("untrusted", "authority_is_not_that", at=self.name, before=before)

    def _wanted(self) -> str:
        try:
            return normal(self.wanted)
        except ValueError:
            raise coded_error("bad_request", "no_fingerprint", found=self.wanted) from None

    def _path(self) -> str:
        from urllib.parse import quote

        kept = own_folder.config()
        return os.path.join(kept, "muster", "authorities", quote(self.name, safe="") + ".pem") if kept else ""

    def _kept(self, path: str | None) -> str:
        """The certificate in this file, PEM; empty if there is none. Raises ConfigError where others could have written
        it, or put another one in its place: one that was remembered must be the user's own, or root's, too. A given
        fingerprint is proof enough."""
        pem = _read(path)
        if not pem or path is None or self.wanted:
            return pem
        from client.foreign import first_foreign, first_open

        real = os.path.realpath(path)
        folder = os.path.dirname(path)
        places = [path, folder, real, os.path.dirname(real)]
        if path == self._path():
            above = os.path.dirname(folder)
            why = first_foreign([*places, above, os.path.dirname(above)])
        else:
            why = first_open(places)
        if why is not None:
            raise config_error("authority_open", why=why, path=path)
        return pem

    def _keep(self, pem: str) -> None:
        path = self._path()
        draft = f"{path}.{os.getpid()}.new"
        try:
            own_folder.make(os.path.dirname(path))
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.write(pem)
            os.replace(draft, path)
        except OSError as error:
            if self.wanted and self.wanted == os.environ.get(VARIABLE):
                return  # it is said each time: a task may have no home to keep anything in
            # Not as it is: whoever dials would take it for the network's.
            raise file_error(error.filename, "authority_not_kept", detail=error.strerror) from None


def _read(path: str | None) -> str:
    """A certificate in PEM; empty where none is there, or none that is ours to read: then it has to be learned."""
    try:
        with open(path or "", encoding="ascii") as file:
            pem = file.read()
        fingerprint(pem)
    except (OSError, ValueError):
        return ""
    return pem


def _shake_hands(bare: socket.socket, context: ssl.SSLContext, host: str) -> ssl.SSLSocket:
    import ssl

    try:
        return context.wrap_socket(bare, server_hostname=host)
    except ssl.SSLCertVerificationError:
        bare.close()
        raise
    except ssl.SSLError as error:
        bare.close()
        from wire.message import Message

        raise OSError(Message("speaks_no_tls", detail=error.reason or str(error))) from None
    except OSError:
        bare.close()
        raise


def _asked(sock: ssl.SSLSocket) -> str:
    """Return the authority's certificate that the other end shows. Raises OSError."""
    sock.settimeout(_PATIENCE_S)
    sock.sendall(encode({"op": "authority"}))
    line = bytearray()
    while not line.endswith(b"\n") and len(line) < _MAX_LINE:
        piece = sock.recv(4096)
        if not piece:
            break
        line += piece
    try:
        return str(json.loads(bytes(line))["certificate"])
    except (ValueError, KeyError, TypeError):
        raise _no_master() from None


def _no_master() -> OSError:
    from wire.message import Message

    return OSError(Message("no_master_there"))
