"""Becoming a daemon. It owns what it begins with: a session, descriptors 0 to 2, signals."""

from __future__ import annotations

import os
import signal
from typing import Callable

from .folder import FolderError
from .fork import close_all_but
from .log import Log, redirect


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
    """The process that started us may have ignored or blocked some; commands must not inherit that."""
    for number in range(1, signal.NSIG):
        if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, 32, 33):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
