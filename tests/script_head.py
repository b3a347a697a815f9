"""The first lines of a Python program that a test lays out as a file."""

from __future__ import annotations

import shlex
import sys


def script_head(*options: str, python: str = sys.executable) -> str:
    """What runs the rest of the file with this Python and these options, also where its path has blanks: a `#!` line
    ends at the first one. For the shell the lines are a command, for Python a text."""
    command = shlex.join([python, *options])
    return f"#!/bin/sh\n'''exec' {command} \"$0\" \"$@\"\n' '''\n"
