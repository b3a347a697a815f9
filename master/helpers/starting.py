"""How a helper comes about: the master is root and makes it itself, or an agent of root's on the master's machine does,
as a probe. Either runs our program as root, which becomes the account before it hears anything.

Owns the two ways, and how long a helper may take until it is who it shall be.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import logging
import os
import secrets
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

import master
from master.helpers.frames import READY, Setup
from master.helpers.helper import Helper
from master.helpers.program import peer_of
from wire.agent import Probed
from wire.errors import ForbiddenError, MusterError, StorageError
from wire.message import Message

log = logging.getLogger("muster.files")

PATIENCE_S = 12.0
"""Python begins in less than one; the directory service may take some."""
SAID_BYTES = 4096
LIFE_S = 7 * 86400.0
"""A probe has an end; most helpers end after half a minute."""
_CODE = """\
import sys
sys.path.insert(0, sys.argv[1])
from master.helpers import program
sys.exit(getattr(program, sys.argv[2])(sys.argv[3:]))
"""
Probe = Callable[[str, Sequence[str], float], Awaitable[Probed]]
"""Runs a command on a node, as its agent's own account, for so many seconds at most."""


def words_of(account: str, allowed: Sequence[str | int], umask: int) -> list[str]:
    """The command of a helper, without the way to the master."""
    return [*_python("main"), account, json.dumps(list(allowed)), f"{umask:o}"]


def _python(function: str) -> list[str]:
    code = str(Path(master.__file__).parents[1])
    return [sys.executable, "-I", "-X", "utf8", "-c", _CODE, code, function]


class Forked:
    """The master is root. `allowed`: accounts of the system's that may be meant."""

    def __init__(self, setup: Setup, allowed: Sequence[str | int], umask: int) -> None:
        self._setup = setup
        self._allowed = allowed
        self._umask = umask

    def start(self, account: str) -> Helper:
        """As `Starter`."""
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                process = subprocess.Popen(
                    [*words_of(account, self._allowed, self._umask), str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    env={"LANG": "C.UTF-8"},
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
        except OSError as error:
            control.close()
            raise StorageError(Message("helper_failed", account=account, said=error.strerror or "")) from None

        threading.Thread(target=process.wait, name=f"the helper of {account}", daemon=True).start()
        try:
            greet(control, account, self._setup)
        except BaseException:
            control.close()
            process.kill()
            raise
        return Helper(account, control)


class ByAgent:
    """An agent of root's on this machine starts it. `node`: whose agent that is now, None while there is none;
    `folder`: nobody else's, where it finds our socket; `loop`: the one that `probe` runs in."""

    def __init__(
        self,
        setup: Setup,
        allowed: Sequence[str | int],
        umask: int,
        *,
        node: Callable[[], str | None],
        probe: Probe,
        folder: Path,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._setup = setup
        self._allowed = allowed
        self._umask = umask
        self._node = node
        self._probe = probe
        self._folder = folder
        self._loop = loop

    def start(self, account: str) -> Helper:
        """As `Starter`."""
        node = self._node()
        if node is None:
            raise StorageError(Message("helper_no_agent", account=account))
        control, running = self._connected(node, words_of(account, self._allowed, self._umask), account)
        try:
            greet(control, account, self._setup)
        except BaseException:
            control.close()
            running.cancel()
            raise
        return Helper(account, control)

    def prove(self, node: str) -> bool:
        """Does the agent of a node run as root on this machine, as it says? Then what it starts finds our socket."""
        try:
            control, _ = self._connected(node, _python("show"), "root")
        except MusterError as error:
            log.warning(
                "the agent of node %s says that it is root on this machine, and does not show it: %s", node, error
            )
            return False
        control.close()
        return True

    def _connected(
        self, node: str, words: list[str], account: str
    ) -> tuple[socket.socket, concurrent.futures.Future[Probed]]:
        """Have a node's agent run a helper for us; return its connection, which is root's, and the run. Raises
        StorageError."""
        path = self._folder / f"helper-{secrets.token_hex(8)}"
        with _listening(path) as dispatcher:
            probe = self._probe(node, [*words, str(path), str(os.geteuid())], LIFE_S)
            running = asyncio.run_coroutine_threadsafe(_awaited(probe), self._loop)
            try:
                return _accepted(dispatcher, running, account), running
            except BaseException:
                running.cancel()
                raise
            finally:
                path.unlink(missing_ok=True)


async def _awaited(probe: Awaitable[Probed]) -> Probed:
    return await probe


def _listening(path: Path) -> socket.socket:
    dispatcher = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        dispatcher.bind(f"/proc/self/fd/{folder}/{path.name}")
        dispatcher.listen(1)
    finally:
        os.close(folder)
    return dispatcher


def _accepted(dispatcher: socket.socket, running: concurrent.futures.Future[Probed], account: str) -> socket.socket:
    """The helper's connection, unless its probe ends before. Raises MusterError."""
    woken, wakes = socket.socketpair()
    with woken, wakes:
        running.add_done_callback(lambda _done: _wake(wakes))
        ready, _, _ = select.select([dispatcher, woken], [], [], PATIENCE_S)
        if dispatcher in ready:
            control, _ = dispatcher.accept()
            if peer_of(control) == 0:
                return control
            control.close()
        raise StorageError(Message("helper_failed", account=account, said=_why(running)))


def _wake(wakes: socket.socket) -> None:
    with suppress(OSError):  # nobody waits any more
        wakes.send(b"!")


def _why(running: concurrent.futures.Future[Probed]) -> str:
    if not running.done():
        return f"it did not come within {PATIENCE_S:g} s"
    try:
        probed = running.result()
    except MusterError as error:
        return str(error)
    return probed["error"] or probed["output"][-500:] or f"it ended with {probed['code']}"


def greet(control: socket.socket, account: str, setup: Setup) -> None:
    """Wait until it is who it shall be, and tell it what for. Raises ForbiddenError where it may not be that, and
    StorageError."""
    control.settimeout(PATIENCE_S)
    try:
        said = control.recv(SAID_BYTES)
        if said == READY:
            control.send(msgspec.json.encode(setup))
    except OSError as error:
        raise StorageError(Message("helper_failed", account=account, said=str(error))) from None
    control.settimeout(None)
    if not said:
        raise StorageError(Message("helper_failed", account=account, said="it ended"))
    if said != READY:
        raise ForbiddenError(Message("no_account_here", account=account, said=said.decode("utf-8", "replace")))
