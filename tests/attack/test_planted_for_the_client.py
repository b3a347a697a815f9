"""What others lay where commands write: downloads, the agent's archive, and the output of programs that `up` starts, in
folders that others can write, too."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from client.cli.commands.files import own_folders, transfer
from client.cli.commands.node import token
from client.cli.programs import master_process
from client.files import Files, _part
from tests.cases import each_case
from tests.faults import refusing
from tests.rights import need_users
from wire.errors import ConflictError, StorageError
from wire.message import Message

THEIRS = 4501
"""An account that lays things."""
OWN, SENT = b"the victim's\n", b"what the attacker uploaded\n"
MODE, VERSION = 0o4, 77


class Remote(Files):
    """Of a master that has one file."""

    def __init__(self) -> None:
        super().__init__(SimpleNamespace())  # type: ignore[arg-type]

    def read(self, _path: str, offset: int, _size: int | None = None) -> tuple[bytes, dict[str, Any]]:
        return SENT[offset:], {"size": len(SENT), "mtime_ns": VERSION, "mode": MODE}


@pytest.fixture
def shared_folder() -> Iterator[MakeShared]:
    made: list[Shared] = []

    def make(above: Path) -> Shared:
        made.append(Shared(above))
        return made[-1]

    yield make
    for one in made:
        one.close()


class Shared:
    """A folder of another account, and a file of ours that nobody else may change."""

    def __init__(self, above: Path) -> None:
        above.mkdir(exist_ok=True)
        self.folder, self.own = above / "shared", above / "own"
        self.folder.mkdir()
        self.folder.chmod(0o777)
        os.chown(self.folder, THEIRS, THEIRS)
        self.own.write_bytes(OWN)
        self.own.chmod(0o600)
        self.pipes: list[int] = []

    def close(self) -> None:
        for pipe in self.pipes:
            os.close(pipe)

    def lay(self, name: str, kind: str) -> Path:
        path = self.folder / name
        if kind == "a second name":
            os.link(self.own, path)
            return path
        if kind == "a link":
            path.symlink_to(self.own)
        elif kind == "a pipe":
            os.mkfifo(path)
            self.pipes.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK))  # else whoever writes waits
        else:
            path.write_bytes(b"")
        os.chown(path, THEIRS, THEIRS, follow_symlinks=False)
        return path

    def is_untouched(self) -> bool:
        return self.own.read_bytes() == OWN and stat.S_IMODE(self.own.stat().st_mode) == 0o600


MakeShared = Callable[[Path], "Shared"]
KINDS = ("a link", "a second name", "a pipe", "a file")


def test_a_download_is_collected_in_nothing_that_others_have_laid(tmp_path: Path, shared_folder: MakeShared) -> None:
    need_users()
    with each_case() as cases:
        for kind in KINDS:
            with cases.case(kind):
                shared = shared_folder(tmp_path / kind)
                local = shared.folder / "model"
                shared.lay(Path(_part(str(local), len(SENT), VERSION)).name, kind)
                with refusing(ConflictError, "part_not_yours", path=_part(str(local), len(SENT), VERSION)):
                    Remote().download("data/model", str(local))
                assert shared.is_untouched()
                assert not os.path.lexists(local)


def test_a_download_in_anothers_folder_goes_on_in_a_part_of_ones_own(tmp_path: Path, shared_folder: MakeShared) -> None:
    need_users()
    shared = shared_folder(tmp_path)
    local = shared.folder / "model"
    Path(_part(str(local), len(SENT), VERSION)).write_bytes(SENT[:5])
    assert Remote().download("data/model", str(local))
    assert local.read_bytes() == SENT


def test_a_folder_is_fetched_through_no_link_of_another_account(tmp_path: Path, shared_folder: MakeShared) -> None:
    need_users()
    shared = shared_folder(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    link = shared.folder / "runs"
    link.symlink_to(home)
    os.chown(link, THEIRS, THEIRS, follow_symlinks=False)
    with refusing(ConflictError, "link_of_another", path=str(link)), own_folders.made(str(link)):
        pass
    os.chown(link, os.geteuid(), -1, follow_symlinks=False)
    for path in (link, shared.folder / "new"):
        with own_folders.made(str(path)) as opened:
            assert os.path.samestat(os.fstat(opened), path.stat())


def test_what_is_fetched_into_a_folder_goes_through_no_link_that_is_laid_meanwhile(
    tmp_path: Path, shared_folder: MakeShared
) -> None:
    need_users()
    shared = shared_folder(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    local, runs = shared.folder / "net", shared.folder / "net/runs"

    class Folders(Remote):
        """Of a master that has a file in two folders. Another account lays a link before the files are listed."""

        def stat(self, path: str) -> dict[str, Any]:
            return {"name": path, "kind": "folder"}

        def entries(self, path: str, *, more: int = 0) -> Iterator[dict[str, Any]]:
            if path == "data/net":
                yield {"name": "runs", "kind": "folder", "link": False, "more": more}
                return
            runs.rename(local / "aside")
            runs.symlink_to(home)
            os.chown(runs, THEIRS, THEIRS, follow_symlinks=False)
            yield {"name": "authorized_keys", "kind": "file", "link": False}

    notes: list[str] = []
    options = SimpleNamespace(recursive=True, paths=["data/net", str(shared.folder)])
    context: Any = SimpleNamespace(options=options, client=SimpleNamespace(files=Folders()), note=notes.append)
    transfer._get(transfer.Transfers(context))
    assert list(home.iterdir()) == []
    assert "another account" in " ".join(notes)


def test_a_folder_is_sent_without_what_links_of_another_account_lead_to(
    tmp_path: Path, shared_folder: MakeShared, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_users()
    shared = shared_folder(tmp_path)
    shared.lay("results", "a link")
    (shared.folder / "mine").symlink_to(shared.own)
    sent: list[str] = []
    skipped: list[tuple[str, str]] = []
    monkeypatch.setattr(transfer, "_sent", lambda _work, local, _there, _source: sent.append(Path(local).name))
    monkeypatch.setattr(transfer, "_refuse_file", lambda _work, _path: None)
    work: Any = SimpleNamespace(
        context=SimpleNamespace(options=SimpleNamespace(recursive=True)),
        files=SimpleNamespace(make_folder=lambda _path, parents: parents),
        attempt=lambda _local, do: do(),
        skip=lambda path, why: skipped.append((Path(path).name, why)),
        unreadable=lambda error: skipped.append((Path(error.filename).name, "unreadable")),
    )
    transfer.put_one(work, str(shared.folder), "data/x")
    assert (sent, skipped) == (["mine"], [("results", str(Message("skipped_link_of_another")))])


@pytest.mark.parametrize("name", ["runs", "runs/model"])
def test_nothing_is_sent_through_a_link_that_is_laid_while_a_folder_is_sent(
    tmp_path: Path, shared_folder: MakeShared, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    need_users()
    for look in range(1, 8):
        with monkeypatch.context() as patched:
            shared = shared_folder(tmp_path / str(look))
            runs, home = shared.folder / "runs", shared.folder.parent / "home"
            for folder in (runs, home):
                folder.mkdir()
            (runs / "model").write_bytes(SENT)
            shared.own.rename(home / "model")
            swap_at(patched, look, shared.folder / name, home if name == "runs" else home / "model")
            sent: list[bytes] = []
            files = Files(SimpleNamespace())  # type: ignore[arg-type]
            patched.setattr(files, "make_folder", lambda _path, parents: parents)
            patched.setattr(files, "stat", lambda _path: {"kind": "folder", "size": 0})
            patched.setattr(files, "write", lambda _path, data, sent=sent, **_how: sent.append(data))
            options = SimpleNamespace(recursive=True, force=True)
            context = SimpleNamespace(options=options, client=SimpleNamespace(files=files), note=str)
            transfer.put_one(transfer.Transfers(context), str(shared.folder), "data/x")  # type: ignore[arg-type]
            assert OWN not in sent, look


def swap_at(patched: pytest.MonkeyPatch, look: int, place: Path, aim: Path) -> None:
    """Another account lays a link in this place, as soon as this process has looked there so many times."""
    looks = 0

    def seen(path: object) -> None:
        nonlocal looks
        is_seen = isinstance(path, str) and Path(path).name == place.name
        looks += is_seen
        if looks == look and is_seen:
            place.rename(place.with_name("aside"))
            place.symlink_to(aim)
            os.chown(place, THEIRS, THEIRS, follow_symlinks=False)

    def watched(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *how: Any, **more: Any) -> Any:
            found = real(path, *how, **more)
            seen(path)
            return found

        return call

    for name in ("stat", "lstat", "open", "scandir"):
        patched.setattr(os, name, watched(getattr(os, name)))
    patched.setattr("builtins.open", watched(open))


def test_the_agents_archive_is_written_into_nothing_that_others_have_laid(
    tmp_path: Path, shared_folder: MakeShared
) -> None:
    need_users()
    with each_case() as cases:
        for kind in KINDS:
            with cases.case(kind):
                shared = shared_folder(tmp_path / kind)
                shared.lay(f"muster-agent.pyz.{os.getpid()}.new", kind)
                with pytest.raises(StorageError):
                    token._put(str(shared.folder / "muster-agent.pyz"), SENT)
                assert shared.is_untouched()


@pytest.mark.parametrize("folder", ["another account's", "everybody's", "everybody's, as /tmp"])
def test_what_a_started_program_prints_goes_into_nothing_that_others_have_laid(
    tmp_path: Path, folder: str, shared_folder: MakeShared
) -> None:
    need_users()
    owner, mode = {
        "another account's": (THEIRS, 0o755),
        "everybody's": (os.geteuid(), 0o777),
        "everybody's, as /tmp": (os.geteuid(), 0o1777),
    }[folder]
    with each_case() as cases:
        for kind in KINDS:
            with cases.case(kind):
                shared = shared_folder(tmp_path / kind)
                os.chown(shared.folder, owner, -1)
                shared.folder.chmod(mode)
                log = shared.lay("server_log.log.web", kind)
                if kind == "a file" and folder == "another account's":
                    continue  # who has the folder may have the log
                with pytest.raises((ConflictError, StorageError)):
                    master_process.append_to(str(log))
                assert shared.is_untouched()


def test_it_goes_where_one_has_it_oneself(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    log, link = tmp_path / "log", tmp_path / "link"
    link.symlink_to(log)
    for path in (log, log, link):
        with master_process.append_to(str(path)) as file:
            file.write(b"x")
    assert log.read_bytes() == b"xxx"
