"""Errors as HTTP has them: `application/problem+json`, with the stable code, and key and values for other languages."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from wire.errors import MusterError

TYPE = "application/problem+json"
STATUS = {
    "bad_request": 400,
    "protocol": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "not_found": 404,
    "unknown_method": 404,
    "conflict": 409,
    "impossible": 422,
    "limit": 429,
    "store_unavailable": 503,
    "unreachable": 503,
    "storage": 503,
    "node_unreachable": 503,
    "directory": 503,
}
"""Of each error's code; of any other 500."""
UNMATCHED = frozenset({"task_changed", "file_changed", "file_is_there"})
"""Keys of what is answered to an If-Match or If-None-Match that does not hold: 412."""


def status_of(error: MusterError) -> int:
    """With which status it is answered."""
    return 412 if error.key in UNMATCHED else STATUS.get(error.code, 500)


def body(error: MusterError, status: int | None = None) -> dict[str, Any]:
    """The problem, as RFC 9457 has it."""
    return {
        "type": f"urn:muster:{error.code}",
        "title": error.code,
        "status": status or status_of(error),
        "detail": str(error),
        "code": error.code,
        "key": error.key,
        "args": error.values,
    }


def problem(error: MusterError, status: int | None = None, headers: dict[str, str] | None = None) -> Response:
    """The answer that tells of it."""
    told = body(error, status)
    return Response(msgspec.json.encode(told), told["status"], headers, TYPE)
