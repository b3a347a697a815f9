"""Agents that come and go in the names of entries of the registry, and the next master."""

from __future__ import annotations

import msgspec

from master.core.core import Core
from master.core.nodes.inventory import Facts, NodeSpec, NodeState
from master.core.tasks.records import merge_pieces
from tests.master.core.small_core import core_with
from wire.message import Message


def comes(core: Core, name: str, facts: Facts) -> Message | None:
    """An agent says so in a node's name; why it is not served, None if it is."""
    refused = core.same_machine(name, facts)
    if refused is None:
        core.node_state(name, NodeState.ONLINE, None, facts)
        return None
    core.node_state(name, NodeState.UNREACHABLE, refused[1])
    return refused[1]


def goes(core: Core, name: str) -> None:
    """Nobody answers in a node's name any more."""
    core.node_state(name, NodeState.UNREACHABLE, "gone")


def restarted(core: Core, *specs: NodeSpec) -> Core:
    """The next master, of what this one wrote since it began."""
    outcome = core.take_outcome()
    fresh = core_with(*specs, online=False)
    state: dict[str, msgspec.Raw] = {}
    merge_pieces(state, outcome.change.state if outcome is not None else {})
    fresh.load(dict(core.tasks), {}, core.next_id, state)
    return fresh
