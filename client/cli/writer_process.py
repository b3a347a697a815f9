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

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

_END_S = 10.0
_LOG_LIMIT = 1 << 20
LOCK = "influx.lock"
STATUS = "influx.json"


def conf_of(options: argparse.Namespace) -> str | None:
    """The conf.json of the master in use; None where it is named otherwise, so that its files may lie anywhere."""
    return address.conf_in_use(options.conf, options.master)


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
    with master_process.append_to(path) as out:
        return subprocess.Popen(
            [sys.executable, "-m", "monitor", "--conf", os.path.abspath(conf)],
            cwd=master_process.folder(),
            env=master_process.environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def runs(conf: str) -> bool:
    """Whether one writes for this lab."""
    return pid(conf) is not None


def pid(conf: str) -> int | None:
    """Which process writes for this lab, if one does."""
    return _holder(os.path.join(task_info(conf), LOCK))


def log_file(conf: str) -> str:
    """Where it tells what it does."""
    return _beside(conf, _named(conf, "server_log_path", "server_log.log")) + ".influx"


def last_word(conf: str) -> str:
    """The last line of its log; nothing where it logs elsewhere, as under systemd."""
    try:
        with open(log_file(conf), encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""


def tally(conf: str, pid: int | None) -> dict[str, Any]:
    """What the writer of that pid has told of its points: `written waiting dropped refused last_write`; empty where it
    told nothing yet."""
    import json

    try:
        with open(os.path.join(task_info(conf), STATUS), encoding="ascii") as file:
            told = json.load(file)
    except (OSError, ValueError):
        return {}
    if not isinstance(told, dict) or pid is None or told.pop("pid", None) != pid:
        return {}
    return told


def stop(folder: str) -> bool:
    """End the one that writes for this folder, if there is one, and wait; whether there was. Raises ConflictError."""
    path = os.path.join(folder, LOCK)
    pid = _holder(path)
    if pid is None:
        return False
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            os.kill(pid, number)
            if _ends(path, pid):
                return True
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    from wire.errors import ConflictError

    raise ConflictError(f"the writer of metrics (pid {pid}) could not be ended: end it as the user that it belongs to")


def _ends(path: str, pid: int) -> bool:
    deadline = time.monotonic() + _END_S
    while time.monotonic() < deadline:
        if _holder(path) != pid:
            return True
        time.sleep(0.02)
    return False


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
