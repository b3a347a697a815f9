"""The verb `subscribe`: see `master.verbs.table`."""

from __future__ import annotations

from master.verbs.base import Verb
from master.verbs.subscribe import Subscribe, Subscribed, subscribe

VERBS: dict[str, Verb] = {
    "subscribe": Verb(Subscribe, Subscribed, subscribe, "viewer", "read", "any", repeatable=True, on_wall=True),
}
