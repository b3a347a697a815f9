"""Whole folders, copied and deleted while things in them vanish, refuse or are mostly holes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from master.files import jail as jail_module
from master.files import place
from master.files.jail import Jail
from tests.faults import refusing
from tests.master.durable.storage import descriptors
from wire.errors import BadRequestError, ConflictError, ForbiddenError, LimitError, MusterError, StorageError

HOLE = 1 << 30


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with `data/run` of five files, and `envs`."""
    (tmp_path / "data/run").mkdir(parents=True)
    (tmp_path / "envs").mkdir()
    for number in range(5):
        (tmp_path / f"data/run/{number}").write_bytes(b"x")
    return tmp_path


@pytest.fixture
def jail(root: Path) -> Iterator[Jail]:
    """The jail, which leaves no descriptor open and no draft behind."""
    before = descriptors()
    yield Jail(root, ("data", "envs"))
    assert descriptors() <= before
    assert not list(root.rglob(".muster-*"))


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, bytes, int], None]:
    """`refuse(call, name, number)`: that call of `os` fails so for this name; whoever runs the tests may be root, whom
    no mode bits stop."""

    def arm(call: str, name: bytes, number: int) -> None:
        real = getattr(os, call)

        def maybe(path: Any, *args: Any, **keys: Any) -> Any:
            if path == name:
                raise OSError(number, os.strerror(number))
            return real(path, *args, **keys)

        monkeypatch.setattr(os, call, maybe)

    return arm


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every other folder be on another file system."""
    real = place.put

    def put(source: int, name: bytes, target: int, new_name: bytes, *, overwrite: bool) -> None:
        if not name.startswith(b".muster-"):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        real(source, name, target, new_name, overwrite=overwrite)

    monkeypatch.setattr(place, "put", put)


# -- holes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_kernel", [True, False])
def test_a_hole_stays_a_hole(root: Path, jail: Jail, monkeypatch: pytest.MonkeyPatch, *, by_kernel: bool) -> None:
    """A gigabyte that holds a few bytes would else fill the disk."""
    if not by_kernel:

        def cannot(*_: int) -> int:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

        monkeypatch.setattr(os, "copy_file_range", cannot)
    with (root / "data/sparse").open("wb") as file:
        file.write(b"head")
        file.seek(HOLE // 2)
        file.write(b"middle")
        file.truncate(HOLE)
    tally = jail.copy("data/sparse", "envs/sparse")
    copied = (root / "envs/sparse").stat()
    assert (tally.bytes, copied.st_size) == (HOLE, HOLE)
    assert copied.st_blocks * 512 < 1 << 20
    assert jail.read("envs/sparse", 0, 6) == b"head\0\0"
    assert jail.read("envs/sparse", HOLE // 2 - 1, 8) == b"\0middle\0"
    assert jail.read("envs/sparse", -3) == b"\0\0\0"


@pytest.mark.parametrize("content", [b"", b"x", bytes(1 << 20), b"ab" * (3 << 20)])
def test_content_is_copied_as_it_is(root: Path, jail: Jail, content: bytes) -> None:
    (root / "data/file").write_bytes(content)
    assert jail.copy("data/file", "envs/file").bytes == len(content)
    assert (root / "envs/file").read_bytes() == content


def test_a_file_system_that_knows_no_holes_is_copied_whole(
    root: Path, jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*_: int) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "lseek", cannot)
    (root / "data/file").write_bytes(b"ab" * (3 << 20))
    jail.copy("data/file", "envs/file")
    assert (root / "envs/file").read_bytes() == b"ab" * (3 << 20)


def test_a_file_that_becomes_shorter_meanwhile_does_not_end_in_zeros(
    root: Path, jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "data/log").write_bytes(b"x" * (9 << 20))
    real = os.copy_file_range

    def cut(*args: int) -> int:
        os.truncate(root / "data/log", 4 << 20)
        return real(*args)

    monkeypatch.setattr(os, "copy_file_range", cut)
    assert jail.copy("data/log", "envs/log").bytes == 4 << 20
    assert (root / "envs/log").read_bytes() == b"x" * (4 << 20)


# -- what happens meanwhile ---------------------------------------------------------------------------------------


def test_what_a_task_deletes_meanwhile_is_left_out_of_a_copy(
    root: Path, jail: Jail, refuse: Callable[[str, bytes, int], None]
) -> None:
    (root / "data/run/folder").mkdir()
    (root / "data/run/folder/file").touch()
    refuse("stat", b"1", errno.ENOENT)
    refuse("open", b"2", errno.ENOENT)
    refuse("open", b"folder", errno.ENOENT)
    assert jail.copy("data/run", "envs/run").files == 3
    assert sorted(path.name for path in (root / "envs/run").iterdir()) == ["0", "3", "4"]


def test_what_may_not_be_read_is_named_and_not_the_place_that_it_should_go_to(
    root: Path, jail: Jail, refuse: Callable[[str, bytes, int], None]
) -> None:
    refuse("open", b"3", errno.EACCES)
    with pytest.raises(ForbiddenError, match=r"^data/run/3: "):
        jail.copy("data/run", "envs/run")
    assert not (root / "envs/run").exists()


def test_what_may_not_be_deleted_is_named(root: Path, jail: Jail, refuse: Callable[[str, bytes, int], None]) -> None:
    (root / "data/run/deep").mkdir()
    (root / "data/run/deep/kept").touch()
    refuse("unlink", b"kept", errno.EPERM)
    with pytest.raises(ForbiddenError, match=r"^data/run/deep/kept: "):
        jail.delete("data/run")
    assert (root / "data/run/deep/kept").exists()


@pytest.mark.usefixtures("root", "disk_full_at_the_fifth_file")
def test_taking_back_a_copy_that_failed_shows_that_it_goes_on(jail: Jail) -> None:
    """To delete what was copied for an hour may take long too, and who waits must not think that the disk hangs."""
    ticks: list[None] = []
    with refusing(StorageError, "disk_full", path="envs/run"):
        jail.copy("data/run", "envs/run", tick=lambda: ticks.append(None))
    copied = 1 + 4 + 4 + 1  # the folder, four files with a piece each, the fifth
    assert len(ticks) == copied + 6, "and each entry of the draft once more"


# -- what is refused before it begins ------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["copy", "move"])
@pytest.mark.parametrize(
    ("source", "kind", "target", "key"),
    [
        ("data/run", ConflictError, "envs/x", "replaces_not_empty"),
        ("data/run/1", BadRequestError, "envs/x", "is_folder"),
        ("data/run", ConflictError, "envs/file", "replaces_no_folder"),
    ],
)
def test_what_cannot_take_its_place_in_the_end_is_not_begun(
    root: Path, jail: Jail, *, what: str, source: str, kind: type[MusterError], target: str, key: str
) -> None:
    (root / "envs/x/y").mkdir(parents=True)
    (root / "envs/file").write_text("kept")
    ticks: list[None] = []
    with refusing(kind, key, path=target):
        getattr(jail, what)(source, target, overwrite=True, tick=lambda: ticks.append(None))
    assert ticks == []
    assert (root / "data/run/1").exists()
    assert (root / "envs/file").read_text() == "kept"


def test_an_empty_folder_and_a_file_give_way_if_so_asked(root: Path, jail: Jail) -> None:
    (root / "envs/x").mkdir()
    (root / "envs/1").write_text("old")
    jail.copy("data/run", "envs/x", overwrite=True)
    jail.copy("data/run/1", "envs/1", overwrite=True)
    assert (root / "envs/1").read_bytes() == (root / "envs/x/1").read_bytes() == b"x"


def test_a_pipe_is_not_lost_on_the_way_to_another_file_system(
    root: Path, jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(root / "data/run/pipe")
    elsewhere(monkeypatch)
    with pytest.raises(ConflictError, match="data/run is copied to envs/run and not deleted: data/run/pipe is neither"):
        jail.move("data/run", "envs/run")
    assert len(list((root / "data/run").iterdir())) == 6
    assert len(list((root / "envs/run").iterdir())) == 5


def test_a_folder_too_large_to_be_listed_says_so_instead_of_leaving_things_out(
    root: Path, jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jail_module, "MAX_SCANNED", 5)
    assert len(jail.list("data/run").entries) == 5
    (root / "data/run/5").touch()
    with pytest.raises(LimitError, match="data/run has more than 5 entries"):
        jail.list("data/run")
