"""The verbs `token.…`: see `master.verbs.table`."""

from __future__ import annotations

from master.verbs import tokens
from master.verbs.base import Verb

VERBS: dict[str, Verb] = {
    "token.list": Verb(
        tokens.ListTokens,
        list[tokens.TokenView],
        tokens.list_tokens,
        "viewer",
        "account",
        "none",
        repeatable=True,
        quiet=True,
    ),
    "token.new": Verb(tokens.NewToken, tokens.TokenMade, tokens.new, "viewer", "account", "none"),
    "token.revoke": Verb(tokens.RevokeTokens, tokens.Revoked, tokens.revoke, "viewer", "account", "none"),
}
