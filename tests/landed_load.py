"""Load folders as a master's start would, and print what became of each: a program that this version and those before
run alike, `python -P landed_load.py` with `[[folder, permit], …]` on stdin. It knows only what they have in common."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from master.durable.disk import OsDisk
from master.durable.store import Store
from wire.errors import MusterError


def outcome(folder: Path, permit: str) -> dict[str, Any]:
    """What a start finds, or the code of the refusal. `permit`: `edits`, `damage` or nothing."""
    store = _store(folder, permit)
    try:
        image = store.open()
    except MusterError as error:
        return {"refused": error.code}
    finally:
        store.close()
    return {
        "tasks": {str(number): msgspec.to_builtins(task) for number, task in sorted(image.tasks.items())},
        "answered": {name: msgspec.json.decode(answer) for name, answer in image.answered.items()},
        "state": {name: _piece(name, piece, folder) for name, piece in image.state.items()},
        "next_id": image.next_id,
        "seq": image.seq,
        "files": sorted(path.name for path in folder.iterdir()),
        "months": {path.name: path.read_text("utf-8") for path in sorted(folder.glob("history/*.jsonl"))},
    }


def _piece(name: str, piece: msgspec.Raw, folder: Path) -> Any:
    """A piece of state as it would be in another folder at another time: of damage it is told where it was and when."""
    value = msgspec.json.decode(bytes(piece).replace(bytes(folder), b""))
    return [one["what"] for one in value] if name == "damage" else value


def _store(folder: Path, permit: str) -> Store:
    if not permit:
        return Store(folder, OsDisk())
    from master.durable.store import Permit  # noqa: PLC0415 - the earlier version has none

    return Store(folder, OsDisk(), permit=Permit(**{permit: True}))


if __name__ == "__main__":
    print(json.dumps([outcome(Path(folder), permit) for folder, permit in json.load(sys.stdin)]))  # noqa: T201
