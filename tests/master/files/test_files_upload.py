"""Uploads come in pieces, survive the master, and leave nothing behind when they fail."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from pathlib import Path

import pytest

from master.files.drafts import ABANDONED_S, Drafts
from master.files.jail import Jail
from master.files.upload import MAX_PIECE, Uploads
from wire.errors import BadRequestError, ConflictError, LimitError, NotFoundError, StorageError

LIMIT = 10 << 20


class Desk:
    """A root with `data`, the book of drafts, and the uploads; made anew as by a master that is started again."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.book = folder / "drafts.json"
        (folder / "data").mkdir(exist_ok=True)
        drafts = Drafts(self.book)
        self.jail = Jail(folder, ("data",), drafts=drafts)
        self.uploads = Uploads(self.jail, drafts, LIMIT)

    @property
    def files(self) -> list[str]:
        """What lies in `data`."""
        return sorted(entry.name for entry in (self.root / "data").iterdir())

    @property
    def noted(self) -> list[str]:
        """The paths in the book."""
        return [draft["path"] for draft in json.loads(self.book.read_bytes())] if self.book.exists() else []


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """An empty one."""
    return Desk(tmp_path)


def test_a_file_comes_in_pieces_and_appears_when_it_is_whole(desk: Desk) -> None:
    content = os.urandom(3 * MAX_PIECE + 7)
    begun = desk.uploads.begin("data/big.bin", len(content), mode=0o755)
    for offset in range(0, len(content), MAX_PIECE):
        assert "big.bin" not in desk.files
        piece = content[offset : offset + MAX_PIECE]
        assert desk.uploads.piece("data/big.bin", begun.upload, offset, piece) == offset + len(piece)
    entry = desk.uploads.commit("data/big.bin", begun.upload, len(content))
    assert (entry.name, entry.size, desk.files, desk.noted) == ("big.bin", len(content), ["big.bin"], [])
    assert (desk.root / "data/big.bin").read_bytes() == content
    assert stat.S_IMODE((desk.root / "data/big.bin").stat().st_mode) == 0o755 & ~_umask()


def test_the_file_whose_place_it_takes_lends_its_rights(desk: Desk) -> None:
    (desk.root / "data/x").write_text("old")
    (desk.root / "data/x").chmod(0o640)
    begun = desk.uploads.begin("data/x", 3, mode=0o777)
    desk.uploads.piece("data/x", begun.upload, 0, b"new")
    desk.uploads.commit("data/x", begun.upload, 3)
    assert (desk.root / "data/x").read_text() == "new"
    assert stat.S_IMODE((desk.root / "data/x").stat().st_mode) == 0o640


def test_a_piece_twice_is_fine_a_gap_is_not_and_an_end_too_early_is_told(desk: Desk) -> None:
    upload = desk.uploads.begin("data/x", 6).upload
    for _ in range(2):
        assert desk.uploads.piece("data/x", upload, 0, b"abc") == 3
    with pytest.raises(ConflictError, match="3 bytes are here and the piece begins at 4"):
        desk.uploads.piece("data/x", upload, 4, b"x")
    with pytest.raises(ConflictError, match="3 bytes are here, not 6"):
        desk.uploads.commit("data/x", upload, 6)
    desk.uploads.piece("data/x", upload, 3, b"def")
    desk.uploads.commit("data/x", upload, 6)
    assert (desk.root / "data/x").read_text() == "abcdef"
    with pytest.raises(NotFoundError, match="begin again"):
        desk.uploads.commit("data/x", upload, 6)


def test_an_upload_goes_on_after_the_master_was_started_again(desk: Desk) -> None:
    upload = desk.uploads.begin("data/x", 6).upload
    desk.uploads.piece("data/x", upload, 0, b"abc")
    again = Desk(desk.root)
    assert again.uploads.begin("data/x", 6, upload=upload).received == 3
    again.uploads.piece("data/x", upload, 3, b"def")
    again.uploads.commit("data/x", upload, 6)
    assert (again.files, again.noted) == (["x"], [])


def test_what_cannot_end_well_is_refused_before_the_first_byte(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    (desk.root / "data/folder").mkdir()
    (desk.root / "data/old").touch()
    with pytest.raises(LimitError, match=r"limits\.upload_bytes"):
        desk.uploads.begin("data/x", LIMIT + 1)
    with pytest.raises(BadRequestError, match="is a folder"):
        desk.uploads.begin("data/folder", 1)
    with pytest.raises(ConflictError, match="exists already"):
        desk.uploads.begin("data/old", 1, overwrite=False)
    with pytest.raises(NotFoundError):
        desk.uploads.begin("data/none/x", 1)
    room = os.statvfs(desk.root)
    full = os.statvfs_result((room[0], room[1], room[2], 1, 1, *room[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _fd: full)
    with pytest.raises(StorageError, match="do not fit"):
        desk.uploads.begin("data/x", room.f_frsize + 1)
    assert (desk.files, desk.noted) == (["folder", "old"], [])


def test_a_piece_is_limited_and_so_is_the_whole(desk: Desk) -> None:
    upload = desk.uploads.begin("data/x", 1).upload
    with pytest.raises(LimitError):
        desk.uploads.piece("data/x", upload, 0, bytes(MAX_PIECE + 1))
    with pytest.raises(LimitError, match=r"limits\.upload_bytes"):
        desk.uploads.piece("data/x", upload, LIMIT, b"x")
    for wrong in ("", "../x", "0" * 15, "G" * 16, "0" * 16 + "\n"):
        with pytest.raises(BadRequestError):
            desk.uploads.piece("data/x", wrong, 0, b"x")
    with pytest.raises(NotFoundError):
        desk.uploads.piece("data/x", "0" * 16, 0, b"x")


def test_a_disk_that_fills_up_meanwhile_is_freed_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = desk.uploads.begin("data/x", 6).upload
    desk.uploads.piece("data/x", upload, 0, b"abc")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StorageError, match="data/x: the disk is full"):
        desk.uploads.piece("data/x", upload, 3, b"def")
    assert (desk.files, desk.noted) == ([], [])


def test_who_gives_up_leaves_nothing(desk: Desk) -> None:
    upload = desk.uploads.begin("data/x", 6).upload
    for _ in range(2):
        desk.uploads.cancel("data/x", upload)
    assert (desk.files, desk.noted) == ([], [])


def test_what_nobody_finishes_is_removed_after_a_day_by_the_next_master_too(desk: Desk) -> None:
    old = desk.uploads.begin("data/old", 6).upload
    busy = desk.uploads.begin("data/busy", 6).upload
    gone = desk.uploads.begin("data/gone", 6).upload
    (desk.root / f"data/.muster-upload-{gone}").unlink()
    copy = desk.root / "data/.muster-copy-0123456789abcdef"
    copy.mkdir()
    (copy / "half").touch()
    book = json.loads(desk.book.read_bytes())
    book.append({"path": "data/copy", "name": copy.name, "at": 0.0})
    book.append({"path": "data/precious", "name": "precious", "at": 0.0})
    (desk.root / "data/precious").touch()
    long_ago = time.time() - ABANDONED_S - 60
    desk.book.write_text(json.dumps([{**draft, "at": long_ago} for draft in book]))
    for place in (desk.root / f"data/.muster-upload-{old}", copy, desk.root / "data/precious"):
        os.utime(place, (long_ago, long_ago))
    (desk.root / "data/.muster-upload-0000000000000000").touch()
    again = Desk(desk.root)
    again.uploads.sweep()
    assert again.files == [".muster-upload-0000000000000000", f".muster-upload-{busy}", "precious"]
    assert again.noted == ["data/busy"]


@pytest.mark.parametrize("text", ["", "{", '{"a": 1}', "[1]", "\x00"])
def test_a_book_that_cannot_be_read_is_begun_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / "drafts.json").write_text(text)
    desk = Desk(tmp_path)
    desk.uploads.begin("data/x", 1)
    assert desk.noted == ["data/x"]


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
