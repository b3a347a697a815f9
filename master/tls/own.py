"""The certificate of the master's own making, in use: renewed before it ends, while connections live.

Owns which certificate is shown and the messages about it; `certificates` owns the files. The authority stays, so
clients that have pinned it notice nothing.
"""

from __future__ import annotations

from datetime import datetime

from master.tls.certificates import OwnCertificates
from master.tls.shown import Shown, context_of
from wire.errors import ConfigError
from wire.file_fault import fault
from wire.message import Message


class Own:
    """The certificate of the master's own authority, from `files`; nothing is made before `begin`."""

    def __init__(self, files: OwnCertificates) -> None:
        self.shown: Shown | None = None
        self._files = files
        self._pem = b""
        self._fault: Message | None = None

    def begin(self, now: datetime) -> tuple[Message, ...]:
        """Make the certificate, or find it made. Raises ConfigError."""
        self._take(now)
        return ()

    def look(self, now: datetime) -> bool:
        """Whether it was renewed."""
        if self.shown is None:
            return False
        try:
            is_new = self._take(now)
        except ConfigError as error:
            self._fault = error.args[0]
            return False
        self._fault = None
        return is_new

    def problems(self, _now: datetime) -> tuple[Message, ...]:
        """That it could not be renewed."""
        if self.shown is None or self._fault is None:
            return ()
        from master.tls.pair import moment  # noqa: PLC0415

        return (Message("tls_not_renewed", ends=moment(self.shown.ends), why=self._fault),)

    def _take(self, now: datetime) -> bool:
        self._files.ensure(now)
        pem, authority, ends = self._files.read()
        if pem == self._pem:
            return False
        try:
            self.shown = Shown(context_of(pem), authority, ends)
        except OSError as error:
            raise fault(self._files.shown, Message("certificate_unusable", detail=str(error))) from None
        self._pem = pem
        return True
