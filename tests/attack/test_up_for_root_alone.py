"""`muster up --detach` by an account that the master tells nothing: it says that it runs, and who may use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rights import need_users
from tests.system.lab import ROOT, Lab
from tests.waiting import PATIENCE_S, until

ACCOUNT = 4301


def up(lab: Lab, *words: str) -> subprocess.CompletedProcess[str]:
    """As the account that runs the master. It may read the interpreter, wherever that lies, and is not root."""
    may_read = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    return subprocess.run(
        [
            "setpriv",
            f"--reuid={ACCOUNT}",
            f"--regid={ACCOUNT}",
            "--clear-groups",
            *may_read,
            sys.executable,
            "-m",
            "muster",
            "up",
            "--detach",
            *words,
            "--conf",
            str(lab.conf),
        ],
        cwd=ROOT,
        env=lab.environment(),
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )


def hand_over(lab: Lab) -> None:
    """All of the lab's folder is the account's, and it may run what we run."""
    for path in (lab.folder, *lab.folder.rglob("*")):
        os.chown(path, ACCOUNT, ACCOUNT)
    for folder in lab.folder.parents:
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o011)


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_who_may_not_ask_is_told_that_it_runs_and_who_may_come_in(tmp_path: Path, words: tuple[str, ...]) -> None:
    need_users()
    lab = Lab(tmp_path / "lab", nodes=0)
    lab.write_conf(local_admin="root")
    hand_over(lab)
    try:
        done = up(lab, *words)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        with lab.client() as root:
            pid = root.info()["pid"]
            if words:
                assert json.loads(done.stdout)["pid"] == pid
            else:
                said = " ".join(done.stdout.split())
                assert f"pid {pid}" in said
                assert "only root may use it" in said
                assert "sudo muster users add NAME --admin" in said
            root.stop_master()
        until("it has ended", lambda: not Path(f"/proc/{pid}").exists())
    finally:
        assert lab.close() == []
