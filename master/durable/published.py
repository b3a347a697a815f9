"""The state of the queue files when they were written, so that a change made behind the master's back is seen and told.

Owns two things beside the queue files: the piece `files` of the state (how many tasks each file held, and its digest),
which says whether a file is as it was; and `queues.sums` (a checksum a task), which says what differs if it is not.
A file of either of two generations is as it was: between the first rename of a compaction and the cut of the journal
both may lie there, and the newer one's digests are in the journal before any of its files has its name.

It refuses to decide what becomes of a change: it tells. A task of which the journal holds a newer record is not
looked at, for the file has no word in it.
"""

from __future__ import annotations

import re
from binascii import crc32
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from master.durable.queue_files import QUEUES, encode_task
from wire.errors import StoreChangedError
from wire.message import Message

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping
    from pathlib import Path

    from master.core.tasks.task import Task

PIECE = "files"
SUMS = "queues.sums"
DIGEST_BYTES = 16
TOLD_RANGES = 5
TOLD_TASKS = 3
COMMAND_SHOWN = 60
BLANK = "0" * 2 * DIGEST_BYTES
_OWN_BLANK = b'"own":"%b"' % BLANK.encode()
_OWN = re.compile(rb'"own":"[0-9a-f]{32}"')


class File(msgspec.Struct, frozen=True):
    """A queue file as it was written: the number of its tasks, and its digest (BLAKE2b, hex)."""

    tasks: int
    digest: str


class Published(msgspec.Struct):
    """The piece `files`. `seq`: that of the state.json it stands in; if it is another one, a version that knows nothing
    of this wrote the files since, and nothing can be said of them. `own`: the digest of that state.json (see `sealed`;
    noughts where a version wrote it that made none). `before`: what the files of the generation before
    were; one of those may lie there as long as the journal still holds the record `start`, or one before it."""

    files: dict[str, File]
    seq: int = 0
    before: dict[str, File] = {}
    start: int = -1
    own: str = BLANK


class Digests:
    """The digests of queue files that are being written or read."""

    def __init__(self) -> None:
        self._hashes = {name: blake2b(digest_size=DIGEST_BYTES) for name in QUEUES}
        self._counts = dict.fromkeys(QUEUES, 0)

    def add(self, name: str, data: bytes, tasks: int = 0) -> None:
        """So much more of a file, with so many tasks."""
        self._hashes[name].update(data)
        self._counts[name] += tasks

    def files(self) -> dict[str, File]:
        """All of them, as they are now."""
        return {name: File(self._counts[name], self._hashes[name].hexdigest()) for name in QUEUES}


def encode(piece: Published) -> msgspec.Raw:
    """The piece of state."""
    return msgspec.Raw(msgspec.json.encode(piece))


def sealed(data: bytes) -> bytes:
    """A state.json with its own digest in it: that of what it is with noughts in the digest's place."""
    blank = _OWN.sub(_OWN_BLANK, data, count=1)
    return blank.replace(_OWN_BLANK, b'"own":"%b"' % _digest(blank).encode(), 1)


def is_as_sealed(data: bytes, own: str) -> bool:
    """Whether a state.json with this digest in it is what was written, as far as it tells."""
    if own == BLANK:
        return True
    seal = b'"own":"%b"' % own.encode()
    return seal in data and _digest(data.replace(seal, _OWN_BLANK, 1)) == own


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def acceptable(pieces: Iterable[Published], first: int | None) -> list[Mapping[str, File]]:
    """The generations whose files may lie there: those that the pieces tell, the ones before them only while the
    journal, whose first record is `first`, was not cut since."""
    known: list[Mapping[str, File]] = []
    for piece in pieces:
        known.append(piece.files)
        if first is not None and first <= piece.start:
            known.append(piece.before)
    return known


def decode(piece: msgspec.Raw | None) -> Published | None:
    """The piece; None where there is none that can be read."""
    if piece is None:
        return None
    try:
        return msgspec.json.decode(piece, type=Published)
    except msgspec.DecodeError:
        return None


def sum_lines(name: str, ids: Iterable[int], lines: Iterable[bytes]) -> bytes:
    """Return the lines of `queues.sums` for tasks of one file: a line each, `FILE ID CRC32`."""
    letter = name[:1].encode()
    pairs = zip(ids, lines, strict=True)
    return b"".join(b"%b %d %08x\n" % (letter, number, crc32(line)) for number, line in pairs)


def read_sums(data: bytes) -> dict[str, dict[int, int]]:
    """The checksums by file and id; of a file that is not what we wrote, as much as can be read."""
    names = {name[:1].encode(): name for name in QUEUES}
    sums: dict[str, dict[int, int]] = {name: {} for name in QUEUES}
    for line in data.splitlines():
        try:
            letter, number, value = line.split(b" ")
            sums[names[letter]][int(number)] = int(value, 16)
        except (KeyError, ValueError):
            continue
    return sums


def difference(
    old: Mapping[int, int], tasks: Iterable[Task], superseded: Container[int], lines: Mapping[int, bytes]
) -> list[Message]:
    """Return the differences of one file: which tasks are missing, changed, or were never there. `lines`: how the file
    has them, laid out as we do; one of an earlier format is written otherwise by now."""
    present = {task.id: task for task in tasks if task.id not in superseded}
    missing = [number for number in old if number not in present and number not in superseded]
    added = [number for number in present if number not in old]
    changed = [
        task
        for number, task in present.items()
        if number in old and old[number] not in (crc32(encode_task(task)), crc32(lines.get(number, b"")))
    ]
    said = []
    if missing:
        said.append(Message("tasks_missing", count=len(missing), ids=ranges(missing)))
    said += [Message("task_edited", id=task.id, command=_command(task)) for task in changed[:TOLD_TASKS]]
    if len(changed) > TOLD_TASKS:
        said.append(Message("more_tasks_changed", count=len(changed) - TOLD_TASKS))
    if added:
        said.append(Message("tasks_new", count=len(added), ids=ranges(added)))
    return said


def refuse(folder: Path, differences: Mapping[str, list[Message]]) -> None:
    """Raise StoreChangedError if there is any difference: what differs in which file, and the ways out."""
    files = [
        Message("queue_file_changed", name=name, changes=tuple(found)) for name, found in differences.items() if found
    ]
    if files:
        raise StoreChangedError(Message("queue_files_changed", folder=str(folder), files=tuple(files)))


def ranges(ids: Iterable[int]) -> str:
    """Ids as people write them: `3-7, 12`."""
    found: list[list[int]] = []
    for number in sorted(ids):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    told = [str(first) if first == last else f"{first}-{last}" for first, last in found[:TOLD_RANGES]]
    return ", ".join(told) + (", …" if len(found) > TOLD_RANGES else "")


def _command(task: Task) -> str:
    text = task.command if isinstance(task.command, str) else " ".join(task.command)
    return text if len(text) <= COMMAND_SHOWN else text[: COMMAND_SHOWN - 1] + "…"
