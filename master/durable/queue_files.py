"""The three queue files and state.json: their names, how they are written, how they are read back.

Owns the formats (plain JSON lists, one task per line; one object with a line per answered request) and the refusal of
whatever does not parse, with the file, the line and the way out. It knows nothing of the journal or of when to write.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from master.core.tasks.records import read_task, read_tasks
from master.core.tasks.task import ACTIVE, QUEUED, Task, TaskState
from master.durable import legacy
from master.edited_files.json_file import BOM, NOT_UTF8
from wire.errors import StoreCorruptError
from wire.message import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

WAIT, EXEC, HIST = QUEUES = ("wait_task.json", "exec_task.json", "hist_task.json")
STATE = "state.json"
FORMAT = 6
"""The format of the files that we write. Files of the first do not say it, and know one attempt of a task. A version
that writes the second does not know shares of a GPU: it would take a share for the whole GPU. One that writes the third
does not know that nodes with the master's own account stay closed to users' tasks, and would open them. One that writes
the fourth does not know the latest time that was seen: users who expired would come in when the clock is set back. One
that writes the fifth does not know temporary disk: it would give a node more tasks than its disk has room for."""
EMPTY_QUEUE = b"[\n]\n"
ANSWERS_KEPT = 100_000
"""How many answered requests are remembered, the newest: a retry comes within minutes, not after that many others."""

FILE_OF: dict[TaskState, str] = {
    state: WAIT if state in QUEUED else EXEC if state in ACTIVE else HIST for state in TaskState
}

_encode = msgspec.json.Encoder().encode
_decode_raws = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Settled(msgspec.Struct, forbid_unknown_fields=True):
    """state.json: the last record that the files knew, the next id, and all that is not a task. `format`: that of all
    the files; a version that does not know the key refuses it."""

    seq: int
    next_id: int
    state: dict[str, msgspec.Raw] = {}
    answered: dict[str, msgspec.Raw] = {}
    format: int = 1


class _Format(msgspec.Struct):
    """Of a state.json of whatever format: which one."""

    format: int = 1


class Queue(msgspec.Struct):
    """The content of one queue file; `imported` are those of its tasks that the old system wrote."""

    tasks: list[Task]
    imported: list[Task]


def encode_tasks(tasks: Iterable[Task]) -> dict[str, dict[int, bytes]]:
    """The line of each task (without its end) by its id, under the file that its state puts it into."""
    lines: dict[str, dict[int, bytes]] = {name: {} for name in QUEUES}
    for task in tasks:
        lines[FILE_OF[task.state]][task.id] = _encode(task)
    return lines


def encode_task(task: Task) -> bytes:
    """Its line, without the end."""
    return _encode(task)


def encode_settled(seq: int, next_id: int, state: Mapping[str, msgspec.Raw], answered: bytes) -> bytes:
    """The whole of state.json, not `published.sealed` yet; `answered` comes from `encode_answered`."""
    pieces = b",\n".join(b"%b: %b" % (_encode(key), _encode(piece)) for key, piece in state.items())
    numbers = (b'"format": %d' % FORMAT, b'"seq": %d' % seq, b'"next_id": %d' % next_id)
    parts = (*numbers, _object(b"state", pieces), _object(b"answered", answered))
    return b"{\n" + b",\n".join(parts) + b"\n}\n"


def encode_answered(answered: Iterable[tuple[str, msgspec.Raw]]) -> bytes:
    """Lines of `answered`, without a comma at the end."""
    return b",\n".join(b"%b: %b" % (_encode(key), _encode(value)) for key, value in answered)


def _object(name: bytes, lines: bytes) -> bytes:
    return b'"%b": {\n%b\n}' % (name, lines) if lines else b'"%b": {}' % name


def read_settled(data: bytes, path: Path) -> Settled:
    """Parse state.json. Raises StoreCorruptError, also for one of a later format."""
    try:
        settled = msgspec.json.decode(data, type=Settled)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        _refuse_later(_format_of(data), path)
        refuse(path, _line_of(data, error), Message("state_not_ours", detail=_said(data, error)))
    _refuse_later(settled.format, path)
    return settled


def _format_of(data: bytes) -> int:
    """Which format a state.json has that cannot be read; 1 where it does not tell."""
    try:
        return msgspec.json.decode(data, type=_Format).format
    except (msgspec.DecodeError, UnicodeDecodeError):
        return 1


def _refuse_later(number: int, path: Path) -> None:
    if number > FORMAT:
        raise StoreCorruptError(Message("folder_of_later_version", path=str(path), number=number, known=FORMAT))


def read_queue(data: bytes, path: Path) -> Queue:
    """Parse a queue file, with our tasks and the old system's side by side. Raises StoreCorruptError."""
    data = data.removeprefix(BOM)  # some editors put it there
    try:
        return Queue(read_tasks(data), [])
    except msgspec.ValidationError:
        return _read_mixed(data, path)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if not data.strip():
            refuse(path, _line_of(data, error), Message("queue_file_empty"))
        refuse(path, _line_of(data, error), Message("queue_no_json_list", detail=_said(data, error)))


def lines_of(data: bytes) -> dict[int, bytes]:
    """The line of each task of ours by its id, as it would be if nobody had laid it out anew, in a file that was read
    before."""
    tasks: list[dict[str, Any]] = msgspec.json.decode(data.removeprefix(BOM))
    return {task["id"]: msgspec.json.encode(task) for task in tasks if "id" in task}


def _read_mixed(data: bytes, path: Path) -> Queue:
    queue = Queue([], [])
    seen: dict[int, Task] = {}
    try:
        raws = _decode_raws(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        refuse(path, _line_of(data, error), Message("queue_no_task_list", detail=_said(data, error)))
    for number, raw in enumerate(raws, 1):
        try:
            value: Any = msgspec.json.decode(raw)
            if legacy.is_legacy(value):
                task = legacy.to_task(value, path.name)
                legacy.refuse_twin(task, seen)
                queue.imported.append(task)
            else:
                queue.tasks.append(read_task(raw))
        except (msgspec.DecodeError, UnicodeDecodeError, legacy.NotLegacyError) as error:
            line = data.count(b"\n", 0, data.find(bytes(raw))) + 1
            refuse(path, line, Message("queue_entry_wrong", number=number, detail=_said(bytes(raw), error)))
    queue.tasks += queue.imported
    return queue


def refuse(path: Path, line: int | None, what: Message) -> NoReturn:
    """Raise StoreCorruptError for one of these files, with the way out."""
    where, folder = str(path), str(path.parent)
    if line is None:
        raise StoreCorruptError(Message("queue_file_wrong", path=where, fault=what, folder=folder))
    raise StoreCorruptError(Message("queue_line_wrong", path=where, line=line, fault=what, folder=folder))


def _said(data: bytes, error: Exception) -> str | Message:
    if isinstance(error, legacy.NotLegacyError):
        return error.what
    return str(error) if _undecodable(data) is None else NOT_UTF8


def _line_of(data: bytes, error: Exception) -> int | None:
    byte = _undecodable(data)
    if byte is None and (found := re.search(r"byte (\d+)", str(error))):
        byte = int(found[1])
    return None if byte is None else data.count(b"\n", 0, byte) + 1


def _undecodable(data: bytes) -> int | None:
    """Where the first byte is that is not UTF-8: what msgspec raises for one depends on its version."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None
