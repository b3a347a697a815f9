"""The text of a token, `mst_ID_SECRET`: made, read, compared, and taken out of what is written down.

The id is public: lists, the audit log and error texts name it. The secret is shown once, to the user it is made for;
only its SHA-256 is kept, which is enough for 256 random bits. The core owns which user a token belongs to, and what it
permits.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

import msgspec

from wire.pattern import Pattern

SECRET_BYTES = 32
_ID = Pattern(r"[A-Za-z0-9]{1,32}", re.ASCII)
_SECRET = Pattern(r"[A-Za-z0-9_-]{43}", re.ASCII)
"""SECRET_BYTES in base64 as file names and addresses hold it. It may hold `_`, so an id may not."""
FIND = Pattern(r"mst_([A-Za-z0-9]{1,32})_[A-Za-z0-9_-]+", re.ASCII)
"""A token in a text, whole or cut off; the group is its id."""


class Made(msgspec.Struct, frozen=True):
    """A new token: its `text`, to be shown once, and the SHA-256 of its secret, in hex, to be kept."""

    text: str
    sha256: str

    def __repr__(self) -> str:
        return f"Made({redacted(self.text)})"

    __str__ = __repr__


class Parsed(msgspec.Struct, frozen=True):
    """The id of a token, and the secret that the caller shows for it."""

    id: str
    secret: str

    def __repr__(self) -> str:
        return f"Parsed({self.id})"

    __str__ = __repr__


def make(token_id: str) -> Made:
    """A token with this id: letters and digits, 32 at most. Raises ValueError for any other."""
    if _ID.fullmatch(token_id) is None:
        raise ValueError("the id of a token is made of letters and digits")
    secret = secrets.token_urlsafe(SECRET_BYTES)
    return Made(f"mst_{token_id}_{secret}", _sha256(secret))


def parse(text: str) -> Parsed | None:
    """Parse a token's text into its parts; None if it is no token."""
    kind, _, rest = text.partition("_")
    token_id, _, secret = rest.partition("_")
    if kind != "mst" or _ID.fullmatch(token_id) is None or _SECRET.fullmatch(secret) is None:
        return None
    return Parsed(token_id, secret)


def is_it(secret: str, sha256: str) -> bool:
    """Whether this is the secret of which `sha256` is kept. How long it takes tells nothing."""
    return hmac.compare_digest(_sha256(secret).encode(), sha256.encode())


def redacted(text: str) -> str:
    """The text with the secret of every token in it left out: `mst_ID_…`."""
    return FIND.sub(r"mst_\1_…", text)


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
