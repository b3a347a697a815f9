"""The books of who holds what, read at every moment of a run: what the queue says of itself must never add up to more
than there is, be that after a crash or in the middle of one."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tests.system.lab import Lab
from tests.system.oracle import CAP, NARROW, NARROW_GPUS, UNIT_MIB, UNITS
from wire.errors import MusterError

if TYPE_CHECKING:
    from client.api import Client
    from client.shapes import Task

ACTIVE = frozenset({"starting", "running", "paused"})
TOLD = 20
PAUSE_S = 0.05


def wrong(tasks: Iterable[Task]) -> list[str]:
    """What cannot be in one answer to `task.list` for what is alive: that is of one moment, for a slice holds them all.
    With what waits it would not be: who starts meanwhile is in a later slice, and those before him have ended."""
    active = [task for task in tasks if task["state"] in ACTIVE]
    problems = []
    for task in active:
        nodes = [part["node"] for part in task["allocation"]]
        if task["elastic"] and not task["gpus"] <= _gpus(task) <= (task["gpus_max"] or 0):
            problems.append(f"task {task['id']} has {_gpus(task)} GPUs, of {task['gpus']} to {task['gpus_max']}")
        if len(nodes) != task["nodes"] or len(set(nodes)) != len(nodes):
            problems.append(f"task {task['id']} is {task['state']} on {nodes}, and asked for {task['nodes']} nodes")
    problems += _overbooked(active)
    held = sum(_gpus(task) for task in active if task["project"] == NARROW)
    if held > NARROW_GPUS:
        problems.append(f"project {NARROW} has {held} GPUs, and may have {NARROW_GPUS}")
    arrays = Counter(task["array"]["id"] for task in active if task["array"])
    problems += [f"{count} tasks of array {array} run, and {CAP} may" for array, count in arrays.items() if count > CAP]
    return problems


def _gpus(task: Task) -> int:
    return sum(len(part["gpus"]) for part in task["allocation"] if not part.get("is_free"))


def _overbooked(active: Iterable[Task]) -> list[str]:
    holders: dict[tuple[str, int], dict[int, int | None]] = {}
    for task in active:
        for part in task["allocation"]:
            for gpu in part["gpus"] if not part.get("is_free") else ():
                holders.setdefault((part["node"], gpu), {})[task["id"]] = part.get("gpu_mib")
    return [f"GPU {place} is held as {held}" for place, held in holders.items() if not _fits(held)]


def _fits(held: Mapping[int, int | None]) -> bool:
    """One has all of it, or all have a part."""
    if None in held.values():
        return len(held) == 1
    return sum(mib or 0 for mib in held.values()) <= UNITS * UNIT_MIB


class Ledger(threading.Thread):
    """Looks as often as it can, while there is a master. `most`: how much of each kind it has seen at a moment."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(name="ledger", daemon=True)
        self.problems: list[str] = []
        self.looks = 0
        self.most: Counter[str] = Counter()
        self._lab = lab
        self._stopped = threading.Event()
        self._client: Client | None = None

    def run(self) -> None:
        """Look, until it is told to stop."""
        while not self._stopped.wait(PAUSE_S):
            try:
                self._client = self._client or self._lab.client()
                self._client.session.patience = 0.0
                self._look(self._client.tasks(states=sorted(ACTIVE)))
            except MusterError:  # there is no master just now, or it has only begun
                self._close()
            except Exception as error:  # noqa: BLE001  (a thread's end must be seen by the run, whatever it was)
                self.problems.append(f"the ledger stopped looking: {error!r}")
                break
        self._close()

    def _look(self, tasks: list[Task]) -> None:
        self.looks += 1
        self.problems += wrong(tasks)[: max(0, TOLD - len(self.problems))]
        active = [task for task in tasks if task["state"] in ACTIVE]
        seen = {
            "gangs": sum(task["nodes"] > 1 for task in active),
            "shares": sum(task["share"] for task in active),
            "tasks of arrays": sum(task["array"] is not None for task in active),
            f"GPUs of project {NARROW}": sum(_gpus(task) for task in active if task["project"] == NARROW),
            "resized": sum(task["resizes"] > 0 for task in active),
            "paused": sum(task["state"] == "paused" for task in active),
            "tasks in a later attempt": sum(task["attempt"] > 1 for task in active),
        }
        self.most |= Counter(seen)

    def _close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()
        self.join()
