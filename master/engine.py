"""The single writer: events go to the core, what they changed goes to the journal, and only then does anything leave.

Everything that came in during one turn of the loop is committed together (group commit), with one write and one
fdatasync in the loop itself: handing the sync to a thread costs as much as the sync. Replies, effects and
notifications queue up behind that commit, also those of reads, so nobody ever sees what a crash could take back.

Owns the order of things; what they mean is the core's, how they are stored the store's.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from master import failpoint
from master.core.core import Core
from master.core.effects import Ack, Effect, Start
from master.core.task import Change, Task
from master.durable.store import Store, SyncFailedError
from wire.errors import MusterError, StoreUnavailableError

log = logging.getLogger("muster.engine")

T = TypeVar("T")

RETRY_S = 1.0
COMPACT_RETRY_S = 60.0
PLAN_SHARE = 4
"""After a round of planning that took d seconds the next comes no sooner than PLAN_SHARE * d later, so that planning
takes at most a fifth of the time however long the queue is."""
EXIT_DEFECT = 70
EXIT_SYNC_FAILED = 74
"""Exit statuses, as sysexits.h numbers them: EX_SOFTWARE, EX_IOERR."""


class Observer(Protocol):
    """Somebody who is told what has become durable."""

    def published(self, tasks: list[Task], gone: list[int], nodes: set[str]) -> None:
        """These tasks changed, these are gone, these nodes changed."""

    def let_out(self) -> None:
        """All answers and news of this commit were given: send them, without waiting for another turn of the loop."""


Reply = Callable[[MusterError | None], None]
"""Called after the commit; with the error if what was asked for could not be made durable."""


class Engine:
    """Runs in one asyncio loop; none of its methods may be called from elsewhere."""

    def __init__(self, core: Core, store: Store, *, keep_history: int) -> None:
        self.core = core
        self.store = store
        self.observers: list[Observer] = []
        self.perform: Callable[[list[Effect]], None] = _nobody
        self._keep_history = keep_history
        self._replies: list[Reply] = []
        self._effects: list[Effect] = []
        self._published: list[tuple[Change, set[str]]] = []
        self._unsynced = False
        self._stalled = False
        self._commit_at: asyncio.Handle | None = None
        self._next_plan = 0.0
        self._plan_timer: asyncio.TimerHandle | None = None
        self._compacting: asyncio.Task[None] | None = None
        self._compact_from = 0.0

    # -- in ---------------------------------------------------------------------------------------------------

    def client_change(self, change: Callable[[], T], *, grows: bool = True) -> T:
        """Let a client change something. Raises StoreUnavailableError while the disk takes no writes.

        `grows=False`: a change that frees rather than fills (a cancel), and may use what is kept for exits.
        """
        if self.store.fault is not None:
            self.store.probe()
        if self.store.fault is not None and (grows or self._stalled):
            raise StoreUnavailableError(self.store.fault)
        if self._stalled:
            self._resume()
        return self.event(change)

    def check_durable(self) -> None:
        """Raise StoreUnavailableError while what has happened cannot be made durable, so that an answer which was
        not given for that reason is not given again as if it held."""
        if self._stalled:
            raise StoreUnavailableError(self.store.fault or "the disk takes no writes")

    def event(self, change: Callable[[], T]) -> T:
        """Let the core handle something, and see to it that what changed is committed soon."""
        try:
            return change()
        finally:
            self._collect()

    def reply(self, reply: Reply) -> None:
        """Call `reply` once all that has happened so far is durable: at once, if it is already.

        While the disk takes no writes, clients can change nothing and whatever is answered is a read: at once, too.
        """
        if not self._unsynced or self._stalled:
            reply(None)
        else:
            self._replies.append(reply)

    # -- commit -----------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        self._take()
        if (self._unsynced or (self.core.plan_needed and not self._stalled)) and self._commit_at is None:
            self._commit_at = asyncio.get_running_loop().call_soon(self._commit)

    def _take(self) -> None:
        """Take over what the core did. What cannot be written down must not be believed either: then we end."""
        outcome = self.core.take_outcome()
        if outcome is None:
            return
        try:
            if outcome.change:
                self.store.append(outcome.change)
        except Exception:
            log.critical("the master met a defect and ends; tasks run on; start it again", exc_info=True)
            os._exit(EXIT_DEFECT)
        self._effects += outcome.effects
        self._published.append((outcome.change, outcome.nodes))
        self._unsynced = True

    def _commit(self) -> None:
        # A defect here would leave answers unsent for ever, in silence. The journal is the truth and tasks run on by
        # themselves, so the honest way out is the end of this process: the next start is where the journal is.
        try:
            self._commit_or_stall()
        except Exception:
            log.critical("the master met a defect and ends; tasks run on; start it again", exc_info=True)
            os._exit(EXIT_DEFECT)

    def _commit_or_stall(self) -> None:
        self._commit_at = None
        self._plan_if_due()
        try:
            self._reach("before_sync")
            self.store.commit()
        except StoreUnavailableError as error:
            self._stall(error)
            return
        except SyncFailedError as error:
            # The kernel may have dropped the pages; what the file holds is unknown until somebody reads it again.
            log.critical("%s", error)
            os._exit(EXIT_SYNC_FAILED)
        self._reach("after_sync")
        was_stalled, self._stalled, self._unsynced = self._stalled, False, False
        self._let_out()
        if was_stalled:
            self._collect()  # what waited to be planned
        if self._compacting is None and self.store.should_compact() and time.monotonic() >= self._compact_from:
            self._compacting = asyncio.create_task(self._compact())

    def _stall(self, error: StoreUnavailableError) -> None:
        if not self._stalled:
            log.error("nothing can be written: %s", error)
        self._stalled = True
        told = StoreUnavailableError(
            f"{error}. What was to be changed takes effect when writing works again, unless the master ends before: "
            "ask again with the same request_id"
        )
        replies, self._replies = self._replies, []
        for reply in replies:
            reply(told)
        self._commit_at = asyncio.get_running_loop().call_later(RETRY_S, self._commit)

    def _resume(self) -> None:
        # There is room again. From here on answers wait for the commit as ever, and it need not wait for its timer.
        self._stalled = False
        if self._commit_at is not None:
            self._commit_at.cancel()
        self._commit_at = asyncio.get_running_loop().call_soon(self._commit)

    def _let_out(self) -> None:
        replies, self._replies = self._replies, []
        effects, self._effects = self._effects, []
        published, self._published = self._published, []
        for reply in replies:
            reply(None)
        if effects:
            self.perform(effects)
            if failpoint.armed():
                # Links send at the end of this turn of the loop; this comes behind them.
                asyncio.get_running_loop().call_soon(self._reach_sent, effects)
        for change, nodes in published:
            for observer in self.observers:
                observer.published(change.tasks, change.gone, nodes)
        for observer in self.observers:
            observer.let_out()

    def _plan_if_due(self) -> None:
        if not self.core.plan_needed or self._stalled:
            return  # while nothing can be written, nothing is started
        started = time.monotonic()
        if started < self._next_plan:
            if self._plan_timer is None:
                self._plan_timer = asyncio.get_running_loop().call_later(self._next_plan - started, self._plan_later)
            return
        self.core.plan()
        self._next_plan = time.monotonic() + PLAN_SHARE * (time.monotonic() - started)
        self._take()

    def _plan_later(self) -> None:
        self._plan_timer = None
        self._collect()

    # -- failpoints of the commit, by what is in it -------------------------------------------------------------

    def _reach(self, moment: str) -> None:
        if not failpoint.armed():
            return
        for change, _ in self._published:
            for task in change.tasks:
                failpoint.reach(f"{_PATH.get(task.state, 'other')}.{moment}")

    @staticmethod
    def _reach_sent(effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Start):
                failpoint.reach("launch.after_send")
            elif isinstance(effect, Ack):
                failpoint.reach("exit.after_ack")

    # -- compaction -------------------------------------------------------------------------------------------

    async def _compact(self) -> None:
        try:
            self._archive()
            for work in self.store.compact(self.core.tasks, self.core.answered, next_id=self.core.next_id):
                await (asyncio.to_thread(work) if work is not None else asyncio.sleep(0))
        except StoreUnavailableError as error:
            log.warning("the journal is not compacted yet: %s", error)
            self._compact_from = time.monotonic() + COMPACT_RETRY_S
        except SyncFailedError as error:
            log.critical("%s", error)
            os._exit(EXIT_SYNC_FAILED)
        finally:
            self._compacting = None

    def _archive(self) -> None:
        surplus = self.core.oldest_ended(self._keep_history)
        if surplus:
            self.store.archive(surplus)
            self.event(lambda: self.core.drop_archived([task.id for task in surplus]))

    async def close(self) -> None:
        """Commit what is pending and close the store."""
        if self._compacting is not None:
            await self._compacting
        self._collect()
        if self._commit_at is not None:
            self._commit_at.cancel()
            self._commit()
        self.store.close()


_PATH = {"waiting": "submit", "starting": "launch", "running": "started"}
for _state in ("succeeded", "failed", "cancelled", "timed_out", "lost"):
    _PATH[_state] = "exit"


def _nobody(effects: list[Effect]) -> None:
    log.error("%d effects and nobody to perform them", len(effects))
