"""A log folder in which everybody's account may write, as SSH accounts need it (mode 3777): who knows the number that
the next task will have lays something where its log is to be. Real accounts, whatever the kernel forbids by itself.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from monitor.agent.attempt.blame import StartError
from monitor.agent.attempt.log_open import open_log
from tests.agent.attempt.test_run_as import make_node, node
from tests.agent.people import BOB as BOB_THERE
from tests.agent.people import CAROL, PeopleNode, Person
from tests.agent.test_pythons import PYPY
from tests.rights import need_real_root, need_users
from tests.waiting import until

__all__ = ["make_node", "node"]
"""Fixtures of another file that this one uses, too."""

ANN, BOB = 4301, 4302
SECRET = b"what ann's task says"


def as_account(uid: int, do: Callable[[], None]) -> str:
    """Do it in a process of that account's; what went wrong, "" if nothing did."""
    reader, writer = os.pipe()
    if child := os.fork():
        os.close(writer)
        with os.fdopen(reader, "rb") as told:
            said = told.read().decode()
        os.waitpid(child, 0)
        return said
    try:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        do()
    except BaseException as error:  # noqa: BLE001  (it is told to the process that waits for it)
        os.write(writer, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(0)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    need_users()
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    place = tmp_path / "train_logs"
    place.mkdir()
    place.chmod(0o3777)
    return place


def ann_writes(log: Path, *, new: bool = True) -> str:
    """Her agent opens the log, as her, and her task says something."""
    return as_account(ANN, lambda: os.close(_said(open_log(str(log), [], new=new))))


def _said(log: int) -> int:
    os.write(log, SECRET)
    return log


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("size", [0, 3])
def test_nobody_reads_anothers_output_by_laying_a_file_in_its_logs_place(logs: Path, size: int, *, new: bool) -> None:
    log = logs / "50.log"

    def planted() -> None:
        log.write_bytes(b"x" * size)
        log.chmod(0o666)

    assert as_account(BOB, planted) == ""
    said = ann_writes(log, new=new)
    assert said.startswith(StartError.__name__)
    assert f"uid {BOB}" in said
    assert SECRET not in log.read_bytes()


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("is_there", [True, False])
def test_nobody_has_anothers_output_written_into_anothers_own_file_by_a_link(
    logs: Path, tmp_path: Path, *, new: bool, is_there: bool
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, ANN, ANN)
    profile = home / ".bashrc"
    if is_there:
        profile.write_bytes(b"mine\n")
        os.chown(profile, ANN, ANN)
    log = logs / "50.log"
    assert as_account(BOB, lambda: log.symlink_to(profile)) == ""
    assert ann_writes(log, new=new).startswith(StartError.__name__)
    assert (profile.read_bytes() if is_there else profile.exists()) == (b"mine\n" if is_there else False)


def test_nobody_has_anothers_output_written_into_anothers_own_file_by_a_second_name_of_it(logs: Path) -> None:
    mine = logs / "mine"
    assert as_account(ANN, mine.touch) == ""
    os.link(mine, logs / "50.log")  # as whoever may where `fs.protected_hardlinks` is not set
    assert ann_writes(logs / "50.log", new=False).startswith(StartError.__name__)
    assert mine.read_bytes() == b""


def test_what_is_ones_own_or_the_folders_owners_is_gone_on_with(logs: Path) -> None:
    log, elsewhere = logs / "50.log", logs / "elsewhere"
    assert ann_writes(log) == ""
    assert ann_writes(log, new=False) == ""
    assert log.read_bytes() == SECRET * 2
    assert as_account(ANN, lambda: (logs / "51.log").symlink_to(elsewhere)) == ""
    assert ann_writes(logs / "51.log", new=False) == ""
    assert elsewhere.read_bytes() == SECRET
    (logs / "52.log").touch()
    (logs / "52.log").chmod(0o666)
    assert ann_writes(logs / "52.log", new=False) == ""


def test_the_folders_owner_has_nothing_written_into_anothers_own_file_by_a_link(logs: Path, tmp_path: Path) -> None:
    """It may be the account that everybody's tasks have on other nodes."""
    os.chown(logs, BOB, BOB)
    profile, log = tmp_path / "profile", logs / "50.log"
    profile.write_bytes(b"mine\n")
    os.chown(profile, ANN, ANN)
    assert as_account(BOB, lambda: log.symlink_to(profile)) == ""
    assert ann_writes(log, new=False).startswith(StartError.__name__)
    assert profile.read_bytes() == b"mine\n"


def writes_in_folder(logs: Path, *, placed: bool = False) -> str:
    """Ann's agent opens the log in the folder of her account; what it was refused with, and whose fault that is."""

    def write() -> None:
        try:
            os.close(
                _said(open_log(f"{logs}/ann/50.log", [str(logs)], new=True, instead_of=str(logs) if placed else ""))
            )
        except StartError as error:
            raise OSError(f"{error.fault}: {error}") from None

    return as_account(ANN, write)


@pytest.mark.parametrize("placed", [True, False])
@pytest.mark.parametrize("kind", ["folder", "link"])
def test_in_place_of_an_accounts_folder_anothers_is_not_taken_and_the_attempt_is_to_blame_only_where_it_chose_that(
    logs: Path, tmp_path: Path, kind: str, *, placed: bool
) -> None:
    trap = tmp_path / "trap"

    def lay() -> None:
        (logs / "ann").mkdir() if kind == "folder" else (logs / "ann").symlink_to(trap)
        os.umask(0)
        (logs / "ann").chmod(0o777) if kind == "folder" else None

    trap.mkdir(0o777)
    trap.chmod(0o777)
    assert as_account(BOB, lay) == ""
    said = writes_in_folder(logs, placed=placed)
    assert f"uid {BOB}" in said
    assert (": task: " if placed else ": node: ") in said
    assert [*trap.iterdir(), *(logs / "ann").iterdir()] == []


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o777])
def test_an_account_makes_its_folder_where_only_the_group_of_all_logs_reads(logs: Path, mask: int) -> None:
    os.chown(logs, 0, 4303)
    logs.chmod(0o3777)
    with umask(mask):
        assert writes_in_folder(logs) == ""
    folder, log = (logs / "ann").stat(), (logs / "ann" / "50.log").stat()
    assert (stat.S_IMODE(folder.st_mode), folder.st_uid, folder.st_gid) == (0o2750, ANN, 4303)
    assert (stat.S_IMODE(log.st_mode), log.st_uid, log.st_gid) == (0o640, ANN, 4303)
    assert as_account(BOB, (logs / "ann" / "51.log").touch).startswith("PermissionError")


def test_a_folder_that_was_made_for_an_account_is_taken_where_nobody_else_may_make_one(logs: Path) -> None:
    logs.chmod(0o755)
    assert writes_in_folder(logs).startswith("OSError: node: ")
    (logs / "ann").mkdir(0o750)
    os.chown(logs / "ann", ANN, ANN)
    assert writes_in_folder(logs) == ""


@pytest.mark.parametrize("kind", ["link", "second name", "pipe", "file"])
def test_who_has_the_log_folder_has_nothing_written_into_what_is_its_own_or_the_task_owners(
    node: PeopleNode, kind: str
) -> None:
    """The folder is a shared account's. It has put something in the place of bob's folder, and of his next log."""
    os.chown(node.logs, CAROL.uid, CAROL.uid)
    profile, log = node.homes["bob"] / ".bashrc", node.log("t1")
    profile.write_bytes(b"mine\n")
    os.chown(profile, BOB_THERE.uid, BOB_THERE.uid)
    (node.logs / "bob").symlink_to("away")
    if kind == "link":
        log.symlink_to(profile)
    elif kind == "second name":
        os.link(profile, log)
    elif kind == "pipe":
        os.mkfifo(log, 0o666)
        log.chmod(0o666)
    else:
        log.write_bytes(b"")
        log.chmod(0o666)
    if kind != "second name":
        os.lchown(log, CAROL.uid, CAROL.uid)
    end = node.run_as(node.up(), BOB_THERE, "t1", "echo bobs", log_new=False)
    assert (end["cause"], end["fault"]) == ("not_started", "task")
    assert profile.read_bytes() == b"mine\n"
    assert kind != "file" or log.read_bytes() == b""


@pytest.mark.parametrize("kind", ["link", "second name", "pipe", "folder's link"])
def test_what_runs_as_root_writes_only_into_its_own_log_in_anothers_folder(node: PeopleNode, kind: str) -> None:
    """Tasks of who runs the master are root's where the agent is; the folder of logs is a shared account's."""
    log, secret = node.log("t1"), node.folder / "secret"
    secret.write_bytes(SECRET)
    os.chown(node.logs, CAROL.uid, CAROL.uid)
    if kind == "link":
        log.symlink_to(secret)
    elif kind == "second name":
        os.link(secret, log)
    elif kind == "pipe":
        os.mkfifo(log, 0o666)
    else:
        (node.folder / "roots").mkdir()
        os.chown(node.folder / "roots", CAROL.uid, CAROL.uid)
        node.logs.rename(node.folder / "away")
        node.logs.symlink_to("roots")
        os.lchown(node.logs, BOB_THERE.uid, BOB_THERE.uid)
    end = node.run(node.up(), "t1", "echo roots", cwd="/", roots=[str(node.folder), str(node.logs)])
    assert (end["cause"], end["fault"]) == ("not_started", "task"), end
    assert secret.read_bytes() == SECRET
    assert not list((node.folder / "roots").iterdir() if kind == "folder's link" else [])


def test_what_runs_as_root_goes_on_in_logs_of_its_own_and_of_the_folders_owner(node: PeopleNode) -> None:
    os.chown(node.logs, CAROL.uid, CAROL.uid)
    node.log("t2").write_bytes(b"before\n")
    os.chown(node.log("t2"), CAROL.uid, CAROL.uid)
    node.log("t3").symlink_to("bob/t3.log")  # of an attempt that ran as its owner
    node.log("t6").touch(0o666)
    os.chown(node.log("t6"), BOB_THERE.uid, BOB_THERE.uid)
    link = node.up()
    for name in ("t1", "t2", "t3", "t6"):
        assert node.run(link, name, "echo roots", cwd="/")["code"] == 0
    assert node.run(link, "t4", "echo roots", cwd="/", log_path=str(node.log("t1")))["code"] == 0
    assert node.text("t1").count("roots\n") == 2
    assert node.text("t2").startswith("before\nroots\n")
    assert node.text("t3").startswith("roots\n")
    assert node.text("t6").startswith("roots\n")
    assert (node.log("t6").stat().st_uid, (node.logs / "t6.log.earlier").read_bytes()) == (0, b"")
    assert node.run(link, "t5", "echo roots", cwd="/", log_path="/dev/null")["code"] == 0


@pytest.mark.parametrize("account", [None, CAROL])
@pytest.mark.parametrize("spawns", [True, False])
def test_what_is_laid_in_a_logs_place_while_its_task_runs_is_neither_read_nor_written(
    make_node: Callable[..., PeopleNode], account: Person | None, *, spawns: bool
) -> None:
    node = make_node(account, *([] if spawns else [PYPY]))
    log, secret, gate = node.log("t1"), node.folder / "secret", node.folder / "gate"
    secret.write_bytes(SECRET + b"\n")
    secret.chmod(0o666)
    os.chown(node.logs, CAROL.uid, CAROL.uid)
    link = node.up()
    node.launch(link, "t1", f"echo mine; until [ -e {gate} ]; do sleep 0.05; done; exit 3", cwd="/")
    until("the task speaks", lambda: log.exists() and log.read_bytes() == b"mine\n")
    moved = log.rename(node.logs / "moved")
    log.symlink_to(secret)
    gate.touch()
    end = link.wait_for("exit", "t1")
    assert (end["code"], end["last_line"]) == (3, "mine")
    assert secret.read_bytes() == SECRET + b"\n"
    assert moved.read_bytes() == b"mine\n\nProgram Exit With Code 3\n"


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


class Roots(NamedTuple):
    """`folder`: of root's, with a file `7.log`; `theirs`: a folder of ann's, who leads others from there."""

    folder: Path
    theirs: Path

    def looks(self) -> list[tuple[str, bytes | None]]:
        return sorted((path.name, path.read_bytes() if path.is_file() else None) for path in self.folder.rglob("*"))


@pytest.fixture
def roots(logs: Path) -> Roots:
    made = Roots(logs.parent / "roots", logs.parent / "theirs")
    for folder in made:
        folder.mkdir(0o755)
    os.chown(made.theirs, ANN, ANN)
    (made.folder / "7.log").write_bytes(b"mine\n")
    return made


def root_writes(log: Path, *, new: bool) -> str:
    """Root's agent opens the log of a task that is root's; what it was refused with."""
    try:
        os.close(_said(open_log(str(log), [], new=new)))
    except StartError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("log", ["link/7.log", "link/8.log", "link/made/here/7.log", "deep/link/7.log"])
def test_no_strangers_link_above_a_log_leads_root_anywhere(roots: Roots, log: str, *, new: bool) -> None:
    path = roots.theirs / log
    link = next(folder for folder in path.parents if folder.name == "link")

    def lay() -> None:
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(roots.folder)

    assert as_account(ANN, lay) == ""
    before = roots.looks()
    assert f"a link of uid {ANN} leads there" in root_writes(path, new=new)
    assert roots.looks() == before


@pytest.mark.parametrize("new", [True, False])
def test_no_link_in_a_strangers_folder_leads_root_on_where_a_link_of_roots_led(roots: Roots, *, new: bool) -> None:
    """As the one beside the logs of all, where the task ran as ann before."""
    logs = roots.folder.parent / "all"
    logs.mkdir(0o755)
    (logs / "7.log").symlink_to("../theirs/7.log")
    assert as_account(ANN, lambda: (roots.theirs / "7.log").symlink_to(roots.folder / "7.log")) == ""
    before = roots.looks()
    said = root_writes(logs / "7.log", new=new)
    assert roots.looks() == before
    assert new or said != ""


def test_links_of_roots_above_a_log_and_at_it_are_followed_and_folders_made(roots: Roots) -> None:
    (roots.folder / "link").symlink_to("real")
    (roots.folder / "real").mkdir()
    (roots.folder / "at.log").symlink_to("real/far.log")
    (roots.theirs / "own").mkdir()
    os.chown(roots.theirs / "own", ANN, ANN)
    assert as_account(ANN, lambda: (roots.theirs / "link").symlink_to("own")) == ""
    with umask(0o027):
        assert root_writes(roots.folder / "link/made/here/1.log", new=True) == ""
    assert stat.S_IMODE((roots.folder / "real/made/here").stat().st_mode) == 0o750
    assert root_writes(roots.folder / "at.log", new=False) == ""
    assert root_writes(roots.theirs / "link" / "2.log", new=True) == ""
    for log in ("roots/real/made/here/1.log", "roots/real/far.log", "theirs/own/2.log"):
        assert (roots.folder.parent / log).read_bytes() == SECRET, log
    assert root_writes(Path("/dev/null"), new=False) == ""


def test_of_a_strangers_devices_one_that_keeps_nothing_is_a_log(roots: Roots) -> None:
    """In a container that knows root by no number they are nobody's; a terminal is whose it is."""
    need_real_root()  # who makes a device
    for name, major, minor in (("null", 1, 3), ("terminal", 4, 63)):
        os.mknod(roots.theirs / name, stat.S_IFCHR, os.makedev(major, minor))
        os.chown(roots.theirs / name, ANN, ANN)
    assert root_writes(roots.theirs / "null", new=False) == ""
    assert "no file of the task's owner" in root_writes(roots.theirs / "terminal", new=False)


def test_a_circle_of_links_is_no_log(roots: Roots) -> None:
    (roots.folder / "a").symlink_to("b")
    (roots.folder / "b").symlink_to("a")
    assert root_writes(roots.folder / "a", new=False) != ""
    assert root_writes(roots.folder / "a" / "1.log", new=False) != ""


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_refused_log_leaves_no_folder_open(roots: Roots) -> None:
    assert as_account(ANN, lambda: (roots.theirs / "link").symlink_to(roots.folder)) == ""
    before = open_files()
    for log in (roots.theirs / "link/1.log", roots.folder / "7.log/1.log", roots.folder):
        assert root_writes(log, new=False) != ""
    assert open_files() == before
