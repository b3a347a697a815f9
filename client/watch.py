"""Following the master: what is there now, then every change, until the connection breaks.

Owns the subscription and the watch over a silent connection. What the changes mean is the caller's.
"""

from __future__ import annotations

from collections.abc import Iterator

from client.session import ConnectionLostError, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from client.api import Client

SILENCE_S = 20.0
"""After so long without news the master is asked whether it is there."""
_PORTS = {"tasks": "train_state_port", "nodes": "monitor_port"}


def watch(client: Client, what: Literal["tasks", "nodes"], silence_s: float = SILENCE_S) -> Iterator[dict[str, Any]]:
    """First {"method": "snapshot", "params": {"tasks" or "nodes": […]}}, then the notifications as they come.

    Raises UnreachableError when the connection breaks: what changed meanwhile is in the next watch's snapshot.
    """
    where = client.address
    session = Session(where.host, _port(client, what), client.token, patience=0, trust=where.trust)
    try:
        yield {"method": "snapshot", "params": session.call("subscribe", {}, repeatable=False)}
        while True:
            yield from session.notifications(silence_s)
            session.call("server.info", {}, timeout=silence_s, repeatable=False)
    except ConnectionLostError as error:
        from wire.errors import UnreachableError

        raise UnreachableError(f"the connection to the master at {client.address} broke ({error})") from None
    finally:
        session.close()


def _port(client: Client, what: Literal["tasks", "nodes"]) -> int:
    known = client.address.train_state if what == "tasks" else client.address.monitor
    return known if known is not None else int(client.info()["ports"][_PORTS[what]])
