"""The tokens with which agents dial in: `ID.SECRET`, of which only the SHA-256 is kept.

Owns how one is made, checked and replaced; where they are kept is `cordon`'s. A secret has 192 random bits, so nobody
guesses one, and a plain digest of it is enough.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable

import msgspec

from master.core.nodes.notes import Token
from master.core.people.clock import RightsTime

GRACE_S = 600.0
"""How long a token that was replaced still opens, so that a node is not lost between two commands."""
_NOBODY = hashlib.sha256(b"nobody").hexdigest()


def make(by: str, now: float) -> tuple[str, Token]:
    """A new token as it is shown once, and as it is kept. `now`: seconds since the epoch."""
    name, secret = secrets.token_hex(4), secrets.token_urlsafe(24)
    return f"{name}.{secret}", Token(id=name, sha256=_digest(secret), by=by, at=now)


def valid(tokens: Iterable[Token], now: RightsTime) -> tuple[Token, ...]:
    """Those that open at this moment."""
    return tuple(token for token in tokens if token.until is None or now < token.until)


def find(tokens: Iterable[Token], text: str, now: RightsTime) -> Token | None:
    """The one that this text is; None if it opens nothing. Takes as long for a wrong secret as for a right one."""
    name, _, secret = text.partition(".")
    known = {token.id: token for token in valid(tokens, now)}
    token = known.get(name)
    is_it = hmac.compare_digest(_digest(secret), token.sha256 if token else _NOBODY)
    return token if is_it else None


def rotated(tokens: Iterable[Token], fresh: Token, now: RightsTime) -> tuple[Token, ...]:
    """The fresh one, and the one before it for GRACE_S more."""
    old = [token for token in valid(tokens, now) if token.until is None]
    return (*(msgspec.structs.replace(token, until=now + GRACE_S) for token in old), fresh)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
