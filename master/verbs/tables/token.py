"""The verbs `token.…`: see `master.verbs.table`."""

from __future__ import annotations

from master.verbs import user_tokens
from master.verbs.base import Verb

VERBS: dict[str, Verb] = {
    "token.list": Verb(
        user_tokens.ListTokens,
        list[user_tokens.TokenView],
        user_tokens.list_tokens,
        "viewer",
        "account",
        "none",
        repeatable=True,
        quiet=True,
    ),
    "token.new": Verb(user_tokens.NewToken, user_tokens.TokenMade, user_tokens.new, "viewer", "account", "none"),
    "token.revoke": Verb(
        user_tokens.RevokeTokens, user_tokens.Revoked, user_tokens.revoke, "viewer", "account", "none"
    ),
}
