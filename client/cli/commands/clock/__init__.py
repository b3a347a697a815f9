"""The master's clock. Log-ins, tokens, links and users end by the latest time that it has shown, so a clock that is set
back revives nothing. Where it was ahead, and is right now, somebody has to say so."""

from __future__ import annotations

from client.cli.arguments import family

EXAMPLES = """examples:
  muster status | grep clock
  muster clock accept"""
ACTIONS = {"accept": "what the clock shows now is right: rights end by it from now on"}

arguments, parse, run = family.of(__name__, ACTIONS)
