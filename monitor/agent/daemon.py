"""Becoming a daemon, and the daemon's log. It owns descriptors 0 to 2, signals at the start and the log's rotation."""

from __future__ import annotations

import os
import signal
import time
from typing import Callable, Set

from .folder import FolderError

MAX_LOG = 1024 * 1024


def close_all_but(kept: Set[int]) -> None:
    """After a fork: give up every descriptor except 0, 1, 2 and `kept`."""
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd > 2 and fd not in kept:  # noqa: PLR2004  (0, 1 and 2 are what they are)
            _close(fd)


def detach(log: str, serve: Callable[[Callable[[], None]], None]) -> str:
    """Run `serve(ready)` in a daemon of its own session. Gives "" once it called `ready`, or else why it ended."""
    read, write = os.pipe()
    first = os.fork()
    if first == 0:
        os.setsid()
        if os.fork() == 0:
            _be_daemon(log, write, serve)
        os._exit(0)
    os.close(write)
    os.waitpid(first, 0)
    answer = b""
    while True:
        data = os.read(read, 4096)
        if not data:
            break
        answer += data
        if answer.endswith(b"\n"):
            break
    os.close(read)
    text = answer.decode("utf-8", "replace").strip()
    if not text:
        return f"the agent ended at once; see {log}"
    return "" if text == "ready" else text


class Log:
    """Lines on descriptor 2, which is the file `path`; it is moved to `path`.1 when it outgrows MAX_LOG."""

    def __init__(self, path: str) -> None:
        self._path = path

    def say(self, text: str) -> None:
        """One line, with the time. A full disk keeps nobody from their work: the line is lost then."""
        try:
            os.write(2, f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n".encode("utf-8", "replace"))
            if os.fstat(2).st_size > MAX_LOG:
                os.rename(self._path, self._path + ".1")
                redirect(self._path)
        except OSError:
            return


def redirect(log: str) -> None:
    """Descriptors 1 and 2 to a file, 0 to nothing. Raises OSError."""
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(out)
    os.close(null)


def _be_daemon(log: str, status: int, serve: Callable[[Callable[[], None]], None]) -> None:
    code = 1
    try:
        close_all_but({status})
        redirect(log)
        os.chdir("/")
        _forget_signals()

        def ready() -> None:
            os.write(status, b"ready\n")
            os.close(status)

        serve(ready)
        code = 0
    except BaseException as error:  # noqa: BLE001  (a daemon's last words; there is nobody above)
        expected = isinstance(error, FolderError)
        Log(log).say(f"the agent ended: {error}" if expected else f"the agent ended:\n{_trace()}")
        _last_words(status, str(error) if expected else f"the agent could not start: {error}")
    os._exit(code)


def _trace() -> str:
    import traceback  # noqa: PLC0415  (only who dies needs it, and every shim would carry it)

    return traceback.format_exc()


def _last_words(status: int, text: str) -> None:
    try:
        os.write(status, text.replace("\n", " ").encode("utf-8", "replace") + b"\n")
    except OSError:
        return  # it had said `ready` long ago


def _forget_signals() -> None:
    """Whoever started us may have ignored or blocked some; commands must not inherit that."""
    for number in range(1, signal.NSIG):
        if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, 32, 33):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _close(fd: int) -> None:
    try:
        os.close(fd)
    except OSError:
        return  # the descriptor of the listing itself
