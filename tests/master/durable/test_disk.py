"""The machine's own file system behind the store: locks, folders, whole files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from master.durable.disk import OsDisk, SyncFailedError, publish, write_all
from tests.faults import refusing
from wire.errors import LockedError

if TYPE_CHECKING:
    from pathlib import Path


def test_second_lock_names_the_process_that_holds_the_first(tmp_path: Path) -> None:
    disk = OsDisk()
    held = disk.lock(tmp_path / "lock")
    with refusing(LockedError, "folder_held", folder=str(tmp_path), pid=str(os.getpid())):
        disk.lock(tmp_path / "lock")
    for fd in held:
        disk.close(fd)
    for fd in disk.lock(tmp_path / "lock"):
        disk.close(fd)


def test_missing_folders_are_made(tmp_path: Path) -> None:
    disk = OsDisk()
    disk.make_folder(tmp_path / "a" / "b")
    disk.make_folder(tmp_path / "a" / "b")
    assert disk.names(tmp_path / "a") == ["b"]


def test_publish_takes_the_place_of_the_old_file_and_leaves_no_draft(tmp_path: Path) -> None:
    disk = OsDisk()
    for data in (b"first", b"second"):
        publish(disk, tmp_path / "file", data)
    assert disk.read(tmp_path / "file") == b"second"
    assert disk.names(tmp_path) == ["file"]


def test_a_link_at_the_name_of_a_draft_is_not_followed(tmp_path: Path) -> None:
    disk = OsDisk()
    (tmp_path / "theirs").write_bytes(b"theirs")
    (tmp_path / "file.tmp").symlink_to("theirs")
    publish(disk, tmp_path / "file", b"ours")
    assert disk.read(tmp_path / "theirs") == b"theirs"
    assert disk.read(tmp_path / "file") == b"ours"
    assert not (tmp_path / "file").is_symlink()


def test_appended_truncated_and_read_in_part(tmp_path: Path) -> None:
    disk = OsDisk()
    fd = disk.extend(tmp_path / "file")
    write_all(disk, fd, b"0123456789")
    disk.truncate(fd, 4)
    write_all(disk, fd, b"ab")
    disk.sync(fd)
    disk.close(fd)
    assert disk.read_at(tmp_path / "file", 3, 10) == b"3ab"
    assert disk.size(tmp_path / "file") == 6


def test_allocate_grows_a_file_and_remove_forgives(tmp_path: Path) -> None:
    disk = OsDisk()
    disk.allocate(tmp_path / "reserve", 8192)
    assert disk.size(tmp_path / "reserve") == 8192
    disk.remove(tmp_path / "reserve")
    disk.remove(tmp_path / "reserve")
    assert disk.free_bytes(tmp_path) > 0


def test_a_sync_that_the_kernel_refuses_is_its_own_error() -> None:
    reader, writer = os.pipe()
    with pytest.raises(SyncFailedError):
        OsDisk().sync(writer)
    os.close(reader)
    os.close(writer)
