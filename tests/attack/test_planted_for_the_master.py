"""What others lay where the master, or who sets it up, writes as root: links in folders that another account has, as
those of the lab's logs are often.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

import pytest

from master.config import load_config
from master.desktop import logs
from master.desktop.news_file import NewsFile
from master.log_rights import FILES, LogFile, give_folder_to_group
from master.setup.init import takeover
from master.setup.init.setup_folder import init
from tests.master.setup.deploy.deploy_lab import write_lab
from tests.rights import need_users
from wire.errors import ConfigError

LAB, STRANGER = 4401, 4402
HIDDEN = b"what only root may change\n"


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder of another account's."""
    need_users()
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, LAB, LAB)
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A file of root's."""
    file = tmp_path / "own"
    file.write_bytes(HIDDEN)
    file.chmod(0o604)
    return file


def lay_link(place: Path, target: Path, uid: int = LAB) -> None:
    place.symlink_to(target)
    os.lchown(place, uid, uid)


def is_untouched(file: Path) -> bool:
    return (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (HIDDEN, 0o604)


@pytest.mark.parametrize("link", ["logs", "lab"])
def test_a_link_on_the_way_to_the_log_folder_gives_no_folder_of_roots_away(
    theirs: Path, tmp_path: Path, link: str
) -> None:
    leads = tmp_path / "roots/logs"
    leads.mkdir(parents=True, mode=0o700)
    lay_link(theirs / link, leads if link == "logs" else leads.parent)
    path = str(theirs / link / ("logs" if link == "lab" else "."))
    before = leads.stat()
    give_folder_to_group(load_config(write_lab(tmp_path / "unsaid", train_log_path=path)))
    with pytest.raises(ConfigError, match="a link of"):
        give_folder_to_group(load_config(write_lab(tmp_path / "said", train_log_path=path, log_group="daemon")))
    assert (leads.stat().st_mode, leads.stat().st_gid) == (before.st_mode, before.st_gid)


def test_links_of_roots_and_of_the_folders_owner_lead_to_the_log_folder(theirs: Path, tmp_path: Path) -> None:
    real = theirs / "real"
    real.mkdir()
    os.chown(real, LAB, LAB)
    for name, uid in (("roots", 0), ("owners", LAB)):
        lay_link(theirs / name, Path("real"), uid)
        real.chmod(0o755)
        give_folder_to_group(load_config(write_lab(tmp_path / name, train_log_path=str(theirs / name))))
        assert real.stat().st_mode & stat.S_ISGID


@pytest.mark.parametrize("kind", ["link", "second name", "stranger's file"])
def test_the_masters_log_is_not_written_into_what_others_have_laid_there(theirs: Path, own: Path, kind: str) -> None:
    path = theirs / "server_log.log"
    if kind == "link":
        lay_link(path, own)
    elif kind == "second name":
        os.link(own, path)
    else:
        theirs.chmod(0o777)
        path.write_bytes(HIDDEN)
        path.chmod(0o604)
        os.chown(path, STRANGER, STRANGER)
    with pytest.raises(OSError, match=r"remove it|symbolic link"):
        LogFile(path, None)
    assert is_untouched(path if kind == "stranger's file" else own)


def test_no_older_log_that_is_a_link_has_what_it_leads_to_changed(theirs: Path, own: Path) -> None:
    path = theirs / "server_log.log"
    for number in range(1, FILES + 1):
        lay_link(theirs / f"{path.name}.{number}", own)
    file = LogFile(path, None, size=100)
    for _ in range(20):
        file.emit(logging.LogRecord("muster", logging.INFO, __file__, 0, "x" * 60, None, None))
    file.close()
    assert is_untouched(own)


def test_the_news_are_copied_into_no_file_to_which_a_link_leads(theirs: Path, tmp_path: Path) -> None:
    path = theirs / "news.log"
    news = NewsFile(path, None)
    news.maxBytes = 100
    lay_link(theirs / "news.log.1", tmp_path / "none")  # of one that is there the rotation makes an older one
    news.write(["a" * 60])
    followed = path.stat().st_ino
    news.write(["b" * 60])
    news.close()
    assert not (tmp_path / "none").exists()
    assert b"aaa" in (theirs / "news.log.1").read_bytes()
    assert stat.S_IMODE((theirs / "news.log.1").stat().st_mode) == 0o640
    assert path.stat().st_ino == followed
    assert b"bbb" in path.read_bytes()


def test_a_log_of_the_masters_own_may_be_a_link_of_roots_or_a_device(theirs: Path, tmp_path: Path) -> None:
    lay_link(theirs / "server_log.log", tmp_path / "elsewhere.log", 0)
    LogFile(theirs / "server_log.log", None).close()
    assert (tmp_path / "elsewhere.log").exists()
    LogFile(Path("/dev/null"), None).close()


def test_a_setup_in_anothers_folder_writes_through_no_link(theirs: Path, own: Path) -> None:
    for name in ("conf.json", "gpu_slaver_info.json"):
        lay_link(theirs / f".{name}.{os.getpid()}", own)
    init(theirs)
    assert is_untouched(own)
    assert (theirs / "conf.json").read_bytes().startswith(b"{")
    assert not (theirs / "conf.json").is_symlink()


def test_a_new_folder_of_a_setup_is_written_by_nobody_else_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        init(tmp_path / "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o755


def test_taking_a_lab_over_closes_no_file_to_which_its_password_file_leads(theirs: Path, own: Path) -> None:
    lay_link(theirs / "psw", own)
    with pytest.raises(ConfigError, match="chmod 600"):
        takeover._close(theirs / "psw")
    assert is_untouched(own)


def test_why_a_task_ended_is_written_into_no_second_name_of_an_empty_file(theirs: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    os.link(empty, theirs / "7.log")
    logs._say(str(theirs / "7.log"), "why\n")
    assert empty.read_bytes() == b""
