"""Named places where a test may have this process killed. It owns the "once"; it decides nothing else."""

from __future__ import annotations

import os
import signal
from typing import Callable, Optional

from ..folder import Folder

VARIABLE = "MUSTER_AGENT_FAILPOINT"


def reach(folder: Folder, name: str, first: Optional[Callable[[], None]] = None) -> None:
    """Say that the place `name` is reached: SIGKILL to this process if the variable or `DIR/failpoint` asks for it.

    It happens once: the file is removed, and for the variable a marker is left in the folder. `first` runs before.
    """
    if not _asked(folder, name):
        return
    if first is not None:
        first()
    os.kill(os.getpid(), signal.SIGKILL)


def _asked(folder: Folder, name: str) -> bool:
    if os.environ.get(VARIABLE) == name and _mark(folder, name):
        return True
    if not os.access(folder.failpoint, os.F_OK):
        return False
    try:
        with open(folder.failpoint, encoding="utf-8") as file:
            if file.read().strip() != name:
                return False
        os.unlink(folder.failpoint)
    except FileNotFoundError:
        return False  # another process took it
    return True


def _mark(folder: Folder, name: str) -> bool:
    try:
        os.close(os.open(folder.failpoint + "." + name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True
