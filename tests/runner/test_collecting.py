"""A pytest process of the runner finds the tests of the files that it was given, in their order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SETTINGS = '[tool.pytest.ini_options]\ntestpaths = ["tests"]\naddopts = ["-p", "tests.runner.plugin"]\n'
FROZEN = "import gc\ndef test_frozen(): assert gc.isenabled() and gc.get_freeze_count() > 10_000\n"


def test_the_files_are_collected_in_their_order_and_no_others(tmp_path: Path) -> None:
    texts = {
        "pyproject.toml": SETTINGS,
        "tests/layers.txt": "tests real\n",
        "tests/a/test_later.py": FROZEN,
        "tests/a/test_other.py": "raise AssertionError('it was loaded')\n",
        "tests/b/test_first.py": "def test_first(): pass\n",
        "tests/c/conftest.py": "raise AssertionError('it was loaded')\n",
        "tests/c/test_other.py": "",
        "files": "tests/b/test_first.py\ntests/a/test_later.py",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", f"--files={tmp_path / 'files'}"]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=60
    )
    told = [line.split()[0] for line in done.stdout.splitlines() if " PASSED " in line]
    assert told == ["tests/b/test_first.py::test_first", "tests/a/test_later.py::test_frozen"], done.stdout
    assert done.returncode == 0, done.stdout
