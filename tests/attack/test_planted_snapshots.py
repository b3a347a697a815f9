"""What other accounts lay where `--snapshot` copies code: a waiting task runs what its owner had when it was queued."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from client import snapshot as module
from client.snapshot import snapshot
from tests.cases import each_case
from tests.faults import refusing
from tests.rights import need_users
from wire.errors import BadRequestError

THEIRS = 4501
"""An account that lays things."""
LIKE_TMP, OF_A_TEAM = 0o1777, 0o2775


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A folder in which each account has files of its own, with ours in it."""
    need_users()
    top = tmp_path / "code"
    (top / "lib").mkdir(parents=True)
    top.chmod(LIKE_TMP)
    (top / "train.py").write_text("print(1)\n")
    (top / "lib/model.py").write_text("size = 3\n")
    return top


def give(path: Path, mode: int | None = None) -> None:
    """Make it another account's, with all in it."""
    for one in (path, *path.rglob("*")):
        os.chown(one, THEIRS, THEIRS, follow_symlinks=False)
    if mode is not None:
        path.chmod(mode)


def test_no_copy_is_made_or_taken_in_another_accounts_folder(code: Path, tmp_path: Path) -> None:
    snapshot(code)
    first, second = code / ".muster", code / ".muster/snapshots"
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(first, elsewhere)
    with each_case() as cases:
        with cases.case("its folder within ours"):
            give(second, 0o777)
            with refusing(BadRequestError, "snapshots_of_others", path=str(second), uid=THEIRS):
                snapshot(code)
        with cases.case("its folder"):
            give(first, 0o777)
            with refusing(BadRequestError, "snapshots_of_others", path=str(first), uid=THEIRS):
                snapshot(code)
        with cases.case("its link"):
            shutil.rmtree(first)
            first.symlink_to(elsewhere)
            give(first)
            with refusing(BadRequestError, "snapshots_of_others", path=str(first), uid=THEIRS):
                snapshot(code)
        with cases.case("our link to its folder"):
            os.chown(first, 0, 0, follow_symlinks=False)
            give(elsewhere)
            with refusing(BadRequestError, "snapshots_of_others", path=str(first), uid=THEIRS):
                snapshot(code)


def test_no_copy_is_made_where_others_can_put_another_in_its_place(code: Path) -> None:
    snapshot(code)
    home = code / ".muster/snapshots"
    home.chmod(0o777)
    with refusing(BadRequestError, "snapshots_open_to_others", path=str(home)):
        snapshot(code)
    home.chmod(LIKE_TMP)
    snapshot(code)


def test_an_equal_copy_of_another_account_is_none(code: Path) -> None:
    code.chmod(OF_A_TEAM)
    copy = Path(snapshot(code)["cwd"])
    with each_case() as cases:
        for name in ("", "train.py", "lib"):
            with cases.case(name or "all of it"):
                give(copy / name)
                taken = Path(snapshot(code)["cwd"])
                assert taken.name == f"{copy.name}-2"
                assert (taken / "train.py").stat().st_uid == os.geteuid()


def test_nobody_adds_to_the_copy_of_a_folder_in_which_each_has_their_own(code: Path) -> None:
    copy = Path(snapshot(code)["cwd"])
    for folder in (copy, copy.parent, copy.parent.parent):
        assert not folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH), folder


LAY: dict[str, Callable[[Path, Path], None]] = {
    "a link": lambda path, secret: path.symlink_to(secret),
    "a pipe": lambda path, _secret: os.mkfifo(path),
}


@pytest.mark.parametrize("kind", LAY)
def test_what_is_laid_in_the_place_of_a_file_while_it_is_copied_is_not_followed(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the victim's")
    copy_file = module._copy_file

    def swapped(source: str, target: str) -> int:
        if source.endswith("train.py"):
            Path(source).unlink()
            LAY[kind](Path(source), secret)
        return copy_file(source, target)

    monkeypatch.setattr(module, "_copy_file", swapped)
    with refusing(BadRequestError, "snapshot_not_taken"):
        snapshot(code)
    assert not list((code / ".muster/snapshots").iterdir())
