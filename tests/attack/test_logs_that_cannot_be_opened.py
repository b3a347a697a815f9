"""A log that a user placed where the account of a shared node cannot write: the task has failed, once, and the node
stays open for everybody. The agent is an ordinary account's, and the launches are the master's own.
"""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import itertools
import os
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
import pytest

from master.core.attempts.exits import Exit
from master.core.attempts.launching import LaunchSettings, launch_message
from master.core.nodes.inventory import NodeSpec
from master.core.tasks.task import TaskState
from monitor.agent.attempt import blame
from tests import rights
from tests.agent.attempt.test_run_as import make_node
from tests.agent.people import BOB, CAROL, PeopleNode, Person
from tests.agent.small_master import Link, Message
from tests.cases import each_case
from tests.master.core.small_core import core_with, submit
from wire.agent import TELLS_PLACED

__all__ = ["make_node"]
"""A fixture of another file that this one uses, too."""


@dataclasses.dataclass
class Lab:
    """The agent of a shared account's, and what of conf.json is told it."""

    node: PeopleNode
    link: Link
    root: Path
    settings: LaunchSettings

    def ran(self, log: str, *, parts: int = 1, person: Person | None = None) -> Ran:
        """What becomes of a task with this log, where all nodes of a master of its own are this agent."""
        core = core_with(*(NodeSpec(name=name, gpu_models=("GPU",)) for name in "ab"[:parts]))
        task = submit(core, cwd="/", log_path=log, gpus=1, nodes=parts)
        core.plan(0.0)
        assert len(task.allocation) == parts
        for part in list(task.allocation):
            account = None if person is None else person.name
            message = cast("Message", launch_message(task, part, self.settings, run_as=account))
            name = f"t{len(self.node.marks)}"
            self.node.marks.append(name)
            self.link.send({**message, "launch_id": name})
            told = self.link.wait_for("exit", name)
            end = Exit(part.launch_id, told["cause"], 3.0, told["code"], told["error"], fault=told["fault"])
            core.exited(part.node, end, 3.0)
        rests = sum(node.rests for node in core.inventory.nodes.values())
        return Ran(task.state, rests, str(task.reason))


class Ran(NamedTuple):
    """`rests`: of its nodes, one for each fault of a node."""

    state: TaskState
    rests: int
    why: str

    @property
    def is_the_tasks(self) -> bool:
        return (self.state, self.rests) == (TaskState.FAILED, 0)


def lab_of(node: PeopleNode) -> Lab:
    root = node.folder / "lab"
    root.mkdir(mode=0o755)
    (root / "something").touch()
    roots = (str(root), str(node.logs))
    settings = LaunchSettings(conda="", task_env={}, grace_s=1.0, roots=roots, log_folder=str(node.logs))
    return Lab(node, node.up(), root, settings)


@pytest.fixture
def lab(make_node: Callable[..., PeopleNode]) -> Lab:
    node = make_node(CAROL)
    (node.logs / "earlier.log").touch()
    os.chown(node.logs, CAROL.uid, CAROL.uid)
    return lab_of(node)


@contextmanager
def mounted(*words: str, at: Path) -> Iterator[None]:
    subprocess.run(["mount", *words, str(at)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


def fill(folder: Path) -> None:
    for number in itertools.count():
        (folder / str(number)).touch()


def test_a_log_that_the_account_cannot_open_fails_the_task_and_no_node(lab: Lab) -> None:
    places = {
        "in root's folder of the lab": "mine.log",
        "the lab itself": "",
        "too long a name": f"{'l' * 300}.log",
        "beneath a file": "something/mine.log",
        "a folder": "data",
        "a folder that cannot be made": "none/of/it.log",
        "links in a ring": "ring",
        "another's file": "bobs.log",
        "a link to another's file": "data/to-bobs",
        "a socket": "data/socket",
    }
    (lab.root / "data").mkdir()
    os.chown(lab.root / "data", CAROL.uid, CAROL.uid)
    (lab.root / "ring").symlink_to("ring")
    (lab.root / "bobs.log").write_bytes(b"bob's\n")
    (lab.root / "bobs.log").chmod(0o600)
    os.chown(lab.root / "bobs.log", BOB.uid, BOB.uid)
    (lab.root / "data/to-bobs").symlink_to(lab.root / "bobs.log")
    os.mknod(lab.root / "data" / "socket", stat.S_IFSOCK)
    (lab.root / "data" / "socket").chmod(0o666)
    with each_case() as cases:
        for name, place in places.items():
            with cases.case(name):
                ran = lab.ran(str(lab.root / place))
                assert ran.is_the_tasks, ran
    assert (lab.root / "bobs.log").read_bytes() == b"bob's\n"


def test_a_device_without_a_driver_in_a_logs_place_the_same(lab: Lab) -> None:
    rights.need_real_root()  # who makes a device
    device = lab.root / "device"
    os.mknod(device, stat.S_IFCHR, os.makedev(240, 13))
    device.chmod(0o666)
    ran = lab.ran(str(device))
    assert ran.is_the_tasks, ran


def test_the_same_in_the_folder_of_logs_and_of_each_part_of_several(lab: Lab) -> None:
    os.chown(lab.node.logs, 0, 0)
    with each_case() as cases:
        for place in (lab.node.logs, lab.root):
            for parts in (1, 2):
                with cases.case(f"{parts} in {place.name}"):
                    ran = lab.ran(str(place / "mine.log"), parts=parts)
                    assert ran.is_the_tasks, ran
    ran = lab.ran(str(lab.node.logs / "1.log"))  # which nobody chose
    assert (ran.state, ran.rests) == (TaskState.WAITING, 1), ran


def test_a_place_of_a_users_that_takes_nothing_fails_the_task_and_no_node(lab: Lab) -> None:
    """Seen from the device it is the lab's own disk, and read-only it is for this path alone."""
    kept = lab.root / "kept"
    kept.mkdir()
    (kept / "there").touch()
    with mounted("--bind", str(kept), at=kept):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(kept)], check=True)
        lab.node.kill_agent(lab.link)
        lab.link = lab.node.up()
        ran = lab.ran(str(kept / "mine.log"))
    assert ran.is_the_tasks, ran
    assert "Read-only" in ran.why


def test_where_logs_that_nobody_placed_cannot_be_made_either_the_node_is_at_fault(lab: Lab) -> None:
    with mounted("-t", "tmpfs", "-o", "nr_inodes=4,mode=777", "muster-test", at=lab.node.folder / "lab"):
        logs = lab.root / "logs"
        logs.mkdir()
        logs.chmod(0o777)
        with pytest.raises(OSError, match="No space left"):
            fill(lab.root)
        roots = (str(lab.root), str(logs))
        lab.settings = msgspec.structs.replace(lab.settings, roots=roots, log_folder=str(logs))
        lab.node.kill_agent(lab.link)
        lab.link = lab.node.up()
        ran = lab.ran(str(lab.root / "mine.log"))
        assert (ran.state, ran.rests) == (TaskState.WAITING, 1), ran
        lab.settings = msgspec.structs.replace(lab.settings, log_folder=str(lab.node.logs))
        ran = lab.ran(str(lab.root / "mine.log"))
        assert ran.is_the_tasks, ran
    assert not list(lab.node.logs.glob(".muster*"))


def test_what_a_users_own_file_system_says_is_not_the_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one in user space says it for what lies in it, whatever it likes."""
    (tmp_path / "theirs").mkdir()
    seen = os.lstat

    def said(path: str, **keys: Any) -> os.stat_result:
        if Path(path).name == "mine":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return seen(path, **keys)

    monkeypatch.setattr(os, "lstat", said)
    place = str(tmp_path / "theirs/mine")
    with each_case() as cases:
        for number in (*blame.EXHAUSTED, *blame.FULL_DISK, *blame.DENIED, *blame.MISNAMED):
            with cases.case(errno.errorcode[number]):
                error = OSError(number, os.strerror(number))
                assert blame.of_chosen(error, place, [str(tmp_path)]) == blame.TASK
                assert blame.of_log(error, place, [str(tmp_path)], str(tmp_path)) == blame.TASK


def test_a_chosen_path_in_a_lab_that_may_be_entered_and_not_read_is_the_tasks(lab: Lab) -> None:
    lab.root.chmod(0o711)
    lab.settings = msgspec.structs.replace(lab.settings, roots=(str(lab.root),))
    ran = lab.ran(str(lab.root / "mine.log"))
    assert ran.is_the_tasks, ran
    end = lab.node.run(lab.link, "cwd", "true", cwd=str(lab.root / "none"), roots=[str(lab.root)])
    assert (end["cause"], end["fault"]) == ("not_started", "task")


def test_where_each_task_runs_as_its_owner_the_same(make_node: Callable[..., PeopleNode]) -> None:
    lab = lab_of(make_node())
    with each_case() as cases:
        for place in (lab.root, lab.node.logs):
            for name in ("mine.log", f"{'l' * 300}.log"):
                with cases.case(f"{name[:8]} in {place.name}"):
                    ran = lab.ran(str(place / name), person=BOB)
                    assert ran.is_the_tasks, ran


def test_a_lease_on_what_lies_in_a_logs_place_is_no_lack_of_the_nodes(make_node: Callable[..., PeopleNode]) -> None:
    lab = lab_of(make_node())
    os.chown(lab.node.logs, CAROL.uid, CAROL.uid)
    (lab.node.logs / BOB.name).symlink_to("away")
    log = lab.node.logs / "1.log"
    log.touch()
    os.chown(log, CAROL.uid, CAROL.uid)
    log.chmod(0o666)
    held = os.open(log, os.O_RDONLY)
    heard = signal.signal(signal.SIGIO, signal.SIG_IGN)  # what tells the holder that somebody waits
    try:
        os.seteuid(CAROL.uid)  # the root of a namespace gets no lease on what is another's
        try:
            fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        finally:
            os.seteuid(0)
        ran = lab.ran(str(log), person=BOB)
    finally:
        os.close(held)
        signal.signal(signal.SIGIO, heard)
    assert ran.is_the_tasks, ran
    assert "lease" in ran.why


def test_an_older_agent_gets_no_key_that_it_does_not_know() -> None:
    settings = LaunchSettings(conda="", task_env={}, grace_s=1.0, roots=("/lab",), log_folder="/logs")
    core = core_with()
    task = submit(core, log_path="/lab/mine.log")
    core.plan(0.0)
    for protocol in range(1, TELLS_PLACED + 2):
        message = launch_message(task, task.allocation[0], settings, protocol=protocol)
        told = "/logs" if protocol >= TELLS_PLACED else None
        assert message.get("placed_instead_of") == told, protocol
    task.log_path = "/logs/1.log"
    assert "placed_instead_of" not in launch_message(task, task.allocation[0], settings)
