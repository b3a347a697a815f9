"""The agent's command line: `serve --state DIR` and `attach --state DIR`. It parses, reports one line, and exits."""

from __future__ import annotations

import os
import re
import socket
import sys
from typing import Callable, List, Optional

from .bridge import bridge
from .daemon import detach
from .folder import Folder, FolderError
from .server import Server

USAGE = "usage: agent (serve | attach) --state DIR"


def main(words: List[str]) -> int:
    """Run a command; gives the exit status."""
    if len(words) == 2 and words[0] == "--state":  # noqa: PLR2004
        words = ["serve", *words]
    if len(words) != 3 or words[0] not in ("serve", "attach") or words[1] != "--state":  # noqa: PLR2004
        return _fail(USAGE, 2)
    folder = Folder(words[2])
    try:
        folder.make()
    except FolderError as error:
        return _fail(str(error))
    return _serve(folder) if words[0] == "serve" else _attach(folder)


def version(archive: str) -> str:
    """The digest of the running archive; its name says it (`agent-DIGEST.pyz`), so that it need not be computed."""
    named = re.search(r"agent-([0-9a-f]{16})\.pyz$", archive)
    if named:
        return named.group(1)
    if not os.path.isfile(archive) or archive.endswith(".py"):
        return "source"
    import hashlib  # noqa: PLC0415  (it brings OpenSSL with it, and every shim would carry that)

    with open(archive, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:16]


def _serve(folder: Folder) -> int:
    running = version(sys.argv[0])

    def serve(ready: Callable[[], None]) -> None:
        folder.lock()
        Server(folder, running).run(ready)

    problem = detach(folder.log, serve)
    return _fail(problem) if problem else 0


def _attach(folder: Folder) -> int:
    try:
        sock = _reach(folder)
    except OSError as error:
        return _fail(f"the agent in {folder.path} does not answer: {error.strerror}")
    if sock is None:
        return 1
    try:
        bridge(sock)
    except BrokenPipeError:
        return 1
    return 0


def _reach(folder: Folder) -> Optional[socket.socket]:
    try:
        return folder.connect()
    except OSError:
        status = _serve(folder)
    try:
        return folder.connect()  # also when another `attach` was faster than our `serve`
    except OSError:
        if status == 0:
            raise
        return None


def _fail(text: str, status: int = 1) -> int:
    os.write(2, f"agent: {text}\n".encode("utf-8", "replace"))
    return status
