"""From what was sent to a value of the type that it should have, or the message about what is wrong with it."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from master.edited_files.mismatch import explain
from wire.errors import BadRequestError

T = TypeVar("T")
_SECRETS = frozenset({"password", "old", "token", "link"})
_NAMES = frozenset({"name", "names", "tokens"})
OF_PEOPLE = frozenset({"auth", "user", "token"})
"""The nouns of the verbs that take names of users or tokens. A user in a hurry may type a password there."""


def convert(value: Any, kind: type[T]) -> T:
    """The value as the type says. Raises BadRequestError that names what is wrong with it."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise BadRequestError(explain(str(error), without_secrets(value), kind)) from None


def without_secrets(asked: Any) -> Any:
    """Return the request without the parts that nobody may read in a log or in an error."""
    return (
        {key: "…" if key in _SECRETS else value for key, value in asked.items()} if isinstance(asked, dict) else asked
    )


def for_log(verb: str, asked: Any) -> Any:
    """The same, for the server's log: without what may be a secret in the place of a name."""
    told = without_secrets(asked)
    if isinstance(told, dict) and verb.partition(".")[0] in OF_PEOPLE:
        return {key: "…" if key in _NAMES else value for key, value in told.items()}
    return told
