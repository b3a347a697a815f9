"""Files from the client's side: what its own disk refuses, and folders that change while they are listed."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from client.cli.commands.files import transfer
from client.files import Files
from wire.errors import NotFoundError


class Said:
    """A command's context that keeps what is said."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.client = self
        self.files = self

    def note(self, text: str) -> None:
        """Keep it."""
        self.notes.append(text)

    def stat(self, path: str) -> dict[str, Any]:
        """There is nothing yet."""
        raise NotFoundError(path)

    def make_folder(self, path: str, *, parents: bool) -> None:
        """There is none."""


def test_what_our_own_disk_refuses_is_told_with_the_file() -> None:
    said = Said()
    work = transfer.Transfers(said)  # type: ignore[arg-type]

    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def missing() -> None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "y")

    work.attempt("back/x", full)
    work.attempt("x", missing)
    assert said.notes == ["error: io: back/x: No space left on device", "error: io: y: No such file or directory"]
    assert work.code == 1


def test_a_folder_of_ours_that_cannot_be_looked_into_is_not_left_out_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "private").mkdir()
    real = os.scandir

    def scan(path: Any) -> Any:
        if str(path).endswith("private"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scan)
    said = Said()
    said.options = type("Options", (), {"recursive": True})  # type: ignore[attr-defined]
    work = transfer.Transfers(said)  # type: ignore[arg-type]
    transfer.put_one(work, str(tmp_path), "data/x")
    assert said.notes == [f"error: io: {tmp_path}/private: Permission denied"]
    assert work.code == 1


class Pages:
    """A master that answers `file.list` with these pages."""

    def __init__(self, *pages: list[str]) -> None:
        self._pages = list(pages)
        self.after: list[str] = []

    def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The next page."""
        assert method == "file.list"
        self.after.append(params["after"])
        names = self._pages.pop(0)
        return {"entries": [{"name": name} for name in names], "truncated": bool(self._pages)}


def test_a_page_whose_entries_were_all_deleted_meanwhile_is_not_the_last() -> None:
    pages = Pages(["a", "b"], [], ["d"])
    found = [entry["name"] for entry in Files(pages).entries("data")]  # type: ignore[arg-type]
    assert found == ["a", "b", "d"]
    assert pages.after == ["", "b", "b"]
