"""The table of what is opened, made, given away and removed by name (`places.txt`): it knows each place in the sources,
and what it says holds. Links, second names, pipes and folders are laid at the names; nothing of the victim's changes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from master.config.config import load_config, make_folders
from master.desktop import logs
from master.desktop.news_file import NewsFile
from master.doctor.folders import Nonces
from master.drivers import bootstrap
from master.edited_files import replaced_file
from master.files import place
from master.files.threads import Threads
from master.secrets.log_rights import LogFile
from master.setup.deploy import folder as deploy_folder
from master.setup.init import setup_folder
from master.tls.files import write_secret
from monitor.agent.attempt import blame, given_files, log_open
from monitor.agent.folder import Folder, FolderError
from monitor.agent.report import settings
from tests.attack import places
from tests.cases import each_case
from tests.master.setup.deploy.deploy_lab import write_lab
from tests.rights import need_users
from wire.account import Account
from wire.errors import MusterError
from wire.message import Message

HIDDEN = b"the victim's\n"
THEIRS = 4501
"""An account that lays things."""


# -- the table and the sources ----------------------------------------------------------------------------------------


def test_each_place_in_the_sources_has_a_line_and_each_line_a_place() -> None:
    found, lines = places.uses(), places.table()
    without = [
        f"{name} ({', '.join(sorted({use.what for use in found[name]}))})" for name in found.keys() - lines.keys()
    ]
    assert sorted(without) == [], "add a line to tests/attack/places.txt, with the rule that keeps others out"
    assert sorted(lines.keys() - found.keys()) == [], "there is no such place any more"


def test_each_use_obeys_a_rule_of_its_line() -> None:
    lines = places.table()
    broken = []
    for name, found in places.uses().items():
        rules = lines[name].rules if name in lines else ()
        assert set(rules) <= places.RULES.keys(), name
        broken += [
            f"{name}: {use.what} (line {use.line}) obeys none of {' '.join(rules)}"
            for use in found
            if not any(rule in use.seen or rule not in places.SEEN for rule in rules)
        ]
    assert broken == []


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("def f(p): os.unlink(p)", "os.unlink"),
        ("def f(p): open(p, 'w')", "open"),
        ("def f(p): p.write_text('')", ".write_text"),
        ("def f(p): p.with_name('x').replace(p)", ".replace"),
        ("def f(p): run(partial(os.chown, p))", "os.chown"),
        ("def f(p): return f'{p.read_text()}'", ".read_text"),
        ("def f(p): shutil.rmtree(p)", "shutil.rmtree"),
        ("from os import unlink\ndef f(p): unlink(p)", "from os import unlink"),
        ("def f(): return 'cd /; rm -f \"$1\"'", "shell: ; rm"),
        ("def f(): return f'echo {f} > \"$1\"'", 'shell: > "'),
        ("X = '''\nimport os\nos.mkdir('x')\n'''", "os.mkdir"),
        ("class A:\n  def f(self, p):\n    async def g(): os.open(p, 0)", "os.open"),
    ],
)
def test_a_new_place_is_seen(source: str, what: str) -> None:
    assert what in [use.what for _, use in places.uses_in(source)]


@pytest.mark.parametrize(
    ("call", "seen"),
    [
        ("os.open(p, os.O_RDONLY, dir_fd=d)", set()),
        ("os.open(p, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=d)", {"nofollow", "beneath"}),
        ("os.open(p, _FLAGS | os.O_CREAT)", {"excl"}),
        ("os.unlink(p)", {"name"}),
        ("os.chmod(f'/proc/self/fd/{d}', 0)", {"open", "kernel"}),
        ("p.chmod(0)", set()),
    ],
)
def test_what_of_a_rule_is_seen_in_a_call(call: str, seen: set[str]) -> None:
    source = f"_FLAGS = os.O_WRONLY | os.O_EXCL\ndef f(p, d): {call}"
    assert [use.seen for _, use in places.uses_in(source)] == [seen]


def test_what_is_no_path_is_not_taken_for_one() -> None:
    for source in (
        "'a'.replace('b', 'c')",
        "msgspec.structs.replace(x, a=1)",
        "now.replace(tzinfo=UTC)",
        "'type `rm x`'",
    ):
        assert list(places.uses_in(source)) == [], source


# -- private folders --------------------------------------------------------------------------------------------------


@contextmanager
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def agents_state(path: Path) -> None:
    Folder(str(path)).make()


def task_info(path: Path) -> None:
    make_folders(load_config(write_lab(path.parent / "lab", task_info=str(path))))


PRIVATE: dict[str, Callable[[Path], object]] = {
    "the base of agents' states, as the master has it": lambda path: bootstrap.make_base(str(path)),
    "the base of agents' states, as an agent has it": lambda path: settings.make_base(str(path)),
    "an agent's state": agents_state,
    "task_info": task_info,
}
"""What makes each, at a path."""


def test_each_private_folder_is_made_for_its_account_alone(tmp_path: Path) -> None:
    with each_case() as cases, open_umask():
        for number, (name, make) in enumerate(PRIVATE.items()):
            with cases.case(name):
                path = tmp_path / str(number) / "private"
                path.parent.mkdir()
                make(path)
                assert stat.S_IMODE(path.stat().st_mode) == 0o700
                make(path)


def test_a_private_folder_of_somebody_elses_is_refused(tmp_path: Path) -> None:
    need_users()
    with each_case() as cases:
        for number, (name, make) in enumerate(PRIVATE.items()):
            for is_link in (False, True):
                with cases.case(f"{name}, {'a link' if is_link else 'a folder'}"):
                    above = tmp_path / f"{number}{is_link}"
                    (above / "theirs").mkdir(parents=True)
                    os.chown(above / "theirs", THEIRS, THEIRS)
                    path = above / "private" if is_link else above / "theirs"
                    if is_link:
                        path.symlink_to("theirs")
                    with pytest.raises(
                        (MusterError, FolderError, bootstrap.RefusalError), match=r"belong|folder of uid"
                    ):
                        make(path)


def test_a_link_in_the_place_of_the_base_in_var_tmp_is_refused_whoevers_it_is() -> None:
    path, real = Path(f"/var/tmp/muster-places-{os.getpid()}"), Path(f"/var/tmp/muster-real-{os.getpid()}")  # noqa: S108
    real.mkdir(mode=0o700)
    path.symlink_to(real)
    try:
        with pytest.raises(bootstrap.RefusalError):
            bootstrap.make_base(str(path))
        with pytest.raises(FolderError):
            settings.make_base(str(path))
    finally:
        path.unlink()
        real.rmdir()


def test_the_passage_of_given_files_is_roots_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_users()
    run = tmp_path / "muster-tasks"
    monkeypatch.setattr(given_files, "RUN", str(run))
    bob = Account("bob", THEIRS, THEIRS, "/", "/bin/sh")
    launch = {"token": "secret", "token_file": f"{run}/state/t1"}
    with each_case() as cases:
        for kind in ("folder", "link"):
            with cases.case(kind):
                away = tmp_path / f"away-{kind}"
                away.mkdir()
                os.chown(away, THEIRS, THEIRS)
                away.rename(run) if kind == "folder" else run.symlink_to(away)
                with pytest.raises(blame.StartError):
                    given_files.leave(launch, bob)
                assert list((run if kind == "folder" else away).iterdir()) == []
                run.rmdir() if kind == "folder" else run.unlink()


# -- names that others can tell ---------------------------------------------------------------------------------------


class Trial(NamedTuple):
    """`do` works in a folder; `names`: what others lay something under, before."""

    do: Callable[[Path], object]
    names: tuple[str, ...]


def replace_conf(folder: Path) -> None:
    path = folder / "conf.json"
    path.write_bytes(b"{}")
    replaced_file.rewrite(path, lambda _: b"{ }", cure=Message("give_old_folder"), keep=lambda _: None)


def rotate(folder: Path) -> None:
    news = NewsFile(folder / "news.log", None)
    news.size = 10
    news.write(["a line that is long enough"])
    news.close()


def write_new(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        place.replace_content(fd, b"new", b"data", overwrite=True)
    finally:
        os.close(fd)


def lay_nonce(folder: Path) -> None:
    nonces = Nonces(Threads(), "1f2e")
    nonces._write(folder / nonces.name)


def begin_log(path: Path, *, own: bool) -> None:
    os.close(log_open.open_log(str(path), [], own=own))


TRIALS: dict[str, Trial] = {
    "the doctor's nonce": Trial(lay_nonce, (".muster-doctor-1f2e",)),
    "conf.json anew": Trial(replace_conf, (".conf.json.new",)),
    "muster init": Trial(setup_folder.init, (f".conf.json.{os.getpid()}", f".gpu_slaver_info.json.{os.getpid()}")),
    "muster deploy": Trial(
        lambda folder: deploy_folder.write(folder, {"file": deploy_folder.Content(b"data")}),
        (f".file.{os.getpid()}", f"..muster-deploy.json.{os.getpid()}"),
    ),
    "muster deploy, the file": Trial(
        lambda folder: deploy_folder.write(folder, {"file": deploy_folder.Content(b"data")}), ("file",)
    ),
    "muster deploy, its list": Trial(
        lambda folder: deploy_folder.write(folder, {"file": deploy_folder.Content(b"data")}), (".muster-deploy.json",)
    ),
    "a secret": Trial(lambda folder: write_secret(folder / "key", b"data"), ("key", "key.new")),
    "the master's log": Trial(lambda folder: LogFile(folder / "server_log.log", None).close(), ("server_log.log",)),
    "older logs": Trial(lambda folder: LogFile(folder / "log", None).close(), ("log.1", "log.2", "log.5")),
    "the news": Trial(rotate, ("news.log.1",)),
    "a note for the desktop client": Trial(lambda folder: logs._note(folder, "gone"), ("desktop",)),
    "a link for the desktop client": Trial(lambda folder: logs._plain(folder, "a b", "7.log"), ("desktop",)),
    "an empty log": Trial(lambda folder: logs._make(str(folder / "7.log")), ("7.log",)),
    "why a task ended": Trial(lambda folder: logs._say(str(folder / "7.log"), "why"), ("7.log",)),
    "an uploaded file": Trial(write_new, ("new",)),
    "a trial of a disk": Trial(lambda folder: blame._takes_nothing(str(folder)), ()),
    "a root task's log": Trial(lambda folder: begin_log(folder / "7.log", own=False), ("7.log",)),
    "an owner's log": Trial(lambda folder: begin_log(folder / "7.log", own=True), ("7.log",)),
}


class Victim(NamedTuple):
    """A file and a folder that others may not change."""

    file: Path
    folder: Path

    @classmethod
    def make(cls, above: Path) -> Victim:
        above.mkdir()
        made = cls(above / "file", above / "folder")
        made.file.touch(0o604)
        made.folder.mkdir(0o705)
        (made.folder / "inner").write_bytes(HIDDEN)
        return made

    def looks(self) -> list[object]:
        return [
            *((path.name, one.st_mode, one.st_uid, one.st_gid, one.st_size) for path in self for one in [path.stat()]),
            self.file.read_bytes(),
            sorted(path.name for path in self.folder.iterdir()),
            (self.folder / "inner").read_bytes(),
            sorted(path.name for path in self.file.parent.iterdir()),
        ]


KINDS: dict[str, Callable[[Path, Victim], object]] = {
    "a link to a file": lambda name, victim: name.symlink_to(victim.file),
    "a link to a folder": lambda name, victim: name.symlink_to(victim.folder),
    "a link to nothing": lambda name, victim: name.symlink_to(victim.file.parent / "none"),
    "a second name": lambda name, victim: os.link(victim.file, name),
    "a pipe": lambda name, _: os.mkfifo(name, 0o666),
    "a folder": lambda name, _: name.mkdir(),
}


def test_what_is_laid_at_a_name_changes_nothing_of_the_victims(tmp_path: Path) -> None:
    """Empty files are the victim's: what is written only where nothing stands would be written into those."""
    need_users()
    with each_case() as cases:
        for number, (name, trial) in enumerate(TRIALS.items()):
            for kind, lay in KINDS.items():
                with cases.case(f"{name}: {kind}"):
                    above = tmp_path / f"{number}-{kind.replace(' ', '-')}"
                    victim = Victim.make(above)
                    folder = above.with_name(f"{above.name}-theirs")
                    folder.mkdir()
                    os.chown(folder, THEIRS, THEIRS)
                    for laid in trial.names:
                        lay(folder / laid, victim)
                        if not kind.startswith("a second"):
                            os.lchown(folder / laid, THEIRS, THEIRS)
                    before = victim.looks()
                    with suppress(OSError, MusterError, blame.StartError, msgspec.MsgspecError):
                        trial.do(folder)
                    assert victim.looks() == before
