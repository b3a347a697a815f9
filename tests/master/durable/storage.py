"""Places for files that misbehave as real ones do: a storage that never answers, and trees to get lost in."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import pytest

_libc = ctypes.CDLL(None, use_errno=True)
_DETACH = 2


class DeadStorage:
    """A FUSE file system whose server never answers: whoever looks at `folder` waits, as on an NFS whose server is
    gone. Needs root. `close` lets all who wait go, with an error."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = os.fsencode(folder)
        self._fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._fuse},rootmode=40000,user_id=0,group_id=0".encode()
        if _libc.mount(b"muster-test", self._folder, b"fuse", 0, options):
            os.close(self._fuse)
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Take it away."""
        self.close()

    def close(self) -> None:
        """End it."""
        with suppress(OSError):
            os.close(self._fuse)
        _libc.umount2(self._folder, _DETACH)


@contextmanager
def hanging(folder: Path) -> Iterator[Path]:
    """A folder in which every call hangs until the body ends: a dead mount, or where nobody may mount, a call of the
    system that is held up."""
    try:
        storage = DeadStorage(folder)
    except OSError:
        with _held_up(folder):
            yield folder
    else:
        with storage:
            yield folder


@contextmanager
def _held_up(folder: Path) -> Iterator[None]:
    over = threading.Event()
    real = os.open

    def slow(path: str | bytes, *args: int, **keys: int) -> int:
        if os.fsencode(path).startswith(os.fsencode(folder)):
            over.wait()
        return real(path, *args, **keys)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", slow)
        try:
            yield
        finally:
            over.set()


def descriptors() -> set[str]:
    """What this process has open, told by what it is. Of what tests before left, some may be closed at any moment: so
    whoever left nothing behind has no more open than before, `descriptors() <= before`."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(f"{entry.name}: {entry.readlink()}")
    return {told for told in found if not told.endswith(f"/proc/{os.getpid()}/fd")}
