"""Follow the master: the present state, then every change, until the connection breaks.

Owns the subscription and the watch over a silent connection. The caller interprets the changes.
"""

from __future__ import annotations

from collections.abc import Iterator

from client.refusals import coded_error
from client.session import ConnectionLostError, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.caller import Caller, What

SILENCE_S = 20.0
"""After so long without news the master is asked whether it is there."""


def watch(caller: Caller, what: What, silence_s: float = SILENCE_S) -> Iterator[dict[str, Any]]:
    """First {"method": "snapshot", "params": {"tasks" or "nodes": […]}}, then the notifications as they come.

    Raises UnreachableError when the connection breaks: what changed meanwhile is in the next watch's snapshot.
    """
    where = caller.address
    port = caller.push_port(what)
    session = Session(where.host, port, caller.token, patience=0, trust=where.trust, proxy=where.proxy, end=where.end)
    try:
        yield {"method": "snapshot", "params": session.call("subscribe", {}, repeatable=False)}
        yield from changes(session, silence_s)
    except ConnectionLostError as error:
        raise coded_error("unreachable", "watch_broke", at=str(caller.address), detail=error.args[0]) from None
    finally:
        session.close()


def changes(session: Session, silence_s: float) -> Iterator[dict[str, Any]]:
    """The notifications of a session that has subscribed; whoever is silent for so long is asked whether it is there.

    Raises ConnectionLostError, UnreachableError."""
    while True:
        yield from session.notifications(silence_s)
        session.call("server.info", {}, timeout=silence_s, repeatable=False)
