"""Logs: a piece, the whole, and what is written from now on.

Owns reading on where the last piece ended, and beginning anew with a log that became shorter.
"""

from __future__ import annotations

import time
from base64 import b64decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from client.caller import Caller

    OnWarning = Callable[[str | None], object]

CHUNK = 1 << 20
"""Bytes that the master gives at once."""
MOST_FOUND = 1000
"""Lines that the master finds at once."""
WAIT_S = 20.0
"""How long the master keeps a question for more of a log; it answers as soon as there is more."""
_LEAST_PAUSE_S = 0.05


def read(
    caller: Caller, task_id: int | None, offset: int, limit: int | None = None, **how: Any
) -> tuple[bytes, dict[str, Any]]:
    """See `client.api.Client.read_log`."""
    which = {"server": True} if task_id is None else {"id": task_id}
    reply: dict[str, Any] = caller.call(
        "log.read", {**which, "offset": offset, "limit": CHUNK if limit is None else limit, **how}
    )
    if "rest" in reply:
        reply["rest"] = b64decode(reply["rest"])
    return b64decode(reply.pop("data")), reply


def of_rank(rank: int) -> dict[str, Any]:
    """Which part's log, as the verb has it; of the first nothing is said, as to a master that knows no others."""
    return {"rank": rank} if rank else {}


def pieces(
    caller: Caller, task_id: int | None, *, follow: bool, offset: int, on_warning: OnWarning | None, rank: int = 0
) -> Iterator[bytes]:
    """See `client.api.Client.logs`."""
    how: dict[str, Any] = {**of_rank(rank), **({"wait_s": WAIT_S} if follow else {})}
    while True:
        begin = time.monotonic()
        data, state = read(caller, task_id, offset, **how)
        if on_warning is not None and not state.get("ended"):
            on_warning(state.get("warning"))
        if data:
            offset = state["offset"] + len(data)
            yield data
            continue
        if not follow or state.get("ended"):
            return
        # A log that became shorter was begun anew.
        offset = state["size"] if offset < 0 else 0 if state["size"] < offset else offset
        # The master waits for us; one that answers at once is not asked without a pause.
        time.sleep(max(0.0, min(_LEAST_PAUSE_S, begin + _LEAST_PAUSE_S - time.monotonic())))


def search(
    caller: Caller, task_id: int | None, pattern: str, *, most: int | None = None, **how: Any
) -> Iterator[dict[str, Any]]:
    """See `client.api.Client.search_log`."""
    which = {"server": True} if task_id is None else {"id": task_id}
    left = most
    while left is None or left > 0:
        limit = {} if left is None else {"limit": min(left, MOST_FOUND)}
        reply = caller.call("log.search", {**which, "pattern": pattern, **limit, **how})
        yield from reply["matches"]
        if reply["next"] is None:
            return
        how["offset"] = reply["next"]
        left = None if left is None else left - len(reply["matches"])


def collapsed(
    caller: Caller, task_id: int | None, *, follow: bool, offset: int, on_warning: OnWarning | None, rank: int = 0
) -> Iterator[tuple[bytes, bytes]]:
    """See `client.api.Client.collapsed_logs`."""
    seen: int | None = None
    while True:
        how: dict[str, Any] = {"wait_s": WAIT_S, "seen": seen} if follow and seen is not None else {}
        lines, state = read(caller, task_id, offset, collapse=True, **of_rank(rank), **how)
        if on_warning is not None and not state.get("ended"):
            on_warning(state.get("warning"))
        offset, end = state["next"], state["next"] + len(state["rest"])
        news = bool(lines) or end != seen
        seen = end
        if state["size"] < end:
            offset, seen = 0, None  # a log that became shorter was begun anew
        if news:
            yield lines, state["rest"].rstrip(b"\r")
        elif state.get("ended") or not follow:
            return
        else:
            time.sleep(_LEAST_PAUSE_S)
