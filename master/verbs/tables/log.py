"""The verbs `log.…`: see `master.verbs.table`."""

from __future__ import annotations

from master.verbs import logs
from master.verbs.base import Verb

VERBS: dict[str, Verb] = {
    "log.read": Verb(logs.Read, logs.LogPiece, logs.read, "viewer", "read", "group", repeatable=True),
    "log.search": Verb(logs.Search, logs.LogMatches, logs.search, "viewer", "read", "group", repeatable=True),
}
