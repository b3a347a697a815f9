"""The single writer: events go to the core, what they changed goes to the journal, and only then does anything leave.

Everything that came in during one turn of the loop is committed together (group commit), as one record, with one write
and one fdatasync in the loop itself: handing the sync to a thread costs as much as the sync. Replies, effects and
notifications queue up behind that commit, also those of reads, so nobody ever sees what a crash could take back.

Owns the order of things; what they mean is the core's, how they are stored the store's. Compactions run beside it
(`durable/compacting`), and `plan_pace` says when a plan is due.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol, TypeVar

from master.core.core import Core
from master.core.effects import Ack, Effect, Kill, NodeEffect, Start, WakeAt
from master.core.executor import Executor, perform
from master.core.outcome import Move, Outcome
from master.core.tasks.task import ACTIVE, Task, TaskState
from master.durable import failpoint
from master.durable.archive import Archive
from master.durable.compacting import Compacting
from master.durable.journal import JournalChangedError
from master.durable.store import Store, SyncFailedError
from master.engine.plan_pace import PlanPace
from wire.errors import MusterError, StoreUnavailableError
from wire.message import Message

log = logging.getLogger("muster.engine")

T = TypeVar("T")

RETRY_S = 1.0
WATCH_S = 10.0
"""So often, at least, it is seen whether the journal is still where it was, and the clock."""
SOON_S = 0.5
"""No sooner, though many rights may end at about the same time."""
STEP_S = 0.5
"""A clock that goes on by so much more or less than time passes was set, or the machine slept."""
EXIT_DEFECT = 70
EXIT_SYNC_FAILED = 74
"""Exit statuses, as sysexits.h numbers them: EX_SOFTWARE, EX_IOERR."""


class Observer(Protocol):
    """An object that is called with what has become durable."""

    def published(self, moves: Sequence[Move], nodes: set[str]) -> None:
        """These moves happened, in this order, and these nodes changed."""


Reply = Callable[[MusterError | None], None]
"""Called after the commit; with the error if what was asked for could not be made durable."""


class Engine:
    """Runs in one asyncio loop; none of its methods may be called from elsewhere."""

    def __init__(self, core: Core, store: Store) -> None:
        self.core = core
        self.store = store
        self.archive = Archive(store.folder, store.disk)
        self.observers: list[Observer] = []
        self.let_out: list[Callable[[], None]] = []
        """Called when the answers of a commit were given, and when its news were, so that they are sent in the same
        turn of the loop."""
        self.executor_of: Callable[[str], Executor] = _no_executor
        """Returns the executor of the node of this name."""
        self._performs = False
        self._sends: list[Callable[[], None]] = []
        """Functions that send the links' messages for the effects that are being performed."""
        self._replies: list[Reply] = []
        self._effects: list[Effect] = []
        self._published: list[Outcome] = []
        self._unsynced = False
        self.stalled = False
        """Whether changes wait for a disk that takes no writes."""
        self.lets_out = False
        """Whether answers and news of a commit are being given: `let_out` comes behind them."""
        self._closed = False
        self._commit_at: asyncio.Handle | None = None
        self.is_alone: Callable[[], bool] = _never
        """Is what is heard now all that was there to be heard in this turn of the loop?"""
        self._holds = self._held_back = False
        """Whether `let_go` will come, and has to commit."""
        self._pace = PlanPace(self._plan, self._collect)
        self._waking: asyncio.TimerHandle | None = None
        self._clock_from = time.time() - time.monotonic()
        self._watch: asyncio.TimerHandle | None = None
        self.compacting = Compacting(
            core, store, take=self._take, event=self.event, sync_failed=self._end_after_failed_sync
        )
        core.number(store.next_seq)

    # -- in ---------------------------------------------------------------------------------------------------

    def client_change(self, change: Callable[[], T], *, grows: bool = True) -> T:
        """Let a client change something. Raises StoreUnavailableError while the disk takes no writes.

        `grows=False`: a change that frees rather than fills (a cancel), and may use what is kept for exits.
        """
        if self.store.fault is not None or self.stalled:
            self._check_room(grows=grows)
        try:
            return change()
        finally:
            self._collect()

    def _check_room(self, *, grows: bool) -> None:
        if self.store.fault is not None:
            self.store.probe()
        if self.store.fault is not None and (grows or self.stalled):
            raise StoreUnavailableError(Message("disk_refuses", said=self.store.fault))
        if self.stalled:
            self._resume()

    def check_durable(self) -> None:
        """Raise StoreUnavailableError while what has happened cannot be made durable, so that an answer which was
        not given for that reason is not given again as if it held."""
        if self.stalled:
            raise StoreUnavailableError(Message("disk_refuses", said=self.store.fault or Message("disk_takes_nothing")))

    def event(self, change: Callable[[], T]) -> T:
        """Let the core handle something, and see to it that what changed is committed soon."""
        try:
            return change()
        finally:
            self._collect()

    @property
    def is_settled(self) -> bool:
        """Is all that has happened durable, so that it may be told at once? See `reply`."""
        return not self._unsynced or self.stalled

    @property
    def is_saved(self) -> bool:
        """Is all that has happened durable? While the disk takes no writes it is not; `core.unsaved` tells of what."""
        return not self._unsynced

    def reply(self, reply: Reply) -> None:
        """Call `reply` once all that has happened so far is durable: at once, if it is already.

        While the disk takes no writes, clients can change nothing and whatever is answered is a read: at once, too.
        """
        if self.is_settled:
            reply(None)
        else:
            self._replies.append(reply)

    async def settled(self) -> None:
        """Wait until `reply` would call. Raises StoreUnavailableError if what has happened cannot be made durable."""
        if self.is_settled:
            return
        settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def settle(error: MusterError | None) -> None:
            if settled.done():  # the waiter is gone
                return
            if error is None:
                settled.set_result(None)
            else:
                settled.set_exception(error)

        self._replies.append(settle)
        await settled

    def show(self, tasks: list[Task]) -> None:
        """Tell the observers of tasks again, behind what is to be told of them before: what is shown of them changed,
        and nothing that is written down."""

        def publish(_error: MusterError | None) -> None:
            moves = [(task, task.state, task.state) for task in tasks]
            for observer in self.observers:
                observer.published(moves, set())
            self._send()

        self.reply(publish)

    async def durable(self) -> None:
        """Wait until all that has happened so far is durable. Raises StoreUnavailableError if it cannot be for now."""
        self.check_durable()
        await self.settled()

    # -- commit -----------------------------------------------------------------------------------------------

    def hold(self) -> bool:
        """Let what happens from now on be committed by `let_go`, which is to come in this turn of the loop, and not in
        the next one, if no other caller was heard in this turn, who would pay for a second sync. True: so it is.
        """
        if self._holds or self._commit_at is not None or not self.is_alone():
            return False
        self._holds = True
        return True

    def let_go(self) -> None:
        """Commit what has happened since `hold`."""
        self._holds = False
        if self._held_back:
            self._held_back = False
            if self.core.has_many:  # others are heard between the change and its commit
                self._commit_at = asyncio.get_running_loop().call_soon(self._commit)
            else:
                self._commit()

    def _collect(self) -> None:
        if self._closed:
            return  # a connection that ends behind us, say: the next start asks the nodes anew
        if self._unsynced and not self.stalled and (self._held_back or self._commit_at is not None):
            return  # the commit that is to come takes this, too, as for each but the first of many submits
        if self.core.has_outcome():
            self._unsynced = True
            if self.stalled:  # it is told at once what is not saved
                self._take()
        if (self._unsynced or (self.core.plan_needed and not self.stalled)) and self._commit_at is None:
            if self._holds:
                self._held_back = True
                return
            self._commit_at = asyncio.get_running_loop().call_soon(self._commit)

    def _take(self) -> None:
        """Take over the changes of the core. A change that cannot be recorded must not be believed: then the master
        ends."""
        outcome = self.core.take_outcome()
        if outcome is None:
            return
        try:
            if outcome.change:
                if self.store.outbox.is_read and outcome.moves:
                    outcome.change.moves = outcome.noted_moves()
                self.core.number(self.store.append(outcome.change) + 1)
        except Exception:
            log.critical("the master met a defect and ends; tasks run on; start it again", exc_info=True)
            os._exit(EXIT_DEFECT)
        self._effects += outcome.effects
        self._published.append(outcome)
        if self.stalled:
            self.core.unsaved.update(task.id for task in outcome.change.tasks)

    def _commit(self) -> None:
        # A defect here would leave answers unsent for ever, in silence. The journal is the truth and tasks run on by
        # themselves, so this process ends: the next start is where the journal is.
        try:
            self._commit_or_stall()
        except Exception:
            log.critical("the master met a defect and ends; tasks run on; start it again", exc_info=True)
            os._exit(EXIT_DEFECT)

    def _commit_or_stall(self) -> None:
        self._commit_at = None
        has_many = self.core.has_many  # then the plan comes behind the commit, in a turn of its own
        if self.core.plan_needed and not (self.stalled or has_many):  # while nothing can be written, nothing is started
            self._pace.plan_if_due()
        self._take()
        try:
            if failpoint.armed:
                self._reach("before_sync")
            self._write()
        except StoreUnavailableError as error:
            self._stall(error)
            return
        except SyncFailedError as error:
            self._end_after_failed_sync(error)
        if failpoint.armed:
            self._reach("after_sync")
        was_stalled, self.stalled, self._unsynced = self.stalled, False, False
        self.core.unsaved.clear()
        self._let_out()
        if was_stalled or has_many:
            self._collect()  # what waited to be planned
        self.compacting.start_if_due()

    @staticmethod
    def _end_after_failed_sync(error: SyncFailedError) -> NoReturn:
        """End the process: the kernel may have dropped the pages, so the content of the file is unknown until a start
        reads it again."""
        log.critical("%s", error)
        os._exit(EXIT_SYNC_FAILED)

    def _write(self) -> None:
        try:
            self.store.commit()
        except JournalChangedError as error:
            if self.compacting.is_running:
                raise SyncFailedError(Message("journal_changed_in_compaction", fault=error.args[0])) from error
            log.error("%s; everything is written anew", error)  # noqa: TRY400  (how we came here tells nobody anything)
            self.store.write_anew(self.core.tasks, self.core.answered, next_id=self.core.next_id)
            self.core.number(self.store.next_seq)

    def watch(self) -> None:
        """From now on look after the journal also while nothing happens: a commit does. And after the clock: what is to
        begin at a time begins when it shows that, though our timers know nothing of it."""
        now = time.time()
        clock_from = now - time.monotonic()
        if abs(clock_from - self._clock_from) > STEP_S:
            self._clock_from = clock_from
            self.event(self.core.woken)
        self.end_rights(now)
        self.event(self.core.clock.note_if_due)
        loop = asyncio.get_running_loop()
        if self._commit_at is None:
            self._commit_at = loop.call_soon(self._commit)
        self._watch = loop.call_later(self._watch_in(now), self.watch)

    def end_rights(self, now: float) -> None:
        """End log-ins, tokens and links whose time is over, in the journal too: a clock that is set back revives
        none."""
        leap = self.event(lambda: self.core.end_rights(now))
        if leap is not None:
            log.warning("%s", leap.told())

    def _watch_in(self, now: float) -> float:
        """Sooner where a right ends before: that is written down when it does."""
        return min(WATCH_S, max(SOON_S, self.core.clock.next_end - now))

    def _stall(self, error: StoreUnavailableError) -> None:
        if not self.stalled:
            log.error("nothing can be written: %s", error)
        self.stalled = True
        self.core.unsaved.update(task.id for outcome in self._published for task in outcome.change.tasks)
        told = StoreUnavailableError(Message("not_durable_yet", said=error.args[0]))
        replies, self._replies = self._replies, []
        for reply in replies:
            reply(told)
        self._commit_at = asyncio.get_running_loop().call_later(RETRY_S, self._commit)

    def _resume(self) -> None:
        # There is room again. From here on answers wait for the commit as ever, and it need not wait for its timer.
        self.stalled = False
        if self._commit_at is not None:
            self._commit_at.cancel()
        self._commit_at = asyncio.get_running_loop().call_soon(self._commit)

    def _let_out(self) -> None:
        replies, self._replies = self._replies, []
        effects, self._effects = self._effects, []
        published, self._published = self._published, []
        self.lets_out = True
        for reply in replies:
            reply(None)
        if replies:  # somebody waits for these, while the news have time
            self._send()
        if effects:
            self._do(effects)
        for outcome in published:
            for observer in self.observers:
                observer.published(outcome.moves, outcome.nodes)
        self.lets_out = False
        self._send()

    def send_soon(self, send: Callable[[], None]) -> None:
        """Call `send` when all effects of this commit were performed, before its news are made, which have time; where
        none are, at the end of this turn of the loop."""
        if self._performs:
            self._sends.append(send)
        else:
            asyncio.get_running_loop().call_soon(send)

    def _send(self) -> None:
        for send in self.let_out:
            send()

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, WakeAt):
                self._wake_at(effect.at)
        for_nodes = [effect for effect in effects if not isinstance(effect, WakeAt)]
        if for_nodes:
            self._performs = True
            perform(for_nodes, self.executor_of)
            self._performs = False
            sends, self._sends = self._sends, []
            for send in sends:
                send()
            if failpoint.armed:
                # Links send at the end of this turn of the loop at the latest; this comes behind them.
                asyncio.get_running_loop().call_soon(self._reach_sent, for_nodes)

    def _plan(self) -> None:
        self.core.plan(time.time())

    def _wake_at(self, at: float) -> None:
        if self._waking is not None:
            self._waking.cancel()
        self._waking = asyncio.get_running_loop().call_later(max(0.0, at - time.time()), self._wake)

    def _wake(self) -> None:
        self._waking = None
        self.event(self.core.woken)

    # -- failpoints of the commit, by what is in it -------------------------------------------------------------

    def _reach(self, moment: str) -> None:
        for outcome in self._published:
            for task in outcome.change.tasks:
                failpoint.reach(f"{_path_of(task)}.{moment}")

    @staticmethod
    def _reach_sent(effects: list[NodeEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Start):
                failpoint.reach("launch.after_send")
            elif isinstance(effect, Kill):
                failpoint.reach("cancel.after_send")
            elif isinstance(effect, Ack):
                failpoint.reach("exit.after_ack")

    async def close(self) -> None:
        """Commit what is pending and close the store."""
        for timer in (self._watch, self._waking):
            if timer is not None:
                timer.cancel()
        await self.compacting.finish()
        self._collect()
        if self._commit_at is not None:
            self._commit_at.cancel()
            self._commit()
        self._closed = True
        if self._commit_at is not None:
            self._commit_at.cancel()  # of a disk that refused to the last, or of who heard of this commit
        self.archive.close()
        self.store.close()


_PATH = {"waiting": "submit", "starting": "launch", "running": "started"}
for _state in ("succeeded", "failed", "cancelled", "timed_out", "lost"):
    _PATH[_state] = "exit"


def _path_of(task: Task) -> str:
    """Return the kind of change that the task's new state belongs to."""
    if task.state is TaskState.WAITING and task.attempt:
        return "again"
    return "cancel" if task.state in ACTIVE and task.cancel_requested else _PATH.get(task.state, "other")


def _never() -> bool:
    return False


class _NoExecutor:
    """Of an engine that was given none."""

    def perform(self, effects: list[NodeEffect]) -> None:
        """See `Executor`."""
        log.error("%d effects and no executor to carry them out", len(effects))

    def close(self) -> None:
        """See `Executor`."""


def _no_executor(_node: str) -> Executor:
    return _NO_EXECUTOR


_NO_EXECUTOR = _NoExecutor()
