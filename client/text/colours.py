"""Which kind of news each state is, and how each kind looks on a terminal that only knows escapes."""

from __future__ import annotations

STATE_KINDS = {
    "running": "good", "online": "good", "succeeded": "good", "starting": "info", "connecting": "info",
    "waiting": "warn", "drained": "warn", "draining": "warn", "leaving": "warn", "closed": "warn",
    "held": "held", "paused": "held", "cancelled": "dim",
    "failed": "bad", "timed_out": "bad", "lost": "bad", "unreachable": "bad", "untrusted": "bad", "aside": "bad",
}  # fmt: skip
"""Of tasks and of nodes."""
_CODES = {"good": "32", "info": "36", "warn": "33", "held": "35", "bad": "31", "dim": "90"}


def painted(text: str, kind: str | None) -> str:
    """The text in the colour of its kind; as it is for a kind that has none."""
    code = _CODES.get(kind or "")
    return text if code is None else f"\x1b[{code}m{text}\x1b[0m"


def painted_state(state: str) -> str:
    """A state in its colour."""
    return painted(state, STATE_KINDS.get(state))
