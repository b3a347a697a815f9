"""A folder of an earlier format becomes one of ours, before anything is recorded in it.

Owns the copy that is kept of it, `before-6`, and the order of the two steps. First every file that the queue is made of
is copied, byte for byte, and synced. Then state.json is put in its place anew, saying the same and its format: from
that rename on an earlier version refuses the folder, and up to it none of its files has changed. A start that was
killed in between does all of it again, for the earlier version may have worked there since. Everything else of the
folder stays as it was: lines and records of all formats are read for ever, and written in ours when they come up. So
does the copy that an earlier version kept of a still earlier one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from master.durable import failpoint, ids, published
from master.durable import queue_files as snapshot
from master.durable.disk import Disk, publish
from master.durable.journal import JOURNAL
from wire.message import Message

if TYPE_CHECKING:
    from pathlib import Path

KEPT = f"before-{snapshot.FORMAT}"
COPIED = (*snapshot.QUEUES, snapshot.STATE, JOURNAL, published.SUMS, ids.FILE)
"""The files that an earlier version needs to go on from that moment. The monthly files are only ever added to, and
stay."""


def bring_up(disk: Disk, folder: Path, settled: snapshot.Settled) -> Message:
    """Do it, durably; `settled` is what its state.json says. A message for the log. Raises OSError: the folder is
    then what it was; SyncFailedError."""
    _keep(disk, folder)
    failpoint.reach("format.kept")
    answers = snapshot.encode_answered(settled.answered.items())
    data = snapshot.encode_settled(settled.seq, settled.next_id, settled.state, answers)
    publish(disk, folder / snapshot.STATE, published.sealed(data))
    failpoint.reach("format.renamed")
    disk.sync_folder(folder)
    failpoint.reach("format.begun")
    settled.format = snapshot.FORMAT
    return Message("folder_brought_up", number=snapshot.FORMAT, kept=str(folder / KEPT))


def _keep(disk: Disk, folder: Path) -> None:
    kept = folder / KEPT
    disk.make_folder(kept)
    there = set(disk.names(folder)).intersection(COPIED)
    for name in disk.names(kept):
        if name not in there:
            disk.remove(kept / name)
    for name in COPIED:
        if name in there:
            publish(disk, kept / name, disk.read(folder / name))
            failpoint.reach("format.copied")
    disk.sync_folder(kept)
