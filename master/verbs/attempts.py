"""The verbs about attempts of unknown origin: what runs on a node and of which the lab lost the records."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from master.core.attempts.unknown_attempts import UnknownAttempt, task_of
from master.core.tasks.task import FIRST_FOREIGN_ID, TaskView
from master.verbs.base import Context
from master.verbs.nodes import OneNode
from wire.errors import NotFoundError, StorageError

LaunchId = Annotated[str, Meta(min_length=1, max_length=256, examples=["12.1.5f0c2a9b"])]
Account = Annotated[str, Meta(max_length=64, examples=["li2"])]
Gpus = Annotated[list[Annotated[int, Meta(ge=0)]], Meta(max_length=1024)]


class EndAttempt(OneNode, forbid_unknown_fields=True):
    """node.end_attempt: `name`: the node; `launch_id`: which attempt there; `account`: as which it runs, as
    node.attempts tells it, where agents of several accounts say that they have it."""

    launch_id: LaunchId
    account: Account | None = None


class DismissAttempt(OneNode, forbid_unknown_fields=True):
    """node.dismiss_attempt: `name`: the node; `launch_id`: which attempt there; `account`: as for node.end_attempt."""

    launch_id: LaunchId
    account: Account | None = None


class Adopt(OneNode, forbid_unknown_fields=True):
    """node.adopt: `name`: the node; `launch_id`: which attempt there; `gpus`: by index those that it has, where nobody
    knows; `owner`: the user whose task it is, without that the one as whose account it runs, or else the caller;
    `account`: as for node.end_attempt."""

    launch_id: LaunchId
    gpus: Gpus | None = None
    owner: str | None = None
    account: Account | None = None


class UnknownAttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt of unknown origin. `task`: the id of the task whose it was, as its launch id says, null where that
    says none; `name`: the task's, "" where nobody knows; `account`: as which it runs, "": the agent's own. `gpus`: by
    index, null where nobody knows: then its node takes no new tasks. `pid`: its command's, null before that runs.
    `started_at`, by the node's clock, and `since`, when the master first heard of it: seconds since the epoch.
    `log_path`: null where nobody knows. `ended_by`: who had it ended, null for nobody; `dismissed_by`: who said that it
    is to hold nothing."""

    node: str
    launch_id: str
    task: int | None
    name: str
    account: str
    gpus: list[int] | None
    pid: int | None
    started_at: float | None
    since: float
    log_path: str | None
    ended_by: str | None
    dismissed_by: str | None


def of_node(context: Context, params: OneNode) -> list[UnknownAttemptView]:
    """The attempts on a node whose records the lab lost, the oldest first."""
    context.core.node(params.name)
    return [_view(params.name, one) for one in context.core.unknown_on(params.name)]


def end(context: Context, params: EndAttempt) -> UnknownAttemptView:
    """Have such an attempt ended; it keeps its GPUs until its node says that it is over."""
    core = context.core
    one = context.change(
        lambda: core.end_unknown(params.name, params.launch_id, context.user, params.account), grows=False
    )
    return _view(params.name, one)


def dismiss(context: Context, params: DismissAttempt) -> UnknownAttemptView:
    """Leave such an attempt alone, and let it hold no GPU but those on which it is seen to compute."""
    core = context.core
    one = context.change(
        lambda: core.dismiss_unknown(params.name, params.launch_id, context.user, params.account), grows=False
    )
    return _view(params.name, one)


async def adopt(context: Context, params: Adopt) -> TaskView:
    """Make such an attempt a task again, of the same id where that is free."""
    core = context.core
    is_archived = await _is_archived(context, task_of(params.launch_id))
    task = context.change(
        lambda: core.adopt(
            params.name,
            params.launch_id,
            params.gpus,
            by=context.user,
            now=context.now,
            log_folder=str(context.master.log_folder),
            owner=params.owner,
            account=params.account,
            is_archived=is_archived,
        )
    )
    return context.view(task)


async def _is_archived(context: Context, task_id: int | None) -> bool:
    """May a task of this id be in the monthly files? Where they cannot be read, it may."""
    if task_id is None or task_id in context.core.tasks or task_id >= FIRST_FOREIGN_ID:
        return False
    try:
        await context.engine.archive.find(task_id)
    except NotFoundError:
        return False
    except StorageError:
        return True
    return True


def _view(node: str, one: UnknownAttempt) -> UnknownAttemptView:
    return UnknownAttemptView(
        node=node,
        launch_id=one.launch_id,
        task=task_of(one.launch_id),
        name=one.name,
        account=one.account,
        gpus=None if one.gpus is None else list(one.gpus),
        pid=one.pid or None,
        started_at=one.started_at,
        since=one.since,
        log_path=one.log_path or None,
        ended_by=one.ended_by or None,
        dismissed_by=one.dismissed_by or None,
    )
