"""How large a task's log is, looked at by a thread of the shim's: where the log's file system hangs, only it hangs.

It owns the looking; what a size means to the task is the shim's. The limit is kept here and not by the kernel
(RLIMIT_FSIZE), which would end the checkpoint that is larger than any log.
"""

from __future__ import annotations

import _thread
import os
import time
from contextlib import suppress

LOOK_S = 2.0
WARN_AT = 0.8
NEAR, BEYOND = b"n", b"b"


class LogWatch:
    """Of the log that is open as `log`. `fd` tells NEAR once from 80 % of `limit` bytes on, and BEYOND once; `size` is
    the last."""

    def __init__(self, log: int, limit: int) -> None:
        self.size = 0
        self.limit = limit
        self._open = log
        self.fd, self._write = os.pipe()
        _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        is_near = False
        while True:
            with suppress(OSError):  # somebody removed it, or its disk is away
                self.size = os.fstat(self._open).st_size
            if self.size > self.limit:
                os.write(self._write, BEYOND)
                return
            if self.size >= WARN_AT * self.limit and not is_near:
                is_near = True
                os.write(self._write, NEAR)
            time.sleep(LOOK_S)
