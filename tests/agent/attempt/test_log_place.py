"""The log folder on a file server that takes root for nobody: what root can make there, and what is used all the same.

The kernel checks files by the fsuid; set to nobody's, without its capabilities, root is there what it is over NFS.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import rights
from tests.agent.people import ALICE, LAB

ROOT = Path(__file__).parents[3]
SQUASHED = """
import ctypes, os, sys
from wire import account
from monitor.agent.attempt import log_open, log_place
owner = account.Account("alice", int(sys.argv[2]), int(sys.argv[2]), "/", "/bin/sh")
libc = ctypes.CDLL(None)
libc.setfsgid(65534), libc.setfsuid(65534)
place = log_place.prepare(sys.argv[1] + "/t1.log", owner)
libc.setfsuid(0)
os.setgroups([]), os.setresgid(owner.gid, owner.gid, owner.gid), os.setresuid(owner.uid, owner.uid, owner.uid)
own = None if place.top is None else log_place.open_own(place.top, owner)
os.write(1, b"own" if own is not None else b"none")
if own is not None:
    log_open.take(log_open.open_log_in(own, sys.argv[1] + "/alice/t1.log", [], new=True, said=place.said))
    os.write(1, b"said\\n")
"""


@pytest.fixture
def logs() -> Iterator[Path]:
    rights.need_users()
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="muster-logs-") as folder:
        Path(folder).chmod(0o755)
        made = Path(folder, "logs")
        made.mkdir()
        os.chown(made, 0, LAB)
        made.chmod(0o2755)
        yield made


def squashed(logs: Path) -> str:
    words = [sys.executable, "-c", SQUASHED, str(logs), str(ALICE.uid)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


@pytest.mark.parametrize("mode", [0o2755, 0o3777])
def test_nothing_is_left_where_root_can_give_nothing_away(logs: Path, mode: int) -> None:
    logs.chmod(mode)
    assert squashed(logs) == "none"
    assert list(logs.iterdir()) == []


def test_a_folder_that_its_owner_has_there_is_used(logs: Path) -> None:
    own = logs / "alice"
    own.mkdir()
    os.chown(own, ALICE.uid, LAB)
    own.chmod(0o2750)
    assert squashed(logs) == "own"
    log = own / "t1.log"
    assert log.read_text(encoding="utf-8") == "said\n"
    assert (log.stat().st_uid, log.stat().st_gid) == (ALICE.uid, LAB)
    assert [path.name for path in logs.iterdir()] == ["alice"]
