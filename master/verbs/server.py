"""The verbs about the master itself."""

from __future__ import annotations

import os
from collections import Counter
from itertools import starmap
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict, replace

from master.config.conf_file import Privacy
from master.core.core import Core
from master.core.nodes.inventory import NodeState
from master.core.nodes.notes import Note
from master.core.tasks.task import TaskState
from master.durable.salvage import Loss
from master.edited_files.ownership import user_name
from master.loop.stalls import LoopTimes
from master.verbs.about import About, ClosedNodes, FailingHook, on_wall
from master.verbs.base import Context, Done, Nothing
from master.verbs.clock import ClockTrouble
from master.verbs.quotas import ShareView, UserShare, share_view, user_share
from master.verbs.settings import SettingView, outranking
from master.views.sight import HIDDEN
from wire.client import PROTOCOL_VERSION
from wire.errors import ConflictError
from wire.harmless import harmless
from wire.message import Message, names

_MOST_NAMES = 4


class Info(About, kw_only=True):
    """Which master this is, what it was started with, and how it goes. Paths are absolute, `started_at` is in seconds
    since the epoch. A `registry_fault`, `store_fault` or `compaction_fault` tells what is wrong, or is null.
    `ids_fault`: why the queue's file `ids` cannot be written, and what follows, or null.
    `damage`: what was lost, or may have been, since `server.seen`: `key` and `args` of the sentence `what`, which are
    null if an earlier version found it; `unsaved`: ids of tasks whose newest change is not written yet; `warned`: ids
    of tasks that do nothing. `tasks` and `nodes` are numbers by state; `user` is who asks;
    `privacy`: what people see of others' tasks. `clock`: what is the matter with the master's clock. `loop`: how long
    others wait for their turn, for admins and the programs around the master. `closed_nodes`: nodes that users' tasks
    never run on, for admins. `conf_outranked`: the settings that conf.json gives another value than was set since, for
    admins and the programs around the master. `failing_hooks`: the hooks whose events wait or are refused, for admins.
    `share`: of the caller's tasks in the queue, null without a user. For admins and the programs around the master
    `filled` is the same of all tasks together, and `near_shares` has the users who take four fifths or more of what
    they may."""

    protocol: int
    user: str
    privacy: Privacy
    store_fault: str | None
    compaction_fault: str | None
    ids_fault: str | None
    damage: list[Loss]
    unsaved: list[int]
    tasks: dict[TaskState, int]
    warned: list[int]
    nodes: dict[NodeState, int]
    clock: list[ClockTrouble]
    loop: LoopTimes | UnsetType = UNSET
    closed_nodes: list[ClosedNodes]
    conf_outranked: list[SettingView]
    failing_hooks: list[FailingHook]
    share: ShareView | None
    filled: ShareView | UnsetType = UNSET
    near_shares: list[UserShare]


class Hello(msgspec.Struct, forbid_unknown_fields=True):
    """server.hello: the identity of the `lab` that is meant, as the file beside its conf.json has it, empty for none;
    from the master's own machine also the real path of that `conf`, and its device and inode (`file`, `64:17`)."""

    lab: Annotated[str, Meta(max_length=64)] = ""
    conf: Annotated[str, Meta(max_length=4096)] = ""
    file: Annotated[str, Meta(max_length=64)] = ""


class Greeted(msgspec.Struct, frozen=True):
    """The identity of the `lab` that the master is of; empty where it could not be written beside conf.json."""

    lab: str


def hello(context: Context, params: Hello) -> Greeted:
    """Say which lab is meant, before anything else. The master of another lab refuses it (`conflict`), and everything
    after it on this connection, so that a request may follow without waiting for the answer."""
    lab = context.master.lab
    if lab.is_meant(params.lab, params.conf, params.file):
        return Greeted(lab.identity)
    may_know = context.caller.user is not None and not context.sight.is_wall
    error = ConflictError(Message("other_lab", lab=harmless(lab.conf)) if may_know else Message("unnamed_lab"))
    if context.turn_away is not None:
        context.turn_away(error)
    raise error


def info(context: Context, _params: Nothing) -> Info:
    """Version, ports, and the whole at a glance."""
    core, store = context.core, context.engine.store
    if store.fault is not None:
        store.probe()  # who asks how it goes wants to know how it goes now
    is_wall = context.sight.is_wall
    about = context.master.about()
    if not _looks_after(context):
        # Names of admins, addresses of people's PCs, and words of conf.json, which may be a secret in a wrong place.
        fault = None if about.conf_fault is None else HIDDEN
        about = replace(about, desktop_closed=[], conf_fault=fault, conf_at_start=[])
    return Info(
        **asdict(on_wall(about) if is_wall else about),
        protocol=PROTOCOL_VERSION,
        user=context.user,
        privacy=context.master.config.privacy,
        store_fault=_said(context, store.fault),
        compaction_fault=_said(context, context.engine.compacting.fault),
        ids_fault=_said(context, store.ids_fault),
        damage=[] if is_wall else store.damage,
        unsaved=_known(context, sorted(core.unsaved)),
        tasks={state: core.counts[state] for state in TaskState},
        warned=_known(context, core.warned()),
        nodes=Counter(node.state for node in core.inventory.nodes.values()),
        clock=[] if is_wall else list(map(ClockTrouble.of, core.clock.troubles(context.now))),
        loop=(context.master.loop_times() or UNSET) if _looks_after(context) else UNSET,
        closed_nodes=_closed_nodes(context) if context.caller.role == "admin" else [],
        conf_outranked=outranking(context) if _looks_after(context) else [],
        failing_hooks=_failing_hooks(context) if _looks_after(context) else [],
        share=None if context.caller.user is None or is_wall else share_view(core.share_of(context.caller.user)),
        filled=share_view(core.whole_share()) if _looks_after(context) else UNSET,
        near_shares=list(starmap(user_share, core.near_shares().items())) if _looks_after(context) else [],
    )


def _failing_hooks(context: Context) -> list[FailingHook]:
    return [FailingHook.of(why) for why in context.master.failing_hooks()]


def _closed_nodes(context: Context) -> list[ClosedNodes]:
    core = context.core
    nodes, users = core.own_account.kept_out(context.now)
    nodes = [name for name in nodes if _is_known_closed(core, name)]
    if not nodes:
        return []
    account = user_name(os.geteuid())
    closed, kept_out = names(nodes, _MOST_NAMES), names(users, _MOST_NAMES)
    return [ClosedNodes.of(Message("own_account_closed", account=account, nodes=closed, users=kept_out))]


def _is_known_closed(core: Core, name: str) -> bool:
    """Is the node still there? And after a start a node counts as closed until its agent has said that tasks run as
    their owners there; the notes remember that it did."""
    node = core.inventory.nodes.get(name)
    return node is not None and (node.facts is not None or not core.notes.get(name, Note()).as_owners)


def _looks_after(context: Context) -> bool:
    """Is the caller one to whom it matters how the master is made?"""
    return context.caller.role == "admin" or context.caller.via == "service"


def _said(context: Context, fault: Message | None) -> str | None:
    """Return the fault as the caller may see it: on a wall only that there is one, because the text names paths."""
    if fault is None:
        return None
    return HIDDEN if context.sight.is_wall else str(fault)


def _known(context: Context, ids: list[int]) -> list[int]:
    """Those of which the caller may know more than that they are there."""
    tasks, sight = context.core.tasks, context.sight
    return [one for one in ids if one in tasks and sight.knows(tasks[one].owner)] if sight.hides_others else ids


def seen(context: Context, _params: Nothing) -> Done:
    """Note that somebody has seen the `damage` that `server.info` tells; from then on it does not tell it."""
    context.change(context.core.forget_damage)
    return Done()


def stop(context: Context, _params: Nothing) -> Done:
    """End the master, after this answer. Tasks run on."""
    context.engine.reply(lambda _error: context.master.stop())
    return Done()
