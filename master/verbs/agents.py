"""The verbs about the agents: ending them, for good or to start them anew. Tasks run on whatever is done here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from master.verbs.base import Context
from wire.errors import MusterError

_under_way: set[asyncio.Task[AgentsDone]] = set()
"""Work that has begun is finished even if its caller leaves: half a restart is a stop."""


class SomeNodes(msgspec.Struct, forbid_unknown_fields=True):
    """agent.stop, agent.start, agent.restart: nodes by their names; none means all."""

    nodes: list[str] = []


class AgentsDone(msgspec.Struct, frozen=True):
    """The nodes for which it was `done`, and of those for which it was `refused`, why."""

    done: list[str]
    refused: dict[str, str]


def stop(context: Context, params: SomeNodes) -> Awaitable[AgentsDone]:
    """End agents and let them stay away, also after a restart of the master, until `start`."""
    agents = context.master.fleet.agents
    return _each(context, params, lambda name: agents.stop(name, context.user))


def start(context: Context, params: SomeNodes) -> Awaitable[AgentsDone]:
    """Undo `stop`; where nothing was stopped, try to connect now."""
    agents = context.master.fleet.agents

    async def start_one(name: str) -> None:
        agents.start(name)

    return _each(context, params, start_one)


def restart(context: Context, params: SomeNodes) -> Awaitable[AgentsDone]:
    """End agents and start them anew. Tasks run on."""
    return _each(context, params, context.master.fleet.agents.restart)


def _each(
    context: Context, params: SomeNodes, act: Callable[[str], Coroutine[Any, Any, None]]
) -> Awaitable[AgentsDone]:
    names = list(dict.fromkeys(params.nodes)) or list(context.core.inventory.nodes)
    for name in names:
        context.core.node(name)
    job = asyncio.get_running_loop().create_task(_all(names, act))
    _under_way.add(job)
    job.add_done_callback(_under_way.discard)
    return asyncio.shield(job)


async def _all(names: list[str], act: Callable[[str], Coroutine[Any, Any, None]]) -> AgentsDone:
    """Which nodes it was done for, and why not for the others."""
    outcomes = await asyncio.gather(*map(act, names), return_exceptions=True)
    refused: dict[str, str] = {}
    for name, outcome in zip(names, outcomes, strict=True):
        if isinstance(outcome, MusterError):
            refused[name] = str(outcome)
        elif outcome is not None:
            raise outcome
    return AgentsDone([name for name in names if name not in refused], refused)
