"""task.places: what would keep a task from starting well, so that who submits it hears of it at once; and `--strict`,
which refuses it for that.

The master itself looks at paths that every machine of the lab has: beneath `root`, and environments in the shared
prefix. A node's own paths are looked at where the task names the node, and as the account that the task would have
there; a folder or an environment also where few nodes could run the task, and all of them can be asked. Where tasks run
as their owners, a node is asked in any case: the master may see more than the owners. Nobody waits for this longer than
`PATIENCE_S`, however many tasks a user submits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from master.core.attempts import preflight
from master.core.attempts.preflight import Finding, Want
from master.core.nodes.inventory import NodeState, obstacle
from master.core.tasks.request import request_of
from master.core.tasks.task import After, Task
from master.nodes import place_question
from master.verbs.access import who
from master.verbs.base import Context
from master.verbs.idempotency import answered
from master.verbs.place_look import Look
from master.verbs.spec import Spec, draft_of
from master.views.messages import MessageView, message_view
from wire.errors import ConflictError, LimitError, MusterError, StorageError
from wire.message import Message

PATIENCE_S = 0.3
"""So long a submit waits for a disk, or a node, to say whether something is there."""
MOST_NODES = 8
"""Where more nodes could run the task, none is asked for a folder of its own: a submit is no flood."""
STRETCHES = 6
"""The patience is had in so many parts: what stops all of this machine for a second takes one of them only."""


_SEARCHED = ("word", "beside")
"""Kinds that are searched along PATH."""


class Places(Spec, kw_only=True, omit_defaults=True):
    """task.places: what a submit says. `commands`: those of a batch, of which the first few are looked at."""

    command: list[str] | str | None = None
    commands: Annotated[list[str], Meta(max_length=1000)] = msgspec.field(default_factory=list)


class Missing(msgspec.Struct, frozen=True):
    """`missing`: what is not there now, or not as it should be, a line each, with what to do; `missing_messages`: the
    same for programs."""

    missing: list[str]
    missing_messages: list[MessageView]


async def places(context: Context, params: Places) -> Missing:
    """Return the faults that would keep such a task from starting well if it started now."""
    commands: list[list[str] | str] = [*params.commands]
    if params.command is not None:
        commands.append(params.command)
    found = await faults(context, draft_of(params, commands[0] if commands else "true", context), commands)
    return Missing(list(map(str, found)), list(map(message_view, found)))


async def strictly(
    context: Context,
    draft: Task,
    commands: Sequence[list[str] | str],
    file: Callable[[Context], Any],
    kind: type[msgspec.Struct],
) -> Any:
    """File a task that has no fault, else raise ConflictError. `file` files it, for the caller as they are by then;
    `kind`: the type of its answer, which is returned."""
    found = await faults(context, draft, commands)
    if found:
        raise ConflictError(Message("strictly_refused", faults=tuple(found)))
    if context.once is not None:  # the same request may have come again meanwhile
        known = answered(context.engine, *context.once, kind)
        if known is not None:
            return known
    return file(msgspec.structs.replace(context, caller=context.caller_now()))


async def faults(context: Context, draft: Task, commands: Sequence[list[str] | str]) -> list[Message]:
    """Return the faults that would keep a task from starting well, or tasks that have these commands in its place."""
    core = context.core
    found = list(preflight.known_faults(draft, commands, partial(_awaited, context)))
    looks = (preflight.unknown_memory, preflight.closed_to_owner)
    found += [why for look in looks if (why := look(draft, core.inventory)) is not None]
    root = context.master.root
    try:
        found += await _in_time(_looked(context, draft, commands))
    except (TimeoutError, StorageError, LimitError):
        found.append(Message("places_unseen", where=_named(draft) or root, seconds=PATIENCE_S))
    except MusterError:
        pass  # the node went meanwhile: nothing is known of what it has
    return found


async def _in_time(looks: Coroutine[Any, Any, list[Message]]) -> list[Message]:
    """Return the findings of `looks`. Raises TimeoutError when its time is over."""
    looking = asyncio.ensure_future(looks)
    try:
        for _ in range(STRETCHES):
            if (await asyncio.wait((looking,), timeout=PATIENCE_S / STRETCHES))[0]:
                return await looking
    finally:
        looking.cancel()
    raise TimeoutError


def _awaited(context: Context, after: After) -> Iterator[Task]:
    return (task for task in context.core.dependencies.awaited(after) if context.sight.knows(task.owner))


async def _looked(context: Context, draft: Task, commands: Sequence[list[str] | str]) -> list[Message]:
    master, somebody = context.master, who(context.caller)
    account = master.run_as(draft.owner)
    as_owner = account is not None and _some_run_as_owners(context)
    named = _named(draft)
    node = _node(context, draft, as_owner=as_owner)
    wants = preflight.wants_of(
        draft, commands, root=master.root, conda=master.conda, on_node=node is not None and node == named
    )
    if "PATH" in draft.variables:
        wants = [want for want in wants if want.kind not in _SEARCHED]
    if not wants or (node is not None and all(want.kind == "beside" for want in wants)):
        return []  # for a hint alone no node is asked
    look = Look(
        master.root,
        str(master.config.task_info),
        master.files.seen_by(somebody).jail.beneath,
        conda=master.conda,
        sees_all=somebody.sees_all,
    )
    own = [want for want in wants if named is None and _is_a_nodes(want, look)]
    nowhere = asyncio.ensure_future(_nowhere(context, own, draft))
    try:
        return [*await _seen(context, node, wants, look, draft), *await nowhere]
    finally:
        nowhere.cancel()


async def _seen(context: Context, node: str | None, wants: list[Want], look: Look, draft: Task) -> list[Message]:
    """Return the faults that this node sees, or the master."""
    master = context.master
    account = master.run_as(draft.owner)
    if node is None:
        if account is not None and _some_run_as_owners(context):
            return []  # nobody can look with the owner's rights now
        if "PATH" in master.config.task_env:
            wants = [want for want in wants if want.kind not in _SEARCHED]
        seen = await master.files.quick.call(master.root, lambda _tick: list(look.findings(wants)))
        return [preflight.told(finding) for finding in seen]
    asked = [want for want in wants if _may_be_asked(want, look, everywhere=node == _named(draft))]
    seen = await _asked(context, node, asked, account)
    return [preflight.told(finding, node) for finding in preflight.once_each(seen)]


def _is_a_nodes(want: Want, look: Look) -> bool:
    """A folder, environment or log that each node has, or has not, for itself."""
    return want.kind in ("folder", "env", "log") and not any(
        look.is_shared(path) or look.is_of_conda(path) or not look.may_name(path) for path in want.paths
    )


async def _nowhere(context: Context, wants: list[Want], draft: Task) -> list[Message]:
    """Return faults for things that none of the nodes that could run the task has, if each of them can be asked: a node
    that is away may have them."""
    nodes, request = context.core.inventory.nodes.values(), request_of(draft)
    able = [node for node in nodes if obstacle(node, request) is None]
    are_there = all(
        node.state is NodeState.ONLINE and node.is_open_to(draft.owner, by_admin=draft.by_admin) for node in able
    )
    if not wants or not 0 < len(able) <= MOST_NODES or not are_there:
        return []
    account = context.master.run_as(draft.owner)
    try:
        async with asyncio.timeout(PATIENCE_S / 2):
            found = await asyncio.gather(*(_asked(context, node.name, wants, account) for node in able))
    except (TimeoutError, MusterError):
        return []  # nothing is known of what they have
    lacking = [finding for finding in found[0] if all(finding in other for other in found[1:])]
    return [preflight.told_of_all(finding, len(able)) for finding in lacking]


def _some_run_as_owners(context: Context) -> bool:
    """Do tasks run as their owners on some node, as far as is known? After a start the notes tell before the nodes."""
    nodes, notes = context.core.inventory.nodes, context.core.notes
    return any(
        (node.facts is not None and node.facts.can_run_as) or (name in notes and notes[name].as_owners)
        for name, node in nodes.items()
    )


def _may_be_asked(want: Want, look: Look, *, everywhere: bool) -> bool:
    """Of one node: what is its own only where the task goes there and nowhere else."""
    return all((everywhere or look.is_shared(path)) and look.may_name(path) for path in want.paths)


def _named(draft: Task) -> str | None:
    """The one node on which it would run, if it says so."""
    if draft.node is not None:
        return draft.node
    said = list(draft.gpus_on) or draft.node_list
    return said[0] if len(said) == 1 else None


def _node(context: Context, draft: Task, *, as_owner: bool) -> str | None:
    """Return the node to ask: the node that the task names, else, where tasks run as their owners, one that can look as
    the owner."""
    nodes = context.core.inventory.nodes
    named = _named(draft)
    if named is not None:
        asked = [nodes[named]] if named in nodes else []
    else:
        asked = [node for node in nodes.values() if as_owner and node.facts is not None and node.facts.can_run_as]
    online = (
        node
        for node in asked
        if node.state is NodeState.ONLINE and node.is_open_to(draft.owner, by_admin=draft.by_admin)
    )
    return next((node.name for node in online), None)


async def _asked(context: Context, node: str, wants: list[Want], account: str | None) -> list[Finding]:
    if not wants:
        return []
    answer = await context.master.fleet.probe(
        node,
        place_question.question(wants),
        cwd="/",
        env=context.master.config.task_env,
        timeout_s=PATIENCE_S,
        run_as=account,
        asker=context.caller.counted_as,
    )
    found = place_question.read_answer(wants, answer["output"])
    if found is None:
        raise TimeoutError
    return found
