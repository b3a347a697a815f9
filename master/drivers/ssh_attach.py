"""The dialogue over a fresh channel until the agent's own lines begin: loader, bootstrap, archive, `attach`.

Owns the command line, which every log-in shell must understand, and what it means when the agent does not come. The
log-in shell may print whatever it likes before.
"""

from __future__ import annotations

import base64
import re
import time
from contextlib import suppress
from functools import cache
from importlib.util import MAGIC_NUMBER
from pathlib import Path

from master.drivers import bootstrap
from master.drivers.agent_archive import Archive
from master.drivers.ssh_channel import BROKEN, Pipe
from master.drivers.ssh_login import one_line
from master.nodes.driver import CannotConnectError
from wire.message import Message

ATTACH_S = 20.0
MAX_CHATTER = 64 << 10
NOT_FOUND = 127
_PLAIN = re.compile(r"[A-Za-z0-9_./+~@%:,=-]+")
_UNQUOTABLE = re.compile(r"['\\!\x00-\x1f\x7f]")
_NOT_FOR_SHELLS = "muster-needs-python"
"""A command that no shell knows. Python passes its line over; a shell that was put in Python's place says that word."""
_MARK = re.compile(rb"muster-(bootstrap|agent) ([^\n]*)\n")
_CLEAN_PATH = "import sys;sys.path[:]=[p for p in sys.path if p]"
"""`-c` puts the current folder in front; a `hashlib.py` in somebody's home shall not be ours."""


def command(python: str) -> str:
    """The command line for the node's shell, be it bash, fish or tcsh. Raises CannotConnectError.

    Not `-I`: an old Python would refuse it before it could say that it is old.
    """
    if _UNQUOTABLE.search(python):
        raise CannotConnectError(Message("python_unquotable", python=python))
    quoted = python if _PLAIN.fullmatch(python) else f"'{python}'"
    return f"{quoted} -E -s -c 'import sys;sys.stdin.readline();exec(sys.stdin.readline())'"


def order(archive: Archive, folder: str) -> bytes:
    """The line that the loader passes over, and the one that it runs: the bootstrap, and what it is to do. `folder`:
    the agent's, of ASCII."""
    compiled, sources = ((len(pack.data), pack.checksum) for pack in (archive.compiled, archive.sources))
    call = f"main({(MAGIC_NUMBER.hex(), *compiled)!r}, {sources!r}, {folder!r})\n"
    text = base64.b64encode(_bootstrap() + call.encode()).decode()
    line = f'{_CLEAN_PATH};import binascii;exec(binascii.a2b_base64("{text}"))'
    return f"{_NOT_FOR_SHELLS};exit {NOT_FOUND}\n{line}\n".encode()


@cache
def _bootstrap() -> bytes:
    return Path(bootstrap.__file__).read_bytes()


def attach(pipe: Pipe, python: str, archive: Archive, folder: str) -> None:
    """Talk until the agent's first line is next. Raises CannotConnectError."""
    talk = _Talk(pipe, python)
    talk.say(order(archive, folder))
    while True:
        who, text = talk.next()
        if who == "agent":
            break
        match text:
            case "need compiled":
                talk.say(archive.compiled.packed)
            case "need sources":
                talk.say(archive.sources.packed)
            case "need unpacked":
                talk.say(archive.sources.data)
            case "have":
                pass
            case _:
                raise CannotConnectError(_unable(text, python))
    talk.hand_over()


def _unable(text: str, python: str) -> Message:
    word, _, rest = text.partition(" ")
    if word == "old":
        return Message("python_too_old", python=python, version=rest)
    return Message("agent_not_put", said=one_line(rest))


class _Talk:
    """Finds our lines among whatever is printed."""

    def __init__(self, pipe: Pipe, python: str) -> None:
        self._pipe = pipe
        self._python = python
        self._data = b""
        self._deadline = 0.0

    def say(self, data: bytes) -> None:
        """Give the other side work to do. If it is not there any more, it may have said why before it went: `next`
        reads that first, and then tells the end."""
        with suppress(*BROKEN):
            self._pipe.send(data)
        self._deadline = time.monotonic() + ATTACH_S

    def next(self) -> tuple[str, str]:
        """The next line of ours: who says it, and what. Raises CannotConnectError."""
        while (found := _MARK.search(self._data)) is None:
            if len(self._data) > MAX_CHATTER:
                raise CannotConnectError(Message("shell_endless", said=self._last_words()))
            try:
                piece = self._pipe.take(self._deadline)
            except TimeoutError:
                raise CannotConnectError(self._why_silent()) from None
            if not piece:
                raise CannotConnectError(self._why_ended())
            self._data += piece
        self._data = self._data[found.end() :]
        return found[1].decode(), found[2].decode("utf-8", "replace").strip()

    def hand_over(self) -> None:
        """Leave the bytes that were read too far to the agent's protocol."""
        self._pipe.unread(self._data)

    def _why_ended(self) -> Message:
        status = self._pipe.exit_status()
        if status is None:
            return Message("ended_before_agent")
        if _NOT_FOR_SHELLS in self._pipe.errors + self._data.decode("utf-8", "replace"):
            return Message("shell_becomes_another", python=self._python)
        said = self._last_words()
        if status == NOT_FOUND or "ommand not found" in said:
            return Message("python_not_there", python=self._python)
        return Message("agent_not_started", said=said) if said else Message("shell_ended", status=status)

    def _why_silent(self) -> Message:
        said = self._last_words()
        if not said:
            return Message("shell_waits", seconds=ATTACH_S)
        return Message("shell_waits_saying", seconds=ATTACH_S, said=said)

    def _last_words(self) -> str:
        for text in (self._pipe.errors, self._data.decode("utf-8", "replace")):
            lines = [line for line in map(one_line, text.splitlines()) if line]
            if lines:
                return lines[-1]
        return ""
