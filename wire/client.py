"""The protocol of clients and the master: JSON-RPC 2.0, one object per line, on each of the three ports.

Owns the envelope and the protocol's version; the verbs' own parameters are typed beside the verbs, in `master/verbs`.
"""

from __future__ import annotations

from typing import Any

import msgspec

PROTOCOL_VERSION = 1
MAX_FRAME = 16 * 1024 * 1024


class Request(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A call, in the order in which our clients write it. Without `id` it is a notification and is not answered."""

    jsonrpc: str
    id: int | str | None = None
    method: str
    params: dict[str, Any] = {}
