"""Files that have owners: every operation on one's own, one's group's and others', by the plain path, through links,
and while folders are swapped for links."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from master.config.visible_folders import overlapping
from master.files import walk
from master.files.beneath import Beneath
from master.files.owners import Owners, Who
from master.files.service import Files, Seen
from master.files.walk import Found, Spot
from tests.cases import each_case
from wire.errors import ConflictError, ForbiddenError, MusterError, NotFoundError

RULES: Any = {"data": "all", "data/{user}": "own", "data/{user}/public": "all", "data/groups/{group}": "group"}
BOB = Who("bob", frozenset({"vision"}))
ADMIN = Who("root", sees_all=True)
OURS = ("data/bob/mine", "data/groups/vision/mine", "data/ann/public/mine")
"""Folders in which bob may do everything."""
THEIRS = ("data/ann", "data/groups/nlp", "data/nobody")
"""Folders in which he may do nothing; the last is not there."""


def made(root: Path) -> Path:
    for folder in (*OURS, "data/ann/sub", "data/groups/nlp/sub", "envs/shared"):
        (root / folder).mkdir(parents=True)
    for folder in (*OURS, "data/ann", "data/ann/sub", "data/groups/nlp", "envs/shared"):
        (root / folder / "file").write_text(f"of {folder}")
    return root


def files_in(root: Path) -> Files:
    return Files(root, ("data", "envs"), owners=Owners(RULES))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return made(tmp_path)


@pytest.fixture
def files(root: Path) -> Files:
    return files_in(root)


def tree(root: Path) -> dict[str, str]:
    """All that there is, with content."""
    found = {}
    for above, folders, names in os.walk(root):
        for name in (*folders, *names):
            path = Path(above, name)
            found[str(path.relative_to(root))] = (
                str(path.readlink()) if path.is_symlink() else path.read_text() if path.is_file() else ""
            )
    return found


def upload(seen: Seen, path: str) -> str:
    begun = seen.uploads.begin(path, 3)
    seen.uploads.piece(path, begun.upload, 0, b"new")
    return seen.uploads.commit(path, begun.upload, 3).name


LOOKS: dict[str, Callable[[Seen, str], Any]] = {
    "list": lambda seen, folder: seen.jail.list(folder).entries,
    "stat": lambda seen, folder: seen.jail.stat(f"{folder}/file"),
    "stat of the folder": lambda seen, folder: seen.jail.stat(folder),
    "read": lambda seen, folder: seen.jail.read(f"{folder}/file"),
    "copy from": lambda seen, folder: seen.jail.copy(f"{folder}/file", "data/bob/copied"),
    "copy all from": lambda seen, folder: seen.jail.copy(folder, "data/bob/copied"),
}
CHANGES: dict[str, Callable[[Seen, str], Any]] = {
    "write": lambda seen, folder: seen.jail.write(f"{folder}/file", b"new"),
    "write a new one": lambda seen, folder: seen.jail.write(f"{folder}/new", b"new"),
    "make a folder": lambda seen, folder: seen.jail.make_folder(f"{folder}/new"),
    "make folders": lambda seen, folder: seen.jail.make_folder(f"{folder}/new/deep", parents=True),
    "make a file": lambda seen, folder: seen.jail.make_file(f"{folder}/new"),
    "move from": lambda seen, folder: seen.jail.move(f"{folder}/file", "data/bob/moved"),
    "move into": lambda seen, folder: seen.jail.move("envs/shared/file", f"{folder}/new"),
    "move over": lambda seen, folder: seen.jail.move("envs/shared/file", f"{folder}/file", overwrite=True),
    "copy into": lambda seen, folder: seen.jail.copy("envs/shared", f"{folder}/new"),
    "delete": lambda seen, folder: seen.jail.delete(f"{folder}/file"),
    "delete only a file": lambda seen, folder: seen.jail.delete(f"{folder}/file", recursive=False),
    "upload": lambda seen, folder: upload(seen, f"{folder}/new"),
    "upload over": lambda seen, folder: upload(seen, f"{folder}/file"),
    "go on with an upload": lambda seen, folder: seen.uploads.piece(f"{folder}/new", "0" * 16, 0, b"new"),
    "end an upload": lambda seen, folder: seen.uploads.commit(f"{folder}/new", "0" * 16, 3),
    "cancel an upload": lambda seen, folder: seen.uploads.cancel(f"{folder}/new", "0" * 16),
}
EVERYTHING = {**LOOKS, **CHANGES}
NEEDS_ONE_BEGUN = ("go on with an upload", "end an upload")
AT_ONCE = {name: work for name, work in EVERYTHING.items() if name not in NEEDS_ONE_BEGUN}
Work = Callable[[Seen, str], Any]
Check = Callable[[Path, Work, str], Any]


def for_each(tmp_path: Path, works: Mapping[str, Work], places: Iterable[str], check: Check) -> None:
    """Check each work with each place (a folder, a way to it, or a moment), each time on files of its own."""
    with each_case() as cases:
        for (name, work), place in itertools.product(works.items(), places):
            with cases.case(f"{name}: {place}" if place else name):
                check(made(tmp_path / str(cases.count)), work, place)


def refusal(seen: Seen, work: Work, folder: str) -> tuple[str, str]:
    """The code and the words of it, whatever the path is."""
    with pytest.raises(MusterError) as refused:
        work(seen, folder)
    return refused.value.code, str(refused.value).replace(folder, "FOLDER")


def test_in_his_own_folder_his_groups_and_everybodys_one_does_everything(tmp_path: Path) -> None:
    for_each(tmp_path, AT_ONCE, OURS, lambda root, work, folder: work(files_in(root).seen_by(BOB), folder))


def test_an_admin_does_everything_everywhere(tmp_path: Path) -> None:
    for_each(tmp_path, AT_ONCE, THEIRS[:2], lambda root, work, folder: work(files_in(root).seen_by(ADMIN), folder))


def test_in_anothers_folder_one_does_nothing_and_does_not_learn_what_is_there(tmp_path: Path) -> None:
    def check(root: Path, work: Work, _: str) -> None:
        before, seen = tree(root), files_in(root).seen_by(BOB)
        told = {refusal(seen, work, folder) for folder in (*THEIRS, *(f"{one}/sub" for one in THEIRS))}
        assert len(told) == 1, told
        assert told.pop()[0] == "forbidden"
        assert tree(root) == before

    for_each(tmp_path, EVERYTHING, [""], check)


WAYS: dict[str, Callable[[Path, str], str]] = {
    "a link": lambda _root, folder: os.path.relpath(folder, "data/bob"),
    "an absolute link": lambda root, folder: f"{root}/{folder}",
    "a way round": lambda _root, folder: f"../groups/../{folder.removeprefix('data/')}",
    "a way through what he may not see": lambda _root, folder: f"../ann/public/../../{folder.removeprefix('data/')}",
    "a way over another visible folder": lambda _root, folder: f"../../envs/../{folder}",
}


def test_through_links_one_comes_no_further_and_learns_no_more(tmp_path: Path) -> None:
    def check(root: Path, work: Work, way: str) -> None:
        told, files = set(), files_in(root)
        for number, folder in enumerate((*THEIRS, "data/ann/sub", "data/ann/none", "data/ann/file")):
            (root / f"data/bob/l{number}").symlink_to(WAYS[way](root, folder))
            before = tree(root)
            told.add(refusal(files.seen_by(BOB), work, f"data/bob/l{number}"))
            assert tree(root) == before
        assert len(told) == 1, told
        assert told.pop()[0] == "not_found"

    for_each(tmp_path, EVERYTHING, WAYS, check)


def test_through_links_to_what_one_may_see_one_does_everything(tmp_path: Path) -> None:
    def check(root: Path, work: Work, _: str) -> None:
        (root / "data/bob/l").symlink_to("../ann/public/mine")
        work(files_in(root).seen_by(BOB), "data/bob/l")

    for_each(tmp_path, AT_ONCE, [""], check)


@pytest.mark.parametrize("name", ["stat", "read", "write", "copy from", "upload over"])
def test_a_link_to_a_file_of_another_is_as_one_that_leads_nowhere(files: Files, root: Path, name: str) -> None:
    work = EVERYTHING[name]
    told = set()
    for number, target in enumerate(("../../ann/file", "../../ann/none", f"{root}/data/groups/nlp/file")):
        folder = root / f"data/bob/{number}"
        folder.mkdir()
        (folder / "file").symlink_to(target)
        before = tree(root)
        told.add(refusal(files.seen_by(BOB), work, f"data/bob/{number}"))
        assert tree(root) == before
    assert [code for code, _ in told] == ["not_found"]


def test_whether_the_folders_on_a_way_exist_is_not_told_either(files: Files, root: Path) -> None:
    told = set()
    for number, target in enumerate(("../ann/sub/../../groups", "../ann/none/../../groups", "../ann/l")):
        (root / f"data/bob/l{number}").symlink_to(target)
    (root / "data/ann/l").symlink_to(root / "data/groups")
    for number in range(3):
        told.add(refusal(files.seen_by(BOB), LOOKS["list"], f"data/bob/l{number}"))
    assert [code for code, _ in told] == ["not_found"]


def test_a_link_in_anothers_folder_leads_nowhere_even_from_what_is_everybodys(files: Files, root: Path) -> None:
    (root / "data/ann/public/l").symlink_to("../file")
    with pytest.raises(NotFoundError):
        files.seen_by(BOB).jail.read("data/ann/public/l")
    assert files.seen_by(Who("ann")).jail.read("data/ann/public/l") == b"of data/ann"


def test_one_deletes_and_renames_ones_own_link_whatever_it_leads_to(files: Files, root: Path) -> None:
    (root / "data/bob/l").symlink_to("../ann")
    files.seen_by(BOB).jail.move("data/bob/l", "data/bob/m")
    files.seen_by(BOB).jail.delete("data/bob/m")
    assert (root / "data/ann/file").exists()
    assert not (root / "data/bob/m").is_symlink()


# -- lists and copies ---------------------------------------------------------------------------------------------


def names(seen: Seen, path: str, **how: Any) -> list[str]:
    return [entry.name for entry in seen.jail.list(path, **how).entries]


def test_what_one_may_not_see_is_not_listed(files: Files, root: Path) -> None:
    assert names(files.seen_by(BOB), "data") == ["bob", "groups"]
    assert names(files.seen_by(BOB), "data/groups") == ["vision"]
    assert names(files.seen_by(Who("ann")), "data") == ["ann", "groups"]
    assert names(files.seen_by(ADMIN), "data") == ["ann", "bob", "groups"]
    for number in range(50):
        (root / f"data/a{number}").mkdir()
    page = files.seen_by(BOB).jail.list("data", limit=1)
    assert ([entry.name for entry in page.entries], page.truncated) == (["bob"], True)
    page = files.seen_by(BOB).jail.list("data", after="bob", limit=1)
    assert ([entry.name for entry in page.entries], page.truncated) == (["groups"], False)


def test_a_link_to_what_one_may_not_see_is_listed_as_one_that_leads_nowhere(files: Files, root: Path) -> None:
    for name, target in (("there", "../ann/file"), ("none", "../ann/none"), ("folder", "../ann")):
        (root / "data/bob" / name).symlink_to(target)
    entries = {entry.name: entry for entry in files.seen_by(BOB).jail.list("data/bob").entries}
    told = {(entry.kind, entry.size, entry.mode, entry.link) for name, entry in entries.items() if name != "mine"}
    assert told == {("other", 0, 0, True)}


def test_a_copy_leaves_out_what_one_may_not_see_without_a_word(files: Files, root: Path) -> None:
    tally = files.seen_by(BOB).jail.copy("data", "envs/copy")
    copied = {path for path in tree(root / "envs/copy") if "/" not in path or path.startswith("groups")}
    assert copied == {"bob", "groups", "groups/vision", "groups/vision/mine", "groups/vision/mine/file"}
    assert (tally.files, tally.skipped) == (2, [])
    tally = files.seen_by(ADMIN).jail.copy("data", "envs/all")
    assert tally.files == len([text for text in tree(root / "data").values() if text])


# -- folders that hold others' ------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_there", [True, False])
def test_what_may_hold_others_folders_is_neither_moved_nor_deleted_nor_replaced_whether_it_holds_any(
    files: Files,
    root: Path,
    is_there: bool,  # noqa: FBT001
) -> None:
    seen = files.seen_by(BOB).jail
    if not is_there:
        files.seen_by(ADMIN).jail.delete("data/groups/nlp")
    before = tree(root)
    for work in (
        lambda: seen.delete("data/groups"),
        lambda: seen.delete("data/groups", recursive=False),
        lambda: seen.move("data/groups", "envs/groups"),
        lambda: seen.move("envs/shared", "data/groups"),
        lambda: seen.copy("data/bob", "data/groups", overwrite=True),
        lambda: seen.move("data/bob/mine", "data/groups", overwrite=True),
    ):
        with pytest.raises(MusterError) as refused:
            work()
        assert refused.type in (ForbiddenError, ConflictError)
        assert tree(root) == before


def test_nothing_is_planted_in_folders_of_others_by_moving_their_parent_there(files: Files, root: Path) -> None:
    files.seen_by(ADMIN).jail.delete("data/groups")
    (root / "data/bob/mine/nlp").mkdir()
    for work in (files.seen_by(BOB).jail.move, files.seen_by(BOB).jail.copy):
        with pytest.raises(ForbiddenError, match="folders of others"):
            work("data/bob/mine", "data/groups")
    assert not (root / "data/groups").exists()


def test_folders_are_made_beneath_what_one_may_not_see_where_they_are_everybodys(files: Files, root: Path) -> None:
    files.seen_by(BOB).jail.make_folder("data/ann/public/new/deep", parents=True)
    assert (root / "data/ann/public/new/deep").is_dir()
    with pytest.raises(NotFoundError):
        files.seen_by(BOB).jail.make_folder("data/carol/public/new", parents=True)
    assert not (root / "data/carol").exists()


def test_ones_own_folder_is_ones_own_to_make(files: Files, root: Path) -> None:
    files.seen_by(Who("carol")).jail.make_folder("data/carol")
    with pytest.raises(ForbiddenError):
        files.seen_by(Who("carol")).jail.make_folder("data/dave")
    assert (root / "data/carol").is_dir()
    assert not (root / "data/dave").exists()


# -- races --------------------------------------------------------------------------------------------------------


def swap(root: Path) -> None:
    """His folder becomes a link to hers."""
    if not (root / "data/bob/x").is_symlink():
        (root / "data/bob/x").rename(root / "data/bob/was")
        (root / "data/bob/x").symlink_to("../ann")


@contextmanager
def swapping(root: Path, when: str) -> Iterator[list[bool]]:
    """Meanwhile bob's folder is swapped at that moment; an entry for each time."""
    swapped: list[bool] = []
    if when == "as it is looked at":
        real_look = walk.is_link

        def look(folder: int, name: bytes) -> bool:
            found = real_look(folder, name)
            if name == b"x":
                swap(root)
                swapped.append(True)
            return found

        patch: tuple[Any, str, Any] = (walk, "is_link", look)
    else:
        real_find = Beneath.find

        @contextmanager
        def find(self: Beneath, spot: Spot, *, follow: bool) -> Iterator[Found]:
            with real_find(self, spot, follow=follow) as found:
                swap(root)
                swapped.append(True)
                yield found

        patch = (Beneath, "find", find)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(*patch)
        yield swapped


def test_a_folder_that_is_swapped_for_a_link_between_the_check_and_the_use_gains_nothing(tmp_path: Path) -> None:
    for_each(tmp_path, EVERYTHING, ["as it is looked at", "as it was found"], check_swapped)


def check_swapped(root: Path, work: Work, when: str) -> None:
    (root / "data/bob/x").mkdir()
    (root / "data/bob/x/file").write_text("of bob")
    before = {path: text for path, text in tree(root).items() if path.startswith("data/ann")}
    with swapping(root, when) as swapped:
        try:
            result = work(files_in(root).seen_by(BOB), "data/bob/x")
        except MusterError:
            result = None
    assert swapped
    assert "of data/ann" not in str(result)
    if isinstance(result, list):
        assert {entry.name for entry in result} <= {"file"}
    after = tree(root)
    assert {path: text for path, text in after.items() if path.startswith("data/ann")} == before
    assert "of data/ann" not in {
        text for path, text in after.items() if path.startswith(("data/bob/copied", "data/bob/moved"))
    }


def test_two_visible_folders_that_are_one_are_found_for_one_could_be_got_round_by_the_other(tmp_path: Path) -> None:
    (tmp_path / "data/ann").mkdir(parents=True)
    (tmp_path / "hers").symlink_to("data/ann")
    (tmp_path / "database").mkdir()
    assert overlapping(tmp_path, ("data", "database", "data/ann")) is None
    assert overlapping(tmp_path, ("data", "hers")) == ("hers", "data")
    (tmp_path / "same").symlink_to(tmp_path / "database")
    assert overlapping(tmp_path, ("database", "same")) is not None
