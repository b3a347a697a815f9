"""Whose logs may be read by whom: what the master's own user can read is not everybody's."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from master.files.log_file import opened
from tests import rights
from tests.faults import refusing
from tests.master.durable.storage import descriptors
from tests.master.in_process import InProcess, began_before, comes_as, run
from wire.errors import ConflictError, ForbiddenError, MusterError

SECRET = b"the lab's password"


def content(path: Path | str, *folders: Path) -> bytes | None:
    """What is read of a log that must lie in these folders; anywhere if there are none."""
    with opened(str(path), tuple(map(str, folders)) or None) as fd:
        return None if fd is None else os.read(fd, 100)


def test_a_log_in_one_of_the_folders_is_read_and_one_that_is_not_there_is_none(tmp_path: Path) -> None:
    before = descriptors()
    logs, data = tmp_path / "logs", tmp_path / "data"
    (logs / "a").mkdir(parents=True)
    data.mkdir()
    (logs / "a/1.log").write_bytes(b"one")
    (data / "far").write_bytes(b"far")
    (logs / "link").symlink_to(data / "far")
    assert content(logs / "a/1.log", logs, data) == b"one"
    assert content(logs / "link", logs, data) == b"far"
    assert content(logs / "none", logs, data) is None
    assert content(logs / "none/1.log", logs, data) is None
    assert content(tmp_path / "none") is None
    assert descriptors() <= before


@pytest.mark.parametrize("name", ["secret", "logs/../secret", "logs/link", "logs/up/secret", "logsecret", "", "data"])
def test_a_log_elsewhere_is_refused_wherever_links_lead(tmp_path: Path, name: str) -> None:
    before = descriptors()
    logs = tmp_path / "logs"
    logs.mkdir()
    for place in (tmp_path / "secret", tmp_path / "logsecret"):
        place.write_bytes(SECRET)
    (logs / "link").symlink_to("../secret")
    (logs / "up").symlink_to(tmp_path)
    with refusing(ForbiddenError, "log_not_visible", path=f"{tmp_path}/{name}"):
        content(f"{tmp_path}/{name}", logs)
    assert descriptors() <= before


@pytest.mark.parametrize("confined", [True, False])
@pytest.mark.parametrize("kind", ["device", "pipe", "folder", "circle"])
def test_what_is_no_file_is_not_opened(tmp_path: Path, kind: str, *, confined: bool) -> None:
    path = tmp_path / "log"
    if kind == "device":
        if rights.outer_uid() == 0:
            os.mknod(path, 0o600 | 0o020000, os.makedev(10, 255))  # nobody's: to open it would be another error
        else:
            path = Path(os.devnull)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(path)
    with pytest.raises(MusterError) as refused:
        content(path, *([path.parent] if confined else []))
    assert refused.value.key in ({"log_no_file"} if kind != "circle" else {"links_in_circle", "log_unreadable"})


def test_a_file_that_may_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    path.touch()
    real = os.open

    def refuse(name: Any, *args: int, **keys: int) -> int:
        if str(name).startswith("/proc/self/fd/"):
            raise PermissionError(13, "Permission denied")
        return real(name, *args, **keys)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ConflictError, match="cannot be read: Permission denied"):
        content(path)


@pytest.mark.master
def test_only_who_runs_the_master_reads_logs_that_lie_anywhere(tmp_path: Path) -> None:
    async def story() -> None:
        for name, data in (("psw", SECRET), ("data/1.log", b"seen"), ("logs/4.log", b"mine")):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(data)
        (tmp_path / "logs/3.log").symlink_to(tmp_path / "psw")
        async with InProcess(tmp_path) as master:
            ours = await master.peer()
            with comes_as("ann", master.core):
                ann = await master.peer()
                await ann.call("server.info")
            for log in ("psw", "data/1.log", None, None):
                await ann.call("task.submit", command="x", hold=True, **({"log": log} if log else {}))
            began_before(master.core, 3, 4)
            assert base64.b64decode((await ours.call("log.read", id=1))["data"]) == SECRET
            for collapse in (False, True):
                for task_id in (1, 3):
                    code, message = await ann.refusal("log.read", id=task_id, collapse=collapse)
                    assert (code, "visible folder" in message) == ("forbidden", True)
                for task_id, expected in ((2, b"seen"), (4, b"mine")):
                    piece = await ann.call("log.read", id=task_id, collapse=collapse)
                    assert base64.b64decode(piece["data"] or piece["rest"]) == expected
            (tmp_path / "server.log").write_bytes(b"told")
            assert (await ann.refusal("log.read", server=True))[0] == "forbidden"
            assert base64.b64decode((await ours.call("log.read", server=True))["data"]) == b"told"

    run(story())


@pytest.mark.master
def test_nobody_reads_anothers_log_by_calling_it_his_own(tmp_path: Path) -> None:
    """Neither by naming it nor by a link to it; the folder that an agent makes for his own is no hindrance."""

    async def story() -> None:
        logs = tmp_path / "logs"
        for name, text in (("logs/1.log", SECRET), ("logs/ann/4.log", b"mine"), ("logs/bob/9.log", SECRET)):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(text)
        (tmp_path / "data").mkdir()
        (tmp_path / "data/link").symlink_to(logs / "1.log")
        (logs / "4.log").symlink_to("ann/4.log")
        (logs / "6.log").symlink_to("1.log")
        async with InProcess(tmp_path) as master:
            ours = await master.peer()
            with comes_as("ann", master.core):
                ann = await master.peer()
                await ann.call("server.info")
            await ours.call("task.submit", command="x", hold=True)
            for log in ("logs/1.log", "data/link", None, "logs/bob/9.log", None):
                await ann.call("task.submit", command="x", hold=True, **({"log": log} if log else {}))
            began_before(master.core, 4, 6)
            for task_id in (2, 3, 5, 6):
                assert (await ann.refusal("log.read", id=task_id))[0] == "forbidden", task_id
            assert base64.b64decode((await ann.call("log.read", id=4))["data"]) == b"mine"
            assert base64.b64decode((await ours.call("log.read", id=2))["data"]) == SECRET

    run(story())
