"""The archives that an agent which dials in runs from: where they lie, and whether one of them is whole and runs here.

Owns `agent-DIGEST.pyz` beneath the state's base, and beside them the name by which units start whatever was last.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys

STABLE_NAME = "muster-agent.pyz"
TRIAL_S = 20.0


def path_of(base: str, sha256: str) -> str:
    """Where the archive with this digest lies. Not by its version: of that there are others, with byte code of another
    Python, and the agent of another master may run from one of those here."""
    return os.path.join(base, f"agent-{sha256[:16]}.pyz")


def settle(archive: str, base: str) -> str:
    """Where the running archive lies for good; the one that somebody fetched may be removed. Raises OSError."""
    with open(archive, "rb") as file:
        data = file.read()
    own = path_of(base, hashlib.sha256(data).hexdigest())
    if archive != own and not os.path.exists(own):
        write(own, data)
    keep_stable(own, base)
    return own


def keep_stable(archive: str, base: str) -> None:
    """Let units start this one from now on. Raises OSError."""
    stable = os.path.join(base, STABLE_NAME)
    draft = f"{stable}.{os.getpid()}.tmp"
    shutil.copyfile(archive, draft)
    os.replace(draft, stable)


def write(path: str, data: bytes) -> None:
    """Write a file whole or not at all. Raises OSError."""
    draft = f"{path}.{os.getpid()}.tmp"
    with open(draft, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def is_whole(path: str, sha256: str) -> bool:
    """Is it there, with this digest?"""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest() == sha256
    except FileNotFoundError:
        return False


def runs_here(path: str, version: str) -> bool:
    """Does this machine's Python take it, and does it say that it is this version?"""
    words = [sys.executable, "-I", path, "version"]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=TRIAL_S, check=False, close_fds=True
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0 and done.stdout.decode("utf-8", "replace").strip() == version
