"""The writer of metrics as a program beside the master: started with it where conf.json has `influx`, ended with it.

The lock file in task_info says whether one runs and which: its pid counts only while the lock is held.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from client import address
from client.cli import master_process

_END_S = 10.0
_LOG_LIMIT = 1 << 20
LOCK = "influx.lock"


def is_configured(conf: str) -> bool:
    """Whether conf.json says where metrics go. Raises ConfigError."""
    return address.load(conf).get("influx") is not None


def start(conf: str) -> subprocess.Popen[bytes]:
    """Start one in a session of its own, in the place of one that a dead master left. It logs beside the master."""
    stop(task_info(conf))
    path = log_file(conf)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path) and os.path.getsize(path) > _LOG_LIMIT:
        os.replace(path, path + ".1")
    with open(path, "ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "monitor", "--conf", os.path.abspath(conf)],
            cwd=master_process.folder(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def runs(conf: str) -> bool:
    """Whether one writes for this lab."""
    return _holder(os.path.join(task_info(conf), LOCK)) is not None


def log_file(conf: str) -> str:
    """Where it tells what it does."""
    return _beside(conf, _named(conf, "server_log_path", "server_log.log")) + ".influx"


def last_word(conf: str) -> str:
    """The last line of its log."""
    with open(log_file(conf), encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    return lines[-1] if lines else ""


def stop(folder: str) -> bool:
    """End the one that writes for this folder, if there is one, and wait; whether there was."""
    path = os.path.join(folder, LOCK)
    pid = _holder(path)
    if pid is None:
        return False
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _END_S
    while _holder(path) == pid:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            deadline += _END_S
        time.sleep(0.02)
    return True


def _holder(path: str) -> int | None:
    import fcntl

    try:
        with open(path, encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read().strip()
                return int(text) if text.isdecimal() else None
    except FileNotFoundError:
        pass
    return None


def task_info(conf: str) -> str:
    """The folder of the lock."""
    return _beside(conf, _named(conf, "task_info", "task_info"))


def _beside(conf: str, path: str) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(conf)), os.path.expanduser(path))


def _named(conf: str, key: str, default: str) -> str:
    value = address.load(conf).get(key)
    return value if isinstance(value, str) and value else default
