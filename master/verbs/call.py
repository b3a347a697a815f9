"""The one door to the verbs: for JSON-RPC, for the desktop client's dialect, and for `subscribe`.

Owns what is the same for every call, whoever makes it and in whatever dialect: who may call what, and on whose tasks;
how often; the way from parameters to a typed value; that a request with an id is carried out once; that a verb is run,
be it done at once, awaited or made in slices; and the words for what went wrong, a defect of ours included. A dialect
owns its framing and the shapes of its answers.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from types import GeneratorType
from typing import Any

import msgspec

from master.core.core import Core
from master.core.task import Task
from master.engine import Engine
from master.rates import Rates
from master.verbs.access import Caller, Identify, check_call, check_known, check_owner, sight_of
from master.verbs.audited import note
from master.verbs.base import Context, PushChannel, Verb
from master.verbs.convert import convert
from master.verbs.repeats import answered
from master.verbs.surroundings import Surroundings
from master.verbs.table import VERBS
from master.verbs.turns import Job, Turns, Work
from master.views.sight import Sight
from wire.errors import ForbiddenError, MusterError, UnknownMethodError
from wire.message import Message

log = logging.getLogger("muster.verbs")

CHANGES = frozenset(name for name, verb in VERBS.items() if verb.is_audited)
"""The verbs whose every call is written into the audit log; of others only whom we know and who may not call them."""

OnResult = Callable[[Any, MusterError | None], None]
"""Told once what came of a call: the result, or the error."""
Running = Job | asyncio.Task[None]
"""A call that is not over: made in slices, or awaited."""


_SOMEBODYS = frozenset({"own", "group"})
_SECRETS = frozenset({"password", "old", "token", "link"})


class Door:
    """What all calls share."""

    def __init__(self, engine: Engine, master: Surroundings, rates: Rates) -> None:
        self.engine = engine
        self.master = master
        self.rates = rates
        self.turns = Turns()


class Calls:
    """The calls over one connection. `channel`: the connection, if it can be told things without asking. `on_known` is
    called when the caller has shown who he is. `sight`: what he sees of others' tasks."""

    caller: Caller
    sight: Sight

    def __init__(self, door: Door, identify: Identify) -> None:
        self.channel: PushChannel | None = None
        self.on_known: Callable[[], None] = lambda: None
        self._door = door
        self._admitted: dict[str, Verb] = {}
        """Verbs that he may call, as far as he has."""
        self.become(identify)

    def become(self, identify: Identify) -> None:
        """He is this one from now on."""
        self._identify = identify
        self.look_again()

    def look_again(self) -> bool:
        """See who he is now, when something changed of the people that there are, or with time; whether he is
        somebody."""
        people = self.core.people
        self.caller = self._identify(people, time.time())
        self.sight = sight_of(self.caller, people, self._door.master.config.privacy)
        self._people_seen = people.version
        self._admitted.clear()
        return self.caller.user is not None

    @property
    def core(self) -> Core:
        """The state; changed only through verbs."""
        return self._door.engine.core

    @property
    def master(self) -> Surroundings:
        """The parts of the running master around the verbs."""
        return self._door.master

    def context(self, once: tuple[str, msgspec.Struct] | None = None) -> Context:
        """What a verb is given, now."""
        door = self._door
        now = time.time()
        return Context(
            door.engine,
            door.master,
            self.caller,
            now,
            sight=self.sight,
            channel=self.channel,
            once=once,
            become=self._show,
        )

    def _show(self, identify: Identify) -> Caller:
        """He has shown who he is, or says good-bye."""
        self.become(identify)
        if self.caller.user is not None:
            self.on_known()
        return self.caller

    def check(self, name: str, task: Task | None = None) -> None:
        """Raise UnauthenticatedError or ForbiddenError unless the caller may call the verb, and on this task: for what
        a dialect answers without calling it."""
        try:
            verb = self._admit(name)
            if task is not None and verb.whose in _SOMEBODYS:
                check_owner(self.caller, name, verb.whose, task)
        except MusterError as error:
            self._note(name, {} if task is None else {"id": task.id}, None, error=error)
            raise

    @staticmethod
    def only_looks(name: str) -> bool:
        """Whether the verb changes nothing: those that viewers may call."""
        verb = VERBS.get(name)
        return verb is not None and verb.role == "viewer"

    def begin(self, name: str, params: dict[str, Any], done: OnResult, is_wanted: Callable[[], bool]) -> Running | None:
        """Call a verb; `done` is told what came of it, at once or later. Gives what goes on; None if it is over.

        What changes something happens also where it `is_wanted` no more, what only tells is left.
        """
        try:
            result = self._begun(name, params, is_wanted)
        except Exception as error:  # noqa: BLE001  (a defect in a verb ends the call, not the connection)
            self._note(name, params, None, error=error)
            done(None, self.told(error, name, params))
            return None
        if isinstance(result, GeneratorType):
            job = Job(result, partial(self._made, name, params, done), is_wanted)
            return None if self._door.turns.begin(job) else job
        # What is done at once gives a Struct, mostly; to ask whether something can be awaited costs more.
        if not isinstance(result, msgspec.Struct) and isinstance(result, Awaitable):
            return asyncio.ensure_future(self._awaited(name, params, result, done))
        self._note(name, params, result)
        done(result, None)
        return None

    async def ask(self, name: str, params: dict[str, Any]) -> Any:
        """Call a verb and give its result. What it does at once is done before anybody else has his turn."""
        try:
            result = self._begun(name, params)
            if isinstance(result, GeneratorType):
                result = await self._in_turns(result)
            elif isinstance(result, Awaitable):
                result = await result
        except (Exception, asyncio.CancelledError) as error:
            self._note(name, params, None, error=error)
            raise
        self._note(name, params, result)
        return result

    async def settled(self) -> None:
        """Wait until all that has happened so far is durable. Raises StoreUnavailableError."""
        await self._door.engine.settled()

    def told(self, error: Exception, name: str, asked: Any) -> MusterError:
        """The error as the caller is told it. A defect is ours: its details are for the log."""
        if isinstance(error, MusterError):
            return error
        log.error(
            "a request of %s failed: %s %.300r", self.caller.address, name, without_secrets(asked), exc_info=error
        )
        return MusterError(Message("defect"))

    # -- one call ---------------------------------------------------------------------------------------------

    def _admit(self, name: str) -> Verb:
        verb = VERBS.get(name)
        if verb is None or verb.role != "anyone":
            check_known(self.caller, self.core.people)
        if verb is None:
            raise UnknownMethodError(Message("no_verb", verb=name, known=tuple(VERBS)))
        if verb.role != "anyone":
            check_call(self.caller, name, verb.role, verb.scope)
        self._admitted[name] = verb
        return verb

    def _begun(self, name: str, params: dict[str, Any], is_wanted: Callable[[], bool] | None = None) -> Any:
        """What the verb gives: the result, or what makes it."""
        if self._people_seen != self.core.people.version or time.time() >= self.caller.until:
            self.look_again()
        verb = self._admitted.get(name) or self._admit(name)
        if verb.scope == "read" and is_wanted is not None and not is_wanted():
            return None
        if verb.rate:
            self._door.rates.check(verb.rate, self.caller.counted_as)
        wanted: Any = convert(params, verb.params)
        request_id: str | None = getattr(wanted, "request_id", None)
        if request_id is not None:
            request_id = self.caller.request_key(request_id)
            known = answered(self._door.engine, request_id, wanted, verb.result)
            if known is not None:
                return known
        context = self.context(None if request_id is None else (request_id, wanted))
        if verb.whose in _SOMEBODYS and not self.caller.owns_all:
            return self._on_own(context, name, verb, wanted)
        return verb.handle(context, wanted)

    def _on_own(self, context: Context, name: str, verb: Verb, wanted: Any) -> Any:
        """Likewise, if the task that is named is the caller's. A verb that names several looks at each by itself."""
        task_id: int | None = getattr(wanted, "id", None)
        if task_id is None:
            return verb.handle(context, wanted)
        task = context.core.tasks.get(task_id)
        if task is None and context.engine.archive.is_there:
            return self._on_own_archived(context, name, verb, wanted)
        if task is not None:
            check_owner(self.caller, name, verb.whose, task)
        return verb.handle(context, wanted)

    async def _on_own_archived(self, context: Context, name: str, verb: Verb, wanted: Any) -> Any:
        check_owner(self.caller, name, verb.whose, await context.engine.archive.find(wanted.id))
        result = verb.handle(context, wanted)
        return await result if isinstance(result, Awaitable) else result

    async def _awaited(self, name: str, params: dict[str, Any], result: Awaitable[Any], done: OnResult) -> None:
        try:
            value = await result
        except asyncio.CancelledError as left:
            self._note(name, params, None, error=left)
            raise
        except Exception as error:  # noqa: BLE001  (as in `begin`)
            self._note(name, params, None, error=error)
            done(None, self.told(error, name, params))
        else:
            self._note(name, params, value)
            done(value, None)

    def _made(self, name: str, params: dict[str, Any], done: OnResult, result: Any, error: Exception | None) -> None:
        self._note(name, params, result, error=error)
        done(result, None if error is None else self.told(error, name, params))

    def _note(self, name: str, params: dict[str, Any], result: Any, *, error: BaseException | None = None) -> None:
        if name in CHANGES or (isinstance(error, ForbiddenError) and name in VERBS):
            note(self._door.master.audit, self.caller, name, params, result, error=error)

    async def _in_turns(self, work: Work) -> Any:
        made: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def settle(result: Any, error: Exception | None) -> None:
            if error is not None and not made.done():
                made.set_exception(error)
            elif not made.done():
                made.set_result(result)

        self._door.turns.begin(Job(work, settle, lambda: not made.done()))
        return await made


def without_secrets(asked: Any) -> Any:
    """What was asked for, without what nobody may read in a log."""
    return (
        {key: "…" if key in _SECRETS else value for key, value in asked.items()} if isinstance(asked, dict) else asked
    )
