"""Which agent a link talks to, and what the link was given to talk with: the same for all of its conversations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from master.core.attempts.agent_messages import EncodedSample
from master.core.executor import Reports
from master.core.nodes.accounts import OWN
from master.core.nodes.facts import RunsAs
from master.core.nodes.inventory import Facts, Node
from master.engine.engine import Engine
from master.nodes.connection import LoopTurns
from master.nodes.driver import Driver
from master.nodes.pacing import Pace
from master.nodes.questions import Questions
from wire import agent as wire
from wire.message import Message


class Identity(Protocol):
    """Which master this is: what `hello` says."""

    def hello(self) -> wire.Hello:
        """The first line to every agent."""


class SampleSink(Protocol):
    """Where samples go."""

    def sample(self, node: str, sample: EncodedSample) -> None:
        """A sample of a node arrived."""


class Hooks(msgspec.Struct, frozen=True):
    """The questions and events of a link that its owner takes part in. `objection`: why an agent that says so of itself
    is not talked to, None if it is; `runs_as`: the account that tasks get, None where nobody knows; `on_welcome` is
    given what an agent says of its machine, before it gets a task; `on_inventory` is called between the inventory and
    the node being online; `on_same` when what answers is the machine of another entry, with that one's name."""

    objection: Callable[[Facts], Message | None] = lambda _facts: None
    runs_as: Callable[[Facts], RunsAs | None] = lambda _facts: None
    on_welcome: Callable[[Facts], None] = lambda _facts: None
    on_inventory: Callable[[], None] = lambda: None
    on_same: Callable[[str], None] = lambda _other: None


class AgentContext(msgspec.Struct, frozen=True):
    """The agent of an account (`login`) on a node. `tried`: the conversation is under way, or the last try to begin it
    has failed. `pace`: its share of our time, perhaps with other agents. `turns`: the loop, where it can be told that
    nothing urgent is awaited."""

    node: str
    login: str
    driver: Driver
    engine: Engine
    identity: Identity
    sampling: wire.Sampling
    samples: SampleSink
    reports: Reports
    questions: Questions
    hooks: Hooks
    tried: asyncio.Event
    pace: Pace
    turns: LoopTurns | None

    @property
    def label(self) -> str:
        """Its name in the log."""
        return label(self.node, self.login)

    @property
    def entry(self) -> Node | None:
        """The node in the core, None once it has left."""
        return self.engine.core.inventory.nodes.get(self.node)


def label(node: str, login: str) -> str:
    """How the log calls the agent of this account."""
    return node if login == OWN else f"{node} as {login}"
