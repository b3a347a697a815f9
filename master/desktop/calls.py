"""From a request of the desktop client to a verb: what all requests have in common, and the one place that says what
its user may change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from master.core.task import Task
from master.verbs.base import Context
from master.verbs.table import VERBS
from wire.errors import BadRequestError, ForbiddenError, MusterError

Reply = tuple[str, Any]
"""The mode of the reply and its `info`."""


class Kind(msgspec.Struct, frozen=True):
    """One request of the client. `refuse(info, text)` is the reply that shows the text; `changes`: it is carried out
    although the client has left meanwhile; after `limit_s` seconds it is refused, whatever became of it. `rated`: the
    verb whose rate it counts against, if it has one. `begins(context, info)`: whether it may be the first of several
    that belong together, and are to be carried out at one instant."""

    handle: Callable[[Context, Any], Reply | Awaitable[Reply]]
    refuse: Callable[[Any, str], Reply]
    changes: bool = False
    limit_s: float = 30.0
    rated: str = ""
    begins: Callable[[Context, Any], bool] | None = None


def call(context: Context, verb: str, params: dict[str, Any]) -> Any:
    """Call a verb by its name. Raises MusterError; gives what the verb gives, which may be something to await."""
    entry = VERBS[verb]
    try:
        return entry.handle(context, msgspec.convert(params, entry.params))
    except msgspec.ValidationError as error:
        raise BadRequestError(str(error).replace("$.", "")) from None


def check_may_change(context: Context, task: Task) -> None:
    """Raise ForbiddenError if the desktop client's user may not change this task. In the system that the client was
    made for everybody changed everything, and its tables offer it for every row: so all are its own."""
    if not context.user:
        raise ForbiddenError(f"task {task.id} is {task.owner}'s")


async def durable(context: Context) -> None:
    """Wait until all that has happened is durable. Raises StoreUnavailableError."""
    settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def leave(error: MusterError | None) -> None:
        if not settled.done():
            if error is None:
                settled.set_result(None)
            else:
                settled.set_exception(error)

    context.engine.reply(leave)
    await settled
