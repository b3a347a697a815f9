"""Copies of a stopped queue, each given to a master of its own that has no nodes: what it makes of them is what
counts.

Loading the same files twice has to give the same tasks, to the byte; a journal that was cut anywhere is loaded, or
refused with a sentence, and never breaks the start.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.ports import free_ports
from tests.storm.line import GoneError, Line, RefusedError
from tests.system.lab import PORTS, Lab
from tests.waiting import until

JOURNAL = "journal.jsonl"
ANSWERED, REFUSED = "answered", "refused"


class Copy:
    """A lab without nodes over a copy of the queue's files, its journal cut after `cut` bytes."""

    def __init__(self, task_info: Path, folder: Path, cut: int | None = None) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self._lab = Lab(folder, nodes=0)
        self._lab.write_conf(socket_info=dict(zip(PORTS, free_ports(len(PORTS)), strict=True)))
        shutil.copytree(task_info, self._lab.task_info, ignore=shutil.ignore_patterns("reserve"))
        if cut is not None:
            with (self._lab.task_info / JOURNAL).open("r+b") as file:
                file.truncate(cut)

    def load(self) -> tuple[str, bytes]:
        """Start a master on it and end it: `answered` and its tasks, or `refused` and what it said."""
        self._lab.master = master = self._lab.launch_master()
        port = self._lab.keys["socket_info"]["data_port"]
        try:
            until("a master on a copy answers or ends", lambda: master.poll() is not None or _answers(port))
            if master.poll() is not None:
                return REFUSED, (self._lab.folder / "master.out").read_bytes()
            with Line(port) as line:
                tasks = line.call("task.list", active=True, ended=True)["tasks"]
            return ANSWERED, json.dumps(sorted(tasks, key=lambda task: task["id"]), sort_keys=True).encode()
        finally:
            self._lab.kill_master()
            with_log = self._lab.folder / "server_log.log"
            self.log = with_log.read_text(encoding="utf-8") if with_log.exists() else ""


def replays(task_info: Path, work: Path, chance: random.Random, prefixes: int) -> list[str]:
    """7. Two loads give the same; so many prefixes of the journal are loaded or refused."""
    first, second = (Copy(task_info, work / name).load() for name in ("first", "second"))
    problems = [] if first == second and first[0] == ANSWERED else ["two loads of the same files gave different tasks"]
    whole = (task_info / JOURNAL).stat().st_size
    for cut in sorted(chance.randrange(whole + 1) for _ in range(prefixes)):
        copy = Copy(task_info, work / "prefix", cut)
        how, said = copy.load()
        if "Traceback" in copy.log or b"Traceback" in said:
            problems.append(f"the journal cut after {cut} bytes breaks the start")
        elif how == REFUSED and b"error: " not in said:
            problems.append(f"the journal cut after {cut} bytes is refused without a sentence: {said[-300:]!r}")
    return problems


def _answers(port: int) -> bool:
    try:
        with Line(port, timeout=5.0) as line:
            line.call("server.info")
    except (GoneError, RefusedError):
        return False
    return True


def listed(muster: Callable[..., subprocess.CompletedProcess[str]]) -> list[dict[str, object]]:
    """What a person sees who types `muster queue --all --json`."""
    done = muster("queue", "--all", "--json")
    if done.returncode != 0:
        raise AssertionError(f"muster queue --all --json: {done.stderr}")
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found
