"""The verbs about nodes: looking, changing the registry, setting a node aside, trusting its key, giving it up.

What a change means for links and tasks is the fleet's and the core's; how the file is changed, `registry_file`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from master.core.cordon import Note
from master.nodes import registry_file
from master.nodes.registry import NodeConfig, check_entry, check_keys
from master.verbs.base import Context, Nothing
from master.verbs.node_view import node_view, one_line
from wire.errors import BadRequestError, ConfigError, ConflictError, NodeUnreachableError, StorageError

if TYPE_CHECKING:
    from master.nodes.driver import OfferedKey

Reason = Annotated[str, Meta(max_length=200)]
Gpus = Annotated[list[Annotated[int, Meta(ge=0)]], Meta(min_length=1)]


class OneNode(msgspec.Struct, forbid_unknown_fields=True):
    """A node by its name."""

    name: str


class Add(msgspec.Struct, forbid_unknown_fields=True):
    """node.add: an entry of the registry, with the keys that it has there."""

    node: dict[str, Any]


class Edit(OneNode, forbid_unknown_fields=True):
    """node.edit: keys of the entry with their new values; null takes a key out."""

    changes: dict[str, Any]


class Drain(OneNode, forbid_unknown_fields=True):
    """node.drain: `reason` is for people. `gpus`: only these, by index; without, the whole node."""

    reason: Reason = ""
    gpus: Gpus | None = None


class Resume(OneNode, forbid_unknown_fields=True):
    """node.resume: `gpus`: these, by index, that were set aside; without, the node that was drained."""

    gpus: Gpus | None = None


class Trust(OneNode, forbid_unknown_fields=True):
    """node.trust: with the fingerprint that somebody has looked at; without, nothing is pinned."""

    fingerprint: str | None = None


def list_nodes(context: Context, _params: Nothing) -> list[dict[str, Any]]:
    """All nodes, in the registry's order."""
    return [_view(context, name) for name in context.core.inventory.nodes]


def show(context: Context, params: OneNode) -> dict[str, Any]:
    """One node, with what its list entry leaves out."""
    view = _view(context, params.name)
    config = context.master.fleet.configs.get(params.name)
    note = context.core.notes.get(params.name, Note())
    return {
        **view,
        "user_name": config.user_name if config else None,
        "port": config.port if config and config.driver == "ssh" else None,
        "labels": config.labels if config else {},
        "drained_by": note.by or None,
        "drained_at": note.at or None,
    }


def _view(context: Context, name: str) -> dict[str, Any]:
    return node_view(context.core.node(name), context.core, context.master.fleet)


# -- the registry ---------------------------------------------------------------------------------------------


async def add(context: Context, params: Add) -> dict[str, Any]:
    """Write a node into the registry. `needs_trust`: its host key is not known yet, `node.trust` comes next."""
    check_entry(params.node)
    nodes = await _change(context, registry_file.add, params.node)
    config = nodes[-1]
    return {"node": _view(context, config.name), "needs_trust": await _needs_trust(context, config)}


async def edit(context: Context, params: Edit) -> dict[str, Any]:
    """Change a node's entry. `deferred`: it leads elsewhere now, and is followed once the node's tasks have ended."""
    if not params.changes:
        raise BadRequestError("changes: expected at least one key with its new value (null takes the key out)")
    check_keys(params.changes)
    await _change(context, registry_file.edit, params.name, params.changes)
    view = _view(context, params.name)
    return {"node": view, "deferred": view["registry"] == "changing", "tasks": view["tasks"]}


async def remove(context: Context, params: OneNode) -> dict[str, Any]:
    """Take a node out of the registry. `leaving`: tasks run there; it goes when the last of them has ended."""
    await _change(context, registry_file.remove, params.name)
    context.engine.client_change(lambda: context.core.forget_note(params.name), grows=False)
    node = context.core.inventory.nodes.get(params.name)
    return {"name": params.name, "leaving": node is not None, "tasks": sorted(node.active) if node else []}


async def _change(context: Context, change: Callable[..., tuple[NodeConfig, ...]], *words: Any) -> Any:
    """Change the file in a thread. The fleet is told from there, before anybody else may change the file: changes
    then take effect in the order in which they were written."""
    loop, fleet = asyncio.get_running_loop(), context.master.fleet

    def told(nodes: tuple[NodeConfig, ...]) -> None:
        loop.call_soon_threadsafe(fleet.apply, nodes)

    return await asyncio.to_thread(change, context.master.config.registry, *words, told=told)


async def _needs_trust(context: Context, config: NodeConfig) -> bool:
    if config.driver != "ssh":
        return False
    try:
        return await context.master.fleet.known_key(config.name) is None
    except ConfigError:
        return True  # the known keys cannot be read: the entry is written all the same, and the node's reason tells


# -- setting aside --------------------------------------------------------------------------------------------


def drain(context: Context, params: Drain) -> dict[str, Any]:
    """Let a node finish what it has and take nothing new; or only some of its GPUs, whose tasks run on."""
    core = context.core
    reason = one_line(params.reason)
    if params.gpus is not None:
        return _set_aside(context, params.name, params.gpus, reason)
    context.engine.client_change(lambda: core.drain(params.name, reason, context.user, context.now), grows=False)
    return _view(context, params.name)


def resume(context: Context, params: Resume) -> dict[str, Any]:
    """Undo `drain`; or return GPUs that were set aside, by whomever."""
    node = context.core.node(params.name)
    if params.gpus is not None:
        return _return(context, params.name, params.gpus)
    if context.core.notes.get(params.name, Note()).drained is None and not node.spec.schedulable:
        raise ConflictError(
            f"node {params.name} is not drained; `schedulable` is false in the registry: "
            f"`muster node edit {params.name} schedulable=`"
        )
    context.engine.client_change(lambda: context.core.resume(params.name), grows=False)
    return _view(context, params.name)


def _set_aside(context: Context, name: str, gpus: list[int], reason: str) -> dict[str, Any]:
    core = context.core
    told = f"set aside by {context.user}" + (f": {reason}" if reason else "")

    def change() -> None:
        # The highest first: one that the node does not have is refused before anything has changed.
        for gpu in sorted(set(gpus), reverse=True):
            core.set_aside(name, gpu, told)

    context.engine.client_change(change, grows=False)
    return _view(context, name)


def _return(context: Context, name: str, gpus: list[int]) -> dict[str, Any]:
    core = context.core

    def change() -> None:
        # Those that are not set aside first: they are refused before anything has changed.
        aside = core.notes.get(name, Note()).aside
        for gpu in sorted(set(gpus), key=lambda gpu: gpu in aside):
            core.return_gpu(name, gpu)

    context.engine.client_change(change, grows=False)
    return _view(context, name)


def lost(context: Context, params: OneNode) -> dict[str, Any]:
    """Give up what runs on a node that will not come back."""
    core = context.core
    change = context.engine.client_change
    return {"lost": change(lambda: core.give_up(params.name, context.user, context.now), grows=False)}


# -- host keys ------------------------------------------------------------------------------------------------


async def trust(context: Context, params: Trust) -> dict[str, Any]:
    """The key that a node's machine shows and the one we know; pinned if its fingerprint is the one that is given."""
    fleet, name = context.master.fleet, params.name
    try:
        offered = await fleet.host_key(name)
    except NodeUnreachableError as error:
        # Not `unreachable`: that says of a command that there is no master.
        raise ConflictError(f"node {name} shows no host key: {error}") from None
    known = await fleet.known_key(name)
    if params.fingerprint is not None:
        _check_fingerprint(name, offered, params.fingerprint)
        if known != offered.fingerprint:
            await _pin(context, name, offered)
    return {
        "name": name,
        "offered": {"type": offered.type, "fingerprint": offered.fingerprint},
        "known": known,
        "pinned": params.fingerprint is not None or known == offered.fingerprint,
    }


def _check_fingerprint(name: str, offered: OfferedKey, expected: str) -> None:
    if offered.fingerprint != expected.strip().rstrip("="):
        raise ConflictError(
            f"node {name} shows {offered.fingerprint}, not {one_line(expected)}: nothing was pinned; "
            "`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the machine itself tells which is right"
        )


async def _pin(context: Context, name: str, offered: OfferedKey) -> None:
    fleet = context.master.fleet
    if name in fleet.configs and fleet.configs[name].host_key is not None:
        raise ConflictError(
            f"node {name}: `host_key` in the registry names another key, and goes before what is pinned: "
            f"`muster node edit {name} host_key={offered.fingerprint}`, or `host_key=` to drop it"
        )
    try:
        await fleet.pin(name, offered)
    except OSError as error:
        raise StorageError(f"{error.filename}: the key cannot be written down: {error.strerror}") from None
