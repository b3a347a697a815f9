"""Nobody gets out: whatever the links, the paths and the races, by the kernel's way and by ours."""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.files import tree
from master.files.beneath import Beneath, kernel_can
from master.files.jail import Jail
from tests.faults import refusing
from tests.master.durable.storage import descriptors
from tests.waiting import until
from wire.errors import BadRequestError, ForbiddenError, MusterError, NotFoundError

VISIBLE = ("data", "envs")
SECRET = b"outside"
BOTH = pytest.mark.parametrize("by_kernel", [True, False], ids=["openat2", "walk"])
_libc = ctypes.CDLL(None, use_errno=True)


def make_root(folder: Path) -> Path:
    """`root` with two visible folders and one that is not, beside something that is nobody's business."""
    root = folder / "root"
    for name in ("root/data/a/b", "root/envs/a", "root/hidden", "outside/a"):
        (folder / name).mkdir(parents=True)
    for place in ("root/data", "root/data/a", "root/data/a/b", "root/envs", "root/envs/a"):
        (folder / place / "f").write_bytes(place.encode())
    for place in ("root/hidden", "outside", "outside/a"):
        (folder / place / "f").write_bytes(SECRET)
    return root


def test_this_kernel_has_the_call() -> None:
    """Without it, half of what is tested here would be tested twice and the other half not at all."""
    assert kernel_can()


@BOTH
@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("", NotFoundError),
        (".", NotFoundError),
        ("hidden/f", NotFoundError),
        ("dat", NotFoundError),
        ("data/none", NotFoundError),
        ("data/f/x", NotFoundError),
        ("/data/f", BadRequestError),
        ("../outside/f", BadRequestError),
        ("data/../hidden/f", BadRequestError),
        ("data/a/..", BadRequestError),
        ("data/\0", BadRequestError),
        ("data/\ud800", BadRequestError),
        ("data/" + "x" * 256, BadRequestError),
        ("data/" + "x/" * 2100, BadRequestError),
        ("data/a", BadRequestError),
        ("data", BadRequestError),
        ("data/fifo", BadRequestError),
        ("data/up/f", ForbiddenError),
        ("data/secret", ForbiddenError),
        ("data/hidden/f", ForbiddenError),
        ("data/root/hidden/f", ForbiddenError),
        ("data/proc/self/root/etc/passwd", ForbiddenError),
        ("data/circle/f", BadRequestError),
        ("data/nowhere", NotFoundError),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(
    tmp_path: Path, path: str, kind: type[MusterError], *, by_kernel: bool
) -> None:
    root = make_root(tmp_path)
    links: dict[str, str | Path] = {
        "up": "..", "secret": tmp_path / "outside/f", "hidden": root / "hidden", "root": "../../root",
        "proc": "/proc", "circle": "circle", "nowhere": "a/none",
    }  # fmt: skip
    for name, target in links.items():
        (root / "data" / name).symlink_to(target)
    os.mkfifo(root / "data/fifo")
    jail = Jail(root, VISIBLE, by_kernel=by_kernel)
    before = descriptors()
    with pytest.raises(kind) as refusal:
        jail.read(path)
    assert "\n" not in str(refusal.value)
    assert descriptors() <= before


@BOTH
@pytest.mark.parametrize(
    ("link", "target", "path", "content"),
    [
        ("data/l", "a", "data/l/f", b"root/data/a"),
        ("data/l", "a/b/../f", "data/l", b"root/data/a"),
        ("data/a/l", "../f", "data/a/l", b"root/data"),
        ("data/a/l", "../../envs/a", "data/a/l/f", b"root/envs/a"),
        ("data/l", "{root}/envs", "data/l/a/f", b"root/envs/a"),
        ("data/l", "{root}/data/a/b", "data/l/f", b"root/data/a/b"),
        ("data/l", "../../root", "data/l/data/f", b"root/data"),
        ("data/l", "../../root/data/./a//b/", "data/l/f", b"root/data/a/b"),
        ("envs/l", "{root}/data/a/../../envs/f", "envs/l", b"root/envs"),
    ],
)
def test_links_that_stay_inside_lead_where_they_say(
    tmp_path: Path, link: str, target: str, path: str, content: bytes, *, by_kernel: bool
) -> None:
    root = make_root(tmp_path)
    (root / link).symlink_to(target.format(root=root))
    before = descriptors()
    assert Jail(root, VISIBLE, by_kernel=by_kernel).read(path) == content
    assert descriptors() <= before


@BOTH
def test_a_visible_folder_may_be_a_link_of_the_admins_and_still_be_a_jail(tmp_path: Path, *, by_kernel: bool) -> None:
    root = make_root(tmp_path)
    big = tmp_path / "big"
    (big / "set").mkdir(parents=True)
    (big / "set" / "f").write_bytes(b"big")
    (big / "set" / "up").symlink_to("..")
    (big / "set" / "to_data").symlink_to(root / "data")
    (root / "sets").symlink_to(big / "set")
    (root / "data" / "to_real_place").symlink_to(big / "set")
    jail = Jail(root, ("data", "sets"), by_kernel=by_kernel)
    assert jail.read("sets/f") == jail.read("data/to_real_place/f") == b"big"
    assert jail.read("sets/to_data/f") == b"root/data"
    with pytest.raises(ForbiddenError):
        jail.list("sets/up")
    assert jail.roots() == [("data", True), ("sets", True)]


@BOTH
def test_a_missing_visible_folder_is_told_with_the_cure(tmp_path: Path, *, by_kernel: bool) -> None:
    jail = Jail(tmp_path, ("data",), by_kernel=by_kernel)
    with pytest.raises(NotFoundError, match=f"make it in {tmp_path}"):
        jail.list("data")
    assert jail.roots() == [("data", False)]


@pytest.mark.parametrize("name", ["/data", "", ".", "..", "data/../..", "a\0b"])
def test_what_cannot_be_a_visible_folder_is_none(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="no folder in another one"):
        Beneath(tmp_path, (name,))


def test_visible_folders_are_taken_in_their_plainest_form(tmp_path: Path) -> None:
    beneath = Beneath(tmp_path, ("data/", "./envs", "data/shared", "a//b", "data"))
    assert beneath.visible == ("data", "envs", "a/b")
    assert beneath.spot("a/b//c/./d/").text == "a/b/c/d"
    with pytest.raises(NotFoundError, match="data, envs, a/b"):
        beneath.spot("a/c")
    with pytest.raises(NotFoundError, match="visible_folders"):
        Beneath(tmp_path, ()).spot("a")


# -- trees that nobody would make by hand --------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "f", "l", "m", "data", "envs"])
DOWN = st.lists(NAMES, max_size=3)
PLACES = st.builds(lambda top, down: "/".join([top, *down]), st.sampled_from(VISIBLE), DOWN)
UPWARD = st.builds(lambda ups, down: "/".join([".."] * ups + down) or ".", st.integers(0, 5), DOWN)
ABSOLUTE = st.builds(
    lambda top, down: "/".join(["{top}", top, *down]),
    st.sampled_from(["outside", "root", "root/data", "root/envs", "root/hidden", "."]),
    DOWN,
)


class Link(NamedTuple):
    """A link to make. `{top}` in the target is the folder above root."""

    place: str
    target: str


LINKS = st.lists(st.builds(Link, PLACES, UPWARD | ABSOLUTE), max_size=6)


@contextmanager
def world(links: list[Link]) -> Iterator[Path]:
    """A root with links wherever they can be."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name).resolve()
        root = make_root(top)
        for link in links:
            place = root / link.place
            inside = os.path.realpath(place.parent).startswith((f"{root}/data", f"{root}/envs"))
            if inside and place.parent.is_dir() and not os.path.lexists(place):
                place.symlink_to(link.target.format(top=top))
        yield root


def truth(root: Path, path: str) -> bytes | None:
    """What the path's file holds, if it really lies in a visible folder; from the machine's own view of it."""
    try:
        real = Path(os.path.realpath(root / path, strict=True))
    except OSError:
        return None
    inside = any(real.is_relative_to(root / visible) for visible in VISIBLE)
    return real.read_bytes() if inside and real.is_file() else None


def read(jail: Jail, path: str) -> bytes | None:
    try:
        return jail.read(path)
    except MusterError:
        return None


@given(LINKS, st.lists(PLACES, min_size=1, max_size=8))
def test_reading_gives_what_lies_inside_and_nothing_else(links: list[Link], paths: list[str]) -> None:
    before = descriptors()
    with world(links) as root:
        kernel, walk = Jail(root, VISIBLE, by_kernel=True), Jail(root, VISIBLE, by_kernel=False)
        for path in paths:
            assert read(kernel, path) == read(walk, path) == truth(root, path)
    assert descriptors() <= before


STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "file", "folder", "parents", "move", "copy", "delete"]), PLACES, PLACES),
    min_size=1,
    max_size=12,
)


@given(links=LINKS, steps=STEPS, by_kernel=st.booleans())
def test_no_change_reaches_outside_and_nothing_from_outside_comes_in(
    *, links: list[Link], steps: list[tuple[str, str, str]], by_kernel: bool
) -> None:
    before = descriptors()
    with world(links) as root:
        jail = Jail(root, VISIBLE, by_kernel=by_kernel)
        outside = picture(root)
        for what, first, second in steps:
            act(jail, what, first, second)
        assert picture(root) == outside
        assert not [path for path in contents(root) if path.name.startswith(".muster")]
        assert SECRET not in contents(root).values()
    assert descriptors() <= before


def act(jail: Jail, what: str, first: str, second: str) -> None:
    changes: dict[str, Callable[[], object]] = {
        "write": lambda: jail.write(first, b"new"),
        "file": lambda: jail.make_file(first),
        "folder": lambda: jail.make_folder(first),
        "parents": lambda: jail.make_folder(first, parents=True),
        "move": lambda: jail.move(first, second, overwrite=True),
        "copy": lambda: jail.copy(first, second),
        "delete": lambda: jail.delete(first),
    }
    with suppress(MusterError):
        changes[what]()


def picture(root: Path) -> dict[str, bytes | None]:
    """Everything that is not in a visible folder, and the visible folders themselves."""
    places = [*root.parent.glob("outside/**/*"), *root.glob("hidden/**/*"), *root.iterdir(), *root.parent.iterdir()]
    return {str(place): place.read_bytes() if place.is_file() else None for place in places}


def contents(root: Path) -> dict[Path, bytes]:
    """All regular files in visible folders."""
    found = [Path(folder) / name for top in VISIBLE for folder, _, names in os.walk(root / top) for name in names]
    return {path: path.read_bytes() for path in found if path.is_file() and not path.is_symlink()}


# -- somebody who swaps folders while we look ---------------------------------------------------------------------


@BOTH
def test_a_folder_that_becomes_a_link_at_the_wrong_moment_leads_nobody_out(tmp_path: Path, *, by_kernel: bool) -> None:
    root = make_root(tmp_path)
    jail = Jail(root, VISIBLE, by_kernel=by_kernel)
    (root / "data/link").symlink_to("../../outside")
    folder, link = os.fsencode(root / "data/a"), os.fsencode(root / "data/link")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            _libc.renameat2(-100, folder, -100, link, 2)  # RENAME_EXCHANGE

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        seen: set[bytes | None] = set()
        for _ in range(3000):
            seen.add(read(jail, "data/a/f"))
        until("both were met", lambda: len(seen) > 1, turn=lambda: seen.add(read(jail, "data/a/f")))
        for _ in range(500):
            act(jail, "write", "data/a/w", "")
            act(jail, "delete", "data/a/b", "")
    finally:
        over.set()
        swapper.join()
    assert seen == {None, b"root/data/a"}, "both must have been met, and nothing else"
    assert sorted(path.name for path in (tmp_path / "outside").iterdir()) == ["a", "f"]


def test_a_file_that_becomes_a_link_between_the_look_and_the_opening_leads_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_root(tmp_path)
    real = tree.check_regular

    def swap(info: os.stat_result, path: str) -> None:
        real(info, path)
        (root / "data/f").unlink(missing_ok=True)
        (root / "data/f").symlink_to("../../outside/f")

    monkeypatch.setattr(tree, "check_regular", swap)
    with refusing(BadRequestError, "links_in_circle"):
        Jail(root, VISIBLE).read("data/f")
