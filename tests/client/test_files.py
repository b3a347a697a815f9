"""Files from the client's side: what its own disk refuses, and folders that change while they are listed."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from client.cli.commands.files import transfer
from client.files import Files
from tests.faults import refusing
from wire.errors import ConflictError, NotFoundError


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


class Replaced(Files):
    """Of a master on which another file takes the place of one that is read, or on which it is written to."""

    def __init__(self, **then: Any) -> None:
        super().__init__(SimpleNamespace())  # type: ignore[arg-type]
        self.then = then

    def read(self, _path: str, offset: int, _size: int | None = None) -> tuple[bytes, dict[str, Any]]:
        """Three bytes in three pieces."""
        state = {"size": 3, "mtime_ns": 1, "mode": 0o644, "file": "1"}
        return (b"a", state) if offset == 0 else (b"b", {**state, "mtime_ns": 2, **self.then})


def test_a_download_is_not_put_together_from_two_files(tmp_path: Path) -> None:
    local = tmp_path / "model"
    for then, key in (({"file": "2", "size": 4}, "file_replaced"), ({"size": 2}, "became_shorter")):
        with refusing(ConflictError, key, path="data/model"):
            Replaced(**then).download("data/model", str(local))
        assert not local.exists(), key
    assert not Replaced(size=4).download("data/model", str(local))
    assert local.read_bytes() == b"abb"


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
    real = os.open

    def opened(path: Any, *how: Any, **more: Any) -> Any:
        if str(path).endswith("private"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path, *how, **more)

    monkeypatch.setattr(os, "open", opened)
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
