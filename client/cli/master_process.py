"""The master as a program that this machine starts: `python -m master …`, from the folder it is installed in."""

from __future__ import annotations

import os
import subprocess
import sys

import client


def command(*words: str) -> list[str]:
    """The command line that runs the master's program with these words."""
    return [sys.executable, "-m", "master", *words]


def folder() -> str:
    """Where the packages lie. `-m` looks in the current folder first, and a lab's folder may well hold a `master`."""
    return os.path.dirname(os.path.dirname(os.path.abspath(client.__file__)))


def run(*words: str) -> int:
    """Run it to its end and give its exit code. Ctrl-C reaches it as well; its end is waited for."""
    sys.stdout.flush()
    process = subprocess.Popen(command(*words), cwd=folder())
    while True:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            continue
        return 128 - code if code < 0 else code


def start(log: str, *words: str) -> subprocess.Popen[bytes]:
    """Start it in a session of its own, with what it prints appended to the file `log`."""
    with open(log, "ab") as out:
        return subprocess.Popen(
            command(*words),
            cwd=folder(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
