"""A program beside the master: started with it where conf.json has its key, ended with it.

A lock file in task_info says whether one runs and which: its pid counts only while the lock is held.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from client import address
from client.cli.programs import master_process
from client.refusals import coded_error
from wire import lab
from wire.state_folder import has_open, holder_of, started_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    import subprocess

_END_S = 10.0
_GONE_S = 1.0  # until a lock is free of a process that ended by itself
_START_S = 10.0
_LOOK_S = 0.05
_LOG_LIMIT = 1 << 20


class Program:
    """`key`: of conf.json, that asks for it; `module`: what `python -m` runs; `lock`: the name of its file in
    task_info; `name`: what people call it; `without`: what is not so without it."""

    def __init__(self, key: str, module: str, lock: str, name: str, without: str) -> None:
        self.key = key
        self.lock = lock
        self.name = name
        self.without = without
        self._module = module

    def is_configured(self, conf: str) -> bool:
        """Whether conf.json asks for it. Raises ConfigError."""
        return address.load(conf).get(self.key) is not None

    def command(self, conf: str) -> list[str]:
        """The command line that runs it."""
        return [sys.executable, "-X", "utf8", "-m", self._module, "--conf", os.path.abspath(conf)]

    def start(self, conf: str) -> subprocess.Popen[bytes]:
        """Start one in a session of its own, in the place of one that a dead master left. It logs beside the master."""
        import subprocess

        self.stop(task_info(conf), conf)
        path = self.log_file(conf)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path) and os.path.getsize(path) > _LOG_LIMIT:
            os.replace(path, path + ".1")
        with master_process.append_to(path) as out:
            return subprocess.Popen(
                self.command(conf),
                cwd=master_process.folder(),
                env=master_process.environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def awaited(self, conf: str, process: subprocess.Popen[bytes]) -> bool:
        """Wait until it is at work, or has ended; whether it works."""
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and not self.runs(conf):
            if process.poll() is not None:
                return False
            time.sleep(_LOOK_S)
        return True

    def runs(self, conf: str) -> bool:
        """Whether one is at work for this lab."""
        return self.pid(conf) is not None

    def pid(self, conf: str) -> int | None:
        """Which process is at work for this lab, if one is."""
        return holder_of(os.path.join(task_info(conf), self.lock))

    def log_file(self, conf: str) -> str:
        """Where it tells what it does."""
        return _beside(conf, _named(conf, "server_log_path", "server_log.log")) + f".{self.key}"

    def last_word(self, conf: str) -> str:
        """The last line of its log; nothing where it logs elsewhere, as under systemd."""
        try:
            with open(self.log_file(conf), encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
        except OSError:
            return ""
        return lines[-1] if lines else ""

    def stop(self, folder: str, conf: str) -> bool:
        """End the one that is at work for this folder and conf.json, if there is one, and wait; whether there was.
        Raises ConflictError."""
        return end_holder(os.path.join(folder, self.lock), self.name, conf) is not None


WRITER = Program("influx", "monitor", "influx.lock", "the writer of metrics", "metrics are not written")
CONSOLE = Program("web", "web", "web.lock", "the console", "there is no console")
ALL = (WRITER, CONSOLE)


def end_holder(path: str, name: str, conf: str) -> int | None:
    """End the process of this conf.json that holds this lock, and wait: its pid, None where nobody holds it. Raises
    ConflictError, also where the process is another lab's."""
    pid = holder_of(path)
    if pid is None:
        return None
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not has_open(pid, path):
                break
            _check_own(pid, path, name, conf)
            os.kill(pid, number)
            if _ends(path, pid, _END_S):
                return pid
    except ProcessLookupError:
        return pid
    except PermissionError:
        _check_own(pid, path, name, conf)
    if _ends(path, pid, _GONE_S):
        return pid
    raise coded_error("conflict", "program_not_ended", name=name, pid=pid)


def _check_own(pid: int, path: str, name: str, conf: str) -> None:
    """Raise ConflictError unless the process was started with this conf.json."""
    theirs = started_with(pid)
    if theirs and lab.read(conf).has_conf(theirs):
        return
    ours, folder = os.path.abspath(conf), os.path.dirname(path)
    if not theirs:
        raise coded_error("conflict", "program_of_unknown_lab", conf=ours, folder=folder, pid=pid, name=name)
    raise coded_error("conflict", "program_of_another_lab", conf=ours, folder=folder, theirs=theirs, pid=pid, name=name)


def conf_of(options: argparse.Namespace) -> str | None:
    """The conf.json of the master in use; None where it is named otherwise, so that its files may lie anywhere."""
    return address.conf_in_use(options.conf, options.master)


def task_info(conf: str) -> str:
    """The folder of the locks."""
    return _beside(conf, _named(conf, "task_info", "task_info"))


def _ends(path: str, pid: int, patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while holder_of(path) == pid:
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK_S)
    return True


def _beside(conf: str, path: str) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(conf)), os.path.expanduser(path))


def _named(conf: str, key: str, default: str) -> str:
    value = address.load(conf).get(key)
    return value if isinstance(value, str) and value else default
