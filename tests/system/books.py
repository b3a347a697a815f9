"""The audit after a run: what clients were promised, what the oracle saw and what the master wrote have to agree.

Gives a list of sentences, empty when all is well, so that a long run reports everything that is wrong and not only
the first. It changes nothing in the lab.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from master.core.core import Core, InconsistentError
from master.core.tasks.records import Change
from master.core.tasks.task import ENDED, TaskState
from master.core.tasks.transitions import TRANSITIONS
from master.durable.disk import OsDisk
from master.durable.journal import read_journal
from master.durable.recovery import HEAD
from master.durable.store import JOURNAL, Image, Store, StoreCorruptError
from tests.system.lab import Lab
from tests.system.oracle import Job, Oracle
from tests.waiting import NeverError, until

if TYPE_CHECKING:
    from client.shapes import Task

SETTLE_S = 60.0
"""For what may take a moment after the last task ended: acks on their way, shims saying goodbye."""
MASTER_THREADS = 8
MASTER_DESCRIPTORS = 64
THREADS_PER_CONNECTION, DESCRIPTORS_PER_CONNECTION = 2, 4
AGENT_DESCRIPTORS = 32
QUEUES = ("wait_task.json", "exec_task.json", "hist_task.json")


def audit_running(lab: Lab, oracle: Oracle, jobs: list[Job], *, lost: int, rebooted: Collection[str] = ()) -> list[str]:
    """What a converged lab whose master runs has to show. `lost`: how many attempts may have lost their shim;
    `rebooted`: nodes that may have taken theirs along."""
    with lab.client() as client:
        tasks = {task["id"]: task for task in client.tasks(active=True, ended=True)}
        nodes = client.nodes()
    problems = _promises(tasks, jobs)
    problems += _outcomes(tasks, jobs, lost, rebooted)
    problems += _attempts(tasks, oracle, jobs)
    # An exit may be told from its record, while the shim is still about to write the log's last line.
    problems += _at_last(lambda: _logs(tasks, jobs, lost, rebooted))
    for node in nodes:
        held = [gpu["index"] for gpu in node["gpus"] if gpu["held_by"]]
        if held:
            problems.append(f"{node['name']} is {node['state']} ({node['reason']}), and its GPUs {held} are held")
    return problems + _at_last(lambda: _unrest(lab))


def audit_stopped(lab: Lab, jobs: list[Job], work: Path, chance: random.Random, *, prefixes: int) -> list[str]:
    """What the files of a stopped master have to show; `work` is a folder for copies, `prefixes` how many to try."""
    problems = [problem for name in (*QUEUES, "state.json") for problem in _parses(lab.task_info / name)]
    problems += _transitions(lab.task_info, {job.id: job for job in jobs})
    first, second = (_load(lab.task_info, work / name) for name in ("first", "second"))
    if _bytes(first) != _bytes(second):
        problems.append("two loads of the same files gave different tasks")
    if set(first.tasks) != {job.id for job in jobs}:
        problems.append("the files hold other tasks than those that were answered")
    return problems + _prefixes(lab.task_info, work, chance, prefixes)


def audit_crashed(lab: Lab) -> list[str]:
    """What a core makes of the files that a master left who was killed a moment ago: all its parts have to agree."""
    return [f"after a crash: {told}" for told in _disagreements(_load(lab.task_info, lab.folder / "crashed"))]


def _disagreements(image: Image) -> list[str]:
    core = Core((), lambda task_id, number: f"{task_id}.{number}")
    try:
        core.load(image.tasks, image.answered, image.next_id, image.state)
        core.sanity_check()
    except (InconsistentError, ValueError) as error:
        return [str(error)]
    return []


def _promises(tasks: dict[int, Task], jobs: list[Job]) -> list[str]:
    answered = [job.id for job in jobs]
    problems = []
    if len(set(answered)) != len(answered):
        problems.append("two submits got the same id")
    missing, unknown = set(answered) - set(tasks), set(tasks) - set(answered)
    if missing:
        problems.append(f"answered and not there: {sorted(missing)}")
    if unknown:
        problems.append(f"there, and nobody was answered so: {sorted(unknown)}")
    return problems


def _outcomes(tasks: dict[int, Task], jobs: list[Job], lost: int, rebooted: Collection[str]) -> list[str]:
    problems = []
    gone = [tasks[job.id] for job in jobs if job.id in tasks and tasks[job.id]["state"] == "lost"]
    unexplained = [task["id"] for task in gone if not _went_down(task, rebooted)]
    if len(unexplained) > lost:
        problems.append(f"{len(unexplained)} tasks are lost, at most {lost} may be: {unexplained}")
    for job in jobs:
        task = tasks.get(job.id)
        if task is None or task["state"] == "lost":
            continue
        found = (task["state"], task["exit_code"])
        if task["state"] != job.state or (not job.doomed and task["exit_code"] != job.code):
            problems.append(f"task {job.id} is {found}, not {(job.state, job.code)}: {task['reason']}")
    return problems


def _went_down(task: Task, rebooted: Collection[str]) -> bool:
    """Did one of its nodes take the task along? A gang is lost with any part of it. Where power went between an
    attempt's folder and the first line in it, nothing there tells of which boot it was."""
    told = "reboot" in (task["reason"] or "") or task["reason_key"] == "exit_unknown"
    return told and _was_on(task, rebooted)


def _was_on(task: Task, nodes: Collection[str]) -> bool:
    return not set(nodes).isdisjoint(part["node"] for part in task["allocation"])


def _attempts(tasks: dict[int, Task], oracle: Oracle, jobs: list[Job]) -> list[str]:
    problems = [f"conflict: {line}" for line in oracle.conflicts()]
    problems += [f"{name} was started {times} times" for name, times in oracle.starts().items() if times > 1]
    attempts, ends, parts = oracle.attempts(), oracle.ends(), oracle.parts()
    problems += [f"task {number} ran and is unknown" for number in attempts if number not in tasks]
    for job in jobs:
        names = attempts.get(job.id, set())
        task = tasks.get(job.id)
        problems += _parts(job, parts.get(job.id, {}))
        if task is None or job.doomed or task["state"] == "lost":
            continue
        if not names:
            problems.append(f"task {job.id} is {task['state']} and never ran")
        elif job.nodes > 1:
            problems += _gang(job, parts[job.id], ends)
        elif job.elastic:
            told = {ends[name] for name in names if name in ends}
            problems += [] if told == {task["exit_code"]} else [f"task {job.id} is elastic, its oracle says {told}"]
        elif [ends.get(name) for name in names] != [task["exit_code"]] * (1 + job.retries):
            problems.append(f"task {job.id} ended with {task['exit_code']}, its oracle says {names}: {ends}")
    return problems


Parts = Mapping[int, list[tuple[str, str]]]
"""By the number of the attempt, what was started: launch id and node."""


def _parts(job: Job, parts: Parts) -> list[str]:
    """No more attempts than its owner said, in none more parts than nodes, no two of them on one."""
    problems = (
        []
        if job.elastic or len(parts) <= 1 + job.retries
        else [f"task {job.id} was started in attempts {sorted(parts)}"]
    )
    for number, started in parts.items():
        nodes = [node for _, node in started]
        if len(nodes) > job.nodes or len(set(nodes)) < len(nodes):
            problems.append(f"task {job.id} was started in attempt {number} on {nodes}")
    return problems


def _gang(job: Job, parts: Parts, ends: Mapping[str, int]) -> list[str]:
    """One that succeeds ran whole. Of one that fails, a part may be ended before it began, or had ended itself; but in
    each attempt one of them failed."""
    problems = []
    for number, started in parts.items():
        codes = [ends[name] for name, _ in started if name in ends]
        if set(codes) != {job.code} or (job.code == 0 and len(codes) != job.nodes):
            problems.append(f"task {job.id}, attempt {number}: parts {started} ended with {codes}")
    if len(parts) != 1 + job.retries:
        problems.append(f"task {job.id} ran in attempts {sorted(parts)}, and should in {1 + job.retries}")
    return problems


def _logs(tasks: dict[int, Task], jobs: list[Job], lost: int, rebooted: Collection[str]) -> list[str]:
    """Each log ends with the exit code, once for each attempt; a shim that was killed in time could not write it, nor
    one whose machine lost power just when the exit was on its disk."""
    unfinished, wrong = [], []
    for job in jobs:
        task = tasks.get(job.id)
        if task is None or job.doomed or task["state"] == "lost" or (job.nodes > 1 and job.code):
            continue  # of a gang that fails, the first part may be another's victim
        log = Path(task["log_path"])
        lines = log.read_text(encoding="utf-8").split("\n") if log.exists() else []
        count = sum(line.startswith("Program Exit With Code") for line in lines)
        is_told = f"Program Exit With Code {task['exit_code']}" in lines
        if count <= task["resizes"] and not is_told:  # those of attempts that were resized come before
            unfinished += [job.id] if not _was_on(task, rebooted) else []
        elif (count > 1 + job.retries and not job.elastic) or not is_told:
            wrong.append(job.id)
    problems = [f"logs with wrong last lines: {wrong}"] if wrong else []
    if len(unfinished) > lost:
        problems.append(f"logs without their last line: {unfinished}")
    return problems


def _at_last(problems: Callable[[], list[str]]) -> list[str]:
    """What is still wrong after its time."""
    try:
        until("all is at rest", lambda: not problems(), SETTLE_S)
    except NeverError:
        return problems()
    return []


def _unrest(lab: Lab) -> list[str]:
    """What is on its way at this moment: the last fault may have been a moment ago."""
    with lab.client() as client:
        away = [node for node in client.nodes() if node["state"] != "online"]
    problems = [f"{node['name']} is {node['state']} ({node['reason']})" for node in away]
    strays = lab.strays()
    if strays:
        problems.append(f"left alive: {strays}")
    for node in lab.nodes:
        claims = sorted(path.name for path in (lab.agent_folder(node) / "attempts").iterdir())
        if claims:
            problems.append(f"{node} still remembers {claims}")
        pid = lab.agent_pid(node)
        if pid is None:
            problems.append(f"{node} has no agent")
        elif _count(pid, "fd") > AGENT_DESCRIPTORS:
            problems.append(f"the agent of {node} has {_count(pid, 'fd')} descriptors")
    if lab.master is not None:
        threads, descriptors = _count(lab.master.pid, "task"), _count(lab.master.pid, "fd")
        far = lab.connections
        if (
            threads > MASTER_THREADS + far * THREADS_PER_CONNECTION
            or descriptors > MASTER_DESCRIPTORS + far * DESCRIPTORS_PER_CONNECTION
        ):
            problems.append(f"the master has {threads} threads and {descriptors} descriptors")
    return problems


def _count(pid: int, what: str) -> int:
    """None are left of a process that is gone."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return sum(1 for _ in Path(f"/proc/{pid}/{what}").iterdir())
    return 0


def _parses(path: Path) -> list[str]:
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        return [f"{path.name} is not JSON: {error}"]
    return []


def _transitions(task_info: Path, jobs: Mapping[int, Job]) -> list[str]:
    """Walk the journal: every task moved only as the table allows, ended once, and began no more often than its
    owner had said; but for elastic ones, each time that they were resized."""
    path = task_info / JOURNAL
    base = int(json.loads((task_info / "state.json").read_text(encoding="utf-8"))["seq"])
    states: dict[int, TaskState] = {}
    retries: dict[int, int] = {}
    problems = []
    for record in read_journal(path.read_bytes(), path, base).records:
        change = msgspec.json.decode(record.body, type=Change)
        for task in change.tasks:
            before = states.get(task.id, task.state)
            # It waited for no moment: it was resized, or its pause was over when its end was heard of.
            is_retried = task.retries > retries.get(task.id, 0)
            goes_on = task.state is TaskState.STARTING and (task.resizes > 0 or is_retried)
            # An agent that comes back tells both at once, that it runs and that it stands; a record has where that led.
            at_once = before is TaskState.STARTING and task.state is TaskState.PAUSED
            if task.state != before and task.state not in TRANSITIONS[before] and not (goes_on or at_once):
                problems.append(f"record {record.seq}: task {task.id} went from {before} to {task.state}")
            if before in ENDED and task.state is not before:
                problems.append(f"record {record.seq}: task {task.id} is {task.state} and had ended as {before}")
            job = jobs.get(task.id)
            if task.attempt > 1 + task.resizes + (0 if job is None else job.retries):
                problems.append(f"record {record.seq}: task {task.id} has attempt {task.attempt}")
            states[task.id], retries[task.id] = task.state, task.retries
    return problems


def _load(task_info: Path, copy: Path, cut: int | None = None) -> Image:
    """Load a copy of the files, the journal cut after `cut` bytes."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(task_info, copy, ignore=shutil.ignore_patterns("reserve"))
    if cut is not None:
        with (copy / JOURNAL).open("r+b") as file:
            file.truncate(cut)
    store = Store(copy, OsDisk())
    try:
        return store.open()
    finally:
        store.close()


def _prefixes(task_info: Path, work: Path, chance: random.Random, count: int) -> list[str]:
    """Any prefix of the journal loads, or is refused: the queue files are newer than it, or nothing is left of it."""
    whole = (task_info / JOURNAL).stat().st_size
    compacted = json.loads((task_info / "state.json").read_text(encoding="utf-8"))["seq"] > 0
    problems, sizes = [], []
    for cut in sorted(chance.randrange(whole + 1) for _ in range(count)):
        try:
            image = _load(task_info, work / "prefix", cut)
            sizes.append(len(image.tasks))
            problems += [f"the journal cut after {cut} bytes: {told}" for told in _disagreements(image)]
        except StoreCorruptError as error:
            if not compacted and cut >= len(HEAD):
                problems.append(f"the journal cut after {cut} bytes is refused: {error}")
    if sizes != sorted(sizes):
        problems.append("a longer prefix of the journal holds fewer tasks")
    return problems


def _bytes(image: Image) -> bytes:
    parts: list[Any] = [[image.tasks[number] for number in sorted(image.tasks)], image.next_id, image.answered]
    return msgspec.json.encode(parts)
