"""What people may do with files: each operation, what it leaves alone, and what it says when it cannot."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from master.files import jail as jail_module
from master.files import place, tree
from master.files.jail import Jail
from tests.faults import refusing
from tests.master.durable.storage import descriptors
from wire.errors import (
    BadRequestError,
    ConflictError,
    ForbiddenError,
    LimitError,
    NotFoundError,
    StorageError,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with `data` and `envs`."""
    for name in ("root/data/run1/logs", "root/envs"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "root/data/run1/model.pt").write_bytes(b"0123456789")
    return tmp_path / "root"


@pytest.fixture
def jail(root: Path) -> Iterator[Jail]:
    """The jail, which leaves no descriptor open and no draft behind."""
    before = descriptors()
    yield Jail(root, ("data", "envs"))
    assert descriptors() <= before
    assert not list(root.rglob(".muster-*"))


def names_in(folder: Path) -> list[str]:
    """What lies in a folder."""
    return sorted(entry.name for entry in folder.iterdir())


# -- looking ------------------------------------------------------------------------------------------------------


def test_a_listing_tells_what_each_entry_is(root: Path, jail: Jail) -> None:
    run = root / "data/run1"
    (run / ".hidden").touch()
    (run / "to_model").symlink_to("model.pt")
    (run / "to_logs").symlink_to("logs")
    (run / "broken").symlink_to("nowhere")
    (run / "out").symlink_to("/etc")
    os.mkfifo(run / "fifo")
    (run / "model.pt").chmod(0o640)
    os.utime(run / "model.pt", (1000, 2000.5))
    listing = jail.list("data//run1/")
    told = {entry.name: (entry.kind, entry.size, entry.link, entry.hidden) for entry in listing.entries}
    assert told == {
        ".hidden": ("file", 0, False, True),
        "broken": ("other", 0, True, False),
        "fifo": ("other", 0, False, False),
        "logs": ("folder", 0, False, False),
        "model.pt": ("file", 10, False, False),
        "out": ("other", 0, True, False),
        "to_logs": ("folder", 0, True, False),
        "to_model": ("file", 10, True, False),
    }
    assert list(told) == sorted(told)
    assert (listing.path, listing.truncated) == ("data/run1", False)
    model = jail.stat("data/run1/model.pt")
    assert (model.mtime, model.mode) == (2000.5, 0o640)


def test_a_large_folder_is_listed_page_by_page(root: Path, jail: Jail) -> None:
    for number in range(250):
        (root / f"data/run1/logs/{number:03}").touch()
    names: list[str] = []
    while True:
        page = jail.list("data/run1/logs", after=names[-1] if names else "", limit=100)
        names += [entry.name for entry in page.entries]
        if not page.truncated:
            break
    assert names == [f"{number:03}" for number in range(250)]
    assert len(jail.list("data/run1/logs", limit=250).entries) == 250


def test_names_that_no_text_can_hold_are_listed_and_can_be_used(root: Path, jail: Jail) -> None:
    raw_names = {b"\xca\xfd\xbe\xdd", b"new\nline", b"\x1b[2J", b" ", b"-rf", "数据".encode()}
    for raw in raw_names:
        (root / "data" / os.fsdecode(raw)).write_bytes(raw)
    names = [entry.name for entry in jail.list("data").entries if entry.kind == "file"]
    assert len(names) == 6
    assert {jail.read(f"data/{name}") for name in names} == raw_names
    for name in names:
        jail.move(f"data/{name}", f"data/run1/{name}")
        jail.delete(f"data/run1/{name}")
    with pytest.raises(NotFoundError) as refusal:
        jail.read("data/new\nline\x1b")
    assert str(refusal.value).startswith("data/new\\nline\\x1b: ")


@pytest.mark.parametrize(
    ("offset", "limit", "expected"),
    [(0, 1 << 20, b"0123456789"), (3, 4, b"3456"), (-3, 100, b"789"), (-99, 2, b"01"), (10, 5, b""), (99, 5, b"")],
)
def test_a_range_of_a_file(jail: Jail, offset: int, limit: int, expected: bytes) -> None:
    assert jail.read("data/run1/model.pt", offset, limit) == expected
    assert jail.read_piece("data/run1/model.pt", offset, limit).size == 10


@pytest.mark.master
def test_what_is_no_file_is_not_even_opened(root: Path, jail: Jail) -> None:
    """Opening a device can do something already; a socket shows it by refusing in its own way."""
    os.mkfifo(root / "data/fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "data/socket"))
    for path in ("data/fifo", "data/socket"):
        with pytest.raises(BadRequestError, match="no regular file"):
            jail.read(path)


def test_one_read_is_never_more_than_a_mebibyte(root: Path, jail: Jail) -> None:
    with (root / "data/big").open("wb") as file:
        file.truncate(5 << 30)
    assert len(jail.read("data/big", 4 << 30, 1 << 40)) == 1 << 20


# -- writing ------------------------------------------------------------------------------------------------------


def test_a_write_makes_replaces_and_keeps_the_rights(root: Path, jail: Jail) -> None:
    path = root / "data/train.sh"
    jail.write("data/train.sh", b"one", mode=0o755)
    assert path.read_bytes() == b"one"
    path.chmod(0o750)
    held_open = path.open("rb")
    jail.write("data/train.sh", b"two", mode=0o600)
    with held_open:
        assert held_open.read() == b"one", "who has the old file open keeps it whole"
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


def test_a_write_through_a_link_keeps_the_link(root: Path, jail: Jail) -> None:
    (root / "data/latest").symlink_to("run1/model.pt")
    jail.write("data/latest", b"new")
    assert (root / "data/latest").is_symlink()
    assert (root / "data/run1/model.pt").read_bytes() == b"new"


def test_a_write_can_be_told_what_must_be_there(root: Path, jail: Jail) -> None:
    with pytest.raises(ConflictError, match="exists already"):
        jail.write("data/run1/model.pt", b"", overwrite=False)
    with pytest.raises(NotFoundError):
        jail.write("data/new", b"", create=False)
    jail.write("data/new", b"x", overwrite=False)
    assert (root / "data/new").read_bytes() == b"x"


def test_what_is_no_file_is_not_written_to(root: Path, jail: Jail) -> None:
    os.mkfifo(root / "data/fifo")
    for path in ("data/fifo", "data/run1", "data"):
        with pytest.raises(BadRequestError):
            jail.write(path, b"x")
    with pytest.raises(LimitError, match="upload"):
        jail.write("data/x", bytes(jail_module.MAX_WRITE + 1))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_a_disk_that_refuses_leaves_the_old_file_and_no_draft(
    root: Path, jail: Jail, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(_fd: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StorageError, match=r"data/run1/model.pt: "):
        jail.write("data/run1/model.pt", b"new")
    assert (root / "data/run1/model.pt").read_bytes() == b"0123456789"


def test_a_write_is_on_the_disk_before_it_has_its_name(root: Path, jail: Jail, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    real_sync, real_rename = os.fsync, os.rename

    def sync(fd: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        real_sync(fd)

    def rename(*args: object, **keys: object) -> None:
        done.append("rename")
        real_rename(*args, **keys)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "rename", rename)
    jail.write("data/run1/model.pt", b"new")
    assert done == ["file", "rename", "folder"]
    assert (root / "data/run1/model.pt").read_bytes() == b"new"


# -- making -------------------------------------------------------------------------------------------------------


def test_folders_and_files_are_made_where_nothing_is(root: Path, jail: Jail) -> None:
    jail.make_folder("data/new")
    jail.make_file("data/new/empty")
    assert (root / "data/new/empty").read_bytes() == b""
    for path in ("data/new", "data/new/empty", "data"):
        with pytest.raises(ConflictError, match="exists already"):
            jail.make_folder(path)
        with pytest.raises(ConflictError, match="exists already"):
            jail.make_file(path)
    with pytest.raises(NotFoundError):
        jail.make_folder("data/a/b")
    with pytest.raises(NotFoundError):
        jail.make_file("data/a/b")


def test_folders_are_made_with_those_above_them(root: Path, jail: Jail) -> None:
    (root / "data/link").symlink_to("run1")
    jail.make_folder("data/link/a/b", parents=True)
    jail.make_folder("data/link/a/b", parents=True)
    jail.make_folder("data", parents=True)
    assert (root / "data/run1/a/b").is_dir()
    with pytest.raises((ConflictError, NotFoundError)):
        jail.make_folder("data/run1/model.pt/x", parents=True)


# -- moving and copying -------------------------------------------------------------------------------------------


def test_a_move_gives_another_name_and_takes_nobodys_place(root: Path, jail: Jail) -> None:
    jail.move("data/run1", "envs/run2")
    assert (root / "envs/run2/model.pt").read_bytes() == b"0123456789"
    (root / "data/other").write_text("kept")
    with pytest.raises(ConflictError, match="data/other exists already"):
        jail.move("envs/run2/model.pt", "data/other")
    with pytest.raises(ConflictError):
        jail.move("data/other", "envs/run2")
    assert (root / "data/other").read_text() == "kept"
    jail.move("envs/run2/model.pt", "data/other", overwrite=True)
    assert (root / "data/other").read_bytes() == b"0123456789"
    with pytest.raises(NotFoundError, match="data/none"):
        jail.move("data/none", "data/x")
    with pytest.raises(NotFoundError, match="data/no/x"):
        jail.move("data/other", "data/no/x")


def test_a_moved_link_stays_a_link(root: Path, jail: Jail) -> None:
    (root / "data/link").symlink_to("run1")
    jail.move("data/link", "data/other")
    assert str((root / "data/other").readlink()) == "run1"
    assert (root / "data/run1/model.pt").exists()


@pytest.mark.parametrize("what", ["move", "copy"])
@pytest.mark.parametrize("target", ["data/run1", "data/run1/logs/x", "data/run1/", "data/run1/self/x"])
def test_nothing_goes_into_itself(root: Path, jail: Jail, what: str, target: str) -> None:
    (root / "data/run1/self").symlink_to("../run1")
    with pytest.raises(BadRequestError, match="itself"):
        getattr(jail, what)("data/run1", target)


def test_a_folder_is_not_moved_into_itself_through_a_link_either(root: Path, jail: Jail) -> None:
    (root / "envs/to_run1").symlink_to("../data/run1")
    with pytest.raises(BadRequestError, match="itself"):
        jail.move("data/run1", "envs/to_run1/x")
    assert (root / "data/run1/model.pt").exists()


def test_a_copy_that_would_contain_itself_through_a_link_ends(root: Path, jail: Jail) -> None:
    (root / "envs/to_run1").symlink_to("../data/run1")
    tally = jail.copy("data/run1", "envs/to_run1/copy")
    assert tally.files == 1
    assert names_in(root / "data/run1/copy") == ["logs", "model.pt"]


def test_a_copy_has_all_that_the_original_has(root: Path, jail: Jail) -> None:
    run = root / "data/run1"
    (run / "link").symlink_to("model.pt")
    (run / "script").write_text("#!")
    (run / "script").chmod(0o755)
    (run / "logs").chmod(0o500)
    os.utime(run / "script", (1, 2))
    os.mkfifo(run / "fifo")
    tally = jail.copy("data/run1", "envs/copy")
    (run / "logs").chmod(0o700)
    copy = root / "envs/copy"
    assert (tally.files, tally.folders, tally.links, tally.bytes) == (2, 2, 1, 12)
    assert tally.skipped == ["data/run1/fifo"]
    assert str((copy / "link").readlink()) == "model.pt"
    assert (stat.S_IMODE((copy / "script").stat().st_mode), (copy / "script").stat().st_mtime) == (0o755, 2)
    assert stat.S_IMODE((copy / "logs").stat().st_mode) == 0o500
    with pytest.raises(ConflictError, match="envs/copy exists already"):
        jail.copy("data/run1", "envs/copy")
    with pytest.raises(BadRequestError, match="neither"):
        jail.copy("data/run1/fifo", "envs/fifo")


@pytest.mark.usefixtures("disk_full_at_the_fifth_file")
def test_a_copy_that_fails_half_way_leaves_nothing(root: Path, jail: Jail) -> None:
    for number in range(5):
        (root / f"data/run1/{number}").write_bytes(b"x")
    with refusing(StorageError, "disk_full", path="envs/copy"):
        jail.copy("data/run1", "envs/copy")
    assert names_in(root / "envs") == []


def test_a_kernel_that_cannot_copy_is_helped(root: Path, jail: Jail, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*_args: int) -> int:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "copy_file_range", cannot)
    jail.copy("data/run1/model.pt", "envs/m")
    assert (root / "envs/m").read_bytes() == b"0123456789"


def test_a_move_to_another_file_system_is_a_copy_and_then_a_deletion(
    root: Path, jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = place.put

    def put(source: int, name: bytes, target: int, new_name: bytes, *, overwrite: bool) -> None:
        if not name.startswith(b".muster-"):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        real(source, name, target, new_name, overwrite=overwrite)

    monkeypatch.setattr(place, "put", put)
    jail.move("data/run1", "envs/run1")
    assert not (root / "data/run1").exists()
    assert (root / "envs/run1/model.pt").read_bytes() == b"0123456789"
    (root / "data/x").write_text("x")
    with pytest.raises(ConflictError, match="envs/run1 exists"):
        jail.move("data/x", "envs/run1")
    assert (root / "data/x").exists()


def test_between_real_file_systems(root: Path) -> None:
    """The memory is another one on every Linux."""
    shared = Path("/dev/shm")  # noqa: S108  (the file system is what is wanted, the folder in it is our own)
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as name:
        folder = Path(name)
        (root / "fast").symlink_to(folder)
        jail = Jail(root, ("data", "fast"))
        jail.move("data/run1", "fast/run1")
        assert (folder / "run1/model.pt").read_bytes() == b"0123456789"
        jail.move("fast/run1", "data/run2")
        assert names_in(folder) == []
        assert (root / "data/run2/logs").is_dir()


def test_a_file_system_that_cannot_refuse_a_rename_is_looked_at_first(
    root: Path, jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Old:
        @staticmethod
        def renameat2(*_: object) -> int:
            ctypes.set_errno(errno.EINVAL)
            return -1

    monkeypatch.setattr(place, "_libc", Old)
    (root / "data/other").mkdir()
    with pytest.raises(ConflictError, match="exists already"):
        jail.move("data/run1", "data/other")
    jail.move("data/run1", "envs/run1")
    assert (root / "envs/run1/model.pt").exists()


# -- deleting -----------------------------------------------------------------------------------------------------


def test_deleting_takes_links_and_not_what_they_lead_to(root: Path, jail: Jail) -> None:
    (root / "data/run1/logs/out").symlink_to("../../../envs")
    (root / "envs/kept").touch()
    (root / "data/direct").symlink_to("../envs")
    assert jail.delete("data/direct") == 1
    assert jail.delete("data/run1") == 4
    assert names_in(root / "data") == []
    assert (root / "envs/kept").exists()


def test_a_folder_with_things_in_it_wants_to_be_meant(jail: Jail) -> None:
    with pytest.raises(ConflictError, match="recursive"):
        jail.delete("data/run1", recursive=False)
    jail.delete("data/run1/logs", recursive=False)
    jail.delete("data/run1/model.pt", recursive=False)
    jail.delete("data/run1", recursive=False)
    with pytest.raises(NotFoundError):
        jail.delete("data/run1")


def test_a_visible_folder_itself_is_the_admins(root: Path, jail: Jail) -> None:
    (root / "data/run1/home").symlink_to("../../data")
    for change in (
        lambda: jail.delete("data"),
        lambda: jail.delete("data/"),
        lambda: jail.move("data", "envs/x"),
        lambda: jail.write("data/run1/home", b""),
    ):
        with pytest.raises(BadRequestError):
            change()
    with pytest.raises(ConflictError):
        jail.move("data/run1", "envs")
    assert (root / "data/run1/model.pt").exists()


def test_trees_too_deep_are_refused_and_not_crashed_on(root: Path, jail: Jail) -> None:
    place = os.open(root / "envs", os.O_RDONLY)
    for _ in range(tree.MAX_DEPTH + 5):
        os.mkdir("d", dir_fd=place)
        deeper = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = deeper
    os.close(place)
    with pytest.raises(LimitError, match="deep"):
        jail.copy("envs/d", "data/d")
    with pytest.raises(LimitError, match="deep"):
        jail.delete("envs/d")
    # What the message says works: from further down it goes.
    jail.delete("envs/" + "d/" * 10)
    assert jail.delete("envs/d") == 9


def test_a_folder_of_thousands_is_deleted(root: Path, jail: Jail) -> None:
    for number in range(2500):
        (root / f"data/run1/logs/{number}").touch()
    ticks: list[None] = []
    assert jail.delete("data/run1", tick=lambda: ticks.append(None)) == 2503
    assert len(ticks) == 2503


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM])
def test_what_the_masters_user_may_not_do_is_told_as_that(
    root: Path, jail: Jail, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """By a call that refuses: whoever runs the tests as root is stopped by no mode bits."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(ForbiddenError, match=r"data/x: the account \w+ may not"):
        jail.make_folder("data/x")
    assert not (root / "data/x").exists()
