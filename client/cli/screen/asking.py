"""Read names and passwords, at the terminal or from a file, so that nobody else can see them.

A password is never an argument: everybody on a machine can read those.
"""

from __future__ import annotations

import os
import sys

from client.cli.screen.interrupt import LastWords
from client.refusals import coded_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

_MOST = 4096


def is_terminal() -> bool:
    """Is there somebody to be asked?"""
    return sys.stdin.isatty()


def ask_name(question: str, default: str) -> str:
    """A line that may be seen; `default` for an empty one."""
    return _line(f"{question} [{default}]: ").strip() or default


def ask(question: str) -> str:
    """A line that may be seen, and may be empty."""
    return _line(f"{question}: ").strip()


def ask_password(question: str) -> str:
    """A line that is not shown. The terminal is put back also by Ctrl-C. Raises BadRequestError at its end."""
    import termios

    tty = sys.stdin.fileno()
    before = termios.tcgetattr(tty)
    hidden = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]

    def show() -> None:
        termios.tcsetattr(tty, termios.TCSADRAIN, before)
        sys.stderr.write("\n")
        sys.stderr.flush()

    with LastWords(show):
        termios.tcsetattr(tty, termios.TCSADRAIN, hidden)
        try:
            return _line(f"{question}: ")
        finally:
            show()


def new_password(whose: str) -> str:
    """A password that was typed twice. Raises BadRequestError where the two differ."""
    first = ask_password(f"New password for {whose}")
    ask_again(first)
    return first


def ask_again(password: str) -> None:
    """Raise BadRequestError unless the password is typed once more."""
    if ask_password("The same once more") != password:
        raise coded_error("bad_request", "passwords_differ")


def add_option(parser: argparse.ArgumentParser) -> None:
    """Let a password be read from a file."""
    parser.add_argument("--password-file", metavar="FILE", help="read the new password from FILE, or from stdin (`-`)")


def chosen_password(options: Any, whose: str) -> str:
    """From `--password-file`, else asked for twice. Raises BadRequestError where there is nobody to ask, OSError."""
    if options.password_file is not None:
        return read_password(options.password_file)
    if not is_terminal():
        raise coded_error("bad_request", "password_needs_terminal")
    return new_password(whose)


def read_password(path: str) -> str:
    """The first line of a file (`-`: stdin), without its end. Raises BadRequestError, OSError."""
    with open(0 if path == "-" else path, "rb", closefd=path != "-") as file:
        line = file.readline(_MOST + 1)
    try:
        text = line.removesuffix(b"\n").removesuffix(b"\r").decode()
    except UnicodeDecodeError:
        raise coded_error("bad_request", "password_not_utf8", path=path) from None
    if not text or len(line) > _MOST:
        raise coded_error("bad_request", "password_expected", path=path, most=_MOST)
    return text


def _line(question: str) -> str:
    sys.stdout.flush()
    sys.stderr.write(question)
    sys.stderr.flush()
    # Not through Python's buffer: two lines that were typed at once are two answers.
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = os.read(sys.stdin.fileno(), 1)
        if not piece:
            raise coded_error("bad_request", "nothing_typed")
        line += piece
    return line[:-1].decode(errors="replace")
