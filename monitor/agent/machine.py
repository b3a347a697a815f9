"""Which machine this is, and which of its runs."""

from __future__ import annotations

import os
from typing import Optional

MIB = 1024 * 1024
"""Memory and disks are told in these."""


def machine_id() -> str:
    """The machine's own id, made when it was installed; "" where there is none, as in many containers."""
    try:
        with open("/etc/machine-id", encoding="ascii") as file:
            return file.read(64).strip()
    except (OSError, ValueError):
        return ""


def tmp_disk_mib() -> Optional[int]:
    """Size of the file system of /tmp, in MiB; None where that cannot be read. A folder that TMPDIR names is not looked
    at: it may be of another machine's disks, which may hang."""
    try:
        found = os.statvfs("/tmp")  # noqa: S108  (nothing is written there)
    except OSError:
        return None
    return found.f_blocks * found.f_frsize // MIB


def boot_id() -> str:
    """The kernel's name for this run of the machine (MUSTER_BOOT_ID overrides it)."""
    given = os.environ.get("MUSTER_BOOT_ID")
    if given:
        return given
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
