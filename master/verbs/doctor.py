"""node.doctor: what ails nodes, with a cure for each finding."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from master.core.nodes.inventory import NodeState
from master.doctor.finding import Finding, Verdict, worst
from master.verbs.base import Context
from master.views.messages import MessageView, message_view

if TYPE_CHECKING:
    from master.doctor.node import Lab

_under_way: set[asyncio.Task[list[Examined]]] = set()
"""Work that has begun is finished even if its caller leaves: it has files to remove."""


class Names(msgspec.Struct, forbid_unknown_fields=True):
    """node.doctor: nodes by their names; none means all."""

    names: Annotated[list[str], Meta(max_length=10_000)] = []


class FindingView(msgspec.Struct, frozen=True):
    """The finding of one check. `told`: what was seen; `cure`: what to do about it, "" where there is nothing to do;
    `told_message`, `cure_message`: the same for programs."""

    check: str
    verdict: Verdict
    told: str
    cure: str
    told_message: MessageView
    cure_message: MessageView | None


class Examined(msgspec.Struct, frozen=True):
    """The condition of a node: its state (null: it is gone), the worst verdict, and the findings of all checks, in
    order."""

    name: str
    state: NodeState | None
    verdict: Verdict
    findings: list[FindingView]


def doctor(context: Context, params: Names) -> Awaitable[list[Examined]]:
    """Look closely at nodes: what ails each, with a cure. Takes up to half a minute."""
    names = list(dict.fromkeys(params.names)) or list(context.core.inventory.nodes)
    for name in names:
        context.core.node(name)
    from master.doctor.node import Lab  # noqa: PLC0415  (seldom asked for, and much to load)

    master = context.master
    lab = Lab(context.core, master.fleet, master.config, master.run_as(context.user), master.acting.is_on)
    lab = msgspec.structs.replace(lab, ids_fault=context.engine.store.ids_fault)
    job = asyncio.get_running_loop().create_task(_examine(lab, names))
    _under_way.add(job)
    job.add_done_callback(_under_way.discard)
    return asyncio.shield(job)


async def _examine(lab: Lab, names: list[str]) -> list[Examined]:
    from master.doctor.examine import examine  # noqa: PLC0415  (see above)

    found = await examine(lab, names)
    return [_view(lab, name, findings) for name, findings in found.items()]


def _view(lab: Lab, name: str, findings: list[Finding]) -> Examined:
    node = lab.core.inventory.nodes.get(name)
    return Examined(name, node.state if node else None, worst(findings), list(map(_finding, findings)))


def _finding(one: Finding) -> FindingView:
    do = None if one.do is None else message_view(one.do)
    return FindingView(one.check, one.verdict, one.told, one.cure, message_view(one.says), do)
