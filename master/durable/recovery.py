"""Reading a folder back: the newest of everything, from the queue files, state.json and the journal.

Owns the checks that come before anything is believed, the files of a new folder, and the order in which a start may
write: nothing at all before every check has passed. A `Permit` says which faults somebody allows it to pass over.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import msgspec

from master.core.people import marks
from master.core.tasks.records import merge_pieces, read_change
from master.core.tasks.shared_values import SharedValues
from master.core.tasks.task import FIRST_FOREIGN_ID, Task
from master.durable import failpoint, published, salvage, upgrade
from master.durable import queue_files as snapshot
from master.durable.disk import Disk, publish
from master.durable.journal import JOURNAL, Journal, Reading, encode_record, read_journal, skip_damaged
from wire.errors import StoreCorruptError
from wire.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from master.durable.ids import Promised
    from master.durable.journal import Record
    from master.durable.witness import Witness

TORN = "journal.torn"
HEAD = encode_record(0, 0, b"{}")
"""The first line of a new journal: a journal that holds no record at all was emptied by somebody."""


class Permit(msgspec.Struct, frozen=True):
    """The permissions that somebody gave to this start. `edits`: take queue files as they lie, though no master wrote
    them; `damage`: pass over records of the journal that cannot be read."""

    edits: bool = False
    damage: bool = False


class Image(msgspec.Struct):
    """The findings of the store: the newest of everything. `seq` is the last record's number, `next_id` the next
    task's."""

    tasks: dict[int, Task]
    state: dict[str, msgspec.Raw]
    answered: dict[str, msgspec.Raw]
    seq: int
    next_id: int


class Recovery:
    """One reading of a folder. `run` it; then the other attributes tell what was found.

    `promised`: what `ids` tells of the last record that was written. `vouched`: whether state.json says what
    the queue files were. `damage` is what was lost, or may have been, for people to see; `unanswered`
    about what was cut off and nobody had an answer for; `notes` are for the log.
    """

    journal: Journal

    def __init__(self, folder: Path, disk: Disk, permit: Permit, witness: Witness, promised: Promised) -> None:
        self.folder = folder
        self.disk = disk
        self.permit = permit
        self.witness = witness
        self.notes: list[Message] = []
        self.damage: list[Message] = []
        self.unanswered: list[Message] = []
        self.queues: dict[str, snapshot.Queue] = {}
        self.settled = snapshot.Settled(0, 1, format=snapshot.FORMAT)
        self.snapshot_bytes = 0
        self.highest_id = 0
        self.files: dict[str, published.File] = {}
        self.vouched = False
        self._values = SharedValues()
        self._superseded: set[int] = set()
        self._published: list[published.Published] = []
        """The files that compactions which did not come to their end were about to publish, or had in part."""
        self._is_damaged = False
        """Were records passed over that cannot be read, or are missing?"""
        self.tells_of_people = False
        """Did a record that can be read tell of a user, a token or a group?"""
        self._journal_is_missing = False
        self._is_as_sealed = True
        self._promised = promised

    def run(self) -> Image:
        """Load, and cut what a power cut left at the journal's end. Raises StoreCorruptError (nothing was changed)."""
        names = self.disk.names(self.folder)
        self.settled = self._settle(names)
        self._read_queues()
        data = self._read_journal(names)
        reading = self._take_apart(data)
        image = self._image(reading)
        self._look_for_edits(reading)
        if self.settled.format < snapshot.FORMAT:
            self.notes.append(upgrade.bring_up(self.disk, self.folder, self.settled))
        self._remove_drafts(names)
        if self._is_damaged or self._journal_is_missing or not self._reaches(reading):
            self._salvage(image, reading, data)
        else:
            self.journal = self._open_journal(image, reading, data)
        image.next_id = self.highest_id + 1
        return image

    # -- existing files ---------------------------------------------------------------------------------------

    def _settle(self, names: list[str]) -> snapshot.Settled:
        """Read state.json; where there is none, the folder is new, or the old system's, or half made by us."""
        state = self.folder / snapshot.STATE
        if snapshot.STATE in names:
            for name in snapshot.QUEUES:
                if name not in names:
                    snapshot.refuse(self.folder / name, None, Message("queue_file_missing", known=snapshot.STATE))
            data = self.disk.read(state)
            settled = snapshot.read_settled(data, state)
            vouching = published.decode(settled.state.get(published.PIECE))
            self._is_as_sealed = vouching is None or published.is_as_sealed(data, vouching.own)
            return settled
        if JOURNAL in names and self.disk.read(self.folder / JOURNAL) not in (b"", HEAD):
            snapshot.refuse(state, None, Message("state_missing_records", journal=JOURNAL))
        is_empty = True
        for name in snapshot.QUEUES:
            if name in names:
                queue = snapshot.read_queue(self.disk.read(self.folder / name), self.folder / name)
                is_empty = is_empty and not queue.tasks
                if len(queue.imported) < len(queue.tasks):
                    snapshot.refuse(state, None, Message("state_missing_tasks", name=name))
        return self._make_files(names, self._known_elsewhere() if is_empty and self.witness.is_there else {})

    def _known_elsewhere(self) -> dict[str, msgspec.Raw]:
        """The queue that was here is gone: what its witness kept of its state. Raises StoreCorruptError."""
        folder, witness = str(self.folder), str(self.witness.path)
        if not self.permit.damage:
            raise StoreCorruptError(Message("queue_gone", folder=folder, witness=witness))
        begun = Message("queue_begun_anew", folder=folder, witness=witness)
        self.damage.append(Message("people_lost", loss=begun))
        kept = self.witness.pieces
        return {**kept, **salvage.lost_pieces({}, kept, people=False)}

    def _make_files(self, names: list[str], pieces: dict[str, msgspec.Raw]) -> snapshot.Settled:
        """Make what is missing; state.json comes last, so that its presence vouches for all others."""
        for name in snapshot.QUEUES:
            if name not in names:
                publish(self.disk, self.folder / name, snapshot.EMPTY_QUEUE)
        publish(self.disk, self.folder / JOURNAL, HEAD)
        names.append(JOURNAL)
        self.disk.sync_folder(self.folder)
        self._read_files()
        self._write_sums()
        state = {**pieces, published.PIECE: published.encode(published.Published(self.files))}
        data = snapshot.encode_settled(0, 1, state, b"")
        publish(self.disk, self.folder / snapshot.STATE, published.sealed(data))
        self.disk.sync_folder(self.folder)
        return snapshot.Settled(0, 1, state, format=snapshot.FORMAT)

    def _read_files(self) -> None:
        digests = published.Digests()
        self.snapshot_bytes = 0
        for name in snapshot.QUEUES:
            data = self.disk.read(self.folder / name)
            self.queues[name] = snapshot.read_queue(data, self.folder / name)
            digests.add(name, data, len(self.queues[name].tasks))
            self.snapshot_bytes += len(data)
        self.files = digests.files()

    def _write_sums(self) -> None:
        lines = b""
        for name, queue in self.queues.items():
            encoded = map(snapshot.encode_task, queue.tasks)
            lines += published.sum_lines(name, [task.id for task in queue.tasks], encoded)
        publish(self.disk, self.folder / published.SUMS, lines)

    def _read_queues(self) -> None:
        self._read_files()
        vouching = published.decode(self.settled.state.get(published.PIECE))
        self.vouched = vouching is not None and vouching.seq == self.settled.seq

    def _read_journal(self, names: list[str]) -> bytes:
        path = self.folder / JOURNAL
        if JOURNAL in names:
            return self.disk.read(path)
        if not self.permit.damage:
            raise StoreCorruptError(Message("journal_missing", path=str(path), known=snapshot.STATE))
        self._journal_is_missing = True
        return b""

    def _take_apart(self, data: bytes) -> Reading:
        path = self.folder / JOURNAL
        try:
            reading = read_journal(data, path, self.settled.seq)
        except StoreCorruptError:
            if not self.permit.damage:
                raise
            self._is_damaged = True
            return skip_damaged(data)
        if self._reaches(reading):
            return reading
        if not self.permit.damage:
            record = self.settled.seq
            raise StoreCorruptError(
                Message("journal_without_records", path=str(path), known=snapshot.STATE, record=record)
            )
        self._is_damaged = True
        return skip_damaged(data)  # what looked like a torn tail was more

    def _reaches(self, reading: Reading) -> bool:
        """Whether the journal holds the last record that the other files know. One of an earlier version may not: it
        was left empty by the last compaction."""
        if not self.vouched and not reading.records and not reading.bad:
            return True
        return bool(reading.records) and reading.records[-1].seq >= self.settled.seq

    # -- putting it together ----------------------------------------------------------------------------------

    def _image(self, reading: Reading) -> Image:
        seq = max(self.settled.seq, reading.records[-1].seq if reading.records else 0)
        image = Image({}, dict(self.settled.state), dict(self.settled.answered), seq, self.settled.next_id)
        self.highest_id = self.settled.next_id - 1
        for name, queue in self.queues.items():
            self._take_queue(image, queue, self.folder / name)
        for number, record in enumerate(reading.records, 1):
            self._replay(image, record, number)
        self.tells_of_people = self.tells_of_people or marks.tells_of_people(image.state)
        _bound(image.answered)
        return image

    def _take_queue(self, image: Image, queue: snapshot.Queue, path: Path) -> None:
        self._take(image, queue.tasks, newer=operator.ge)
        newest = max([task.seq for task in queue.tasks], default=0)
        if newest > image.seq and not self.permit.damage:
            where, folder = str(path), str(path.parent)
            raise StoreCorruptError(
                Message(
                    "queue_beyond_journal", path=where, newest=newest, journal=JOURNAL, last=image.seq, folder=folder
                )
            )
        self._is_damaged = self._is_damaged or newest > image.seq
        image.seq = max(image.seq, newest)

    def _replay(self, image: Image, record: Record, number: int) -> None:
        try:
            change = read_change(record.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            snapshot.refuse(self.folder / JOURNAL, number, Message("record_of_other_version", detail=str(error)))
        self._values.share(change.tasks)
        self._superseded.update(self._take(image, change.tasks, newer=operator.gt))
        for gone in change.gone:
            image.tasks.pop(gone, None)
        self._see(change.gone)
        self._superseded.update(change.gone)
        self.tells_of_people = self.tells_of_people or marks.tells_of_people(change.state)
        merge_pieces(image.state, change.state)
        if (piece := published.decode(change.state.get(published.PIECE))) is not None:
            self._published.append(piece)
        for request_id, answer in change.answered.items():
            image.answered.pop(request_id, None)  # so that the newest are the last
            image.answered[request_id] = answer

    def _take(self, image: Image, tasks: list[Task], newer: Callable[[int, int], bool]) -> Collection[int]:
        """Take over those of these tasks of which nothing newer is known; all their ids."""
        found, known = {task.id: task for task in tasks}, image.tasks
        if len(found) == len(tasks) and found.keys().isdisjoint(known.keys()):
            known.update(found)  # mostly there are many, and none was seen before
        else:
            for task in tasks:
                present = known.get(task.id)
                if present is None or newer(task.seq, present.seq):
                    known[task.id] = task
        self._see(found)
        return found

    def _see(self, numbers: Collection[int]) -> None:
        highest = max(numbers, default=0)
        if highest >= FIRST_FOREIGN_ID:
            highest = max((number for number in numbers if number < FIRST_FOREIGN_ID), default=0)
        self.highest_id = max(self.highest_id, highest)

    # -- what others did --------------------------------------------------------------------------------------

    def _look_for_edits(self, reading: Reading) -> None:
        """Tell, and unless that is permitted refuse, what is in the queue files and was not written by a master."""
        vouching = published.decode(self.settled.state.get(published.PIECE))
        if vouching is None or vouching.seq != self.settled.seq:
            return
        first = reading.records[0].seq if reading.records else None
        known = published.acceptable([vouching, *self._published], first)
        edited = [name for name in snapshot.QUEUES if all(self.files[name] != files.get(name) for files in known)]
        differences: dict[str, list[Message]] = {}
        if edited:
            sums = self._sums()
            differences = {name: self._difference(name, vouching, sums) for name in edited}
        if not self._is_as_sealed:
            differences[snapshot.STATE] = [Message("state_changed")]
        if not differences:
            return
        if not self.permit.edits:
            published.refuse(self.folder, differences)
        for name, found in differences.items():
            if found:
                self.notes.append(Message("edits_taken", name=name, changes=tuple(found)))
            else:
                self.notes.append(Message("edits_known_better", name=name))
        self.vouched = False

    def _difference(
        self, name: str, vouching: published.Published, sums: Mapping[str, dict[int, int]]
    ) -> list[Message]:
        lines = snapshot.lines_of(self.disk.read(self.folder / name))
        found = published.difference(sums[name], self.queues[name].tasks, self._superseded, lines)
        then = vouching.files[name].tasks
        if len(sums[name]) == then or found:
            return found
        now = self.files[name].tasks
        return [Message("task_count_changed", before=then, count=now, sums=published.SUMS)]

    def _sums(self) -> dict[str, dict[int, int]]:
        try:
            return published.read_sums(self.disk.read(self.folder / published.SUMS))
        except OSError:
            return published.read_sums(b"")

    # -- what is written --------------------------------------------------------------------------------------

    def _remove_drafts(self, names: list[str]) -> None:
        for name in names:
            if name.endswith(".tmp"):
                self.disk.remove(self.folder / name)

    def _open_journal(self, image: Image, reading: Reading, data: bytes) -> Journal:
        path, last = self.folder / JOURNAL, image.seq
        whole, torn = data[: reading.size], data[reading.size :]
        pieces = self._cut_off(image, reading, torn) if torn else {}
        if pieces:
            record = encode_record(last + 1, last, salvage.said(pieces))
            publish(self.disk, path, whole + record)  # both at once: a start after the cut sees nothing torn
            self.disk.sync_folder(self.folder)
            merge_pieces(image.state, pieces)
            image.seq = last + 1
            return Journal(self.disk, path, seq=image.seq, size=len(whole) + len(record))
        journal = Journal(self.disk, path, seq=last, size=len(whole))
        if torn:
            journal.cut_tail()
        return journal

    def _cut_off(self, image: Image, reading: Reading, torn: bytes) -> dict[str, msgspec.Raw]:
        """Keep and tell what is cut off; the pieces of state that are to be added for what may have been in it."""
        kept = self.keep(TORN, torn)
        failpoint.reach("start.torn_kept")
        note = Message("torn_cut_off", size=len(torn), journal=JOURNAL, kept=kept)
        self.notes.append(note)
        if not self.permit.damage and self._is_unanswered(reading):
            self.unanswered.append(Message("torn_unanswered", cut=note))
            return {}
        loss = Message("torn_end_lost", size=len(torn), journal=JOURNAL, kept=kept, last=image.seq)
        is_lost = max(self._promised.record or 0, self.witness.seq) > image.seq
        if not (is_lost or self._promised.machine_went_on or self.permit.damage):
            self.damage.append(loss)
            return {}
        self.damage.append(Message("people_lost", loss=loss))
        return salvage.lost_of_people(image.state, self.witness.pieces, people=self.tells_of_people)

    def _is_unanswered(self, reading: Reading) -> bool:
        """Was the master killed in the middle of the write of what was cut off? Then the last record that it noted is
        the last one that can be read, or the one before the first that went out in the same write."""
        promised = self._promised
        if not promised.machine_went_on or promised.ended or promised.record is None or not reading.records:
            return False
        last = reading.records[-1]
        return last.synced <= promised.record <= last.seq and self.witness.seq <= last.seq

    def _salvage(self, image: Image, reading: Reading, data: bytes) -> None:
        """Make of what could be read a state.json and a journal that are whole. Done again, it comes to the same."""
        kept = self.keep("journal.damaged", data)
        held = salvage.hold_doubtful(image.tasks.values(), reading)
        self.damage.append(salvage.told(reading, kept, held))
        image.state.update(salvage.lost_pieces(image.state, self.witness.pieces, people=self.tells_of_people))
        image.state[published.PIECE] = published.encode(published.Published(self.files, image.seq))
        answers = snapshot.encode_answered(image.answered.items())
        state = snapshot.encode_settled(image.seq, self.highest_id + 1, image.state, answers)
        publish(self.disk, self.folder / snapshot.STATE, published.sealed(state))
        self.disk.sync_folder(self.folder)
        changed = self._superseded | set(held)
        body = salvage.summary(image.tasks, changed, image.seq + 1)
        record = encode_record(image.seq + 1, image.seq, body)
        publish(self.disk, self.folder / JOURNAL, record)
        self.disk.sync_folder(self.folder)
        self.settled = snapshot.Settled(
            image.seq, self.highest_id + 1, dict(image.state), dict(image.answered), snapshot.FORMAT
        )
        image.seq += 1
        self.journal = Journal(self.disk, self.folder / JOURNAL, seq=image.seq, size=len(record))

    def keep(self, name: str, data: bytes) -> str:
        """Keep a copy beside, under a name that no other copy has; the name. An existing copy is not made twice."""
        names = self.disk.names(self.folder)
        copy, number = name, 1
        while copy in names:
            if self.disk.read(self.folder / copy) == data:
                return copy
            number += 1
            copy = f"{name}{number}"
        publish(self.disk, self.folder / copy, data)
        self.disk.sync_folder(self.folder)
        return copy

    def vouch(self, record: Callable[[msgspec.Raw], None]) -> None:
        """Note what the queue files are now, so that a later change is seen: in the journal, which by that holds a
        record and is never taken for an emptied one, then in state.json. Raises OSError, StoreUnavailableError."""
        piece = published.encode(published.Published(self.files, self.settled.seq))
        self._write_sums()
        record(piece)
        state = {**self.settled.state, published.PIECE: piece}
        answers = snapshot.encode_answered(self.settled.answered.items())
        data = snapshot.encode_settled(self.settled.seq, self.settled.next_id, state, answers)
        publish(self.disk, self.folder / snapshot.STATE, published.sealed(data))
        self.disk.sync_folder(self.folder)
        self.settled.state = state
        self.vouched = True


def _bound(answered: dict[str, msgspec.Raw]) -> None:
    for request_id in list(answered)[: -snapshot.ANSWERS_KEPT]:
        del answered[request_id]
