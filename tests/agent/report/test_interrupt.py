"""Ctrl-C ends what dials in, also where Python would ignore the exception that stands for it."""

from __future__ import annotations

import hashlib
import os
import pty
import signal
import subprocess
import sys
import termios
from contextlib import ExitStack
from pathlib import Path

from master.drivers.agent_archive import build

SCRIPT = """
import os, signal, sys
archive, base = sys.argv[1:]
sys.path.insert(0, archive)
sys.argv[0] = archive
from agent.report import command, reporter

class Dies:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        sum(range(1000))

def call(settings, who):
    Dies()
    raise reporter.CallError("nobody answers")

reporter.learn_master = lambda settings: None
reporter.report = call
words = ["--node", "far", "--master", "127.0.0.1:1", "--authority", "sha256:" + "0" * 64, "--state", base]
sys.exit(command.main([*words, "--give-up-after", "2"], "0" * 16))
"""


def test_a_ctrl_c_in_a_destructor_is_not_lost(tmp_path: Path) -> None:
    base = tmp_path / "state"
    base.mkdir(mode=0o700)
    data = build().compiled.data
    archive = base / f"agent-{hashlib.sha256(data).hexdigest()[:16]}.pyz"
    archive.write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(archive), str(base)],
        input="id.secret\n", capture_output=True, text=True, check=False, timeout=60, env={**os.environ},
    )  # fmt: skip
    assert done.returncode == 130, done
    assert "Exception ignored" not in done.stderr


def test_a_terminal_that_was_asked_for_the_token_shows_again_what_is_typed(tmp_path: Path) -> None:
    archive = tmp_path / "agent.pyz"
    archive.write_bytes(build().compiled.data)
    words = ["report", "--node", "far", "--new-token", "--master", "127.0.0.1:1", "--authority", "sha256:" + "0" * 64]
    with ExitStack() as stack:
        ours, theirs = pty.openpty()
        for descriptor in (ours, theirs):
            stack.callback(os.close, descriptor)
        process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, str(archive), *words, "--state", str(tmp_path / "state")],
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
                preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # noqa: PLW1509  (its terminal)
            )
        )
        stack.callback(process.kill)
        shown = b""
        while b"not shown" not in shown:
            shown += os.read(ours, 4096)
        assert not termios.tcgetattr(theirs)[3] & termios.ECHO
        os.write(ours, b"\x03")
        assert process.wait(60) == 130
        assert termios.tcgetattr(theirs)[3] & termios.ECHO


def test_a_ctrl_c_while_it_loads_is_no_traceback(tmp_path: Path) -> None:
    archive = tmp_path / "agent.pyz"
    archive.write_bytes(build().compiled.data)
    (tmp_path / "argparse.py").write_text("import time\nprint('loading', flush=True)\ntime.sleep(60)\n")
    with subprocess.Popen(
        [sys.executable, str(archive), "report"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"loading\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (-signal.SIGINT, b"")
