"""The notes of what is claimed do not grow without end, and lose no claim, whatever happens meanwhile."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from monitor.agent.attempt import claims, record
from monitor.agent.attempt.keeper import Keeper
from monitor.agent.folder import Folder
from tests.waiting import until

ROOT = Path(__file__).parents[3]
MOST = 4096
WRITES = """
import sys
from monitor.agent.attempt import claims
from monitor.agent.folder import Folder
folder = Folder(sys.argv[1])
for number in range(int(sys.argv[2])):
    claims.note(folder, b"+", "w%d" % number)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setattr(claims, "MAX_NOTES", MOST)
    made = Folder(str(tmp_path / "state"))
    made.make()
    return made


@pytest.fixture
def keeper(folder: Folder) -> Iterator[Keeper]:
    reports = os.open(folder.reports, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def hears(*_said: object) -> None:
        """Nobody listens."""

    yield Keeper(folder, "boot", reports, {}, logins=cast("Any", None), emit=hears, flush=hears, complain=hears)
    os.close(reports)


def size(folder: Folder) -> int:
    return Path(folder.claims).stat().st_size


def noted_much(folder: Folder, *left: str) -> None:
    """Notes of many claims that were forgotten, and of these, which were not."""
    for launch_id in left:
        claims.note(folder, b"+", launch_id)
    while size(folder) <= MOST:
        claims.note(folder, b"+", "gone")
        claims.note(folder, b"-", "gone")


def test_a_node_on_which_something_always_runs_notes_no_more_than_so_much(folder: Folder, keeper: Keeper) -> None:
    keeper.kill("busy", 0.0)
    sizes = set()
    for number in range(600):
        keeper.kill(f"{number}.1.0123456789", 0.0)
        keeper.ack([f"{number}.1.0123456789"])
        sizes.add(size(folder))
    assert max(sizes) < MOST + 2 * claims.LINE
    assert len(sizes) > 50
    shutil.rmtree(Path(folder.attempts) / "busy")
    assert record.sweep(folder) == ["busy"]


def test_of_many_claims_the_notes_are_not_written_anew_at_each(folder: Folder) -> None:
    many = [f"{number}.1.0123456789abcdef" for number in range(400)]
    noted_much(folder, *many)
    before = Path(folder.claims).stat().st_ino
    claims.trim(folder, len(many))
    assert Path(folder.claims).stat().st_ino == before
    while size(folder) <= claims.SPARE * claims.LINE * len(many):
        claims.note(folder, b"-", "gone")
    claims.trim(folder, len(many))
    assert claims.noted(folder) == set(many)
    assert size(folder) == sum(len(one) + 2 for one in many)


@pytest.mark.parametrize("call", ["unlink", "open", "write", "rename", "close"])
def test_a_kill_in_the_middle_loses_no_claim(folder: Folder, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    noted_much(folder, "a", "b")
    Path(folder.claims + ".new").write_bytes(b"+of an earlier kill\n")
    real = getattr(os, call)

    def killed(*args: Any, **keys: Any) -> Any:
        if call in {"unlink", "rename"} or args[:1] == (folder.claims + ".new",):
            raise KeyboardInterrupt
        if call in {"write", "close"} and str(Path(f"/proc/self/fd/{args[0]}").readlink()).endswith((".new", "claims")):
            if call == "write":
                real(args[0], args[1][:1])
            raise KeyboardInterrupt
        return real(*args, **keys)

    with monkeypatch.context() as patched:
        patched.setattr(os, call, killed)
        with pytest.raises(KeyboardInterrupt):
            claims.trim(folder, 2)
    assert claims.noted(folder) == {"a", "b"}
    again = Folder(folder.path)
    for fd in list(Path("/proc/self/fd").iterdir()):
        if fd.exists() and fd.readlink().name.startswith("claims"):
            os.close(int(fd.name))  # as the end of a process does
    claims.note(again, b"+", "c")
    claims.trim(again, 3)
    assert claims.noted(folder) == {"a", "b", "c"}
    assert size(folder) == len("+a\n+b\n+c\n")


def test_a_full_disk_leaves_the_notes_as_they_are(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    noted_much(folder, "a" * 40)
    before = Path(folder.claims).read_bytes()
    real = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda fd, data: real(fd, data[: len(data) // 2]))
        claims.trim(folder, 1)
    assert Path(folder.claims).read_bytes() == before


def test_a_link_under_the_name_of_the_draft_is_not_followed(folder: Folder, tmp_path: Path) -> None:
    noted_much(folder, "a")
    other = tmp_path / "other"
    other.write_text("mine", encoding="ascii")
    Path(folder.claims + ".new").symlink_to(other)
    claims.trim(folder, 1)
    assert other.read_text(encoding="ascii") == "mine"
    assert claims.noted(folder) == {"a"}


def test_a_folder_under_the_name_of_the_draft_keeps_the_notes_as_they_are(folder: Folder) -> None:
    noted_much(folder, "a")
    Path(folder.claims + ".new").mkdir()
    claims.trim(folder, 1)
    assert claims.noted(folder) == {"a"}


def test_what_shims_note_while_the_notes_are_written_anew_is_not_lost(folder: Folder) -> None:
    words = [sys.executable, "-c", WRITES, folder.path, "2000"]
    writer = subprocess.Popen(words, cwd=ROOT)
    anew: set[int] = set()

    def trimmed() -> bool:
        noted_much(folder, "a")
        claims.trim(folder, 0)
        anew.add(Path(folder.claims).stat().st_ino)
        return writer.poll() is not None

    try:
        until("all is noted", trimmed)
    finally:
        writer.kill()
        writer.wait()
    assert writer.returncode == 0
    assert len(anew) > 1
    assert claims.noted(folder) == {"a", *(f"w{number}" for number in range(2000))}
