"""A copy of the code as it is: what is in it, what is not, and what becomes of it when either side changes."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from client import snapshot as module
from client.snapshot import InSnapshot, snapshot
from client.snapshot_changes import changes
from tests.faults import refusing
from wire.errors import BadRequestError


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=ann", "-c", "user.email=ann@lab.example", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A work tree with code, data that git ignores, and a folder that is kept for results."""
    top = tmp_path / "网络 net"
    for name, text in {
        "train.py": "print(1)\n",
        "lib/model.py": "size = 3\n",
        "lib/__pycache__/model.pyc": "x",
        "data/images.bin": "12345",
        "runs/.gitkeep": "",
        ".gitignore": "data\n__pycache__\n*.log\n",
        "old.log": "gone by\n",
    }.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    (top / "go.sh").write_text("#!/bin/sh\n")
    (top / "go.sh").chmod(0o755)
    (top / "latest.py").symlink_to("train.py")
    git(top, "init", "-q")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "begin")
    return top


def content(taken: InSnapshot) -> set[str]:
    top = Path(taken["cwd"])
    return {str(path.relative_to(top)) for path in top.rglob("*") if not path.is_dir() or path.is_symlink()}


def test_what_is_changed_after_it_was_taken_does_not_reach_it(tree: Path) -> None:
    taken = snapshot(tree)
    (tree / "train.py").write_text("print(2)\n")
    (tree / "lib/model.py").unlink()
    top = Path(taken["cwd"])
    assert (top / "train.py").read_text() == "print(1)\n"
    assert (top / "lib/model.py").read_text() == "size = 3\n"
    assert (top / "latest.py").read_text() == "print(1)\n"


def test_code_is_copied_and_the_rest_is_where_it_was(tree: Path) -> None:
    (tree / "new.py").write_text("not added yet\n")
    taken = snapshot(tree)
    top = Path(taken["cwd"])
    assert content(taken) == {
        *("train.py", "go.sh", "new.py", "latest.py", "lib/model.py", ".gitignore"),
        *("data", "runs", "old.log"),
    }
    assert {path.name for path in top.iterdir() if path.is_symlink()} == {"data", "runs", "old.log", "latest.py"}
    (top / "runs/model.pt").write_text("weights")
    assert (tree / "runs/model.pt").read_text() == "weights"
    assert os.access(top / "go.sh", os.X_OK)
    assert not stat.S_IMODE((top / "train.py").stat().st_mode) & 0o222
    assert (top / "train.py").stat().st_mtime_ns == (tree / "train.py").stat().st_mtime_ns


def test_it_tells_of_which_commit_it_is_and_that_not_all_is_as_in_it(tree: Path) -> None:
    head = git(tree, "rev-parse", "HEAD")
    clean = snapshot(tree)["snapshot"]
    assert (clean["of"], clean["commit"], clean["changed"], clean["files"]) == (str(tree), head, False, 5)
    (tree / "train.py").write_text("print(2)\n")
    assert snapshot(tree)["snapshot"]["changed"]


def test_it_is_out_of_git_s_sight(tree: Path) -> None:
    snapshot(tree)
    assert git(tree, "status", "--porcelain") == ""
    assert snapshot(tree)["snapshot"]["files"] == 5


def test_equal_code_is_there_once_and_other_code_beside_it(tree: Path) -> None:
    first, again = snapshot(tree), snapshot(tree)
    assert first == again
    (tree / "train.py").write_text("print(2)\n")
    assert snapshot(tree)["cwd"] != first["cwd"]
    assert len(list((tree / ".muster/snapshots").iterdir())) == 2


def test_what_came_beside_the_code_since_is_in_an_equal_one_too(tree: Path) -> None:
    snapshot(tree)
    (tree / "more.log").write_text("new")
    assert (Path(snapshot(tree)["cwd"]) / "more.log").read_text() == "new"


def test_one_that_somebody_changed_is_not_taken_for_the_code(tree: Path) -> None:
    first = Path(snapshot(tree)["cwd"])
    (first / "train.py").chmod(0o644)
    (first / "train.py").write_text("print('mine')\n")
    second = Path(snapshot(tree)["cwd"])
    assert second != first
    assert (second / "train.py").read_text() == "print(1)\n"
    (second / "train.py").unlink()
    assert snapshot(tree)["cwd"] not in {str(first), str(second)}


def test_from_a_folder_within_the_whole_work_tree_is_taken_and_the_task_runs_there(tree: Path) -> None:
    taken = snapshot(tree / "lib")
    assert taken["snapshot"]["of"] == str(tree / "lib")
    assert taken["snapshot"]["files"] == 5
    assert (Path(taken["cwd"]) / "../train.py").read_text() == "print(1)\n"
    assert Path(taken["cwd"]).name == "lib"


def test_a_repository_within_is_taken_too(tree: Path) -> None:
    inner = tree / "third"
    inner.mkdir()
    (inner / "part.py").write_text("part = 1\n")
    git(inner, "init", "-q")
    git(inner, "add", "-A")
    git(inner, "commit", "-qm", "begin")
    taken = Path(snapshot(tree)["cwd"])
    (inner / "part.py").write_text("part = 2\n")
    assert (taken / "third/part.py").read_text() == "part = 1\n"


def test_a_link_that_leads_out_leads_there_from_the_copy_too(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/weights").write_text("w")
    (tree / "weights").symlink_to("../shared/weights")
    (tree / "lib/up.py").symlink_to("../train.py")
    git(tree, "add", "-A")
    top = Path(snapshot(tree)["cwd"])
    assert (top / "weights").read_text() == "w"
    assert str((top / "lib/up.py").readlink()) == "../train.py"


def test_a_file_that_git_knows_and_is_gone_is_not_missed(tree: Path) -> None:
    (tree / "go.sh").unlink()
    assert "go.sh" not in content(snapshot(tree))


def test_without_git_all_that_is_there_is_taken(tmp_path: Path) -> None:
    for name in ("a.py", "deep/b.py", "deep/__pycache__/b.pyc", "数据.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    taken = snapshot(tmp_path)
    assert content(taken) == {"a.py", "deep/b.py", "数据.txt"}
    assert (taken["snapshot"]["commit"], taken["snapshot"]["changed"]) == ("", False)
    assert snapshot(tmp_path) == taken


def test_a_folder_of_data_is_refused_before_anything_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    (tmp_path / "data.bin").write_bytes(bytes(2000))
    with refusing(BadRequestError, "snapshot_too_large", path=str(tmp_path), name="data.bin"):
        snapshot(tmp_path)
    assert not (tmp_path / ".muster").exists()


def test_thousands_of_results_beside_the_code_are_refused_with_a_way_out(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 20)
    for number in range(30):
        (tree / f"{number}.log").touch()
    with refusing(BadRequestError, "snapshot_beside_too_many", most=20):
        snapshot(tree)
    assert list((tree / ".muster/snapshots").iterdir()) == []


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    os.mkfifo(tmp_path / "pipe")
    top = Path(snapshot(tmp_path)["cwd"])
    assert (top / "pipe").is_symlink()


@pytest.mark.parametrize(("name", "key"), [("none", "snapshot_of_no_folder"), ("empty", "snapshot_of_nothing")])
def test_nothing_to_take_is_told(tmp_path: Path, name: str, key: str) -> None:
    (tmp_path / "empty").mkdir()
    with refusing(BadRequestError, key, path=str(tmp_path / name)):
        snapshot(tmp_path / name)


def test_a_work_tree_that_git_does_not_read_is_told_and_not_copied_whole(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /nowhere\n")
    (tmp_path / "lib").mkdir()
    with refusing(BadRequestError, "git_reads_no_tree", path=str(tmp_path / "lib")):
        snapshot(tmp_path / "lib")


def test_a_task_in_a_snapshot_submits_without_taking_another(tree: Path) -> None:
    taken = snapshot(tree)["cwd"]
    with refusing(BadRequestError, "snapshot_of_snapshot", path=taken):
        snapshot(taken)


def test_a_folder_in_which_one_may_not_write_is_told(tree: Path) -> None:
    (tree / ".muster").touch()  # where a folder has to be
    with refusing(BadRequestError, "snapshot_not_taken", path=str(tree / ".muster/snapshots")):
        snapshot(tree)


def test_in_which_files_two_differ_is_told_by_name(tree: Path) -> None:
    first = snapshot(tree)["cwd"]
    (tree / "train.py").write_text("print(2)\n")
    (tree / "go.sh").unlink()
    (tree / "add.py").touch()
    second = snapshot(tree)["cwd"]
    (Path(second) / "result.txt").write_text("written by the task")
    assert changes(first, second) == {"add.py": "added", "go.sh": "removed", "train.py": "changed"}
    assert changes(first, str(tree)) == changes(first, first) == {}
