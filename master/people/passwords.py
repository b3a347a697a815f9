"""Passwords: which are too weak, how they are stored, and whether a typed password is the stored one.

A password is stored as an Argon2id hash in a PHC string, which names its cost. A hash of another cost than today's is
renewed when its password is typed. Hashing takes a tenth of a second and 19 MiB, so it is done beside the loop, a few
at a time. An unknown name takes as long as a wrong password. Other modules own which user a password belongs to, and
how often a caller may guess.
"""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
import unicodedata
from base64 import b64decode, b64encode

import msgspec

from master.people.workers import Workers
from wire.message import Message

log = logging.getLogger("muster.people")

LEAST_CHARACTERS = 10
MOST_BYTES = 1024
THREADS, WAITING, HASH_S = 2, 16, 0.15
"""HASH_S: about as long as one hash takes on a slow machine."""
_MOST_TYPED = 4 * MOST_BYTES
"""Bytes beyond which nothing is normalised: none of it can be a password, and Unicode's order of marks is quadratic."""
_SALT_BYTES, _HASH_BYTES = 16, 32
_MOST_MEMORY_KIB, _MOST_PASSES, _MOST_LANES = 1 << 18, 64, 64
"""The largest parameters of a stored hash; one with larger ones was not made here."""
_PHC = re.compile(
    r"\$argon2id\$v=19\$m=([1-9]\d{0,9}),t=([1-9]\d{0,9}),p=([1-9]\d{0,9})"
    r"\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{16,86})",
    re.ASCII,
)


class Cost(msgspec.Struct, frozen=True):
    """The cost of a hash, and the lengths of its parts, in bytes."""

    memory_kib: int = 19 << 10
    passes: int = 2
    lanes: int = 1
    salt: int = _SALT_BYTES
    hash: int = _HASH_BYTES

    def phc(self, salt: bytes, digest: bytes) -> str:
        """A hash of this cost in the form in which it is kept."""
        return f"$argon2id$v=19$m={self.memory_kib},t={self.passes},p={self.lanes}${_base64(salt)}${_base64(digest)}"


TODAY = Cost()


class Checked(msgspec.Struct, frozen=True):
    """Whether the password is right. `rehash`: a hash of today's cost to be kept from now on, where the one that is
    kept has another."""

    ok: bool
    rehash: str | None = None


class Passwords:
    """Hashes of today's `cost`, in one asyncio loop."""

    def __init__(self, cost: Cost = TODAY) -> None:
        self._cost = cost
        self._workers = Workers("a password", threads=THREADS, waiting=WAITING, each_s=HASH_S)
        # Of no password: it costs what any other costs, and nothing that is typed fits.
        self._dummy = cost.phc(secrets.token_bytes(cost.salt), secrets.token_bytes(cost.hash))
        self._told: set[bytes] = set()

    async def hash(self, password: str) -> str:
        """Return the text to store for a password, a PHC string. Raises LimitError if too many are hashed already."""
        return await self._workers.run(lambda: derive(prepared(password), self._cost))

    async def check(self, password: str, phc: str | None) -> Checked:
        """Whether it is the password of which `phc` is kept. None, for a name that nobody has or a user without a
        password, takes as long as a wrong password does. Raises LimitError where too many are hashed already."""
        return await self._workers.run(lambda: self._check(prepared(password), phc))

    def close(self) -> None:
        """Begin nothing new."""
        self._workers.close()

    def _check(self, secret: bytes, phc: str | None) -> Checked:
        """In a thread."""
        cost = None if phc is None else cost_of(phc)
        if phc is None or cost is None:
            if phc is not None:
                self._tell_broken(phc)
            fits(secret, self._dummy)
            return Checked(ok=False)
        if not fits(secret, phc):
            return Checked(ok=False)
        return Checked(ok=True, rehash=None if cost == self._cost else derive(secret, self._cost))

    def _tell_broken(self, phc: str) -> None:
        digest = hashlib.sha256(phc.encode("utf-8", "surrogatepass")).digest()
        if digest not in self._told:
            self._told.add(digest)
            log.error("what is kept of a password cannot be read, and its user cannot log in with it: set another "
                      "(`muster users passwd NAME`)")  # fmt: skip


def prepared(password: str) -> bytes:
    """A password as it is hashed: one spelling (NFC) of what looks the same, for keyboards and systems differ."""
    typed = password.encode("utf-8", "surrogatepass")
    if len(typed) > _MOST_TYPED:
        return typed
    return unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")


def weakness(password: str, name: str) -> Message | None:
    """Why this must not become the password of the user `name`; None if it may."""
    from master.people.weak import is_easily_guessed  # noqa: PLC0415  (a start has no use for all that is guessed)

    secret = prepared(password)
    if len(secret) > MOST_BYTES:
        return Message("password_too_long", most=MOST_BYTES)
    text = secret.decode("utf-8", "surrogatepass")
    if len(text) < LEAST_CHARACTERS:
        return Message("password_too_short", least=LEAST_CHARACTERS)
    if is_easily_guessed(text):
        return Message("password_easily_guessed")
    return Message("password_of_name", name=name) if is_easily_guessed(text, name) else None


def cost_of(phc: str) -> Cost | None:
    """Return the cost of a stored hash; None if it was not made here."""
    found = _PHC.fullmatch(phc)
    if found is None:
        return None
    memory, passes, lanes = map(int, found.groups()[:3])
    salt, digest = (_bytes(text) for text in found.groups()[3:])
    if memory > _MOST_MEMORY_KIB or passes > _MOST_PASSES or lanes > _MOST_LANES or memory < 8 * lanes:
        return None
    return Cost(memory, passes, lanes, len(salt), len(digest)) if salt and digest else None


def derive(secret: bytes, cost: Cost) -> str:
    """The hash of a secret with a salt of its own, as a PHC string."""
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id  # noqa: PLC0415  (no log-in, no library)

    salt = secrets.token_bytes(cost.salt)
    argon = Argon2id(salt=salt, length=cost.hash, iterations=cost.passes, lanes=cost.lanes, memory_cost=cost.memory_kib)
    return argon.derive_phc_encoded(secret)


def fits(secret: bytes, phc: str) -> bool:
    """Whether the hash, which `cost_of` can read, is one of this secret."""
    from cryptography.exceptions import InvalidKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id  # noqa: PLC0415

    try:
        Argon2id.verify_phc_encoded(secret, phc)
    except InvalidKey:
        return False
    return True


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii").rstrip("=")


def _bytes(text: str) -> bytes:
    """Decode base64 as it is written for a hash; return nothing for any other text."""
    try:
        data = b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return b""
    return data if _base64(data) == text else b""
