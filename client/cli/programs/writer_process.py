"""Read what the writer of metrics, a program beside the master, tells of its points."""

from __future__ import annotations

import os

from client.cli.programs.beside import WRITER, task_info

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOCK = WRITER.lock
STATUS = "influx.json"


def tally(conf: str, pid: int | None) -> dict[str, Any]:
    """Return what the writer of that pid has told of its points: `written waiting dropped refused last_write`; empty if
    it has told nothing yet."""
    import json

    try:
        with open(os.path.join(task_info(conf), STATUS), encoding="ascii") as file:
            told = json.load(file)
    except (OSError, ValueError):
        return {}
    if not isinstance(told, dict) or pid is None or told.pop("pid", None) != pid:
        return {}
    return told
