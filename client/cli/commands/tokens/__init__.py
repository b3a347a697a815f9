"""Manage tokens, with which programs log in, and log-ins, which are tokens too: your own; for admins, also others'."""

from __future__ import annotations

from client.cli.arguments import family

EXAMPLES = """examples:
  muster tokens list
  MUSTER_TOKEN=$(muster tokens new --scopes read,submit --expires 90d --label nightly)
  muster tokens revoke 7f3a91c2"""
ACTIONS = {
    "list": "tokens and log-ins, without their secrets",
    "new": "make a token for a program, and print it, this once",
    "revoke": "revoke tokens, or log-ins",
}

arguments, parse, run = family.of(__name__, ACTIONS)
