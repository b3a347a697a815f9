"""The terminal, or what stands in its place: how wide it is, whether it has colours, what is said on stderr, and a
question to whoever sits there. Any of the three streams may be closed, or take nothing."""

from __future__ import annotations

import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Out(io.FileIO):
    """Stdout, which knows why it took not all that was written to it."""

    failed: OSError | None = None

    def write(self, data: Any) -> int:
        """See FileIO."""
        try:
            return super().write(data)
        except OSError as error:
            self.failed = error
            raise


class _Err(io.FileIO):
    """Stderr. There is nowhere else to say what it does not take."""

    def write(self, data: Any) -> int:
        """See FileIO."""
        try:
            return super().write(data)
        except OSError:
            return len(data)


def begin() -> None:
    """Give each stream that is closed a file in its place, so that no other file gets its number: a write to stdout
    then fails, a write to stderr is lost. Characters that a stream's encoding lacks are escaped."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            fd = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            if fd != number:
                os.dup2(fd, number)
                os.close(fd)
            if name == "stdin":
                sys.stdin = open(0, closefd=False)  # noqa: SIM115  (it is the process's)
    sys.stdout, sys.stderr = _known(sys.stdout, _Out, 1), _known(sys.stderr, _Err, 2)


def _known(stream: Any, kind: type[io.FileIO], number: int) -> Any:
    if stream is not (sys.__stdout__ if number == 1 else sys.__stderr__):
        stream.reconfigure(errors="backslashreplace")  # somebody put another one there
        return stream
    buffer = io.BufferedWriter(kind(number, "w", closefd=False))
    encoding = "utf-8" if stream is None else stream.encoding
    lines = number != 1 or buffer.isatty()
    return io.TextIOWrapper(buffer, encoding, "backslashreplace", line_buffering=lines)


def unwritable() -> OSError | None:
    """Why stdout took not all that was written to it; None if it did. From then on what is written there is lost."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    error: OSError | None = getattr(raw, "failed", None)
    try:
        sys.stdout.flush()
    except OSError as failed:
        error = error or failed
    if error is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return error


def note(text: str) -> None:
    """A line on stderr, after what stdout holds so far."""
    try:  # noqa: SIM105  (contextlib takes time to load)
        sys.stdout.flush()
    except OSError:
        pass  # it is told at the end
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def said_yes(question: str) -> bool:
    """Whether somebody at the terminal answers with yes."""
    sys.stdout.flush()
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def terminal_width() -> int | None:
    """Columns of the terminal on stdout, None where it is none: then nothing is cut, so that grep finds all."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return int(columns)
    try:
        return (os.get_terminal_size(sys.stdout.fileno()).columns or 80) if sys.stdout.isatty() else None
    except OSError:
        return None


def coloured() -> bool:
    """Whether to use colour: on a terminal, unless NO_COLOR is set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
