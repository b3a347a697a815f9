"""What the node's own Python has is found, though the agent runs without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from monitor.agent.site_packages import import_module

ROOT = Path(__file__).parents[2]


def test_the_nodes_packages_are_found_although_the_agent_runs_without_them() -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from monitor.agent.site_packages import import_module as find"
    )
    script += "; assert 'site-packages' not in str(sys.path), sys.path; print(find('psutil').__name__, find('no_such'))"
    command = [sys.executable, "-I", "-S", "-c", script, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "psutil None\n"


def test_a_package_that_breaks_at_its_import_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_one.py").write_text("raise RuntimeError('no')", encoding="ascii")
    monkeypatch.syspath_prepend(tmp_path)
    assert import_module("broken_one") is None
