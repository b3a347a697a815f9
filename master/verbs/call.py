"""The one entry point to the verbs: for JSON-RPC, for the desktop client's dialect, and for `subscribe`.

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
from functools import cache, partial
from math import inf
from types import GeneratorType
from typing import Any, NamedTuple

import msgspec

from master.callers.rates import Rates
from master.core.core import Core
from master.core.tasks.task import Task
from master.engine.engine import Engine
from master.verbs.access import Caller, Identify, check_call, check_known, check_owner, check_still, sight_of
from master.verbs.base import Context, PushChannel, Verb
from master.verbs.convert import convert, for_log
from master.verbs.idempotency import answered
from master.verbs.surroundings import Surroundings
from master.verbs.table import VERBS
from master.verbs.turns import Job, Turns, Work
from master.views.sight import Sight
from wire.errors import ForbiddenError, MusterError, UnauthenticatedError, UnknownMethodError
from wire.message import Message

log = logging.getLogger("muster.verbs")

OnResult = Callable[[Any, MusterError | None], None]
"""Told once what came of a call: the result, or the error."""
Running = Job | asyncio.Task[None]
"""A call that is not over: made in slices, or awaited."""


_SOMEBODYS = frozenset({"own", "group"})


def _always() -> bool:
    return True


@cache
def _note_of() -> Callable[..., None]:
    """Writes a call into the audit log. It knows what many verbs answer, so it is loaded with them, not before."""
    from master.verbs.audited import note  # noqa: PLC0415  (see above)

    return note


class _Admitted(NamedTuple):
    """A verb that the caller may call. `still`: the caller now, or raises if access ended; None if anyone may."""

    verb: Verb
    still: Callable[[], Caller] | None


class _Asked(NamedTuple):
    """A long call and its caller, who had access as of version `seen` of the people, `until` then."""

    name: str
    params: dict[str, Any]
    identify: Identify
    seen: int
    until: float


class VerbDispatcher:
    """The state that all calls share."""

    def __init__(self, engine: Engine, master: Surroundings, rates: Rates) -> None:
        self.engine = engine
        self.master = master
        self.rates = rates
        self.turns = Turns()
        self.unfinished: set[asyncio.Task[None]] = set()
        """The waits that follow work in slices."""

    async def load_verbs(self) -> None:
        """Load the verbs that nobody has called yet, a few at a time: so that no call has to wait for that."""
        await VERBS.load_all()


class Calls:
    """The calls over one connection. `channel`: the connection, if it can be told things without asking. `on_known` is
    called when the caller has logged in, `on_over` when access may have ended. `sight`: what the caller sees of
    others' tasks."""

    caller: Caller
    sight: Sight

    def __init__(self, dispatcher: VerbDispatcher, identify: Identify) -> None:
        self.channel: PushChannel | None = None
        self.on_known: Callable[[], None] = lambda: None
        self.on_over: Callable[[], object] | None = None
        self._over: asyncio.Handle | None = None
        self._turned_away: MusterError | None = None
        """Why nothing that comes over this connection is done."""
        self._dispatcher = dispatcher
        self._people = dispatcher.engine.core.people
        self._admitted: dict[str, _Admitted] = {}
        """Verbs that the caller may call, as far as they were checked."""
        self.become(identify)

    def become(self, identify: Identify) -> None:
        """Change the caller from now on."""
        self._identify = identify
        self.look_again()

    def look_again(self) -> bool:
        """Resolve the caller again, after a change of people or with time. Return whether the caller has access, or
        may still log in."""
        people = self._people
        self.caller = self._identify(people, time.time())
        self.sight = sight_of(self.caller, people, self._dispatcher.master.config.privacy)
        self._people_seen = people.version
        self._admitted.clear()
        if self.on_over is not None:
            self.watch(self.on_over)
        return self.caller.user is not None or self.caller.is_relayed

    def watch(self, on_over: Callable[[], object]) -> None:
        """From now on call `on_over` when the caller's access ends. The loop has another clock than the one by which
        access ends: if it is early, the timer is set again."""
        self.on_over = on_over
        self.close()
        loop = asyncio.get_running_loop()
        if self.caller.user is None and not self.caller.is_relayed:
            self._over = loop.call_soon(on_over)
        elif self.caller.until != inf:
            self._over = loop.call_later(max(0.0, self.caller.until - self._people.clock.rights(time.time())), on_over)

    def close(self) -> None:
        """The connection is gone."""
        if self._over is not None:
            self._over.cancel()
            self._over = None

    @property
    def core(self) -> Core:
        """The state; changed only through verbs."""
        return self._dispatcher.engine.core

    @property
    def master(self) -> Surroundings:
        """The parts of the running master around the verbs."""
        return self._dispatcher.master

    def context(self) -> Context:
        """Return the context, now, for a verb that no client called."""
        return self._context(time.time())

    def _context(
        self,
        now: float,
        once: tuple[str, msgspec.Struct] | None = None,
        still: Callable[[], Caller] | None = None,
    ) -> Context:
        dispatcher = self._dispatcher
        return Context(
            dispatcher.engine,
            dispatcher.engine.core,
            dispatcher.master,
            self.caller,
            now,
            sight=self.sight,
            channel=self.channel,
            once=once,
            become=self._show,
            turn_away=self._turn_away,
            still=still,
            seen=self._people_seen,
        )

    def _show(self, identify: Identify) -> Caller:
        """The caller has logged in. Subscriptions of the former caller end, because that one's access may end."""
        if self.channel is not None:
            self.channel.end()
        self.become(identify)
        if self.caller.user is not None:
            self.on_known()
        return self.caller

    def _turn_away(self, why: MusterError) -> None:
        self._turned_away = why

    def check(self, name: str, task: Task | None = None) -> None:
        """Raise UnauthenticatedError or ForbiddenError unless the caller may call the verb, and on this task: for what
        a dialect answers without calling it."""
        try:
            verb = self._admit(name).verb
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
        """Call a verb; `done` receives its result, at once or later. Return the work that continues; None if it is
        over.

        A call that changes something is finished even if `is_wanted` turns false; one that only reads is dropped.
        """
        try:
            result = self._begun(name, params, is_wanted)
        except Exception as error:  # noqa: BLE001  (a defect in a verb ends the call, not the connection)
            self._note(name, params, None, error=error)
            done(None, self.told(error, name, params))
            return None
        if isinstance(result, GeneratorType):
            made = partial(self._made, self._asked(name, params), done)
            wanted = is_wanted if self.only_looks(name) else _always
            job = Job(result, made, wanted, self.caller.counted_as or None)
            return None if self._dispatcher.turns.begin(job) else job
        # Most verbs return a Struct at once; the check for an Awaitable costs more.
        if not isinstance(result, msgspec.Struct) and isinstance(result, Awaitable):
            return asyncio.ensure_future(self._awaited(self._asked(name, params), result, done))
        self._note(name, params, result)
        done(result, None)
        return None

    async def ask(self, name: str, params: dict[str, Any]) -> Any:
        """Call a verb and give its result. Immediate work is done before any other call has its turn."""
        try:
            result = self._begun(name, params)
            result = await self._to_its_end(result)
        except (Exception, asyncio.CancelledError) as error:
            self._note(name, params, None, error=error)
            raise
        self._note(name, params, result)
        return result

    async def _to_its_end(self, result: Any) -> Any:
        """Return the result of work that may be made in slices, awaited, or one after the other."""
        while isinstance(result, GeneratorType | Awaitable):
            result = await (self._in_turns(result) if isinstance(result, GeneratorType) else result)
        return result

    async def settled(self) -> None:
        """Wait until all that has happened so far is durable. Raises StoreUnavailableError."""
        await self._dispatcher.engine.settled()

    def told(self, error: Exception, name: str, asked: Any) -> MusterError:
        """Return the error as the caller receives it. A defect is ours: its details are for the log."""
        if isinstance(error, MusterError):
            return error
        log.error("a request of %s failed: %s %.300r", self.caller.address, name, for_log(name, asked), exc_info=error)
        return MusterError(Message("defect"))

    # -- one call ---------------------------------------------------------------------------------------------

    def _admit(self, name: str) -> _Admitted:
        verb = VERBS.get(name)
        if verb is None or verb.role != "anyone":
            check_known(self.caller, self._people)
        if verb is None:
            raise UnknownMethodError(Message("no_verb", verb=name, known=tuple(VERBS)))
        still = None
        if verb.role != "anyone":
            check_call(self.caller, name, verb.role, verb.scope, on_wall=verb.on_wall)
            still = partial(
                check_still, self._identify, self._people, name, verb.role, verb.scope, on_wall=verb.on_wall
            )
        admitted = self._admitted[name] = _Admitted(verb, still)
        return admitted

    def _begun(self, name: str, params: dict[str, Any], is_wanted: Callable[[], bool] | None = None) -> Any:
        """Return what the verb returns: the result, or an awaitable or generator of it."""
        if self._turned_away is not None:
            raise self._turned_away
        now = time.time()
        seen = self._people.clock.saw(now)
        if seen >= self._people.clock.next_end:
            self._dispatcher.engine.end_rights(now)
        if self._people_seen != self._people.version or seen >= self.caller.until:
            self.look_again()
        verb, still = self._admitted.get(name) or self._admit(name)
        if verb.scope == "read" and is_wanted is not None and not is_wanted():
            return None
        if verb.rate:
            # A caller who logs in is not yet the user that would be counted.
            whence = self.caller.whence if verb.role == "anyone" else ""
            self._dispatcher.rates.check(verb.rate, whence or self.caller.counted_as)
        wanted: Any = convert(params, verb.params)
        request_id: str | None = getattr(wanted, "request_id", None)
        if request_id is not None:
            request_id = self.caller.request_key(request_id)
            known = answered(self._dispatcher.engine, request_id, wanted, verb.result)
            if known is not None:
                return known
        context = self._context(now, None if request_id is None else (request_id, wanted), still)
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

    def _asked(self, name: str, params: dict[str, Any]) -> _Asked:
        return _Asked(name, params, self._identify, self._people_seen, self.caller.until)

    def _is_nobody(self, asked: _Asked) -> bool:
        """Has the caller lost access since the call began, and does the verb need access?"""
        now = time.time()
        if (asked.seen == self._people.version and self._people.clock.rights(now) < asked.until) or VERBS[
            asked.name
        ].role == "anyone":
            return False
        return asked.identify(self._people, now).user is None

    def _tell(self, asked: _Asked, result: Any, done: OnResult) -> None:
        """Give the result of a long call to its caller, unless they have lost access; the audit log has the call in any
        case."""
        self._note(asked.name, asked.params, result)
        if self._is_nobody(asked):
            barred = asked.identify(self._people, time.time()).barred
            done(None, UnauthenticatedError(barred or Message("not_known_any_more")))
        else:
            done(result, None)

    async def _awaited(self, asked: _Asked, result: Awaitable[Any], done: OnResult) -> None:
        name, params, *_ = asked
        try:
            value = await self._to_its_end(result)
        except asyncio.CancelledError as left:
            self._note(name, params, None, error=left)
            raise
        except Exception as error:  # noqa: BLE001  (as in `begin`)
            self._note(name, params, None, error=error)
            done(None, self.told(error, name, params))
        else:
            self._tell(asked, value, done)

    def _made(self, asked: _Asked, done: OnResult, result: Any, error: Exception | None) -> None:
        if error is not None:
            self._note(asked.name, asked.params, None, error=error)
            done(None, self.told(error, asked.name, asked.params))
        elif isinstance(result, Awaitable):
            rest = asyncio.ensure_future(self._awaited(asked, result, done))
            self._dispatcher.unfinished.add(rest)
            rest.add_done_callback(self._dispatcher.unfinished.discard)
        elif result is not None:
            self._tell(asked, result, done)
        else:
            done(None, None)  # it was not wanted any more

    def _note(self, name: str, params: dict[str, Any], result: Any, *, error: BaseException | None = None) -> None:
        """Write it into the audit log: audited verbs, and denied calls of known users."""
        if name not in VERBS.audited and not (isinstance(error, ForbiddenError) and name in VERBS):
            return
        told = partial(_note_of(), self._dispatcher.master.audit, self.caller, name, params, result, self._people.named)
        if error is not None:
            told(error)
        else:  # what cannot be made durable was not done
            self._dispatcher.engine.reply(told)

    async def _in_turns(self, work: Work) -> Any:
        made: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def settle(result: Any, error: Exception | None) -> None:
            if error is not None and not made.done():
                made.set_exception(error)
            elif not made.done():
                made.set_result(result)

        self._dispatcher.turns.begin(Job(work, settle, lambda: not made.done(), self.caller.counted_as or None))
        return await made
