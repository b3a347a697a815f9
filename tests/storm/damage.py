"""What happens to the master's files while it is not there, and how a person follows the way out that he is told.

Each damage is of a moment of which there is a copy: what lay there is put aside first, as a backup would have it.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path

QUEUES = ("hist_task.json", "wait_task.json", "exec_task.json")
JOURNAL = "journal.jsonl"
CUT_OFF = frozenset({"torn tail", "zeroed tail"})
"""These held nothing that anybody was answered for: a start cuts them off, keeps them beside, and tells it."""
AT_LEAST = 200
"""Bytes: a shorter file has nothing in it yet that could be damaged."""


class DamageError(Exception):
    """There is nothing there yet that could be damaged in this way."""


def keep_copy(folder: Path, backup: Path) -> None:
    """Put aside what lies there."""
    shutil.rmtree(backup, ignore_errors=True)
    shutil.copytree(folder, backup, ignore=shutil.ignore_patterns("reserve", "history"))


def put_back(folder: Path, backup: Path) -> None:
    """What the refusal says: all files of the same moment."""
    for path in backup.iterdir():
        if path.is_file():
            shutil.copy2(path, folder / path.name)


def strike(folder: Path, what: str, chance: random.Random) -> str:
    """Damage the folder's files; gives the name of the file. Raises DamageError."""
    journal = folder / JOURNAL
    if what == "torn tail":
        lines = journal.read_bytes().splitlines(keepends=True)
        last = lines[-1] if lines else b"00000000 1 0 {}\n"
        _append(journal, last[: chance.randint(1, len(last) - 1)])
        return JOURNAL
    if what == "zeroed tail":
        _append(journal, bytes(chance.randint(1, 8192)))
        return JOURNAL
    if what == "record flipped":
        return _flip_record(journal, chance)
    if what in ("journal emptied", "journal gone"):
        return _empty_or_remove(journal, gone=what.endswith("gone"))
    queue = _largest_queue(folder)
    if what in ("queue emptied", "queue gone"):
        return _empty_or_remove(queue, gone=what.endswith("gone"))
    lines = _only_there(queue, journal)
    if what == "queue shortened":
        queue.write_text("[]\n", encoding="utf-8")
    else:
        _change_a_byte(queue, chance.choice(lines))
    return queue.name


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def _flip_record(journal: Path, chance: random.Random) -> str:
    """One byte of a record that has good ones of later commits behind it: nothing a power cut could have done."""
    lines = journal.read_bytes().splitlines(keepends=True)
    if len(lines) < 40:
        raise DamageError
    number = chance.randrange(2, len(lines) // 2)
    place = sum(map(len, lines[:number])) + chance.randrange(12, len(lines[number]) - 1)
    with journal.open("r+b") as file:
        file.seek(place)
        [byte] = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1]))
    return journal.name


def _empty_or_remove(path: Path, *, gone: bool) -> str:
    if path.stat().st_size < AT_LEAST:
        raise DamageError
    if gone:
        path.unlink()
    else:
        path.write_bytes(b"")
    return path.name


def _largest_queue(folder: Path) -> Path:
    path = max((folder / name for name in QUEUES), key=lambda path: path.stat().st_size)
    if path.stat().st_size < AT_LEAST:
        raise DamageError
    return path


def _only_there(queue: Path, journal: Path) -> list[bytes]:
    """The lines of tasks of which the journal knows nothing newer, so that the file has the word on them."""
    lines = [line.strip().rstrip(b",") for line in queue.read_bytes().splitlines()]
    tasks = [(line, json.loads(line)["id"]) for line in lines if line.startswith(b"{")]
    newer = {int(number) for number in re.findall(rb'"id":(\d+)', journal.read_bytes())}
    newer |= {
        int(number) for ids in re.findall(rb'"gone":\[([\d,]+)\]', journal.read_bytes()) for number in ids.split(b",")
    }
    found = [line for line, number in tasks if number not in newer]
    if not found:
        raise DamageError
    return found


def _change_a_byte(queue: Path, line: bytes) -> None:
    """A digit of a command: what is then there is as good JSON as before."""
    data = bytearray(queue.read_bytes())
    place = data.index(b"witness.sh ", data.index(line)) + len(b"witness.sh ")
    data[place] = ord("3") if data[place] != ord("3") else ord("4")
    queue.write_bytes(bytes(data))
