"""The verbs about nodes: looking, changing the registry, setting a node aside, trusting its key, giving it up.

The fleet and the core apply a change to links and tasks; `registry_file` changes the file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from master.core.nodes.facts import NodeState
from master.core.nodes.gpu_watch import BY_HAND
from master.core.nodes.notes import Note
from master.nodes import registry_file
from master.nodes.registry import NodeConfig, check_address, check_entry, check_keys
from master.nodes.same_account import check_company
from master.secrets.inline_secrets import check_registry
from master.secrets.visible_secrets import check_not_visible
from master.verbs.base import Context, Nothing
from master.views.nodes import NodePage, NodeView, account_views, node_view, one_line
from wire.errors import BadRequestError, ConfigError, ConflictError, ForbiddenError
from wire.message import Message

Reason = Annotated[str, Meta(max_length=200)]
Gpus = Annotated[list[Annotated[int, Meta(ge=0)]], Meta(min_length=1)]


NodeName = Annotated[str, Meta(examples=["gpu7"])]


class OneNode(msgspec.Struct, forbid_unknown_fields=True):
    """A node by its name."""

    name: NodeName


class Add(msgspec.Struct, forbid_unknown_fields=True):
    """node.add: an entry of the registry, with the keys that it has there."""

    node: Annotated[dict[str, Any], Meta(examples=[{"name": "gpu7", "ip": "10.0.0.7", "gpu_count": 8}])]


class Edit(OneNode, forbid_unknown_fields=True):
    """node.edit: keys of the entry with their new values; null takes a key out."""

    changes: Annotated[dict[str, Any], Meta(examples=[{"slots": 4}])]


class Drain(OneNode, forbid_unknown_fields=True):
    """node.drain: `reason` is for people. `gpus`: only these, by index; without, the whole node."""

    reason: Reason = ""
    gpus: Gpus | None = None


class Resume(OneNode, forbid_unknown_fields=True):
    """node.resume: `gpus`: these, by index, that were set aside; without, the node that was drained. `own_account`: let
    everybody's tasks run again on a node whose tasks have the master's own account; nothing else is resumed then."""

    gpus: Gpus | None = None
    own_account: bool = False


class GiveUp(OneNode, forbid_unknown_fields=True):
    """node.lost: `account`: only what runs over this SSH account of the node, by its name there; without, all that
    cannot be heard of."""

    account: Annotated[str, Meta(min_length=1, max_length=64, examples=["li2"])] | None = None


class NodeAdded(msgspec.Struct, frozen=True):
    """The node that was added. `needs_trust`: its host key is not known yet, `node.trust` comes next."""

    node: NodeView
    needs_trust: bool


class NodeEdited(msgspec.Struct, frozen=True):
    """The node that was changed. `deferred`: it leads elsewhere now, and is followed once its `tasks` have ended."""

    node: NodeView
    deferred: bool
    tasks: list[int]


class NodeRemoved(msgspec.Struct, frozen=True):
    """`leaving`: `tasks` run there; the node goes when the last of them has ended."""

    name: str
    leaving: bool
    tasks: list[int]


class Lost(msgspec.Struct, frozen=True):
    """`lost`: ids of the tasks that were given up."""

    lost: list[int]


def list_nodes(context: Context, _params: Nothing) -> list[NodeView]:
    """All nodes, in the registry's order."""
    return [_view(context, name) for name in context.core.inventory.nodes]


def show(context: Context, params: OneNode) -> NodePage:
    """One node, with what its entry in `node.list` leaves out."""
    config = context.master.fleet.configs.get(params.name)
    note = context.core.notes.get(params.name, Note())
    facts = context.core.node(params.name).facts
    return NodePage(
        **asdict(_view(context, params.name)),
        user_name=config.user_name if config else None,
        account=(facts.account or None) if facts else None,
        can_run_as=facts.can_run_as if facts else False,
        accounts=account_views(context.core.node(params.name), context.sight),
        port=config.port if config and config.traits.is_over_ssh else None,
        labels=config.labels if config else {},
        drained_by=note.by or None,
        drained_at=note.at or None,
    )


def _view(context: Context, name: str) -> NodeView:
    return node_view(context.core, context.core.node(name), context.master.fleet.configs.get(name), context.sight)


# -- the registry ---------------------------------------------------------------------------------------------


async def add(context: Context, params: Add) -> NodeAdded:
    """Write a node into the registry."""
    check_entry(params.node)
    nodes = await _change(context, registry_file.add, params.node)
    config = nodes[-1]
    return NodeAdded(_view(context, config.name), await _needs_trust(context, config))


async def edit(context: Context, params: Edit) -> NodeEdited:
    """Change a node's entry in the registry."""
    if not params.changes:
        raise BadRequestError(Message("no_changes"))
    check_keys(params.changes)
    check_address(params.changes.get("ip"))
    await _change(context, registry_file.edit, params.name, params.changes)
    view = _view(context, params.name)
    return NodeEdited(view, deferred=view.registry == "changing", tasks=view.tasks)


async def remove(context: Context, params: OneNode) -> NodeRemoved:
    """Take a node out of the registry; a busy one goes when its last task has ended."""
    await _change(context, registry_file.remove, params.name)
    context.change(lambda: context.core.forget_note(params.name), grows=False)
    node = context.core.inventory.nodes.get(params.name)
    return NodeRemoved(params.name, leaving=node is not None, tasks=sorted(node.active) if node else [])


async def _change(context: Context, change: Callable[..., tuple[NodeConfig, ...]], *words: Any) -> Any:
    """Change the file in a thread. That thread tells the fleet, before anybody else may change the file: changes
    then take effect in the order in which they were written."""
    loop, fleet = asyncio.get_running_loop(), context.master.fleet

    def told(nodes: tuple[NodeConfig, ...]) -> None:
        loop.call_soon_threadsafe(fleet.apply, nodes)

    config, is_shared = context.master.config, context.core.people.is_shared

    def check(nodes: tuple[NodeConfig, ...]) -> None:
        check_company(nodes, config.desktop_client, config.path)
        check_not_visible(config, nodes, users=is_shared)
        check_registry(nodes, config.registry)

    return await asyncio.to_thread(change, config.registry, *words, check=check, told=told)


async def _needs_trust(context: Context, config: NodeConfig) -> bool:
    if not config.traits.is_over_ssh:
        return False
    try:
        return await context.master.fleet.host_keys.known(config.name) is None
    except ConfigError:
        return True  # the known keys cannot be read: the entry is written all the same, and the node's reason tells


# -- setting aside --------------------------------------------------------------------------------------------


def drain(context: Context, params: Drain) -> NodeView:
    """Let a node finish what it has and take nothing new; or only some of its GPUs, whose tasks run on."""
    core = context.core
    reason = one_line(params.reason)
    if params.gpus is not None:
        return _set_aside(context, params.name, params.gpus, reason)
    context.change(lambda: core.drain(params.name, reason, context.user, context.now), grows=False)
    return _view(context, params.name)


def resume(context: Context, params: Resume) -> NodeView:
    """Undo `drain`; or return GPUs that were set aside, by whomever; or open a node that runs admins' tasks only."""
    if params.own_account:
        return _open(context, params)
    node = context.core.node(params.name)
    if params.gpus is not None:
        return _return(context, params.name, params.gpus)
    note = context.core.notes.get(params.name, Note())
    if note.drained is None and note.sick is None and not node.spec.schedulable:
        raise ConflictError(Message("not_drained_but_closed", node=params.name))
    context.change(lambda: context.core.resume(params.name), grows=False)
    return _view(context, params.name)


def _open(context: Context, params: Resume) -> NodeView:
    if params.gpus is not None:
        raise BadRequestError(Message("own_account_alone"))
    if "admin" not in context.caller.scopes:  # whoever has a task there could command the queue
        scopes = tuple(sorted(context.caller.scopes))
        raise ForbiddenError(
            Message("needs_scope", verb="node.resume", scope="admin", user=context.caller.user, scopes=scopes)
        )
    core, name = context.core, params.name
    if core.node(name).state is not NodeState.ONLINE:  # its agent may turn out to be root
        raise ConflictError(Message("own_account_not_online", node=name))

    def change() -> None:
        core.own_account.open(name, context.now)
        core.people.look_again()

    context.change(change)
    return _view(context, name)


def _set_aside(context: Context, name: str, gpus: list[int], reason: str) -> NodeView:
    core = context.core
    told = f"{BY_HAND}{context.user}" + (f": {reason}" if reason else "")

    def change() -> None:
        # The highest first: one that the node does not have is refused before anything has changed.
        for gpu in sorted(set(gpus), reverse=True):
            core.set_aside(name, gpu, told)

    context.change(change, grows=False)
    return _view(context, name)


def _return(context: Context, name: str, gpus: list[int]) -> NodeView:
    core = context.core

    def change() -> None:
        # Those that are not set aside first: they are refused before anything has changed.
        aside = core.notes.get(name, Note()).aside
        for gpu in sorted(set(gpus), key=lambda gpu: gpu in aside):
            core.return_gpu(name, gpu)

    context.change(change, grows=False)
    return _view(context, name)


def lost(context: Context, params: GiveUp) -> Lost:
    """Give up what runs on a node that will not come back, or over an account there that will not."""
    core, name, account = context.core, params.name, params.account
    if account is None:
        return Lost(context.change(lambda: core.give_up(name, context.user, context.now), grows=False))
    return Lost(context.change(lambda: core.give_up_account(name, account, context.user, context.now), grows=False))
