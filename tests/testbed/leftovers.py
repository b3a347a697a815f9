"""What runs of the testbed leave when they are killed, and how the next one removes it.

Each run has a folder beneath one base folder, named by the run, and holds a kernel lock on its `owner` file for as long
as its process lives. A folder that can be locked is nobody's any more.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from tests import rights
from tests.testbed import network, processes
from tests.testbed.errors import TestbedError


def base() -> Path:
    """The folder of all runs. Raises TestbedError when it is not ours: all in it will be removed one day."""
    name = "muster-testbed" if rights.outer_uid() == 0 else f"muster-testbed-{rights.outer_uid()}"
    path = Path(tempfile.gettempdir()).resolve() / name
    path.mkdir(mode=0o755, exist_ok=True)
    if path.is_symlink() or path.stat().st_uid != os.geteuid():
        raise TestbedError(f"{path} belongs to somebody else: remove it")
    return path


@contextmanager
def alone() -> Iterator[None]:
    """One run at a time may look for leftovers, choose its network, or clear its folder."""
    with (base() / "starting").open("a", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def own(folder: Path) -> TextIO:
    """Say that a run lives, until the file is closed or this process ends."""
    file = (folder / "owner").open("a", encoding="ascii")
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


def sweep() -> list[str]:
    """Remove what dead runs left; gives their names. Call it `alone`."""
    found = [folder for folder in base().iterdir() if folder.is_dir() and _is_dead(folder)]
    for folder in found:
        clear(folder)
    return [folder.name for folder in found]


def _is_dead(folder: Path) -> bool:
    with (folder / "owner").open("a", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def clear(folder: Path) -> None:
    """End every process of the run, take its network away, remove its folder."""
    wires = network.Network(folder.name)
    for space in network.namespaces(f"mt{wires.run}-"):
        _end_all(space)
    wires.close()
    _unmount(folder)
    shutil.rmtree(folder)


def _unmount(folder: Path) -> None:
    """Take away the disks that somebody mounted beneath it, which nobody uses any more."""
    mounted = (line.split(" ")[1] for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines())
    for path in [path for path in mounted if folder in Path(path).parents]:
        subprocess.run(["umount", "--lazy", path], check=True)


def _end_all(space: str) -> None:
    """SIGKILL to all in a network namespace, until there are none."""
    while pids := _living(space):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _living(space: str) -> list[int]:
    done = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True, check=True)
    inside = {int(word) for word in done.stdout.split()}
    return [process.pid for process in processes.alive(inside.__contains__)]
