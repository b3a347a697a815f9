"""How full the file systems are that matter, although each of them may hang: a fork looks at one folder at a time.

It owns those forks. A folder whose fork does not answer has no figures until it does; a fork that the kernel has
waiting for a dead file server cannot be killed, and none is sent after it.
"""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from typing import Any, Dict, List, NoReturn

from .. import fork
from ..machine import MIB

EVERY_S = 30.0
PATIENCE_S = 5.0


class Disks:
    """`folders`: those that matter. `fd`: where the answer of the fork comes, -1 while there is none."""

    def __init__(self, folders: List[str]) -> None:
        self.fd = -1
        self._folders = folders
        self._found: Dict[str, Dict[str, Any]] = {}
        self._waiting: List[str] = []
        self.folder = ""
        """The one that is asked about now."""
        self.pids: Dict[str, int] = {}
        """The processes that ask about a folder, also those that hang there."""
        self._next_round = 0.0
        self._give_up_at = 0.0

    @property
    def figures(self) -> List[Dict[str, Any]]:
        """The key `disks` of a sample."""
        return [self._found[folder] for folder in self._folders if folder in self._found]

    def look(self, now: float) -> None:
        """From time to time: send a fork, or give up the one that hangs; `now`: monotonic seconds."""
        self._reap()
        if self.fd >= 0:
            if now < self._give_up_at:
                return
            with suppress(ProcessLookupError):
                os.kill(self.pids[self.folder], signal.SIGKILL)
            self._take(b"")
        if not self._waiting and now >= self._next_round:
            self._waiting = list(self._folders)
            self._next_round = now + EVERY_S
        while self._waiting and self.fd < 0:
            self.folder = self._waiting.pop(0)
            if self.folder not in self.pids:  # else it still hangs there
                self._ask(now)

    def on_ready(self, now: float) -> None:
        """Take an answer, and go on to the next folder."""
        self._take(os.read(self.fd, 4096))
        self.look(now)

    def _ask(self, now: float) -> None:
        read, write = os.pipe()
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:  # this round goes without
            os.close(read)
            os.close(write)
            return
        if pid == 0:
            _answer(self.folder, write, parent)
        os.close(write)
        self.fd, self._give_up_at = read, now + PATIENCE_S
        self.pids[self.folder] = pid

    def _take(self, data: bytes) -> None:
        os.close(self.fd)
        self.fd = -1
        if data:
            total, free = json.loads(data)
            self._found[self.folder] = {"path": self.folder, "total_mib": total, "free_mib": free}
        else:
            self._found.pop(self.folder, None)

    def _reap(self) -> None:
        for folder, pid in list(self.pids.items()):
            if os.waitpid(pid, os.WNOHANG)[0]:
                del self.pids[folder]


def _answer(folder: str, output: int, parent: int) -> NoReturn:
    """The fork: total and free MiB (for whoever is not root), or nothing where it cannot be said."""
    try:
        fork.die_with_parent(parent)
        fork.close_all_but({output})
        found = os.statvfs(folder)
        figures = [found.f_blocks * found.f_frsize // MIB, found.f_bavail * found.f_frsize // MIB]
        os.write(output, json.dumps(figures).encode())
    except OSError:
        os._exit(1)  # not there, or not for us
    except BaseException as error:  # noqa: BLE001  (this is a fork: nothing may return into the code above)
        os.write(2, f"looking at {folder} failed: {error!r}\n".encode("utf-8", "replace"))
        os._exit(1)
    os._exit(0)
