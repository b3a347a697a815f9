"""Writing the queue files anew and cutting the journal, a slice at a time, while tasks go on being changed.

Owns the order of those steps, which is the whole of its safety (see `Compaction`), and the temporary files. How large
the journal must be for it is the store's decision (`should_compact`); `compacting` begins it. Between two steps
everything else goes on.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from master.durable import failpoint, outbox, published
from master.durable import queue_files as snapshot
from master.durable.disk import Disk, SyncFailedError, write_all
from master.durable.journal import REFUSED
from master.durable.portions import portions
from wire.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import msgspec

    from master.core.tasks.task import Task
    from master.durable.journal import Journal

    Steps = Iterator[Callable[[], None] | None]

TASKS_A_SLICE = 2_000
ANSWERS_A_SLICE = 10_000
BYTES_A_SLICE = 4 * 1024 * 1024
LAST_BYTES = 256 * 1024
"""The tail of the journal that is copied and synced while nothing else runs may be this long."""


class Compaction:
    """One run. Its steps, and why each stands where it does:

    1. Remember where the journal ends. Each record from here on stays in it.
    2. Encode every task, in slices, in the state that it then has; a later state than that of step 1 does no harm,
       because its record stays in the journal. The drafts are synced.
    3. Record what the drafts of the queues are: a start must know the files of either generation for its own. Commit.
       A draft may hold a change whose record is not on the disk yet; published without it, half of a record could come
       back after a crash.
    4. Rename the drafts, in any order and without a common moment: a task that did not change since the last cut is
       in the same file in both generations, and of one that did the whole journal, still there, has the last word.
    5. Sync the folder. Only now are the records before step 1 not needed.
    6. Copy the journal from where step 1 saw its end, or from a record before it that a consumer of the outbox has not
       seen, sync, rename it over the old one, sync the folder. The last of this happens without a pause: a record
       written to the new file before its name is durable would be lost.
    """

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        journal: Journal,
        commit: Callable[[], None],
        kept_from: Callable[[], int | None] = lambda: None,
    ) -> None:
        """`commit`: makes what waits for the journal durable. `kept_from`: see `Outbox`; asked once step 3 is done."""
        self.disk = disk
        self.folder = folder
        self.journal = journal
        self._commit = commit
        self._kept_from = kept_from
        self.written = self.kept = 0
        """Bytes of the drafts; and of the records that the journal keeps for consumers only."""
        self._drafts: dict[str, int] = {}
        self._digests = published.Digests()
        self._start = journal.size

    def steps(
        self,
        tasks: Mapping[int, Task],
        settled: Callable[[], snapshot.Settled],
        record: Callable[[msgspec.Raw], None],
        before: published.Published | None,
    ) -> Steps:
        """Run. Between steps the caller may do anything but hold a change to a task that it has not appended.

        A yielded callable blocks for long and may run in a thread; the next step must wait for it. After the tasks were
        encoded, `record` gets the piece of state that tells what the files will be (`before`: what they are), and then
        `settled` is asked, once each. OSErrors and StoreUnavailableError leave all published files as they are.
        """
        # The files before these count while this record is in the journal; any cut takes it away.
        first = self.journal.first_record()
        start = self.journal.synced if first is None else first
        try:
            yield from self._write_queues(list(tasks.values()))
            files = published.Published(self._digests.files(), 0, before.files if before else {}, start)
            record(published.encode(files))
            yield from self._write_settled(settled(), files)
            failpoint.reach("compaction.drafted")
            yield from self._sync_drafts()
            failpoint.reach("compaction.drafts_synced")
            self._commit()
            for name in (*snapshot.QUEUES, published.SUMS, snapshot.STATE):
                self._publish(name)
                failpoint.reach("compaction.renamed")
            yield partial(self.disk.sync_folder, self.folder)
            failpoint.reach("compaction.folder_synced")
            yield from self._cut_journal()
        finally:
            self._drop_drafts()

    def _write_queues(self, tasks: list[Task]) -> Steps:
        tasks.sort(key=lambda task: task.id)
        separator = dict.fromkeys(snapshot.QUEUES, b"[\n")
        for name in (*snapshot.QUEUES, published.SUMS):
            self._draft(name)
        yield None
        for part in portions(tasks, TASKS_A_SLICE):
            for name, lines in snapshot.encode_tasks(part).items():
                if lines:
                    self._write_queue(name, separator[name] + b",\n".join(lines.values()), len(lines))
                    self._write(published.SUMS, published.sum_lines(name, lines.keys(), lines.values()))
                    separator[name] = b",\n"
            yield None
        for name, before in separator.items():
            self._write_queue(name, snapshot.EMPTY_QUEUE if before == b"[\n" else b"\n]\n")

    def _write_queue(self, name: str, data: bytes, tasks: int = 0) -> None:
        self._write(name, data)
        self._digests.add(name, data, tasks)

    def _write_settled(self, settled: snapshot.Settled, files: published.Published) -> Steps:
        answers = list(settled.answered.items())[-snapshot.ANSWERS_KEPT :]
        slices: list[bytes] = []
        remaining = iter(answers)
        while part := list(islice(remaining, ANSWERS_A_SLICE)):
            slices.append(snapshot.encode_answered(part))
            yield None
        # The number goes in last: it must cover everything that the drafts of the queues hold.
        seq = files.seq = self.journal.seq
        state = {**settled.state, published.PIECE: published.encode(files)}
        data = snapshot.encode_settled(seq, settled.next_id, state, b",\n".join(slices))
        self._draft(snapshot.STATE)
        self._write(snapshot.STATE, published.sealed(data))

    def _sync_drafts(self) -> Steps:
        for fd in list(self._drafts.values()):
            yield partial(self.disk.sync, fd)

    def _cut_journal(self) -> Steps:
        name = self.journal.path.name
        cut = copied = self._cut()
        self.kept = self._start - cut
        self._draft(name)
        while self.journal.size - copied > LAST_BYTES:
            copied += self._copy(copied)
            yield None
        yield partial(self.disk.sync, self._drafts[name])
        self._commit()
        while copied < self.journal.size:
            copied += self._copy(copied)
        self.disk.sync(self._drafts[name])
        failpoint.reach("compaction.journal_copied")
        self._replace_journal(name)
        self.journal.continue_in(self._drafts.pop(name), copied - cut)

    def _cut(self) -> int:
        """Return how much of the journal's head goes."""
        kept_from = self._kept_from()
        wanted = self._start if kept_from is None else kept_from - self.journal.begin
        if wanted >= self._start:
            return self._start
        return self.journal.boundary(max(wanted, self._start - outbox.KEPT_BYTES))

    def _replace_journal(self, name: str) -> None:
        """Raises SyncFailedError where nobody can say which file has the name: answers might go into the other one."""
        renamed = False
        try:
            self.disk.rename(self._draft_path(name), self.folder / name)
            renamed = True
            failpoint.reach("compaction.journal_renamed")
            self.disk.sync_folder(self.folder)
        except OSError as error:
            if renamed or error.errno not in REFUSED:
                raise SyncFailedError(
                    Message("journal_not_replaced", path=str(self.folder / name), detail=error.strerror)
                ) from error
            raise

    def _copy(self, offset: int) -> int:
        size = min(BYTES_A_SLICE, self.journal.size - offset)
        data = self.journal.read(offset, size)
        write_all(self.disk, self._drafts[self.journal.path.name], data)
        return len(data)

    def _draft_path(self, name: str) -> Path:
        return self.folder / f"{name}.tmp"

    def _draft(self, name: str) -> None:
        self._drafts[name] = self.disk.create(self._draft_path(name))

    def _write(self, name: str, data: bytes) -> None:
        write_all(self.disk, self._drafts[name], data)
        self.written += len(data)

    def _publish(self, name: str) -> None:
        self.disk.close(self._drafts.pop(name))
        self.disk.rename(self._draft_path(name), self.folder / name)

    def _drop_drafts(self) -> None:
        names = list(self._drafts)
        for name in names:
            self.disk.close(self._drafts.pop(name))
        for name in names:
            self.disk.remove(self._draft_path(name))
