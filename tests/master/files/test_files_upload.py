"""Uploads come in pieces, survive the master, and leave nothing behind when they fail."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from pathlib import Path

import pytest

from master.files import drafts
from master.files.drafts import ABANDONED_S, Drafts
from master.files.jail import Jail
from master.files.owners import Who
from master.files.service import Files
from master.files.upload import MAX_PIECE, Uploads
from tests.faults import refusing
from wire.errors import BadRequestError, ConflictError, LimitError, NotFoundError, StorageError

LIMIT = 10 << 20


class Place:
    """A root with `data`, the book of drafts, and the uploads; made anew as by a master that is started again."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.book = folder / "drafts.json"
        (folder / "data").mkdir(exist_ok=True)
        self.limit = LIMIT
        noted = Drafts(self.book, lambda: self.limit)
        self.jail = Jail(folder, ("data",), drafts=noted)
        self.uploads = Uploads(self.jail, noted)

    @property
    def files(self) -> list[str]:
        """What lies in `data`."""
        return sorted(entry.name for entry in (self.root / "data").iterdir())

    @property
    def noted(self) -> list[str]:
        """The paths in the book."""
        return [draft["path"] for draft in json.loads(self.book.read_bytes())] if self.book.exists() else []


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An empty one."""
    return Place(tmp_path)


def test_unfinished_uploads_are_counted_for_each_user_also_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts, "MOST_OF_ONE", 2)
    files = Files(tmp_path, ("data",), book=tmp_path / "drafts.json")
    (tmp_path / "data").mkdir()
    ann, bob = files.seen_by(Who("ann")), files.seen_by(Who("bob"))
    begun = [ann.uploads.begin(f"data/{number}", 1) for number in range(2)]
    with files.drafts.of("bob").noted("data/copy", b".muster-copy-1"):
        files.drafts.check_room("bob")
        bob.uploads.begin("data/bobs", 1)
        files.drafts.check_room("bob")
    for known in (files.drafts, Drafts(tmp_path / "drafts.json")):
        with refusing(LimitError, "uploads_unfinished", most=2, hours=24):
            known.check_room("ann")
        known.check_room("bob")
    ann.uploads.cancel("data/0", begun[0].upload)
    files.drafts.check_room("ann")


def test_a_file_comes_in_pieces_and_appears_when_it_is_whole(place: Place) -> None:
    content = os.urandom(3 * MAX_PIECE + 7)
    begun = place.uploads.begin("data/big.bin", len(content), mode=0o755)
    for offset in range(0, len(content), MAX_PIECE):
        assert "big.bin" not in place.files
        piece = content[offset : offset + MAX_PIECE]
        assert place.uploads.piece("data/big.bin", begun.upload, offset, piece) == offset + len(piece)
    entry = place.uploads.commit("data/big.bin", begun.upload, len(content))
    assert (entry.name, entry.size, place.files, place.noted) == ("big.bin", len(content), ["big.bin"], [])
    assert (place.root / "data/big.bin").read_bytes() == content
    assert stat.S_IMODE((place.root / "data/big.bin").stat().st_mode) == 0o755 & ~_umask()


def test_the_file_whose_place_it_takes_lends_its_rights(place: Place) -> None:
    (place.root / "data/x").write_text("old")
    (place.root / "data/x").chmod(0o640)
    begun = place.uploads.begin("data/x", 3, mode=0o777)
    place.uploads.piece("data/x", begun.upload, 0, b"new")
    place.uploads.commit("data/x", begun.upload, 3)
    assert (place.root / "data/x").read_text() == "new"
    assert stat.S_IMODE((place.root / "data/x").stat().st_mode) == 0o640


def test_a_piece_twice_is_fine_a_gap_is_not_and_an_end_too_early_is_told(place: Place) -> None:
    upload = place.uploads.begin("data/x", 6).upload
    for _ in range(2):
        assert place.uploads.piece("data/x", upload, 0, b"abc") == 3
    with refusing(ConflictError, "upload_gap", here=3, begin=4):
        place.uploads.piece("data/x", upload, 4, b"x")
    with refusing(ConflictError, "upload_incomplete", here=3, bytes=6):
        place.uploads.commit("data/x", upload, 6)
    place.uploads.piece("data/x", upload, 3, b"def")
    place.uploads.commit("data/x", upload, 6)
    assert (place.root / "data/x").read_text() == "abcdef"
    with pytest.raises(NotFoundError, match="begin again"):
        place.uploads.commit("data/x", upload, 6)


def test_an_upload_goes_on_after_the_master_was_started_again(place: Place) -> None:
    upload = place.uploads.begin("data/x", 6).upload
    place.uploads.piece("data/x", upload, 0, b"abc")
    again = Place(place.root)
    assert again.uploads.begin("data/x", 6, upload=upload).received == 3
    again.uploads.piece("data/x", upload, 3, b"def")
    again.uploads.commit("data/x", upload, 6)
    assert (again.files, again.noted) == (["x"], [])


def test_what_cannot_end_well_is_refused_before_the_first_byte(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.root / "data/folder").mkdir()
    (place.root / "data/old").touch()
    with pytest.raises(LimitError, match=r"limits\.upload_bytes"):
        place.uploads.begin("data/x", LIMIT + 1)
    with pytest.raises(BadRequestError, match="is a folder"):
        place.uploads.begin("data/folder", 1)
    with pytest.raises(ConflictError, match="exists already"):
        place.uploads.begin("data/old", 1, overwrite=False)
    with pytest.raises(NotFoundError):
        place.uploads.begin("data/none/x", 1)
    room = os.statvfs(place.root)
    full = os.statvfs_result((room[0], room[1], room[2], 1, 1, *room[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _fd: full)
    with pytest.raises(StorageError, match="do not fit"):
        place.uploads.begin("data/x", room.f_frsize + 1)
    assert (place.files, place.noted) == (["folder", "old"], [])


def test_a_piece_is_limited_and_so_is_the_whole(place: Place) -> None:
    upload = place.uploads.begin("data/x", 1).upload
    with pytest.raises(LimitError):
        place.uploads.piece("data/x", upload, 0, bytes(MAX_PIECE + 1))
    with pytest.raises(LimitError, match=r"limits\.upload_bytes"):
        place.uploads.piece("data/x", upload, LIMIT, b"x")
    for wrong in ("", "../x", "0" * 15, "G" * 16, "0" * 16 + "\n"):
        with pytest.raises(BadRequestError):
            place.uploads.piece("data/x", wrong, 0, b"x")
    with pytest.raises(NotFoundError):
        place.uploads.piece("data/x", "0" * 16, 0, b"x")


def test_a_disk_that_fills_up_meanwhile_is_freed_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = place.uploads.begin("data/x", 6).upload
    place.uploads.piece("data/x", upload, 0, b"abc")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with refusing(StorageError, "disk_full", path="data/x"):
        place.uploads.piece("data/x", upload, 3, b"def")
    assert (place.files, place.noted) == ([], [])


def test_who_gives_up_leaves_nothing(place: Place) -> None:
    upload = place.uploads.begin("data/x", 6).upload
    for _ in range(2):
        place.uploads.cancel("data/x", upload)
    assert (place.files, place.noted) == ([], [])


def test_what_nobody_finishes_is_removed_after_a_day_by_the_next_master_too(place: Place) -> None:
    old = place.uploads.begin("data/old", 6).upload
    busy = place.uploads.begin("data/busy", 6).upload
    gone = place.uploads.begin("data/gone", 6).upload
    (place.root / f"data/.muster-upload-{gone}").unlink()
    copy = place.root / "data/.muster-copy-0123456789abcdef"
    copy.mkdir()
    (copy / "half").touch()
    book = json.loads(place.book.read_bytes())
    book.append({"path": "data/copy", "name": copy.name, "at": 0.0})
    book.append({"path": "data/precious", "name": "precious", "at": 0.0})
    (place.root / "data/precious").touch()
    long_ago = time.time() - ABANDONED_S - 60
    place.book.write_text(json.dumps([{**draft, "at": long_ago} for draft in book]))
    for path in (place.root / f"data/.muster-upload-{old}", copy, place.root / "data/precious"):
        os.utime(path, (long_ago, long_ago))
    (place.root / "data/.muster-upload-0000000000000000").touch()
    again = Place(place.root)
    again.uploads.sweep()
    assert again.files == [".muster-upload-0000000000000000", f".muster-upload-{busy}", "precious"]
    assert again.noted == ["data/busy"]


@pytest.mark.parametrize("text", ["", "{", '{"a": 1}', "[1]", "\x00"])
def test_a_book_that_cannot_be_read_is_begun_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / "drafts.json").write_text(text)
    place = Place(tmp_path)
    place.uploads.begin("data/x", 1)
    assert place.noted == ["data/x"]


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
