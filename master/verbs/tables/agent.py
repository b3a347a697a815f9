"""The verbs `agent.…`: see `master.verbs.table`."""

from __future__ import annotations

from master.verbs import agents
from master.verbs.base import Verb

VERBS: dict[str, Verb] = {
    "agent.stop": Verb(agents.SomeNodes, agents.AgentsDone, agents.stop, "admin", "nodes", "none", repeatable=True),
    "agent.start": Verb(agents.SomeNodes, agents.AgentsDone, agents.start, "admin", "nodes", "none", repeatable=True),
    "agent.restart": Verb(agents.SomeNodes, agents.AgentsDone, agents.restart, "admin", "nodes", "none"),
}
