"""What others lay where the master, or who sets it up, writes as root: links in folders that another account has, as
those of the lab's logs are often.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from master.config.config import load_config, make_folders
from master.desktop import logs
from master.desktop.news_file import NewsFile
from master.durable.disk import OsDisk
from master.durable.witness import Witness, witness_path
from master.secrets.log_rights import FILES, LogFile, give_folder_to_group
from master.setup.init import takeover
from master.setup.init.setup_folder import init
from tests.faults import fault_in
from tests.master.setup.deploy.deploy_lab import write_lab
from tests.rights import need_real_root, need_users
from wire.errors import ConfigError, ConflictError

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
    news.size = 100
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


def test_nor_does_it_matter_whose_a_device_is_that_keeps_nothing(theirs: Path) -> None:
    """In a container that knows root by no number they are nobody's; a terminal is whose it is."""
    need_real_root()  # who makes a device
    for name, major, minor in (("null", 1, 3), ("terminal", 4, 63)):
        os.mknod(theirs / name, stat.S_IFCHR, os.makedev(major, minor))
        os.chown(theirs / name, LAB, LAB)
    LogFile(theirs / "null", None).close()
    with pytest.raises(OSError, match="remove it"):
        LogFile(theirs / "terminal", None)


def test_a_strangers_link_to_the_log_folder_has_the_desktop_clients_files_made_in_no_folder_of_roots(
    theirs: Path, tmp_path: Path
) -> None:
    roots = tmp_path / "roots"
    roots.mkdir()
    (roots / "8.log").touch()
    lay_link(theirs / "logs", roots)
    folder = theirs / "logs"
    logs._say(str(folder / "7.log"), "why")
    logs._say(str(folder / "8.log"), "why")
    logs._note(folder, "gone")
    logs._plain(folder, "a b", "7.log")
    with pytest.raises(ConflictError):
        logs._make(str(folder / "7.log"))
    assert [(path.name, path.read_bytes()) for path in roots.iterdir()] == [("8.log", b"")]


def test_the_masters_folders_are_made_in_none_to_which_a_strangers_link_leads(theirs: Path, tmp_path: Path) -> None:
    (tmp_path / "roots").mkdir()
    lay_link(theirs / "away", tmp_path / "roots")
    named = {"train_log_path": "logs", "server_log_path": "logs/log", "task_info": "queue"}
    for key, name in named.items():
        keys: dict[str, Any] = {key: str(theirs / "away/new" / name)}
        config = load_config(write_lab(tmp_path / key, **keys))
        with pytest.raises(ConfigError, match=f"{key}: the folder .* a link of"):
            make_folders(config)
    assert list((tmp_path / "roots").iterdir()) == []
    lay_link(tmp_path / "ours", Path("roots"), 0)
    make_folders(load_config(write_lab(tmp_path / "ok", train_log_path=str(tmp_path / "ours/new/logs"), privacy="own")))
    assert stat.S_IMODE((tmp_path / "roots/new/logs").stat().st_mode) == 0o751


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
    assert fault_in(theirs / "psw", lambda: takeover._close(theirs / "psw")).key == "mode_not_changed"
    assert is_untouched(own)


def test_why_a_task_ended_is_written_into_no_second_name_of_an_empty_file(theirs: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    os.link(empty, theirs / "7.log")
    logs._say(str(theirs / "7.log"), "why\n")
    assert empty.read_bytes() == b""


def lines(file: LogFile, count: int = 20) -> None:
    for _ in range(count):
        file.emit(logging.LogRecord("muster", logging.INFO, __file__, 0, "x" * 60, None, None))


@pytest.mark.parametrize("uid", [0, LAB])
def test_the_masters_log_is_not_waited_for_where_a_pipe_lies_that_nobody_reads(theirs: Path, uid: int) -> None:
    os.mkfifo(theirs / "server_log.log")
    os.chown(theirs / "server_log.log", uid, uid)
    with pytest.raises(OSError, match=r"remove it|No such device"):
        LogFile(theirs / "server_log.log", None)


def test_the_masters_log_may_be_a_pipe_that_somebody_reads(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    reader = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    file = LogFile(tmp_path / "log", None, size=100)
    assert file.stream is not None
    assert os.get_blocking(file.stream.fileno())
    lines(file)
    file.close()
    assert os.read(reader, 65536).count(b"x\n") == 20
    os.close(reader)


def test_the_masters_log_may_be_what_the_process_has_for_its_output(tmp_path: Path) -> None:
    need_real_root()  # whose the link /proc/self is
    end, other = os.pipe()
    (tmp_path / "out").symlink_to(f"/proc/self/fd/{other}")
    LogFile(tmp_path / "out", None).close()
    os.close(end)
    os.close(other)


def test_a_link_of_roots_in_the_logs_place_leads_the_masters_log_by_no_link_of_a_strangers(
    theirs: Path, tmp_path: Path
) -> None:
    (tmp_path / "roots").mkdir()
    lay_link(theirs / "away", tmp_path / "roots")
    lay_link(tmp_path / "server_log.log", theirs / "away/server_log.log", 0)
    with pytest.raises(OSError, match="leads there"):
        LogFile(tmp_path / "server_log.log", None)
    assert list((tmp_path / "roots").iterdir()) == []


def opened(kind: str, path: Path) -> LogFile:
    if kind == "log":
        return LogFile(path, None, size=400)
    news = NewsFile(path, None)
    news.size = 400
    return news


@pytest.mark.parametrize("kind", ["log", "news"])
def test_the_masters_log_is_rotated_in_no_folder_to_which_a_strangers_link_leads_by_then(
    theirs: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (theirs / "logs").mkdir()
    os.chown(theirs / "logs", LAB, LAB)
    roots = tmp_path / "roots"
    roots.mkdir()
    held = [roots / name for name in ("server_log.log", "server_log.log.1", "server_log.log.5")]
    for file in held:
        file.write_bytes(HIDDEN)
    log = opened(kind, theirs / "logs/server_log.log")
    (theirs / "logs").rename(theirs / "moved")
    lay_link(theirs / "logs", roots)
    for _ in range(20):
        log.write(["x" * 60]) if isinstance(log, NewsFile) else lines(log, 1)
    log.close()
    assert sorted(roots.iterdir()) == sorted(held)
    assert {file.read_bytes() for file in held} == {HIDDEN}
    assert (theirs / "moved/server_log.log").read_bytes().count(b"x\n") == 20, "no line is lost by that"
    assert capsys.readouterr().err.count("has not been rotated") == 1


def test_a_rotated_log_keeps_as_many_older_ones_as_it_should(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log", None, size=100)
    lines(log)
    log.close()
    older = [f"log.{number}" for number in range(1, FILES + 1)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", *older]


@pytest.mark.parametrize("kind", ["link", "second name", "pipe", "stranger's file", "folder's link"])
def test_what_tells_of_the_queue_beside_the_log_is_written_into_nothing_that_others_have_laid_there(
    theirs: Path, own: Path, kind: str
) -> None:
    path = witness_path(theirs / "server_log.log")
    draft = path.with_name(f"{path.name}.tmp")
    if kind == "link":
        lay_link(draft, own)
    elif kind == "second name":
        os.link(own, draft)
    elif kind == "pipe":
        os.mkfifo(draft)
    elif kind == "stranger's file":
        draft.touch(0o666)
        os.chown(draft, STRANGER, STRANGER)
    else:
        (theirs.parent / "roots").mkdir()
        lay_link(theirs / "logs", theirs.parent / "roots")
        path = witness_path(theirs / "logs/server_log.log")
    witness = Witness(OsDisk(), path, theirs / "queue")
    assert witness.mark({}) is (kind != "folder's link")
    assert is_untouched(own)
    if kind == "folder's link":
        assert list((theirs.parent / "roots").iterdir()) == []
    else:
        assert (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) == (0, 0o600)
        assert not draft.exists()
