"""The durable store: everything that the master promised to remember, in one folder that a person can read.

Owns what a recovery is made of: the queue files and state.json as of the last compaction, the journal of whole records
since, the reserve that keeps exits recordable on a full disk, the monthly history, the lock. It refuses to know what a
change means; it numbers changes, keeps them, and gives back the newest of everything.

    wait_task.json exec_task.json hist_task.json   lists of tasks, one a line
    state.json                                     the next id, pieces of state, answered requests
    journal.jsonl                                  records since those were written
    journal.torn                                   what the last start cut off the journal's end, if anything
    history/YYYY-MM.jsonl                          tasks that were moved out, by the month in which they ended (UTC)
    reserve, lock                                  space to free when the disk is full; the holder's pid
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from master.core.task import FIRST_FOREIGN_ID, Change, Task
from master.durable import history, legacy, snapshot
from master.durable.compaction import Compaction
from master.durable.disk import Disk, SyncFailedError, publish
from master.durable.journal import FULL, Journal, read_journal
from wire.errors import LockedError, StoreCorruptError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from master.durable.journal import Record

__all__ = ["Image", "LockedError", "Store", "StoreCorruptError", "StoreUnavailableError", "SyncFailedError"]

JOURNAL = "journal.jsonl"
TORN = "journal.torn"
RESERVE = "reserve"
RESERVE_BYTES = 4 * 1024 * 1024
"""Some 10,000 records: what can still end after the disk is full."""
COMPACT_BYTES = 8 * 1024 * 1024
"""A journal shorter than this is never worth a compaction: it is read in a tenth of a second."""

_encode_change = msgspec.json.Encoder().encode
_decode_change = msgspec.json.Decoder(Change).decode


class Image(msgspec.Struct):
    """What the store found: the newest of everything. `seq` is the last record's number, `next_id` the next task's."""

    tasks: dict[int, Task]
    state: dict[str, msgspec.Raw]
    answered: dict[str, msgspec.Raw]
    seq: int
    next_id: int


class Store:
    """The store of one folder. `open` first; then `append` and `commit` from one thread, and `compact` now and then.

    `fault` says why growth (new submits) must be refused now, None if it need not be: either nothing can be written,
    or only because the reserve was given up. `notes` are sentences for the log about what `open` found and did.
    """

    def __init__(self, folder: Path, disk: Disk, *, old_places: legacy.Places | None = None) -> None:
        self.folder = folder
        self._old_places = old_places
        self.disk = disk
        self.fault: str | None = None
        self.notes: list[str] = []
        self._lock: int | None = None
        self._journal: Journal | None = None
        self._state: dict[str, msgspec.Raw] = {}
        self._highest_id = 0
        self._snapshot_bytes = 0
        self._compact_from = COMPACT_BYTES

    # Starting and ending.

    def open(self) -> Image:
        """Lock the folder, make it if it is new, load it, and cut what a power cut left at the journal's end.

        Raises LockedError, StoreCorruptError (nothing was changed then), StoreUnavailableError (no writing there).
        """
        try:
            self.disk.make_folder(self.folder)
            self._lock = self.disk.lock(self.folder / "lock")
            with _without_gc():
                image = self._load()
        except OSError as error:
            self.close()
            raise StoreUnavailableError(f"cannot use {self.folder}: {error.strerror}") from error
        except Exception:
            self.close()
            raise
        self.probe()
        return image

    def close(self) -> None:
        """Give up the files and the lock. What was not committed is gone."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        if self._lock is not None:
            self.disk.close(self._lock)
            self._lock = None

    # Recording.

    def append(self, change: Change) -> int:
        """Take a change for the next commit and number it, in `seq` of its tasks too; its number."""
        journal = self.journal
        seq = journal.seq + 1
        highest = self._highest_id
        for task in change.tasks:
            task.seq = seq
            if highest < task.id < FIRST_FOREIGN_ID:
                highest = task.id
        self._highest_id = highest
        if change.state:
            self._state.update(change.state)
        return journal.append(_encode_change(change))

    def commit(self) -> None:
        """Make everything that was appended durable: one write, one sync.

        Raises StoreUnavailableError when the disk takes nothing now (full, read-only): nothing is lost, a later call
        tries again. Raises SyncFailedError when the process must end.
        """
        try:
            self.journal.commit()
        except StoreUnavailableError as error:
            if not (_is_full(error) and self._give_up_reserve()):
                self.fault = str(error)
                raise
            self._commit_on_reserve()

    def _commit_on_reserve(self) -> None:
        try:
            self.journal.commit()
        except StoreUnavailableError as error:
            self.fault = str(error)
            raise
        self.fault = f"the disk under {self.folder} is full; only what runs and ends is still recorded"

    def _give_up_reserve(self) -> bool:
        reserve = self.folder / RESERVE
        if RESERVE not in self.disk.names(self.folder):
            return False
        try:
            self.disk.remove(reserve)
        except OSError as error:
            self.fault = f"cannot remove {reserve}: {error.strerror}"
            return False
        return True

    def probe(self) -> None:
        """See whether there is room again: make the reserve whole; `fault` says what came of it."""
        try:
            self.disk.allocate(self.folder / RESERVE, RESERVE_BYTES)
        except OSError as error:
            self.fault = f"the disk under {self.folder} takes nothing more: {error.strerror}"
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
        run = Compaction(self.disk, self.folder, self.journal)

        def settled() -> snapshot.Settled:
            following = max(next_id, self._highest_id + 1)
            return snapshot.Settled(0, following, dict(self._state), dict(answered))

        try:
            yield from run.steps(tasks, settled)
        except OSError as error:
            self._compact_from = self.journal.size + COMPACT_BYTES
            raise StoreUnavailableError(f"cannot compact {self.folder}: {error.strerror}") from error
        except StoreUnavailableError as error:
            self._compact_from = self.journal.size + COMPACT_BYTES
            self.fault = str(error)
            raise
        self._plan_compaction(run.written)

    def _plan_compaction(self, snapshot_bytes: int) -> None:
        self._compact_from = max(COMPACT_BYTES, snapshot_bytes // 2)

    def archive(self, tasks: list[Task]) -> None:
        """Add ended tasks to the history of their months, durably. The caller then forgets them (a tombstone each).

        A crash between the two leaves a task in both; of equal ids in the history, the last line counts.
        Raises StoreUnavailableError when the disk refuses; what of it was written does no harm.
        """
        try:
            history.extend(self.disk, self.folder / "history", tasks)
        except OSError as error:
            raise StoreUnavailableError(f"cannot write the history in {self.folder}: {error.strerror}") from error

    # Loading.

    def _load(self) -> Image:
        names = self.disk.names(self.folder)
        settled = self._settle(names)
        queues = {name: self._read_queue(name) for name in snapshot.QUEUES}
        path = self.folder / JOURNAL
        data = self.disk.read(path)
        reading = read_journal(data, path, settled.seq)
        seq = reading.records[-1].seq if reading.records else settled.seq
        image = Image({}, settled.state, settled.answered, seq, settled.next_id)
        self._highest_id = settled.next_id - 1
        for name, queue in queues.items():
            self._take_queue(image, queue, self.folder / name)
        for number, record in enumerate(reading.records, 1):
            self._replay(image, record, number)
        _bound(image.answered)
        self._remove_drafts(names)
        self._journal = self._open_journal(seq, reading.size, data[reading.size :])
        self._state = dict(image.state)
        self._import(image, queues)
        image.seq = self._journal.seq
        image.next_id = self._highest_id + 1
        return image

    def _settle(self, names: list[str]) -> snapshot.Settled:
        """Read state.json; where there is none, the folder is new, or the old system's, or half made by us."""
        state = self.folder / snapshot.STATE
        if snapshot.STATE in names:
            for name in (*snapshot.QUEUES, JOURNAL):
                if name not in names:
                    snapshot.refuse(self.folder / name, None, "it is missing, and state.json says that it was there")
            return snapshot.read_settled(self.disk.read(state), state)
        if JOURNAL in names and self.disk.read(self.folder / JOURNAL):
            snapshot.refuse(state, None, f"it is missing, and {JOURNAL} holds records")
        for name in snapshot.QUEUES:
            if name in names:
                queue = snapshot.read_queue(self.disk.read(self.folder / name), self.folder / name)
                if len(queue.imported) < len(queue.tasks):
                    snapshot.refuse(state, None, f"it is missing, and {name} holds tasks of ours")
        return self._make_files(names)

    def _make_files(self, names: list[str]) -> snapshot.Settled:
        """Make what is missing; state.json comes last, so that its presence vouches for all others."""
        for name in snapshot.QUEUES:
            if name not in names:
                publish(self.disk, self.folder / name, snapshot.EMPTY_QUEUE)
        publish(self.disk, self.folder / JOURNAL, b"")
        self.disk.sync_folder(self.folder)
        publish(self.disk, self.folder / snapshot.STATE, snapshot.encode_settled(0, 1, {}, b""))
        self.disk.sync_folder(self.folder)
        return snapshot.Settled(0, 1)

    def _read_queue(self, name: str) -> snapshot.Queue:
        data = self.disk.read(self.folder / name)
        self._snapshot_bytes += len(data)
        self._plan_compaction(self._snapshot_bytes)
        return snapshot.read_queue(data, self.folder / name)

    def _take_queue(self, image: Image, queue: snapshot.Queue, path: Path) -> None:
        tasks = image.tasks
        newest = 0
        for task in queue.tasks:
            present = tasks.get(task.id)
            if present is None or task.seq >= present.seq:
                tasks[task.id] = task
            newest = max(newest, task.seq)
            self._see_id(task.id)
        if newest > image.seq:
            snapshot.refuse(path, None, f"it knows record {newest}, but {JOURNAL} ends with {image.seq}")

    def _replay(self, image: Image, record: Record, number: int) -> None:
        try:
            change = _decode_change(record.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            snapshot.refuse(self.folder / JOURNAL, number, f"the record is not of this version ({error})")
        for task in change.tasks:
            present = image.tasks.get(task.id)
            if present is None or task.seq > present.seq:
                image.tasks[task.id] = task
            self._see_id(task.id)
        for gone in change.gone:
            image.tasks.pop(gone, None)
            self._see_id(gone)
        image.state.update(change.state)
        for request_id, answer in change.answered.items():
            image.answered.pop(request_id, None)  # so that the newest are the last
            image.answered[request_id] = answer

    def _see_id(self, number: int) -> None:
        if self._highest_id < number < FIRST_FOREIGN_ID:
            self._highest_id = number

    def _remove_drafts(self, names: list[str]) -> None:
        for name in names:
            if name.endswith(".tmp"):
                self.disk.remove(self.folder / name)

    def _open_journal(self, seq: int, size: int, torn: bytes) -> Journal:
        if torn:
            publish(self.disk, self.folder / TORN, torn)
            self.disk.sync_folder(self.folder)
            self.notes.append(f"{len(torn)} bytes of unfinished records were cut off {JOURNAL} and kept in {TORN}")
        journal = Journal(self.disk, self.folder / JOURNAL, seq=seq, size=size)
        if torn:
            journal.cut_tail()
        return journal

    def _import(self, image: Image, queues: Mapping[str, snapshot.Queue]) -> None:
        """Record the old system's tasks as ours, after a copy of each file of theirs was kept."""
        fresh: list[Task] = []
        for name, queue in queues.items():
            if queue.imported:
                self._keep_original(name)
            fresh += [task for task in queue.imported if image.tasks.get(task.id) is task]
        if fresh:
            legacy.settle(fresh, self._old_places)
            self.append(Change(tasks=fresh))
            self.commit()
            self.notes.append(f"{len(fresh)} tasks of the old system were taken over")

    def _keep_original(self, name: str) -> None:
        data = self.disk.read(self.folder / name)
        names = self.disk.names(self.folder)
        copy, number = f"{name}.old", 1
        while copy in names:
            if self.disk.read(self.folder / copy) == data:
                return
            number += 1
            copy = f"{name}.old{number}"
        publish(self.disk, self.folder / copy, data)
        self.disk.sync_folder(self.folder)


def _bound(answered: dict[str, msgspec.Raw]) -> None:
    for request_id in list(answered)[: -snapshot.ANSWERS_KEPT]:
        del answered[request_id]


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
