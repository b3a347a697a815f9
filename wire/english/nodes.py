"""What is the matter with a node."""

from __future__ import annotations

NODES: dict[str, str] = {
    "not_registered": "not in the registry any more: add it again, or give its tasks up with `muster node lost`",
}
