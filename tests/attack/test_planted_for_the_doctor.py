"""What others lay where the doctor writes and reads, in folders that are everybody's: it looks there as root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from master.doctor import scripts

HIDDEN = "what only root may read\n"


def test_a_link_in_the_folder_of_logs_leads_the_doctor_to_no_file_of_roots(tmp_path: Path) -> None:
    logs, own = tmp_path / "logs", tmp_path / "own"
    logs.mkdir()
    own.write_text(HIDDEN, encoding="ascii")
    planted = logs / "muster-doctor-1f2e-3-log"
    planted.symlink_to(own)
    argv = ["/bin/bash", "-c", scripts.START, "bash", str(logs), planted.name]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("muster-doctor started in ")
    assert own.read_text(encoding="ascii") == HIDDEN
    assert list(logs.iterdir()) == [planted]


def test_a_folder_of_logs_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    argv = ["/bin/bash", "-c", scripts.START, "bash", "/proc/self"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "muster-doctor no-file\n"
    argv[-1] = str(tmp_path / "none")
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "muster-doctor no-folder\n"


def test_a_node_without_mktemp_makes_the_file_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/rm").symlink_to("/bin/rm")
    argv = ["/bin/bash", "-c", scripts.START, "bash", str(tmp_path / "logs")]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=True, timeout=60, env={"PATH": str(tmp_path / "bin")}
    )
    assert done.stdout.startswith("muster-doctor started in ")
    assert list((tmp_path / "logs").iterdir()) == []
    argv[-1] = "/proc/self"
    done = subprocess.run(
        argv, capture_output=True, text=True, check=True, timeout=60, env={"PATH": str(tmp_path / "bin")}
    )
    assert done.stdout == "muster-doctor no-file\n"


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_lies_in_the_place_of_the_masters_file_is_not_followed_nor_waited_for(tmp_path: Path, kind: str) -> None:
    if kind == "link":
        (tmp_path / "secret").write_text(HIDDEN, encoding="ascii")
        (tmp_path / "theirs").symlink_to("secret")
    else:
        os.mkfifo(tmp_path / "theirs")
    told = looked(tmp_path)
    assert not told["read"]
    assert told["write_error"] == ""


def looked(folder: Path) -> dict[str, Any]:
    """The node's answer about a folder."""
    words = {"folder": str(folder), "theirs": "theirs", "mine": "mine", "text": "1f2e", "patience_s": 0.0}
    argv, asked = scripts.python_question(sys.executable, scripts.FOLDER, words)
    done = subprocess.run(argv, input=asked, capture_output=True, text=True, check=True, timeout=60)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1].partition(" ")[2])
    return told
