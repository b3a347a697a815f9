"""The certificate that a lab brings: two files of its own, read, examined, and taken when they are good.

Owns which pair is in use, the messages about the files, and `brought.pem` in `task_info/tls`: the chain in use with the
certificate that clients pin as its last, from which the next start knows which clients it would lock out. The lab's own
files are only ever read. cryptography and pyOpenSSL are loaded when there is a pair to look at.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from master.tls.files import write_secret
from master.tls.shown import Shown, context_of
from wire.message import Message
from wire.pattern import Pattern
from wire.pinning import fingerprint

if TYPE_CHECKING:
    from master.tls.pair import Pair

_OTHERS = 0o007
_GROUP_AND_OTHERS = 0o077
_HASHED = Pattern(r"[0-9a-f]{8}\.\d+")
"""How OpenSSL's folder of authorities calls each of them."""


class Brought:
    """The pair of files `cert` and `key`. `folder` is where `brought.pem` lies, beside the authority that the master
    made for itself; `called`: by which names others reach this machine; `roots` reads the authorities that the system
    trusts."""

    def __init__(
        self, cert: Path, key: Path, folder: Path, called: Sequence[str], roots: Callable[[], bytes] | None = None
    ) -> None:
        self.kept = folder / "brought.pem"
        self.shown: Shown | None = None
        self._used: Pair | None = None
        self._cert = cert
        self._key = key
        self._own_authority = folder / "ca.pem"
        self._called = called
        self._roots = roots or system_roots
        self._seen: tuple[tuple[int, ...], ...] | None = None
        self._refused: tuple[Message, ...] = ()
        self._changed: tuple[Message, ...] = ()

    def begin(self, now: datetime) -> tuple[Message, ...]:
        """Take the pair as it lies; what is wrong with it, and then none is in use."""
        before = self._authority_before()
        self._seen, found = self._marks(), self._read(now)
        return found if isinstance(found, tuple) else self._take(found, before, now)

    def look(self, now: datetime) -> bool:
        """Whether another pair is in use now than before: what was changed is taken if it is good, and if those who
        have pinned the authority would believe it; else the one before stays as long as it holds."""
        marks, used = self._marks(), self._used
        if used is None or (marks == self._seen and not self._refused):
            return False
        self._seen, found = marks, self._read(now)
        if isinstance(found, tuple):
            self._refused = found
            return False
        if found.pem == used.pem:
            self._refused = ()
            return False
        self._refused = self._objection(used, found, now) or self._take(found, used.authority.encode(), now)
        return not self._refused

    def problems(self, now: datetime) -> tuple[Message, ...]:
        """Return the messages that people should see about the certificate."""
        used = self._used
        if used is None:
            return ()
        from master.tls.pair import moment  # noqa: PLC0415

        refused = self._refused
        told = (Message("tls_refused", ends=moment(used.ends), because=refused),) if refused else ()
        ending = used.ending(str(self._cert), now)
        return (*told, *((ending,) if ending else ()), *self._changed, *used.warnings)

    def _objection(self, used: Pair, found: Pair, now: datetime) -> tuple[Message, ...]:
        # Nobody accepts the old one once it has ended: then nothing is lost by the new one.
        if used.ends <= now or _holds(found, used.authority.encode(), now):
            return ()
        old, new = fingerprint(used.authority), fingerprint(found.authority)
        return (Message("tls_other_authority", cert=str(self._cert), old=old, new=new),)

    def _take(self, pair: Pair, before: bytes, now: datetime) -> tuple[Message, ...]:
        """Use the pair from here on; `before`: the authority that clients may have pinned. Return why that is
        impossible."""
        from master.tls.chain import pem_of  # noqa: PLC0415
        from master.tls.pair import names_of  # noqa: PLC0415

        chain = "".join(map(pem_of, pair.chain))
        try:
            context = context_of(pair.pem)
            self.kept.parent.mkdir(mode=0o700, exist_ok=True)
            write_secret(self.kept, (chain.removesuffix(pair.authority) + pair.authority).encode())
        except ssl.SSLError as error:
            return (Message("tls_no_certificate", file=str(self._cert), why=str(error.reason or error)),)
        except OSError as error:
            return (Message("tls_unreadable", file=str(self.kept), why=str(error.strerror)),)
        if before and not _holds(pair, before, now):
            old, new = fingerprint(before.decode("ascii")), fingerprint(pair.authority)
            self._changed = (Message("tls_authority_changed", old=old, new=new),)
        shown = Shown(context, pair.authority, pair.ends, tuple(names_of(pair.chain[0])))
        self._used, self.shown = pair, shown
        return ()

    def _read(self, now: datetime) -> Pair | tuple[Message, ...]:
        from master.tls.pair import Files, examine  # noqa: PLC0415

        data = []
        for path in (self._cert, self._key):
            try:
                data.append(path.read_bytes())
            except OSError as error:
                return (Message("tls_unreadable", file=str(path), why=str(error.strerror)),)
        if _is_open(self._key):
            return (Message("tls_key_open", file=str(self._key)),)
        files = Files(str(self._cert), str(self._key))
        return examine(files, *data, roots=self._roots(), called=self._called, now=now)

    def _authority_before(self) -> bytes:
        """Return the authority, PEM, that clients may have pinned during an earlier run of this master; empty without
        one."""
        from master.tls.chain import certificates_in  # noqa: PLC0415

        for path in (self.kept, self._own_authority):
            try:
                found = certificates_in(path.read_bytes())
            except OSError:
                continue  # not there: then nobody was told of it
            if found:
                return found[-1]
        return b""

    def _marks(self) -> tuple[tuple[int, ...], ...]:
        return tuple(_mark(path) for path in (self._cert, self._key))


def system_roots() -> bytes:
    """The authorities that this system trusts, PEM; empty where it has none."""
    paths = ssl.get_default_verify_paths()
    try:
        if paths.cafile:
            return Path(paths.cafile).read_bytes()
        found = Path(paths.capath).iterdir() if paths.capath else ()
        return b"\n".join(path.read_bytes() for path in found if _HASHED.fullmatch(path.name))
    except OSError:
        return b""


def _holds(pair: Pair, authority: bytes, now: datetime) -> bool:
    from master.tls.chain import leads_to  # noqa: PLC0415

    return leads_to(pair.chain, authority, now)


def _is_open(key: Path) -> bool:
    """A key's group may be one for keys (`ssl-cert`), unless the file is ours to close."""
    info = key.stat()
    return bool(info.st_mode & (_GROUP_AND_OTHERS if info.st_uid == os.geteuid() else _OTHERS))


def _mark(path: Path) -> tuple[int, ...]:
    try:
        info = path.stat()
    except OSError as error:
        return (error.errno or 0,)
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns
