"""Runs a command of the lab's with JSON on its stdin, and nothing of the master's but that.

Owns its life: a session of its own, a clean environment, an end after a while, with all that it started in that
session. Its callers decide what it is told, and when.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from asyncio.subprocess import DEVNULL
from collections.abc import Sequence

from master.loop import own_session
from master.watchers.refusals import RefusedForGoodError

log = logging.getLogger("muster.hooks")

LONGEST_S = 10.0
ENVIRONMENT = {"LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin"}
REFUSED = os.EX_DATAERR
"""A command that ends with this does not want to hear of the same again."""
_KEPT_BYTES = 2000
_PIECE = 1 << 16
_TRAMPOLINE = ("/bin/sh", "-c", 'exec "$@"', "sh")
"""To begin a program holds up the whole master until the kernel has found it, which on a share that hangs is never. So
what the master begins is on its own disk, and that begins the command."""


class HookCommand:
    """The command for one event (`key`: its name in conf.json). Callers of `run` make sure that only one runs."""

    def __init__(self, key: str, words: Sequence[str], longest_s: float = LONGEST_S) -> None:
        self._key = key
        self._words = tuple(words)
        self._longest_s = longest_s
        self._fault: str | None = None

    async def run(self, said: bytes) -> bool:
        """Run it once with this on its stdin; return whether it ended with 0. A failure is told in the log, once for as
        long as it stays the same. Raises RefusedForGoodError if it ended with `REFUSED`."""
        fault, code = await self._came_to(said)
        if fault is not None and fault != self._fault:
            log.warning("%s (%s): %s", self._key, self._words[0], fault)
        self._fault = fault
        if code == REFUSED:
            raise RefusedForGoodError(fault)
        return code == 0

    async def _came_to(self, said: bytes) -> tuple[str | None, int | None]:
        ear = Ear()
        try:
            return await self._heard(ear, said)
        except OSError as error:
            return f"it could not be started: {error.strerror}", None
        finally:
            await ear.close()

    async def _heard(self, ear: Ear, said: bytes) -> tuple[str | None, int | None]:
        """Return what to tell in the log, and what the command ended with, None if it was ended. Raises OSError."""
        with tempfile.TemporaryFile() as words:  # a pipe would have to be fed, and closed whatever becomes of it
            words.write(said)
            words.seek(0)
            process = await own_session.start(
                *_TRAMPOLINE,
                *self._words,
                stdin=words,
                stdout=DEVNULL,
                stderr=await ear.open(),
                cwd="/",
                env=ENVIRONMENT,
            )
        ear.leave_to_it()
        try:
            async with asyncio.timeout(self._longest_s):
                heard, code = await ear.hear(), await process.wait()
        except TimeoutError:
            took, ended = f"took longer than {self._longest_s:g} s", process.returncode
            if ended is None:
                return f"it was ended, for it {took}", None
            return f"it ended with {ended}; what it left behind was ended, for that {took}", ended
        finally:
            if process.returncode is None or not ear.is_over:  # somebody in its session has its stderr still
                await own_session.end(process)
        first = heard.decode("utf-8", "replace").strip().partition("\n")[0]
        return (None, 0) if code == 0 else (f"it ended with {code}{': ' if first else ''}{first}", code)


class Ear:
    """A pipe for what a command says on its stderr. All of it is read, so that it never waits for us; the beginning is
    kept."""

    def __init__(self) -> None:
        self._reader = asyncio.StreamReader()
        self._transport: asyncio.ReadTransport | None = None
        self._mouth = -1

    async def open(self) -> int:
        """The end that the command is to have. Raises OSError."""
        read, self._mouth = os.pipe()
        protocol = asyncio.StreamReaderProtocol(self._reader)
        pipe = os.fdopen(read, "rb", 0)
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
        return self._mouth

    def leave_to_it(self) -> None:
        """The command has its end."""
        if self._mouth >= 0:
            os.close(self._mouth)
        self._mouth = -1

    async def hear(self) -> bytes:
        """Return its output, until no process is left that could write."""
        kept = b""
        while piece := await self._reader.read(_PIECE):
            kept += piece[: max(0, _KEPT_BYTES - len(kept))]
        return kept

    @property
    def is_over(self) -> bool:
        """Whether nobody could say anything any more."""
        return self._reader.at_eof()

    async def close(self) -> None:
        """Hear no more, whoever may still be there."""
        self.leave_to_it()
        if self._transport is not None:
            self._transport.close()
            await asyncio.sleep(0)  # it is closed in the turn after this one
