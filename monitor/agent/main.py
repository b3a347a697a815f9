"""The agent's command line: `serve --state DIR` and `attach --state DIR`, for machines that the master reaches;
`report …` for those that dial the master; `version`. It parses, reports one line, and exits."""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import Callable, List

from .daemon import detach
from .folder import Folder, FolderError
from .serve.bridge import bridge

PATIENCE_S = 5.0
AGAIN_S = 0.05
USAGE = "usage: agent (serve | attach) --state DIR | agent report --node NAME … | agent version"


def main(words: List[str], version: str) -> int:
    """Run a command; gives the exit status. `version`: of the archive that runs, "source" without one."""
    _be_utf8(words)
    if words[:1] == ["report"]:
        from .report import command  # noqa: PLC0415  (it brings OpenSSL with it, which no other agent needs)

        return command.main(words[1:], version)
    if words == ["version"]:
        os.write(1, f"{version}\n".encode())
        return 0
    if len(words) == 2 and words[0] == "--state":  # noqa: PLR2004
        words = ["serve", *words]
    if len(words) != 3 or words[0] not in ("serve", "attach") or words[1] != "--state":  # noqa: PLR2004
        return _fail(USAGE, 2)
    folder = Folder(words[2])
    try:
        folder.make()
    except FolderError as error:
        return _fail(str(error))
    return _serve(folder, version) if words[0] == "serve" else _attach(folder, version)


def _be_utf8(words: List[str]) -> None:
    """Begin anew where the locale is of another encoding: names of files are UTF-8, here as on the master's machine.
    Only CPython heeds the option: another Python would begin anew for ever."""
    is_utf8 = sys.getfilesystemencoding() in ("utf-8", "utf8") or bool(sys.flags.utf8_mode)
    if not is_utf8 and sys.implementation.name == "cpython" and not sys.argv[0].endswith(".py"):
        os.execv(sys.executable, [sys.executable, "-I", "-X", "utf8", sys.argv[0], *words])  # noqa: S606


def _serve(folder: Folder, version: str) -> int:
    problem = _start(folder, version)
    return _fail(problem) if problem else 0


def _start(folder: Folder, version: str) -> str:
    """Start an agent; "" once it answers, or else why there is none."""
    from .serve.server import Server  # noqa: PLC0415  (most of an agent; who finds one running needs nothing of it)

    def serve(ready: Callable[[], None]) -> None:
        folder.lock()
        Server(folder, version).run(ready)

    try:
        return detach(folder.log, serve)
    except OSError as error:
        return f"no process can be made for the agent: {error.strerror}"


def _attach(folder: Folder, version: str) -> int:
    try:
        sock = _reach(folder, version)
    except FolderError as error:
        return _fail(str(error))
    try:
        bridge(sock)
    except OSError:  # either side is gone, and nobody is left to be told
        return 1
    return 0


def _reach(folder: Folder, version: str) -> socket.socket:
    """A connection to the agent, which is started where there is none. Raises FolderError."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return folder.connect()
        except OSError:
            problem = _start(folder, version)
        # Another `attach` may have been faster, and its agent may hold the lock and not listen yet.
        if problem and time.monotonic() > end:
            raise FolderError(problem)
        time.sleep(AGAIN_S if problem else 0)


def _fail(text: str, status: int = 1) -> int:
    os.write(2, f"agent: {text}\n".encode("utf-8", "replace"))
    return status
