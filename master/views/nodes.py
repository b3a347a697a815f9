"""A node as clients see it: data of the registry, of its agent and of admins, in one object."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from master.core.core import Core
from master.core.nodes.accounts import OWN
from master.core.nodes.gpu_models import mismatch
from master.core.nodes.gpu_watch import Condition, condition
from master.core.nodes.inventory import Node, NodeState
from master.core.nodes.notes import Note
from master.nodes.registry import NodeConfig
from master.views.messages import MessageView, message_view
from master.views.sight import HIDDEN, Sight
from wire.message import Message


class Foreign(msgspec.Struct, frozen=True):
    """A process on a GPU that is none of our tasks'. `memory_mib`: what it holds, in MiB; null where nobody knows."""

    pid: int
    user: str
    memory_mib: int | None


class GpuView(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU: the registry's word on it, and what the last sample showed. Memory is in MiB, `utilization` in percent;
    null where nothing is known. `health`: `ok`, or why the GPU gets no tasks; `health_message`: that for programs, or
    null. `condition`: the same in one word: `ok`, `busy` (others compute there), `clearing` (the memory of a task that
    ended is not free yet), `aside` (a person set it aside), `broken` (or missing), `unknown`. `held_by`: ids of
    tasks."""

    index: int
    model: str | None
    memory_mib: int | None
    memory_used_mib: int | None
    utilization: float | None
    condition: Condition
    health: str
    health_message: MessageView | None
    held_by: list[int]
    foreign: list[Foreign]


class NodeReservation(msgspec.Struct, frozen=True):
    """Resources that are reserved on a node for a waiting `task`, by its id: `gpus`, by index, and others.
    `expected_at`: when it is expected to start, in seconds since the epoch; null where nobody knows, or the caller may
    not know more of others' tasks."""

    task: int
    gpus: list[int]
    expected_at: float | None


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node as clients see it. Values that no probe has reported are null. `reason`: what is wrong with the way to it,
    and why it takes no tasks; `reason_messages`: the same for programs.

    `registry`: `ok`, `leaving` (it is not in the file any more and goes after its last task) or `changing` (the file
    leads to another machine now, and is followed after its last task). `drained`: why, or null. `sick`: why it was set
    aside (it could start nothing), or null. `mismatch`: which GPUs are not those that the registry says, or null.
    `memory_mib` is in MiB, `tmp_disk_mib` the size of the file system of its temporary folder, of which tasks hold
    `tmp_disk_held_mib`; `load`: of the last 1, 5 and 15 minutes; `clock_offset_s`: how many seconds its clock is
    ahead of the master's, as its last sample showed it. `tasks`: ids of those that are there. `reservation`: what is
    kept for a task that waits, or null. `own_account`: tasks have the master's own account there, and it runs those of
    `admins` only, of `everybody` (there was no second user), or of everybody since an admin `opened` it; null where
    tasks have another account.
    """

    name: str
    driver: str | None
    address: str
    state: NodeState
    schedulable: bool
    reason: str | None
    reason_messages: list[MessageView]
    drained: str | None
    sick: str | None
    registry: Literal["ok", "leaving", "changing"]
    gpus: list[GpuView]
    mismatch: str | None
    cpus: int | None
    cpus_held: int
    slots: int | None
    slots_held: int
    memory_mib: int | None
    tmp_disk_mib: int | None
    tmp_disk_held_mib: int
    load: list[float] | None
    clock_offset_s: float | None
    tasks: list[int]
    hostname: str | None
    python: str | None
    agent_version: str | None
    reservation: NodeReservation | None
    own_account: Literal["admins", "everybody", "opened"] | None


class NodeAccount(msgspec.Struct, frozen=True, kw_only=True):
    """Over which account of a node (`user_name`) the tasks of a `user` run. `state`: of the way to its agent, null
    while there is none, because the user has no task there; `reason`: what is wrong with it, or null;
    `reason_messages`: the same for programs."""

    user: str
    user_name: str
    state: NodeState | None
    reason: str | None
    reason_messages: list[MessageView]


class NodePage(NodeView, frozen=True, kw_only=True):
    """A node with what its entry in `node.list` leaves out: the user (`user_name`) and `port` of its SSH
    server, the registry's `labels`, and who drained it and when (`drained_at`, seconds since the epoch).
    `account`: its agent's, which tasks have, too, null where it did not say; `can_run_as`: the agent is root and runs
    tasks as the accounts of their owners; `accounts`: over which SSH accounts tasks run there, null where all run as
    the agent's."""

    user_name: str | None
    account: str | None
    can_run_as: bool
    accounts: list[NodeAccount] | None
    port: int | None
    labels: dict[str, str]
    drained_by: str | None
    drained_at: float | None


def node_view(core: Core, node: Node, config: NodeConfig | None, sight: Sight) -> NodeView:
    """The node as a client sees it. `config`: its entry in the registry; None if it has left it."""
    facts = node.facts
    note = core.notes.get(node.name, Note())
    closed = tuple(map(sight.said, node.why_not_open))
    view = NodeView(
        name=node.name,
        driver=config.driver if config else None,
        address=config.ip if config else node.spec.address,
        state=node.state,
        schedulable=node.takes_tasks,
        reason=_reason(node, closed),
        reason_messages=_messages(node, closed),
        drained=note.drained,
        sick=HIDDEN if note.sick and sight.hides_others else note.sick,
        registry=_registry(node),
        gpus=_gpus(node, sight),
        mismatch=_sentence(mismatch(node.spec.gpu_models, node.watch.newest)),
        cpus=node.cpus,
        cpus_held=node.held["cpus"],
        slots=node.slots,
        slots_held=node.held["slots"],
        memory_mib=facts.memory_mib if facts else None,
        tmp_disk_mib=node.tmp_disk_mib,
        tmp_disk_held_mib=node.held["tmp_disk_mib"],
        load=node.load,
        clock_offset_s=None if node.clock_offset is None else round(node.clock_offset, 1),
        tasks=sorted(node.active),
        hostname=facts.hostname if facts else None,
        python=facts.python if facts else None,
        agent_version=facts.version if facts and node.state is NodeState.ONLINE else None,
        reservation=_reservation(core, node.name, sight),
        own_account=_own_account(core, node.name),
    )
    return _on_wall(view) if sight.is_wall else view


def _own_account(core: Core, name: str) -> Literal["admins", "everybody", "opened"] | None:
    """Return whose tasks a node runs as the master's own account; None if tasks use another account."""
    fence = core.own_account
    if name not in fence.nodes:
        return None
    return "admins" if fence.is_closed(name) else "opened" if fence.is_opened(name) else "everybody"


def account_views(node: Node, sight: Sight) -> list[NodeAccount] | None:
    """Over which accounts tasks run on the node, by their owners; None where they do not."""
    logins = node.accounts.logins
    return None if logins is None else [_account(node, owner, login, sight) for owner, login in sorted(logins.items())]


def _account(node: Node, owner: str, login: str, sight: Sight) -> NodeAccount:
    if login == OWN:
        told = [] if node.link_says is None else [message_view(node.link_says)]
        own = node.spec.address.partition("@")[0]
        return NodeAccount(user=owner, user_name=own, state=node.state, reason=node.reason, reason_messages=told)
    agent = node.accounts.agents.get(login)
    why = node.accounts.why_cordoned(login) or (None if agent is None else agent.resting or agent.why)
    why = None if why is None else sight.said(why)
    return NodeAccount(
        user=owner,
        user_name=login,
        state=None if agent is None else agent.state,
        reason=None if why is None else one_line(str(why)),
        reason_messages=[] if why is None else [message_view(why)],
    )


def _on_wall(view: NodeView) -> NodeView:
    """The node without its address and what somebody wrote of it, or a machine said."""
    return msgspec.structs.replace(
        view,
        address=HIDDEN,
        reason=None,
        reason_messages=[],
        drained=None if view.drained is None else HIDDEN,
        hostname=None,
        python=None,
    )


def sample_on_wall(sample: dict[str, Any]) -> dict[str, Any]:
    """Return a sample without people, folders of file systems, and messages of the driver."""
    return {**without_people(sample), "disks": [], "gpu_fault": ""}


def without_people(sample: dict[str, Any]) -> dict[str, Any]:
    """Return a sample without processes and their users."""
    gpus = [
        {
            **gpu,
            "processes": [{**one, "pid": 0, "user": ""} for one in gpu.get("processes") or () if one.get("launch_id")],
        }
        for gpu in sample.get("gpus") or ()
    ]
    return {**sample, "gpus": gpus}


def one_line(text: str) -> str:
    """The text without line breaks and other blanks in a row."""
    return " ".join(text.split())


def _reservation(core: Core, name: str, sight: Sight) -> NodeReservation | None:
    hold = core.holds.get(name)
    if hold is None:
        return None
    return NodeReservation(hold.task, sorted(hold.gpus), None if sight.hides_others else hold.until)


def _messages(node: Node, closed: tuple[Message, ...]) -> list[MessageView]:
    """Return `reason` for programs: first about the link, then why the node gets no tasks."""
    of_link = node.link_says
    if of_link is None and node.reason is not None:
        of_link = Message("link_said", said=node.reason)
    return [message_view(one) for one in (*(() if of_link is None else (of_link,)), *closed)]


def _sentence(message: Message | None) -> str | None:
    return None if message is None else str(message)


def _reason(node: Node, closed: tuple[Message, ...]) -> str | None:
    because = "; ".join(map(str, closed))
    told = because if node.reason is None else node.reason
    if node.reason is not None and because and because not in node.reason:
        told = f"{node.reason}; {because}"
    return one_line(told) if told else None


def _registry(node: Node) -> Literal["ok", "leaving", "changing"]:
    return "leaving" if "leaving" in node.cordons else "changing" if "changing" in node.cordons else "ok"


def _gpus(node: Node, sight: Sight) -> list[GpuView]:
    """Those that the registry counts, and those that it no longer does and that are held until a task's end."""
    count = len(node.spec.gpu_models)
    surplus = sorted(gpu for gpu in node.gpu_holders if gpu >= count)
    return [_gpu(node, index, sight) for index in (*range(count), *surplus)]


def _gpu(node: Node, index: int, sight: Sight) -> GpuView:
    models, memory = node.spec.gpu_models, node.spec.gpu_memory_mib
    report = node.watch.newest.get(index)
    counted = index < len(models)
    closed = node.why_closed(index) if counted else Message("gpu_not_registered")
    closed = None if closed is None else sight.said(closed)
    foreign = report.foreign if report and not sight.hides_others else ()
    return GpuView(
        index=index,
        model=models[index] if counted else None,
        memory_mib=memory[index] if memory and counted else report.memory_total_mib if report else None,
        memory_used_mib=report.memory_used_mib if report else None,
        utilization=report.utilization if report else None,
        condition=condition(node.aside.get(index), node.why_kept_back(index)) if counted else "unknown",
        health="ok" if closed is None else str(closed),
        health_message=None if closed is None else message_view(closed),
        held_by=sorted({*node.gpu_holders.get(index, ()), *node.used_gpus.get(index, ())}),
        foreign=[Foreign(holder.pid, holder.user, holder.memory_mib) for holder in foreign],
    )
