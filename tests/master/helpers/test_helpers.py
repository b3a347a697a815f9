"""Helpers, as processes of our own account: each operation through one, how many there are, and those that lie."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from master.files import drafts, log_pieces
from master.files.drafts import Drafts
from master.files.errors import NotEmptyError
from master.files.log_file import Own
from master.files.needed import Needed
from master.files.owners import Who
from master.files.service import Files
from master.helpers import frames, remote
from master.helpers.acting import Acting
from master.helpers.frames import Call, Place
from master.helpers.helper import Helper
from master.helpers.means import Means
from master.helpers.operations import OPERATIONS
from master.helpers.pool import Pool
from master.helpers.remote import As, JailAs, LogsAs, UploadsAs
from tests.faults import refusing
from tests.master.helpers.spawned import Spawned, setup_of
from tests.waiting import until
from wire.errors import ConflictError, ForbiddenError, LimitError, NotFoundError, StorageError
from wire.message import Message

ANN = Who("ann")


class Here(NamedTuple):
    """A folder `root` with `data`, helpers for it, and the master's book of drafts."""

    root: Path
    starter: Spawned
    pool: Pool
    drafts: Drafts

    def means(self) -> Means:
        return Means(self.pool)

    def someone(self, account: str = "ann", who: Who = ANN) -> As:
        return As(self.pool, account, who, self.drafts)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    for name in ("data/kept", "data/own/ann", "data/own/bob", "logs"):
        (tmp_path / name).mkdir(parents=True)
    starter = Spawned(setup_of(tmp_path, (Place.of(Needed(f"{tmp_path}/data/kept", Message("holds_logs"))),)))
    pool = Pool(starter)
    yield Here(tmp_path, starter, pool, Drafts(tmp_path / "drafts.json"))
    pool.close()
    assert starter.close() == ""


def _refused(*_: object) -> None:
    raise ForbiddenError("not so")


def test_every_operation_is_done_in_a_helper_that_can_load_nothing_more(here: Here) -> None:
    asked: set[str] = set()
    someone = here.someone()

    class Noting(As):
        def ask(self, op: str, *args: object, **keys: object) -> object:
            asked.add(op)
            return someone.ask(op, *args, **keys)  # type: ignore[arg-type]

    noting = Noting(here.pool, "ann", ANN, here.drafts)
    jail, uploads, logs = JailAs(noting), UploadsAs(noting), LogsAs(noting)
    jail.make_folder("data/a/b", parents=True)
    jail.make_file("data/a/empty")
    jail.write("data/a/text", b"one\ntwo\n", mode=0o640)
    assert [entry.name for entry in jail.list("data/a").entries] == ["b", "empty", "text"]
    assert (jail.stat("data/a/text").size, jail.read_piece("data/a/text", 4).data) == (8, b"two\n")
    assert jail.copy("data/a", "data/c").files == 2
    jail.move("data/c", "data/d")
    with pytest.raises(NotEmptyError):
        jail.delete("data/d", recursive=False)
    assert jail.delete("data/d") == 4
    with refusing(ConflictError, "holds_logs"):
        jail.delete("data/kept")
    needed = Needed(f"{here.root}/data/a", Message("holds_task", id=7, state="running"))
    with pytest.raises(ConflictError, match="task 7"):
        jail.delete("data/a", needed=[needed])
    with pytest.raises(ForbiddenError, match="not yours"):
        jail.list("data/own/bob")
    with pytest.raises(NotFoundError):
        jail.stat("data/none")
    begun = uploads.begin("data/up", 3)
    assert uploads.piece("data/up", begun.upload, 0, b"abc") == 3
    assert uploads.commit("data/up", begun.upload, 3).size == 3
    uploads.cancel("data/up", begun.upload)
    (here.root / "logs/1.log").write_bytes(b"a\rb\nc")
    where = ((str(here.root / "logs"),), None, Own(str(here.root / "logs"), "1.log"))
    log = str(here.root / "logs/1.log")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_pieces, "known_size", _refused)  # the master may not look there
        patch.setattr(remote, "public_size", lambda _path: None)
        assert (logs.size(log, where), logs.size("/none", where)) == (5, 0)
    assert logs.read(log, where, 0, 100, collapsed=False).data == b"a\rb\nc"
    assert logs.read(log, where, 0, 100, collapsed=True)[1:3] == (b"b\n", b"c")
    with refusing(ForbiddenError, "log_not_visible", path="/etc/passwd"):
        logs.read("/etc/passwd", where, 0, 100, collapsed=False)
    assert (logs.size(log, where), logs.size("/none", where)) == (5, 0)
    assert noting.ask("remove_draft", path="data/x", name="no draft") is True
    assert asked == OPERATIONS.keys()
    with pytest.raises(Exception, match="list: TypeError"):
        someone.ask("list", nonsense=1)
    assert here.starter.started == ["ann"]


def test_a_draft_is_in_the_masters_book_and_is_swept_with_the_rights_that_made_it(here: Here) -> None:
    uploads = UploadsAs(here.someone())
    begun = uploads.begin("data/up", 3)
    (draft,) = msgspec.json.decode((here.root / "drafts.json").read_bytes())
    assert (draft["path"], draft["account"]) == ("data/up", "ann")
    files = Files(here.root, ("data",), book=here.root / "drafts.json")
    Acting(files, str(here.root / "logs"), here.means, holds=lambda: True, account_of=lambda owner: owner)
    path = here.root / f"data/.muster-upload-{begun.upload}"
    os.utime(path, (0, 0))
    (here.root / "drafts.json").write_bytes(msgspec.json.encode([{**draft, "at": 0.0}]))
    files = Files(here.root, ("data",), book=here.root / "drafts.json")
    files.uploads.sweep()
    assert path.exists(), "not with the master's"
    Acting(files, str(here.root / "logs"), here.means, holds=lambda: True, account_of=lambda owner: owner)
    files.uploads.sweep(files.remove_as)
    assert not path.exists()
    assert msgspec.json.decode((here.root / "drafts.json").read_bytes()) == []


def test_an_upload_with_the_rights_of_an_account_counts_as_its_users(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts, "MOST_OF_ONE", 1)
    files = Files(here.root, ("data",), book=here.root / "drafts.json")
    acting = Acting(files, str(here.root / "logs"), here.means, holds=lambda: True, account_of=lambda owner: owner)
    acting.seen_by(ANN, "ann").uploads.begin("data/up", 3)
    files.drafts.check_room("bob")
    with refusing(LimitError, "uploads_unfinished"):
        files.drafts.check_room("ann")


def test_an_upload_with_the_rights_of_an_account_has_the_limit_of_its_beginning_or_of_now(here: Here) -> None:
    limit = 3
    files = Files(here.root, ("data",), book=here.root / "drafts.json", upload_bytes=lambda: limit)
    acting = Acting(files, str(here.root / "logs"), here.means, holds=lambda: True, account_of=lambda owner: owner)
    uploads = acting.seen_by(ANN, "ann").uploads
    begun = uploads.begin("data/up", 3)
    limit = 2
    with refusing(LimitError, "upload_too_large", most=2):
        uploads.begin("data/other", 3)
    assert uploads.piece("data/up", begun.upload, 0, b"abc") == 3
    with refusing(LimitError, "upload_beyond", most=3):
        uploads.piece("data/up", begun.upload, 3, b"d")
    limit = 4
    assert uploads.piece("data/up", begun.upload, 3, b"d") == 4


def test_a_draft_of_a_time_when_helpers_were_wanted_is_swept_as_the_master_does_it(here: Here) -> None:
    path = here.root / "data/.muster-upload-0123456789abcdef"
    path.touch()
    os.utime(path, (0, 0))
    book = here.root / "drafts.json"
    book.write_bytes(msgspec.json.encode([{"path": "data/up", "name": path.name, "at": 0.0, "account": "dave"}]))
    files = Files(here.root, ("data",), book=book)
    Acting(files, str(here.root / "logs"))
    files.uploads.sweep(files.remove_as)
    assert not path.exists()
    assert msgspec.json.decode(book.read_bytes()) == []


def test_the_master_looks_at_a_log_itself_only_where_any_account_could(here: Here) -> None:
    """Whoever follows a log hears when it has another size, and may have put a link in its place."""
    asked: list[str] = []

    class Asked(As):
        def ask(self, op: str, *_: object, **keys: object) -> object:
            asked.append(f"{op} {keys['path']}")
            return 7

    logs = LogsAs(Asked(here.pool, "ann", ANN, here.drafts))
    folder, hidden = here.root / "logs", here.root / "task_info"
    where = ((str(folder), str(here.root / "data")), None, Own(str(folder), "1.log"))
    hidden.mkdir(mode=0o700)
    for file in (folder / "plain" / "1.log", folder / "2.log", hidden / "key", here.root / "data/own/bob/1.log"):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"x" * 3)
    (here.root / "data").chmod(0o700)

    def size(target: str | Path) -> tuple[int, bool]:
        asked.clear()
        (folder / "1.log").unlink(missing_ok=True)
        (folder / "1.log").symlink_to(target)
        return logs.size(str(folder / "1.log"), where), bool(asked)

    assert size("plain/1.log") == (3, False)
    assert size("none/1.log") == (0, False)
    assert logs.size("/etc/passwd", where) == Path("/etc/passwd").stat().st_size
    for others in ("2.log", hidden / "key", hidden / "none", here.root / "data/own/bob/1.log"):
        assert size(others) == (7, True), others
    assert logs.size(str(here.root / "data/own/bob/1.log"), where) == 7


def test_one_that_ended_is_followed_by_another(here: Here) -> None:
    jail = JailAs(here.someone())
    jail.list("data")
    for process in here.starter.running:
        process.kill()
        process.wait()
    assert jail.list("data").entries
    assert here.starter.started == ["ann", "ann"]


def test_one_that_has_nothing_to_do_ends_and_no_call_is_lost_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    starter = Spawned(setup_of(tmp_path), idle_s=0.2)
    pool = Pool(starter)
    jail = JailAs(As(pool, "ann", ANN, Drafts(None)))
    for some in range(4):
        for number in range(20):
            jail.make_file(f"data/{some}-{number}")
        until("it ends", lambda: _all_ended(starter))
    assert len(list((tmp_path / "data").iterdir())) == 80
    assert len(starter.started) > 3
    pool.close()
    assert starter.close() == ""


def _all_ended(starter: Spawned) -> bool:
    return all(process.poll() is not None for process in starter.running)


def test_so_many_helpers_and_no_more_who_is_idle_makes_room(here: Here) -> None:
    pool = Pool(here.starter, most=2, settled_s=0.0)
    jails = {name: JailAs(As(pool, name, Who(name), here.drafts)) for name in ("ann", "bob", "eve")}
    for name in ("ann", "bob", "ann", "eve", "ann"):
        jails[name].list("data")
    assert here.starter.started == ["ann", "bob", "eve"], "bob's was let go"
    pool.close()
    with pytest.raises(LimitError):
        jails["bob"].list("data")


def test_while_all_helpers_work_the_next_account_is_told_to_come_again(here: Here) -> None:
    gate = threading.Event()

    class Slow:
        def start(self, _account: str) -> Helper:
            gate.wait()
            raise StorageError("over")

    pool = Pool(Slow(), most=1, turn_s=0.0)

    def ask() -> None:
        with pytest.raises(StorageError, match="over"):
            pool.call("ann", Call("list", ANN, {}), here.drafts, lambda: None)

    thread = threading.Thread(target=ask)
    thread.start()
    until("she waits", lambda: pool.accounts == ["ann"])
    with pytest.raises(LimitError, match="files of 1 people"):
        pool.call("bob", Call("list", ANN, {}), here.drafts, lambda: None)
    gate.set()
    thread.join(60)
    assert pool.accounts == []


def test_who_comes_while_all_places_are_taken_waits_until_one_was_there_for_a_while(here: Here) -> None:
    """As when more people follow logs than there are places: else each look would begin a process."""
    pool = Pool(here.starter, most=1, settled_s=0.2)
    ann, bob = (JailAs(As(pool, name, Who(name), here.drafts)) for name in ("ann", "bob"))
    begin = time.monotonic()
    ann.list("data")
    bob.list("data")
    assert time.monotonic() - begin >= 0.2
    assert here.starter.started == ["ann", "bob"]
    pool.close()


def test_who_has_no_account_is_looked_up_once_a_while(here: Here) -> None:
    clock = [0.0]
    pool = Pool(here.starter, now=lambda: clock[0])
    jail = JailAs(As(pool, "dave", Who("dave"), here.drafts))
    for at, looked in ((0.0, 1), (9.0, 1), (11.0, 2)):
        clock[0] = at
        with pytest.raises(ForbiddenError, match="there is none"):
            jail.list("data")
        assert here.starter.started == ["dave"] * looked


def test_who_may_see_everything_does_as_the_master_what_his_account_may_not(here: Here) -> None:
    files = Files(here.root, ("data",))
    acting = Acting(files, str(here.root / "logs"), here.means, holds=lambda: True, account_of=lambda owner: owner)
    admin = acting.seen_by(Who("dave", sees_all=True), "dave")
    admin.jail.write("data/note", b"x")
    assert admin.jail.read_piece("data/note").data == b"x"
    with pytest.raises(ForbiddenError, match="there is none"):
        acting.seen_by(Who("dave"), "dave").jail.list("data")


Lie = Callable[[socket.socket], None]
LIES: dict[str, Lie] = {
    "silence": lambda _: None,
    "noise": lambda way: way.sendall(b"\0\0\0\3abc"),
    "a frame that is too long": lambda way: way.sendall(b"\xff\xff\xff\xff"),
    "half a frame": lambda way: way.sendall(b"\0\0\0\3a"),
    "a result of another type": lambda way: frames.send(way, frames.Done(msgspec.Raw(msgspec.msgpack.encode([1])))),
    "a sentence that we do not know": lambda way: frames.send(way, frames.Failed("storage", "none", {}, "x")),
    "a sentence without its values": lambda way: frames.send(way, frames.Failed("storage", "not_there", {}, "x")),
    "a sentence with a reach": lambda way: frames.send(
        way, frames.Failed("storage", "helper_ended", {"account": {"key": "not_there", "args": {}}, "said": ""}, "x")
    ),
    "a draft of any name": lambda way: frames.send(way, frames.Begins("data/x", "../../etc/passwd", working=False)),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_a_helper_should_not_say_is_not_believed(here: Here, lie: str) -> None:
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def answer() -> None:
        with theirs:
            _, (number,), _, _ = socket.recv_fds(theirs, 4, 1)
            with socket.socket(fileno=number) as way:
                frames.receive(way, Call)
                frames.send(way, frames.Tick())
                LIES[lie](way)

    liar = threading.Thread(target=answer)
    liar.start()

    class Lying:
        def start(self, account: str) -> Helper:
            return Helper(account, control)

    with pytest.raises(StorageError, match=r"has ended|x"):
        JailAs(As(Pool(Lying()), "ann", ANN, here.drafts)).list("data")
    liar.join(60)
    control.close()
    assert not (here.root / "drafts.json").exists()
