"""The verb about the master's clock: somebody says that it is right, after it was wrong."""

from __future__ import annotations

import msgspec

from master.verbs.base import Context, Nothing
from master.views.messages import MessageView
from wire.errors import ForbiddenError
from wire.message import Message, sentence


class ClockTrouble(MessageView, frozen=True, gc=False):
    """A problem of the master's clock that people have to look at: `text` is the sentence of `key` and `args`
    (docs/wire.md, Messages)."""

    text: str

    @classmethod
    def of(cls, why: Message) -> ClockTrouble:
        """The same for clients."""
        return cls(why.key, why.plain_args(), sentence(why))


class ClockAccepted(msgspec.Struct, frozen=True):
    """`now`: what the clock shows; `was`: the latest time that was seen before (seconds since the epoch). `ended`: how
    many log-ins, tokens and links had ended by that time, and stay so; `users`: the names of those who had, and come
    back; `tasks`: the ids of theirs that wait again."""

    was: float
    now: float
    ended: int
    users: list[str]
    tasks: list[int]


def accept(context: Context, _params: Nothing) -> ClockAccepted:
    """Let rights end by what the master's clock shows, though it showed a later time before. Users who had expired come
    back with their waiting tasks, no log-in, token or link does. For the account that runs the master, and root."""
    if context.caller.via != "owner":
        raise ForbiddenError(Message("clock_for_owner"))
    found = context.change(lambda: context.core.accept_clock(context.now), grows=False)
    fleet = context.master.fleet
    for name, config in fleet.configs.items():
        if config.traits.dials_in:
            context.engine.reply(lambda _error, name=name: fleet.agents.tokens_changed(name))  # type: ignore[misc]
    return ClockAccepted(found.was, context.now, found.ended, found.users, found.tasks)
