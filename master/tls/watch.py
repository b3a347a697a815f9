"""Looking at the certificate while the master runs: renewed in time, taken when the lab replaces it, and told of.

Owns when to look, and how often the log says what is wrong. It is a thread, since the lab's files may lie on a network
file system that hangs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from master.tls.policy import Tls
from wire.message import Message

log = logging.getLogger("muster.tls")

LOOK_S = 10.0
AGAIN = timedelta(days=1)


class Reminders:
    """Which of the things that are the matter are due to be said: what is new at once, what stays once a day."""

    def __init__(self) -> None:
        self._said: dict[Message, datetime] = {}

    def due(self, problems: Iterable[Message], now: datetime) -> list[Message]:
        """Return the problems to log now. Problems that are over are forgotten."""
        found = tuple(problems)
        self._said = {one: at for one, at in self._said.items() if one in found}
        due = [one for one in found if one not in self._said or now - self._said[one] >= AGAIN]
        self._said.update(dict.fromkeys(due, now))
        return due


class CertificateWatch:
    """Looks from its making until `close`, every `look_s` seconds."""

    def __init__(self, tls: Tls, *, look_s: float = LOOK_S) -> None:
        self._tls = tls
        self._look_s = look_s
        self._reminders = Reminders()
        self._end = threading.Event()
        self.thread = threading.Thread(target=self._run, name="certificate watch", daemon=True)
        self.thread.start()

    def close(self) -> None:
        """Look no more; the thread ends by itself. Never blocks."""
        self._end.set()

    def look(self, now: datetime) -> None:
        """Look, and say what is due."""
        self._tls.look(now)
        for problem in self._reminders.due(self._tls.told(now).problems, now):
            log.warning("%s", problem)

    def _run(self) -> None:
        while True:
            try:
                self.look(datetime.now(UTC))
            except Exception:  # a defect here must not end the watch in silence
                log.exception("the certificate could not be looked at")
            if self._end.wait(self._look_s):
                return
