"""The durable store: everything that the master promised to remember, in one folder that a person can read.

Owns what a recovery is made of: the queue files and state.json as of the last compaction, the journal of whole records
since, the reserve that keeps exits recordable on a full disk, the monthly history, the lock. It refuses to know what a
change means; it numbers changes, keeps them, and gives back the newest of everything.

    wait_task.json exec_task.json hist_task.json   lists of tasks, one a line
    state.json                                     the next id, pieces of state, answered requests
    journal.jsonl                                  records since those were written
    journal.torn journal.damaged                   what starts cut off the journal's end, or could not read
    outbox/NAME                                    how far a consumer of moves has come
    queues.sums ids                                what the queue files were; which ids were given, and promised
    before-6/                                      what the folder was in the format before this one
    history/YYYY-MM.jsonl                          tasks that were moved out, by the month in which they ended (UTC)
    reserve, lock                                  space to free when the disk is full; the holder's pid
"""

from __future__ import annotations

import gc
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec

from master.core.people import marks
from master.core.people.marks import END_ACCESS
from master.core.tasks.records import Change, merge_pieces
from master.core.tasks.task import FIRST_FOREIGN_ID, Task
from master.durable import failpoint, history, legacy, outbox, published, salvage
from master.durable import queue_files as snapshot
from master.durable.compaction import Compaction
from master.durable.disk import Disk, SyncFailedError, publish
from master.durable.ids import Promised
from master.durable.journal import FULL, JOURNAL, Journal
from master.durable.recovery import TORN, Image, Permit, Recovery
from master.durable.witness import Witness
from wire.errors import LockedError, StoreCorruptError, StoreUnavailableError
from wire.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

__all__ = [
    "JOURNAL",
    "TORN",
    "Image",
    "LockedError",
    "Permit",
    "Store",
    "StoreCorruptError",
    "StoreUnavailableError",
    "SyncFailedError",
]

_OLDER = "is older than what was written there"
"""The words of earlier versions, which kept nothing but the sentence."""
RESERVE = "reserve"
RESERVE_BYTES = 4 * 1024 * 1024
"""Some 10,000 records: what can still end after the disk is full."""
COMPACT_BYTES = 8 * 1024 * 1024
"""A journal shorter than this is never worth a compaction: it is read in a tenth of a second."""

_encode_change = msgspec.json.Encoder().encode


class Store:
    """The store of one folder. `open` first; then `append` and `commit` from one thread, and `compact` now and then.
    `witness`: the file outside of the folder that tells of it.

    `fault` says why growth (new submits) must be refused now, None if it need not be: either nothing can be written,
    or only because the reserve was given up. `is_older_copy`: as far as the witness knows the folder had been written
    further than it is now, so it was put back from a backup; until `take_as_it_is`. `notes` are messages for the log
    about what `open` found and did.
    """

    def __init__(
        self,
        folder: Path,
        disk: Disk,
        *,
        old_places: legacy.OldFolders | None = None,
        permit: Permit | None = None,
        witness: Path | None = None,
    ) -> None:
        self.folder = folder
        self._old_places = old_places
        self._permit = permit or Permit()
        self._witness = Witness(disk, witness, folder)
        self._promised = Promised(disk, folder, self._witness)
        self.disk = disk
        self.outbox = outbox.Outbox(disk, folder / outbox.FOLDER)
        self.fault: Message | None = None
        self.is_older_copy = False
        self.notes: list[Message] = []
        self._lock: tuple[int, ...] = ()
        self._journal: Journal | None = None
        self._state: dict[str, msgspec.Raw] = {}
        self._marks_changed = False
        self._state_changed = False
        self._highest_id = 0
        self._compact_from = COMPACT_BYTES
        self._settled: snapshot.Settled | None = None

    # Starting and ending.

    def open(self) -> Image:
        """Lock the folder, make it if it is new, load it, and cut what a power cut left at the journal's end.

        Raises LockedError, StoreCorruptError (nothing was changed then), StoreUnavailableError (no writing there).
        """
        try:
            self.disk.make_folder(self.folder)
            self._lock = self.disk.lock(self.folder / "lock")
            failpoint.reach("start.locked")
            with _without_gc():
                image = self._load()
        except OSError as error:
            self.close()
            raise StoreUnavailableError(
                Message("folder_unusable", folder=str(self.folder), detail=error.strerror)
            ) from error
        except BaseException:
            self.close()
            raise
        self.probe()
        return image

    def close(self) -> None:
        """Give up the files and the lock. Changes that were not committed are gone."""
        if self._journal is not None:
            if not self.is_older_copy:
                self._witness.stood(self._journal.synced)
            self.outbox.close()
            self._journal.close()
            self._journal = None
        try:
            self._promised.end()
        finally:
            self._witness.close()
            for fd in self._lock:
                self.disk.close(fd)
            self._lock = ()

    def anchor(self, pieces: Mapping[str, msgspec.Raw], *, anew: bool) -> None:
        """Have state.json hold these pieces of state, if it has none of these names, or `anew`: who lost the journal
        must know them; and the witness, for who lost the folder. Called once, after `open`. Raises SyncFailedError; a
        disk that refuses is told in `notes`."""
        settled, self._settled = self._settled, None
        kept = {**marks.of(self._state), **pieces}
        self._witness.keep(kept, stood=None if self.is_older_copy else self.journal.synced)
        if settled is None or (not anew and pieces.keys() <= settled.state.keys()):
            return
        answers = snapshot.encode_answered(settled.answered.items())
        state = {**settled.state, **pieces}
        data = snapshot.encode_settled(settled.seq, settled.next_id, state, answers)
        try:
            publish(self.disk, self.folder / snapshot.STATE, published.sealed(data))
            self.disk.sync_folder(self.folder)
        except OSError as error:
            self.notes.append(Message("state_unwritable", detail=str(error)))

    def take_as_it_is(self) -> None:
        """All was done that is to be done with an older copy."""
        self.is_older_copy = False
        self._witness.stood(self.journal.synced)

    # Recording.

    def append(self, change: Change) -> int:
        """Take a change for the next commit and number it, in `seq` of its tasks too; its number."""
        journal = self.journal
        seq = journal.seq + 1
        highest = self._highest_id
        for task in change.tasks:
            if task.seq != seq:  # mostly it was known when the task changed (`Pending.number`)
                task.seq = seq
            if highest < task.id < FIRST_FOREIGN_ID:
                highest = task.id
        self._highest_id = highest
        if change.state:
            merge_pieces(self._state, change.state)
            self._state_changed = True
            self._marks_changed = self._marks_changed or not change.state.keys().isdisjoint(marks.KEPT)
        return journal.append(_encode_change(change))

    def serve(self, consumers: Collection[str]) -> None:
        """Let these read the moves of tasks from now on, by `outbox`. Called once, before the first change."""
        if self.outbox.begin(consumers, self.journal, self._state.get(outbox.PIECE)):
            self.append(Change(state={outbox.PIECE: self.outbox.floor()}))
        self.notes += self.outbox.notes

    def commit(self) -> None:
        """Make everything that was appended durable: one write, one sync.

        Raises StoreUnavailableError when the disk takes nothing now (full, read-only): nothing is lost, a later call
        tries again. Raises SyncFailedError when the process must end, JournalChangedError when only `write_anew` can
        save what was recorded.
        """
        highest, journal = self._highest_id, self.journal
        self._promised.cover(highest)
        self._look(journal)
        is_kept = True
        if self._marks_changed:
            # First here: with a mark too many the next start is strict, with one too few it is not.
            is_kept = self._witness.mark(marks.of_before(self._state, self._witness.pieces))
        try:
            journal.commit()
        except StoreUnavailableError as error:
            if not (_is_full(error) and self._give_up_reserve()):
                self.fault = error.args[0]
                raise
            self._commit_on_reserve()
        self._note()
        if self._marks_changed:
            if (kept := marks.of(self._state)) != {name: self._witness.pieces.get(name) for name in kept}:
                is_kept = self._witness.mark(kept)
            self._marks_changed = not is_kept  # one that could not be written is tried again

    def _commit_journal(self) -> None:
        """Commit, with nobody to tell and no reserve."""
        self._promised.cover(self._highest_id)
        self.journal.commit()
        self._note()

    def _note(self) -> None:
        """Note how far the journal is on the disk, where the next start looks whether it lost its end."""
        journal = self.journal
        self._promised.note(self._highest_id, journal.synced)
        # On a slow disk the witness hears only of changes that an older copy could bring back, unless it stands in.
        is_heard = self._state_changed or self._witness.is_near or self._promised.fault is not None
        if is_heard and not self.is_older_copy:
            self._state_changed = False
            self._witness.note(journal.synced)

    def _look(self, journal: Journal) -> None:
        try:
            if journal.is_in_place:
                return  # and so is the folder, for the journal was found in it
            if self.disk.is_in_place(self.folder):
                journal.look()
                return
            self.fault = self._moved
        except OSError as error:
            self.fault = Message("journal_not_seen", path=str(self.folder / JOURNAL), detail=error.strerror)
        raise StoreUnavailableError(self.fault)

    @property
    def _moved(self) -> Message:
        return Message("folder_moved", folder=str(self.folder))

    def write_anew(self, tasks: Mapping[int, Task], answered: Mapping[str, msgspec.Raw], *, next_id: int = 0) -> None:
        """Write everything anew, with nobody else at work: the journal was emptied by somebody. Raises as `compact`."""
        self.journal.begin_anew()
        for work in self.compact(tasks, answered, next_id=next_id):
            if work is not None:
                work()

    def _commit_on_reserve(self) -> None:
        try:
            self.journal.commit()
        except StoreUnavailableError as error:
            self.fault = error.args[0]
            raise
        self.fault = Message("store_full", folder=str(self.folder))

    def _give_up_reserve(self) -> bool:
        reserve = self.folder / RESERVE
        try:
            self.disk.size(reserve)  # listing the folder would need a descriptor, and there may be none left
            self.disk.remove(reserve)
        except FileNotFoundError:
            return False
        except OSError as error:
            self.fault = Message("reserve_kept", path=str(reserve), detail=error.strerror)
            return False
        return True

    def probe(self) -> None:
        """See whether there is room again: make the reserve whole; `fault` says what came of it."""
        if not self.disk.is_in_place(self.folder):
            self.fault = self._moved
            return
        try:
            self.disk.allocate(self.folder / RESERVE, RESERVE_BYTES)
        except OSError as error:
            self.fault = Message("disk_takes_no_more", folder=str(self.folder), detail=error.strerror)
            if error.errno in FULL:
                self.disk.remove(self.folder / RESERVE)
        else:
            self.fault = None

    def room_for(self, nbytes: int) -> bool:
        """Whether `nbytes` more fit, with as much as the reserve to spare."""
        return self.disk.free_bytes(self.folder) >= nbytes + RESERVE_BYTES

    @property
    def journal(self) -> Journal:
        """The open journal. Using a store that is not open is a defect."""
        if self._journal is None:
            raise RuntimeError(f"the store {self.folder} is not open")
        return self._journal

    @property
    def ids_fault(self) -> Message | None:
        """Why the file cannot be written that shows whether the journal lost its end; None if it can."""
        return self._promised.fault

    @property
    def next_seq(self) -> int:
        """The number that the next record gets."""
        return self.journal.seq + 1

    @property
    def journal_bytes(self) -> int:
        """How much a start would have to replay."""
        return self.journal.size

    # Compaction and history.

    def should_compact(self) -> bool:
        """Whether the journal has outgrown half of what compacting it would write."""
        return self.journal.size >= self._compact_from

    def compact(
        self, tasks: Mapping[int, Task], answered: Mapping[str, msgspec.Raw], *, next_id: int = 0
    ) -> Iterator[Callable[[], None] | None]:
        """Write the queue files anew and cut the journal, in steps; see `Compaction` for what may happen between them.

        None means "let others run"; a callable is work that blocks, to be run (in a thread) before the next step.
        Raises StoreUnavailableError when the disk refuses: the drafts are removed and the journal stays whole.
        """
        run = Compaction(self.disk, self.folder, self.journal, self._commit_journal, lambda: self.outbox.kept_from)
        before = published.decode(self._state.get(published.PIECE))

        def record(piece: msgspec.Raw) -> None:
            floor = {outbox.PIECE: self.outbox.floor()} if self.outbox.is_read else {}
            self.append(Change(state={published.PIECE: piece, **floor}))

        def settled() -> snapshot.Settled:
            following = max(next_id, self._highest_id + 1)
            return snapshot.Settled(0, following, dict(self._state), dict(answered))

        try:
            yield from run.steps(tasks, settled, record, before)
        except OSError as error:
            self._compact_from = self.journal.size + COMPACT_BYTES
            raise StoreUnavailableError(
                Message("not_compacted", folder=str(self.folder), detail=error.strerror)
            ) from error
        except StoreUnavailableError as error:
            self._compact_from = self.journal.size + COMPACT_BYTES
            self.fault = error.args[0]
            raise
        self._plan_compaction(run.written, run.kept)

    def _plan_compaction(self, snapshot_bytes: int, kept: int = 0) -> None:
        self._compact_from = kept + max(COMPACT_BYTES, snapshot_bytes // 2)

    def archive(self, tasks: list[Task]) -> None:
        """Add ended tasks to the history of their months, durably. The caller then forgets them (a tombstone each).

        A crash between the two leaves a task in both; of equal ids in the history, the last line counts.
        Raises StoreUnavailableError when the disk refuses; what of it was written does no harm.
        """
        try:
            history.extend(self.disk, self.folder / "history", tasks)
        except OSError as error:
            raise StoreUnavailableError(
                Message("history_unwritable", folder=str(self.folder), detail=error.strerror)
            ) from error

    # Loading.

    def _load(self) -> Image:
        self._witness.load()
        self._promised.load()
        recovery = Recovery(self.folder, self.disk, self._permit, self._witness, self._promised)
        image = recovery.run()
        self.notes = recovery.notes
        self._journal = recovery.journal
        self.is_older_copy = self._witness.is_there and self._witness.seq > image.seq
        self._state = dict(image.state)
        self._settled = recovery.settled
        self._plan_compaction(recovery.snapshot_bytes)
        if (lost := self._promised.lost_end(recovery.highest_id, image.seq)) and not recovery.damage:
            self._end_was_lost(lost, recovery)
        if self.is_older_copy and not recovery.damage:
            recovery.damage += self._older_copy(image.seq)
        self._journal.settle()
        self._highest_id = self._promised.go_on(
            recovery.highest_id,
            record=self._journal.synced,
            is_damaged=bool(recovery.damage),
            is_new=image.seq == 0,
        )
        if not recovery.vouched:
            self._vouch(recovery)
            self._settled = recovery.settled
        self._import(image, recovery)
        if missing := marks.merged(self._state, self._witness.pieces):
            self.append(Change(state=missing))
        image.seq = self._journal.seq
        image.next_id = self._highest_id + 1
        if self._highest_id > recovery.highest_id or recovery.unanswered:
            self._tell(recovery)
        image.state = dict(self._state)
        return image

    def _end_was_lost(self, lost: Message, recovery: Recovery) -> None:
        """Nothing but the promised ids shows that the last records are gone. First the journal says what follows from
        that: once more ids are promised, nothing shows it any more."""
        recovery.damage.append(Message("people_lost", loss=lost))
        pieces = salvage.lost_of_people(self._state, self._witness.pieces, people=recovery.tells_of_people)
        self.append(Change(state=pieces))
        with suppress(StoreUnavailableError):  # it goes with the next commit
            self.journal.commit()

    def _older_copy(self, seq: int) -> list[Message]:
        """Return what people have to know of that, unless they were told before."""
        folder, witness = str(self.folder), str(self._witness.path)
        said_before = f"{folder} {_OLDER}"
        if any(loss.tells("folder_older", folder=folder) or loss.what.startswith(said_before) for loss in self.damage):
            return []
        return [Message("folder_older", folder=folder, last=seq, written=self._witness.seq, witness=witness)]

    def _vouch(self, recovery: Recovery) -> None:
        def record(piece: msgspec.Raw) -> None:
            self.append(Change(state={published.PIECE: piece}))
            self.commit()

        try:
            recovery.vouch(record)
        except (OSError, StoreUnavailableError) as error:
            self.notes.append(Message("files_not_vouched", detail=str(error)))

    def _import(self, image: Image, recovery: Recovery) -> None:
        """Record the old system's tasks as ours, after a copy of each file of theirs was kept."""
        fresh: list[Task] = []
        for name, queue in recovery.queues.items():
            if queue.imported:
                recovery.keep(f"{name}.old", self.disk.read(self.folder / name))
            fresh += [task for task in queue.imported if image.tasks.get(task.id) is task]
        if fresh:
            legacy.settle(fresh, self._old_places, self._held_of_old())
            self.append(Change(tasks=fresh))
            self.commit()
            self.notes.append(Message("old_tasks_taken", count=len(fresh)))

    def _held_of_old(self) -> dict[int, str]:
        """The old system's waiting tasks that are to be held. Raises StoreCorruptError: unheld, one might run again."""
        path = self.folder / legacy.HOLD_FILE
        try:
            return legacy.read_hold(self.disk.read(path))
        except FileNotFoundError:
            return {}
        except legacy.NotLegacyError as error:
            snapshot.refuse(path, None, Message("hold_list_wrong", detail=error.what))

    def _tell(self, recovery: Recovery) -> None:
        """Record from where ids go on, and keep what people have to know of until somebody has seen it."""
        first = self._highest_id + 1
        # The tombstone of an id beyond all that may have been given: from here on the journal knows how far they went.
        change = Change(gone=[self._highest_id] if self._highest_id > recovery.highest_id else [])
        lost = [Message("ids_go_on", loss=loss, first=first) for loss in recovery.damage]
        if told := [*lost, *recovery.unanswered]:
            found = [salvage.Loss.of(message, time.time()) for message in told]
            change.state[salvage.DAMAGE] = msgspec.Raw(msgspec.json.encode([*self.damage, *found]))
        else:
            self.notes.append(Message("ids_unknown", first=first))
        self.append(change)
        with suppress(StoreUnavailableError):  # it goes with the next commit; `fault` tells
            self.commit()

    @property
    def access_is_to_end(self) -> bool:
        """May tokens, log-ins and links be here that had ended?"""
        return self.is_older_copy or END_ACCESS in self._state

    @property
    def damage(self) -> list[salvage.Loss]:
        """Possible losses that nobody has confirmed yet."""
        return salvage.losses(self._state.get(salvage.DAMAGE))


def _is_full(error: StoreUnavailableError) -> bool:
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in FULL


@contextmanager
def _without_gc() -> Iterator[None]:
    """Loading makes a hundred thousand objects and no garbage; looking for some would take longer than the rest."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
