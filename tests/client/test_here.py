"""Where a task runs that is submitted from a folder to which links lead, or which is gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from client.cli.main import main
from client.here import here, within
from tests.client.fake_master import FakeMaster
from tests.faults import error_line


@pytest.fixture
def share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A share that is mounted at one place and named by a link at another, and a link in it."""
    (tmp_path / "mnt" / "work").mkdir(parents=True)
    (tmp_path / "share").symlink_to("mnt")
    (tmp_path / "mnt" / "short").symlink_to("work")
    monkeypatch.chdir(tmp_path / "mnt" / "work")
    return tmp_path


@pytest.mark.parametrize(
    ("root", "said", "due"),
    [
        ("share", "share/work", "share/work"),  # nodes know the share by that name
        ("mnt", "share/work", "mnt/work"),  # the link is on this machine alone
        ("mnt", "mnt/short", "mnt/short"),
        ("share", "share/short", "share/short"),
        ("elsewhere", "share/work", "mnt/work"),
        ("mnt", "mnt", "mnt/work"),  # PWD leads to another folder
        ("mnt", "mnt/gone", "mnt/work"),
        ("mnt", "mnt/work/../work", "mnt/work"),
        ("mnt", "", "mnt/work"),
    ],
)
def test_a_task_gets_the_path_under_the_root_with_its_links(
    share: Path, monkeypatch: pytest.MonkeyPatch, root: str, said: str, due: str
) -> None:
    monkeypatch.delenv("MUSTER_MASTER", raising=False)
    monkeypatch.setenv("PWD", f"{share}/{said}" if said else "")
    verbs = {"task.submit": lambda _: {"id": 1}, "server.info": lambda _: {"root": f"{share}/{root}"}}
    with FakeMaster(verbs) as master:
        monkeypatch.setenv("MUSTER_CONF", master.conf(share))
        assert main(["submit", "--", "true"]) == 0
        assert main(["submit", "--cwd", "sub/../x", "--", "true"]) == 0
        assert [asked["cwd"] for asked in master.asked("task.submit")] == [f"{share}/{due}", f"{share}/{due}/x"]


def test_a_folder_without_links_needs_no_question(share: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PWD", f"{share}/mnt/work")
    assert here() == [f"{share}/mnt/work"]
    assert within(["/a/b"], ["/a/b/"]) == "/a/b"
    assert within(["/ab", "/a/c"], ["/a", "/x"]) == "/a/c"
    assert within(["/ab"], ["/a"]) is None


def test_a_folder_that_was_deleted_is_named(
    share: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MUSTER_MASTER", raising=False)
    monkeypatch.setenv("PWD", str(Path.cwd()))
    shutil.rmtree(share / "mnt")
    with FakeMaster({"task.submit": lambda _: {"id": 1}}) as master:
        monkeypatch.setenv("MUSTER_CONF", master.conf(share))
        for words in (["submit", "--", "true"], ["init"], ["deploy", "d"]):
            assert main(words) == 1
            told = error_line("bad_request", "folder_deleted", path=f"{share}/mnt/work")
            assert told in capsys.readouterr().err
