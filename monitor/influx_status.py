"""The writer's counts of points, in a file beside the lock: `muster status` shows them while the writer runs.

The file informs people and is no record: it is replaced whole and never synced, and a failed write is reported once and
not repeated.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from monitor.influx_writer import Tally

log = logging.getLogger("muster.influx")

STATUS_FILE = "influx.json"
EVERY_S = 1.0


class StatusFile:
    """The file. `show` it the newest tally as often as you like; it is written when that has changed, once a second."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._shown: Tally | None = None
        self._next = 0.0
        self._fault = ""

    def show(self, tally: Tally, now: float) -> None:
        """`now`: monotonic seconds."""
        if now < self._next or tally == self._shown:
            return
        self._next, self._shown = now + EVERY_S, tally
        draft = self._path.with_name(f".{self._path.name}")
        try:
            draft.write_text(json.dumps({"pid": os.getpid(), **tally._asdict()}) + "\n", encoding="ascii")
            draft.replace(self._path)
        except OSError as error:
            if error.strerror != self._fault:
                log.warning("`muster status` cannot be told what is written: %s: %s", self._path, error.strerror)
            self._fault = error.strerror or ""
        else:
            self._fault = ""
