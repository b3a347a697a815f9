"""Ctrl-C, one way for all commands: what there is to say is said, and the process ends, here and now, with 130.

An exception in its place is lost where Python ignores exceptions (in a destructor, say), and the command would go on.
Nothing is left to be done after it: whatever we write to disk is written so that a kill leaves it whole, and what the
master knows, it has.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

INTERRUPTED = 130
"""The exit status, as shells have it."""
_last_words: list[Callable[[], object]] = []


def hear() -> None:
    """From here on Ctrl-C ends the process so."""
    signal.signal(signal.SIGINT, _end)


class LastWords:
    """While it lasts, `say` is called before Ctrl-C ends the process; the innermost first."""

    def __init__(self, say: Callable[[], object]) -> None:
        self._say = say

    def __enter__(self) -> None:
        _last_words.append(self._say)

    def __exit__(self, *_: object) -> None:
        _last_words.remove(self._say)


class LeftToTheChild:
    """While it lasts, Ctrl-C is a child's business: it gets the signal as well, and its end is waited for."""

    def __enter__(self) -> None:
        # A function, for what is ignored here would be ignored there too; and what is ignored already stays so.
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, lambda *_: None)

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)


def tell(text: str) -> None:
    """A line on stderr, whatever was interrupted: not through a buffer that may be in use."""
    try:
        os.write(2, f"{text}\n".encode(errors="backslashreplace"))
    except OSError:
        return  # nobody reads any more


def _end(_number: int, _frame: object) -> NoReturn:
    # A second one does not wait for the words.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        _flush()
        for say in reversed(_last_words):
            say()
        _flush()
    except Exception as error:  # noqa: BLE001  (there is nobody left to raise it to)
        tell(f"error: internal: {error!r}")
    finally:
        os._exit(INTERRUPTED)


def _flush() -> None:
    try:
        sys.stdout.flush()
    except (OSError, RuntimeError):
        return  # nobody reads, or it was being written to at that very instant
