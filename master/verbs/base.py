"""Verbs, and what they may use.

A verb is a function of a Context and its typed parameters; it gives the result, or something to await for it (for
work that may block, which it does in a thread), or a generator that does work in slices, yields between them, and
returns the result (for what takes longer than others may wait). The table of all verbs is `master.verbs.table`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from master.core.core import Core
from master.core.people.clock import RightsTime
from master.core.people.people import Scope
from master.core.tasks.task import Task, TaskState, TaskView
from master.engine.engine import Engine
from master.verbs.access import Caller, Identify, Least, Whose
from master.verbs.idempotency import answer_to
from master.verbs.surroundings import Surroundings
from master.views.sight import Sight
from master.views.tasks import task_view
from wire.errors import MusterError

T = TypeVar("T")


Told = Literal["tasks", "nodes"]
"""The subjects of a subscription."""


class PushChannel(Protocol):
    """A connection, as what it can be told without asking."""

    @property
    def tells(self) -> Told | None:
        """The subject that its session can tell of; None if there is none."""

    def begin(self, only: frozenset[int] | None, *, in_slices: bool) -> None:
        """Tell what changes from now on, of these tasks or of all. `in_slices`: the call's answer is made in slices,
        and goes first."""

    def end(self) -> None:
        """Tell nothing more: the listener is another one now, or gone."""


class Context(msgspec.Struct, frozen=True):
    """One call: who calls, and what may be used to answer.

    `core`: the state; changed only through `change`. `now`: seconds since the epoch. `sight`: what the caller sees of
    others' tasks. `past`: how tasks ended that the call names and the core does not hold any more. `channel`: the
    connection that `subscribe` begins to tell. `once`: the request's id and parameters, where it may be sent again
    under this id. `become`: the caller has logged in, and is that user from now on. `turn_away`: refuse everything that
    comes over this connection from now on. `still`: returns the caller now, or raises if they may not call this verb
    any more; called where people changed since `seen`, their version.
    """

    engine: Engine
    core: Core
    master: Surroundings
    caller: Caller
    now: float
    sight: Sight
    past: Mapping[int, TaskState] = MappingProxyType({})
    channel: PushChannel | None = None
    once: tuple[str, msgspec.Struct] | None = None
    become: Callable[[Identify], Caller] | None = None
    turn_away: Callable[[MusterError], None] | None = None
    still: Callable[[], Caller] | None = None
    seen: int = 0

    def change(self, change: Callable[[], T], *, grows: bool = True) -> T:
        """Let the core change something, see `Engine.client_change`; `change` gives the answer, which is remembered
        with what changed if the request has an id. Raises StoreUnavailableError while the disk takes no writes, and the
        error for a caller who lost access while the call waited for something."""
        once, core = self.once, self.core
        self.caller_now()
        if once is None:
            return self.engine.client_change(change, grows=grows)

        def remembered() -> T:
            result = change()
            core.remember_answer(once[0], answer_to(once[1], result))
            return result

        return self.engine.client_change(remembered, grows=grows)

    def view(self, task: Task) -> TaskView:
        """The task as the caller sees it."""
        return task_view(self.core, task, self.sight)

    def caller_now(self) -> Caller:
        """Return the caller now, for a verb that waited. Raises what the entry point does if access ended."""
        if self.still is None or self.seen == self.core.people.version:
            return self.caller
        return self.still()

    @property
    def rights_now(self) -> RightsTime:
        """The time by which rights end: of the call, unless the clock was set back."""
        return self.core.clock.rights(self.now)

    @property
    def user(self) -> str:
        """The name of the caller."""
        return self.caller.user or ""


class Verb(msgspec.Struct, frozen=True):
    """A verb: what it takes, what it gives, what it does and who may call it.

    `result`: the type of what is answered. `role`: the least that may call it. `rate`: what its calls are counted as,
    with a cap in `limits`. `repeatable`: to ask twice, without a `request_id`, does no more than to ask once. `quiet`:
    it changes nothing, or only a part of something, or tells the audit log by itself: its calls are not written there.
    `on_wall`: a screen on a wall may call it, too, which sees in its answer what is for everybody.
    """

    params: type[msgspec.Struct]
    result: Any
    handle: Callable[[Context, Any], Any]
    role: Least
    scope: Scope
    whose: Whose
    rate: Literal["", "auth", "env"] = ""
    repeatable: bool = False
    quiet: bool = False
    on_wall: bool = False

    @property
    def is_audited(self) -> bool:
        """Is each of its calls written into the audit log? Those that change something are, unless told otherwise."""
        changes = self.scope == "account" or (self.role != "viewer" and self.scope != "read")
        return changes and not self.quiet


class Pieces(msgspec.Struct, frozen=True):
    """A result that is encoded already, in pieces: putting a long one together would take longer than others may
    wait."""

    parts: list[bytes]


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


class Done(msgspec.Struct, frozen=True):
    """It was done, and there is nothing to tell of it: an empty object."""
