"""The stages before a command, as its environment and its setup: whether its shell has come to the end of each.

A script that the shell reads may end it with status 0, or have it become another program: whoever waits for it alone
can tell then that the command was never reached. At the end of each stage the shell writes a byte by STAGE_FD. It can
read there, too, so that a shell whose shim is gone does not die of a pipe that nobody reads.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional


class Stages:
    """Of one launch. `codes`: for each stage the exit code of an attempt that ended in it. `shells`: what the command's
    process shall have as STAGE_FD. Raises OSError."""

    def __init__(self, codes: List[int]) -> None:
        self._codes = codes
        self._read, write = os.pipe()
        try:
            os.set_blocking(self._read, False)
            self.shells = os.open(f"/proc/self/fd/{write}", os.O_RDWR)
        except OSError:
            os.close(self._read)
            raise
        finally:
            os.close(write)

    def code(self, status: int) -> int:
        """The exit code of an attempt whose shell, or what that became, has exited with this status."""
        try:
            passed = len(os.read(self._read, len(self._codes)))
        except BlockingIOError:
            passed = 0
        return self._codes[passed] if passed < len(self._codes) else status

    def close(self) -> None:
        """Nothing more is asked."""
        os.close(self._read)
        os.close(self.shells)


def of(launch: Dict[str, Any]) -> Optional[Stages]:
    """Those of a launch; None where it has none. Raises OSError."""
    return Stages(launch["stages"]) if launch.get("stages") else None


def wrong(message: Dict[str, Any]) -> Optional[str]:
    """Return the problem with the stages of a launch, None if there is none."""
    codes = message.get("stages", [])
    is_right = isinstance(codes, list) and all(type(code) is int and 0 < code < 256 for code in codes)  # noqa: PLR2004
    return None if is_right else "stages is not a list of exit codes"
