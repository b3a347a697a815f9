"""The preparation of a command, before it can begin: its folder, its log, the files that its launch brings.

It owns a thread of the shim's for that. All of it may lie on a network file system that hangs, and then this thread
hangs, nobody else: the shim goes on to hear of kills and time limits. Only where the command becomes somebody else's
(`as_owner`), a process of its own does this, in `start`.
"""

from __future__ import annotations

import _thread
import os
from typing import Any, Dict, Optional

from . import blame, given_files
from .blame import StartError
from .cwd import enter
from .log_open import open_log
from .processes import check_processes, none_left


class Preparation:
    """Of a launch whose claim is ours. `fd` can be read once it is over. Raises StartError where no thread is to be
    had, OSError where no pipe is."""

    def __init__(self, launch: Dict[str, Any]) -> None:
        self._launch = launch
        self._log = -1
        self._error: Optional[StartError] = None
        self.fd, self._write = os.pipe()
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:
            os.close(self._write)
            os.close(self.fd)
            raise none_left() from None

    def finish(self) -> int:
        """Return the result: the log, open; the current folder is the command's. Raises StartError."""
        os.close(self.fd)
        if self._error is not None:
            raise self._error
        return self._log

    def _run(self) -> None:
        try:
            self._log = prepare(self._launch)
            check_processes()
        except StartError as error:
            self._error = error
        except BaseException as error:  # noqa: BLE001  (a thread's end is told to nobody)
            self._error = blame.unforeseen(error)
        finally:
            os.close(self._write)


def prepare(launch: Dict[str, Any]) -> int:
    """Enter the folder, write the files; gives the log, open. Raises StartError."""
    roots = launch.get("roots", [])
    enter(launch["cwd"], roots)  # before the log, which may be made where a file system should be mounted
    new, instead_of = launch.get("log_new", False), launch.get("placed_instead_of", "")
    log = open_log(launch["log_path"], roots, new=new, instead_of=instead_of)
    given_files.leave(launch)
    return log
