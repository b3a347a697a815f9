"""The archive: reproducible, self-contained, and able to run a task on whatever Python 3.8 or newer is there."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from master.drivers.archive import build
from tests.cases import each_case

from .small_master import Node


def pythons() -> list[str]:
    """The interpreters on the PATH that run; a version manager's stand-in for a version that is not chosen does not.
    Not asked as the file is loaded, which each worker does: it takes a second."""
    names = ("python3.8", "python3.9", "python3.10", "python3", "python3.14", "pypy3")
    found = [path for name in names if (path := shutil.which(name))]
    return [
        path for path in found if subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0
    ]


def test_the_digest_is_that_of_the_bytes_and_both_are_reproducible() -> None:
    digest, data = build()
    assert digest == hashlib.sha256(data).hexdigest()[:16]
    assert build() == (digest, data)


def test_it_is_what_the_standard_librarys_zipfile_makes_of_these_files() -> None:
    data = build()[1]
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as ours, zipfile.ZipFile(written, "w") as theirs:
        assert ours.testzip() is None
        for entry in ours.infolist():
            same = zipfile.ZipInfo(entry.filename)
            same.create_system, same.external_attr = 3, 0o644 << 16
            theirs.writestr(same, ours.read(entry))
    assert data == b"#!/usr/bin/env python3\n" + written.getvalue()


def test_only_the_agent_and_its_files_of_wire_travel() -> None:
    names = zipfile.ZipFile(io.BytesIO(build()[1])).namelist()
    assert {name for name in names if not name.startswith("agent/")} == {
        "__main__.py", "wire/__init__.py", "wire/account.py", "wire/agent.py", "wire/framing.py", "wire/pinning.py",
    }  # fmt: skip
    assert "agent/attempt/shim.py" in names
    assert "agent/__main__.py" not in names


def test_building_it_loads_nothing_of_monitor() -> None:
    script = (
        "import sys; from master.drivers.archive import build; build(); print([m for m in sys.modules if 'moni' in m])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("words", [["version"], ["report", "--help"]])
def test_who_does_not_serve_does_not_load_what_serves(tmp_path: Path, words: list[str]) -> None:
    """It is most of an agent, and an archive holds no byte code: it is compiled at each start."""
    archive = tmp_path / "agent.pyz"
    archive.write_bytes(build()[1])
    command = [sys.executable, "-I", "-S", "-X", "importtime", str(archive), *words]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr
    assert "agent.main" in loaded
    assert "agent.serve.server" not in loaded


def test_it_runs_a_task_on_every_python_found_here(tmp_path: Path) -> None:
    with each_case() as cases:
        for number, python in enumerate(pythons()):
            with cases.case(python):
                folder = tmp_path / str(number)
                folder.mkdir()
                check_it_runs_a_task(folder, python)


def check_it_runs_a_task(folder: Path, python: str) -> None:
    node = Node(folder, python=python)
    try:
        link = node.up()
        assert node.run(link, "t1", "echo 你好; exit 3")["code"] == 3
        assert node.text("t1") == "你好\n\nProgram Exit With Code 3\n"
        node.launch(link, "t2", "sleep 1000 & sleep 1000")
        link.wait_for("started", "t2")
        node.kill_agent(link)
        again = node.up()
        again.kill("t2")
        assert again.wait_for("exit", "t2")["cause"] == "killed"
        assert node.carriers("t2") == []
    finally:
        node.clean()
