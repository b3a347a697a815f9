"""All machines: the same as `muster nodes`."""

from __future__ import annotations

from client.cli.commands.nodes import EXAMPLES, arguments, run

__all__ = ["EXAMPLES", "arguments", "run"]
