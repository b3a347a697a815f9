"""The verbs `server.…`: see `master.verbs.table`."""

from __future__ import annotations

from master.verbs import server
from master.verbs.base import Done, Nothing, Verb

VERBS: dict[str, Verb] = {
    "server.hello": Verb(
        server.Hello, server.Greeted, server.hello, "anyone", "account", "none", repeatable=True, quiet=True
    ),
    "server.info": Verb(Nothing, server.Info, server.info, "viewer", "read", "none", repeatable=True, on_wall=True),
    "server.seen": Verb(Nothing, Done, server.seen, "admin", "admin", "none", repeatable=True),
    "server.stop": Verb(Nothing, Done, server.stop, "admin", "admin", "none"),
}
