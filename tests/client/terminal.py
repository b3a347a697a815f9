"""A program on a terminal of 80 columns and 24 lines, seen from its other end: keys go in, bytes come out."""

from __future__ import annotations

import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from pathlib import Path
from typing import Self

from tests.waiting import until

ROOT = Path(__file__).parents[2]
MUSTER = (sys.executable, "-m", "muster")


class Terminal:
    """The program and its terminal. `more` is added to the environment, from which the caller's Muster is left out.
    `cwd`: the folder in which it is typed."""

    def __init__(self, words: Sequence[str], more: Mapping[str, str], cwd: Path = ROOT) -> None:
        self.screen, theirs = pty.openpty()
        self.before = termios.tcgetattr(self.screen)
        """How it was when the program was started."""
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        self.program = subprocess.Popen(
            words, cwd=cwd, env={**environment, "TERM": "xterm-256color", **more},
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.program.poll() is None:
            self.program.kill()
            self.program.wait()
        os.close(self.screen)

    def types(self, text: str) -> None:
        """Press keys."""
        os.write(self.screen, text.encode())

    @property
    def echoes(self) -> bool:
        """Would what is typed now be seen?"""
        return bool(termios.tcgetattr(self.screen)[3] & termios.ECHO)

    def reads(self, seconds: float) -> bytes:
        """What is written to it in so many seconds."""
        data, end = b"", time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.screen], [], [], left)[0]:
                try:
                    data += os.read(self.screen, 1 << 16)
                except OSError:  # whoever wrote has closed it
                    break
        return data

    def shows(self, text: bytes) -> bytes:
        """Wait for it; all that was written until then."""
        shown = bytearray()
        until(repr(text), lambda: text in shown, seen=lambda: shown, turn=lambda: shown.extend(self.reads(0.1)))
        return bytes(shown)

    def ends(self) -> tuple[int, bytes]:
        """Its exit code, and what it wrote until then."""
        shown = bytearray()

        def read() -> None:
            shown.extend(self.reads(0.05))

        until("its end", lambda: self.program.poll() is not None, seen=lambda: shown, turn=read)
        return self.program.returncode, bytes(shown) + self.reads(0.05)
