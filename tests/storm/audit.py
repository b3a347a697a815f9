"""The audit after a run: what clients were answered, what tasks wrote down and what the queue says have to agree.

It reads what everybody can read: `muster queue --all --json`, the JSON files of the queue, the logs; the clients'
books and the witness' files. It imports nothing of the product. Each check gives a list of sentences, empty when all
is well.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.storm.excuses import Excuses
from tests.storm.witness import Testimony

Task = dict[str, Any]
TOLD = 12
ENDED = frozenset({"succeeded", "failed", "cancelled", "timed_out", "lost"})
ACTIVE = frozenset({"starting", "running", "paused"})
QUEUED = frozenset({"waiting", "held"})
MAY_FOLLOW = {
    **dict.fromkeys(QUEUED, QUEUED | {"starting", "cancelled"}),
    "starting": ACTIVE | ENDED | QUEUED,
    "running": (ACTIVE - {"starting"}) | ENDED,
    "paused": (ACTIVE - {"starting"}) | ENDED,
    **dict.fromkeys(ENDED, frozenset[str]()),
}
"""What the documents say of a task that nobody retries. From `starting` back into the queue: its node could not start
it."""
NODES_TO_FAIL = 3
CLOCKS_S = 1.0


@dataclass
class Evidence:
    """All there is. `answered`: the clients' books by id; `listed`: `muster queue --all --json` as it came; `months`:
    what moved to the history's files; `told`: the witness; `excuses`: what the storm knows to have broken."""

    answered: dict[int, Task]
    listed: list[Task]
    months: list[Task]
    told: Testimony
    excuses: Excuses

    @cached_property
    def tasks(self) -> dict[int, Task]:
        """Every task that the queue has, by id."""
        return {task["id"]: task for task in (*self.months, *self.listed)}


def read_months(folder: Path) -> list[Task]:
    """The lines of the monthly files; of equal ids the last one counts, as is documented, and a line that a full disk
    or a kill cut off is none: its task is elsewhere."""
    paths = sorted((folder / "history").glob("*.jsonl"))
    found = []
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):
                found.append({"reason": None, "exit_code": None, "allocation": [], **json.loads(line)})
    return found


def lost(evidence: Evidence) -> list[str]:
    """1. Every answered submit is in exactly one queue."""
    twice = [number for number, entry in evidence.answered.items() if entry["twice"]]
    listed = Counter(task["id"] for task in evidence.listed)
    there = evidence.tasks
    return [
        *_told("two submits were answered with the id", twice),
        *_told("answered and not there:", set(evidence.answered) - set(there)),
        *_told("there, and nobody was answered so:", set(there) - set(evidence.answered)),
        *_told("listed more than once:", [number for number, count in listed.items() if count > 1]),
        *_told("not ended:", [number for number, task in there.items() if task["state"] not in ENDED]),
        *_told(
            "another task than was submitted:",
            [n for n, entry in evidence.answered.items() if _differs(n, entry, there)],
        ),
    ]


def _differs(number: int, entry: Task, there: dict[int, Task]) -> bool:
    task = there.get(number)
    return task is not None and (task["name"], task.get("gpus", 0)) != (f"job {entry['number']}", entry["gpus"])


def twice(evidence: Evidence) -> list[str]:
    """2 and 3. A launch id is started at most once, and a task has one attempt that was started."""
    told = evidence.told
    return [
        *_told("started more than once:", [name for name, times in told.starts.items() if times > 1]),
        *_told("started in several attempts:", [number for number, names in told.launches.items() if len(names) > 1]),
        *_told("alive twice at one moment:", [line for line in told.conflicts if " task " in line]),
        *_told("ran, and the queue does not know them:", set(told.launches) - set(evidence.tasks)),
    ]


def double_booked(evidence: Evidence, nodes: list[Task]) -> list[str]:
    """4. No GPU had two holders, and at the end none has one."""
    held = [f"{node['name']} {gpu['index']}" for node in nodes for gpu in node["gpus"] if gpu["held_by"]]
    return [
        *_told("held by two at one moment:", [line for line in evidence.told.conflicts if " gpu " in line]),
        *_told("GPUs that are held when nothing runs:", held),
    ]


def ends(evidence: Evidence) -> list[str]:
    """5. What is recorded is what happened; where nobody can know it, something that was done explains it."""
    there, problems = evidence.tasks, []
    points = Counter(name for name, _, _ in evidence.excuses.shim_points)
    for number, entry in evidence.answered.items():
        task = there.get(number)
        if task is None:
            continue
        if task["state"] == "lost":
            problems += _explained(task, evidence, points)
        elif entry["doomed"]:
            if task["state"] != "cancelled" and not (
                task["state"] == "failed" and number not in evidence.told.launches
            ):
                problems.append(f"task {number} was cancelled and is {task['state']}: {task['reason']}")
        else:
            problems += _as_told(task, entry, evidence.told)
    return problems


def _as_told(task: Task, entry: Task, told: Testimony) -> list[str]:
    number = task["id"]
    codes = [told.ends.get(name) for name in told.launches.get(number, ())]
    wanted = ("failed", entry["code"]) if entry["code"] else ("succeeded", 0)
    if not codes:
        return []  # burned, and told there
    if (task["state"], task["exit_code"]) != wanted or codes != [entry["code"]]:
        return [
            f"task {number} is {task['state']} {task['exit_code']} ({task['reason']}), should be {wanted}, told {codes}"
        ]
    return []


def _explained(task: Task, evidence: Evidence, points: Counter[str]) -> list[str]:
    excuses, number = evidence.excuses, task["id"]
    node = next((part["node"] for part in task["allocation"]), None)
    launches = evidence.told.launches.get(number, set()) | {part.get("launch_id", "") for part in task["allocation"]}
    if launches & excuses.shims:
        return []
    ended = task["ended_at"] or 0.0
    for off, on in excuses.reboots.get(str(node), ()):
        if task["submitted_at"] <= on and off - CLOCKS_S <= max(ended, on):
            return []
    for name, began, over in excuses.shim_points:
        if name == node and task["submitted_at"] <= over and began - CLOCKS_S <= ended and points[name] > 0:
            points[name] -= 1
            return []
    return [f"task {number} is lost on {node}, and nothing that was done explains it: {task['reason']}"]


def burned(evidence: Evidence) -> list[str]:
    """None failed for its node's sake, unless three nodes failed it."""
    found = []
    for number, entry in evidence.answered.items():
        task = evidence.tasks.get(number)
        ran = number in evidence.told.launches
        if task is None or ran or task["state"] == "lost" or (entry["doomed"] and task["state"] == "cancelled"):
            continue
        tried = {part.get("node") for part in task.get("attempts") or ()}
        if len(tried) < NODES_TO_FAIL:
            found.append(f"task {number} is {task['state']} and never ran: {task['reason']}")
    return found


def transitions(journal: Path) -> list[str]:
    """6. Of what the journal still holds: every task moved only as the documents tell, and its records only grew
    newer."""
    states: dict[int, str] = {}
    problems = []
    for line in journal.read_text(encoding="utf-8").splitlines():
        _, record, _, body = line.split(" ", 3)
        for task in json.loads(body).get("tasks", ()):
            number, state = task["id"], task.get("state", "waiting")
            before = states.get(number, state)
            if state != before and state not in MAY_FOLLOW[before]:
                problems.append(f"record {record}: task {number} went from {before} to {state}")
            states[number] = state
    return problems[:TOLD]


def logs(evidence: Evidence) -> list[str]:
    """Each log ends with the exit code, once, unless nobody was there to write it, or nothing to write it to."""
    wrong, unfinished = [], []
    for number, entry in evidence.answered.items():
        task = evidence.tasks.get(number)
        if task is None or entry["doomed"] or task["state"] == "lost" or number not in evidence.told.launches:
            continue
        path = Path(task["log_path"])
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else []
        last = [line for line in lines if line.startswith("Program Exit With Code")]
        if not last and not _could_not_write(task, evidence):
            unfinished.append(number)
        elif last and last != [f"Program Exit With Code {task['exit_code']}"]:
            wrong.append(number)
    return [*_told("logs whose last line is wrong:", wrong), *_told("logs without their last line:", unfinished)]


def _could_not_write(task: Task, evidence: Evidence) -> bool:
    """Was its shim killed, with its host or alone, or the folder of its log gone when it ended?"""
    excuses = evidence.excuses
    node = next((part["node"] for part in task["allocation"]), None)
    reboots = ((name, off, on) for name, times in excuses.reboots.items() for off, on in times)
    windows = [*excuses.unshared, *excuses.shim_points, *reboots]
    ended = task["ended_at"]
    return bool(evidence.told.launches[task["id"]] & excuses.shims) or any(
        name == node and began - CLOCKS_S <= ended <= over + CLOCKS_S for name, began, over in windows
    )


def _told(what: str, found: Iterable[Any]) -> list[str]:
    items = sorted(found)
    if not items:
        return []
    return [f"{what} {', '.join(map(str, items[:TOLD]))}{' …' if len(items) > TOLD else ''} ({len(items)})"]
