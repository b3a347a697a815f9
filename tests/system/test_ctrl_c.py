"""Ctrl-C in the second that a program takes to load, and of a master in the foreground: no traceback is shown."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.system.lab import ROOT, Lab
from tests.waiting import PATIENCE_S, until

SLOW = """
import sys, time

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == {loads!r}:
            print("loading", flush=True)
            time.sleep(60)

sys.meta_path.insert(0, Slow())
"""
"""A `sitecustomize`, which the interpreter runs before all else."""


@pytest.mark.parametrize(
    ("program", "loads"),
    [
        (["-m", "muster", "queue"], "client.cli.main"),
        (["-c", "from client.cli.begin import main; main()", "queue"], "client.cli.main"),
        (["-m", "master"], "logging"),
        (["-m", "master"], "ssl"),
        (["-m", "master", "shell", "local"], "paramiko"),
        (["-m", "monitor"], "argparse"),
        (["-m", "monitor"], "influxdb_client"),
    ],
    ids=["muster", "script", "master at once", "master", "shell", "monitor at once", "monitor"],
)
@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_while_it_loads_ends_it_without_a_traceback(
    tmp_path: Path, program: list[str], loads: str, presses: int
) -> None:
    lab = Lab(tmp_path / "lab", nodes=0)
    if "monitor" in program:
        lab.write_conf(influx={"url": "http://127.0.0.1:1"})
    (tmp_path / "sitecustomize.py").write_text(SLOW.format(loads=loads))
    path = f"{tmp_path}:{ROOT}"
    words = ["--conf", str(lab.conf)] if program[1] != "muster" and program[0] == "-m" else []
    process = subprocess.Popen(
        [sys.executable, *program[:2], *words, *program[2:]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    gives_up = threading.Timer(PATIENCE_S, process.kill)
    gives_up.start()
    with process:
        assert "loading\n" in process.stdout, "it loads this no more"
        gives_up.cancel()
        for _ in range(presses):
            process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert "Traceback" not in told


def test_a_master_in_the_foreground_is_waited_for_when_both_hear_ctrl_c(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", nodes=0)
    process = subprocess.Popen(
        [sys.executable, "-m", "muster", "up", "--conf", str(lab.conf)],
        cwd=ROOT, env=lab.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    with process:
        try:
            until("it serves", lambda: lab.muster("status").returncode == 0)
            os.killpg(process.pid, signal.SIGINT)
            told = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, *told) == (0, "", ""), "it ends in order, with its own exit status"
    assert lab.processes() == []


def test_who_wants_ctrl_c_ignored_has_it_ignored(tmp_path: Path) -> None:
    """As a shell does for what it starts with `&`."""
    told = tmp_path / "told"
    (tmp_path / "argparse.py").write_text(f"import signal\nopen({str(told)!r}, 'w').write(str(signal.getsignal(2)))\n")
    subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-m", "muster", "queue", "--help"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        check=False,
    )
    assert told.read_text() == str(signal.SIG_IGN)
