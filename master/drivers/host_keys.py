"""Which host key a machine must show: OpenSSH's known_hosts files, and ours, in which an admin's decisions are kept.

Owns the format (hashed names, `[host]:port`, patterns, `@revoked`) and the order of precedence: the registry's
`host_key`, else our own file, else the others. It asks nobody and trusts nothing by itself: `pin` is called where a
person has decided.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec

from master.nodes.driver import OfferedKey
from wire.errors import ConfigError
from wire.message import Message
from wire.regular_file import read_regular

DEFAULT_PORT = 22
_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")


class Known(msgspec.Struct, frozen=True):
    """The known keys of one host. `fingerprints`: those of which only the fingerprint is known. `place`: where the
    entry stands."""

    keys: tuple[OfferedKey, ...] = ()
    fingerprints: tuple[str, ...] = ()
    revoked: frozenset[str] = frozenset()
    place: str = ""

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the keys, so that a machine which has several shows one that we know."""
        return tuple(dict.fromkeys(key.type for key in self.keys))

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint to show to people, None where nothing is known."""
        return next(iter((*self.fingerprints, *(key.fingerprint for key in self.keys))), None)

    def accepts(self, offered: OfferedKey) -> bool:
        """Is it the one?"""
        if offered.base64 in self.revoked:
            return False
        return offered.fingerprint in self.fingerprints or any(key.base64 == offered.base64 for key in self.keys)


KNOWN_HOSTS = "known_hosts"
"""In `task_info`: the keys that people said are right. Those in the user's own ~/.ssh count, too."""


def of_lab(task_info: Path) -> HostKeys:
    """The keys that the master of this folder goes by."""
    return HostKeys(task_info / KNOWN_HOSTS, (Path("~/.ssh/known_hosts").expanduser(),))


class HostKeys:
    """`own`: the file that `pin` writes. `others`: files that are only read; a missing one is an empty one."""

    def __init__(self, own: Path, others: tuple[Path, ...] = ()) -> None:
        self._own = own
        self._others = others
        self._writing = threading.Lock()

    def lookup(self, host: str, port: int, pinned: str | None = None) -> Known:
        """Return what is known of a host. `pinned`: the registry's `host_key`. Raises ConfigError: unreadable."""
        if pinned:
            return _pinned(pinned)
        name = _name(host, port)
        known = Known()
        revoked: set[str] = set()
        for path in (self._own, *self._others):
            lines = [line for line in map(_Line, _read(path)) if line.key is not None and line.names(name)]
            revoked.update(line.key.base64 for line in lines if line.key and line.marker == "@revoked")
            keys = tuple(line.key for line in lines if line.key and not line.marker)
            if keys and not known.keys:
                known = Known(keys=keys, place=str(path))
        return msgspec.structs.replace(known, revoked=frozenset(revoked))

    def pin(self, host: str, port: int, key: OfferedKey) -> None:
        """Expect this key of the host and no other. Raises OSError, and ConfigError when the file is unreadable."""
        name = _name(host, port)
        with self._writing:
            lines = [line for line in (_Line(text).without(name) for text in _read(self._own)) if line]
            _replace(self._own, "".join(f"{line}\n" for line in (*lines, f"{name} {key.type} {key.base64}")))


def offered(blob: bytes) -> OfferedKey:
    """A key from its bytes on the wire. Raises ValueError."""
    if len(blob) < 4 + 1:
        raise ValueError("too short for a key")
    (length,) = struct.unpack(">I", blob[:4])
    kind = blob[4 : 4 + length].decode("ascii")
    if len(kind) != length or not kind:
        raise ValueError("a key begins with its type")
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    return OfferedKey(kind, base64.b64encode(blob).decode(), f"SHA256:{digest}")


def _pinned(text: str) -> Known:
    words = text.split()
    place = "the registry's `host_key`"
    if len(words) == 1 and words[0].startswith("SHA256:"):
        return Known(fingerprints=(words[0].rstrip("="),), place=place)
    key = _key(words[0], words[1]) if len(words) > 1 else None
    if key is None:
        raise ConfigError(Message("host_key_wrong", found=text))
    return Known(keys=(key,), place=place)


class _Line:
    """One line of a known_hosts file; `key` is None where it is a comment or nothing that we understand."""

    def __init__(self, text: str) -> None:
        self.text = text.rstrip("\r\n")
        fields = self.text.split()
        self.marker = fields.pop(0) if fields and fields[0].startswith("@") else ""
        self.hosts = fields[0].split(",") if fields else []
        usable = len(fields) > 2 and not self.text.lstrip().startswith("#") and self.marker in ("", "@revoked")  # noqa: PLR2004
        self.key = _key(fields[1], fields[2]) if usable else None

    def names(self, name: str) -> bool:
        """Is the line about this host?"""
        if any(host.startswith("!") and _fits(host[1:], name) for host in self.hosts):
            return False
        return any(_is_hash_of(host, name) or _fits(host, name) for host in self.hosts)

    def without(self, name: str) -> str:
        """The line without this host, empty if it was about nothing else. Revocations and patterns stay."""
        if self.key is None or self.marker or not self.names(name):
            return self.text
        hosts = [host for host in self.hosts if host.lower() != name and not _is_hash_of(host, name)]
        return " ".join([",".join(hosts), *self.text.split()[1:]]) if hosts else ""


def _key(kind: str, text: str) -> OfferedKey | None:
    try:
        key = offered(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return None
    return key if key.type == kind and kind in _TYPES else None


def _fits(pattern: str, name: str) -> bool:
    # Brackets are part of the name `[host]:port`, not of a pattern.
    return fnmatch.fnmatchcase(name, pattern.lower().replace("[", "[[]"))


def _is_hash_of(host: str, name: str) -> bool:
    parts = host.split("|")
    if len(parts) != 4 or parts[1] != "1":  # noqa: PLR2004  (|1|SALT|HASH)
        return False
    try:
        salt, digest = base64.b64decode(parts[2]), base64.b64decode(parts[3])
    except binascii.Error:
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), "sha1").digest(), digest)


def _name(host: str, port: int) -> str:
    return host.lower() if port == DEFAULT_PORT else f"[{host.lower()}]:{port}"


def _read(path: Path) -> Iterator[str]:
    try:
        text = read_regular(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return iter(())
    except OSError as error:
        raise ConfigError(Message("host_keys_unreadable", path=str(path), detail=error.strerror)) from None
    return iter(text.splitlines())


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(fd)
    draft.replace(path)
