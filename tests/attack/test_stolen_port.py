"""While the master is down another account of its machine may take its port, and wait for who comes with a secret.

Real processes with other uids, in the ways that anybody can: on each of the machine's addresses, accepting at once,
later or never, handing the connection on, or accepting what a listener of root's brings. In none do they hear a word.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from client.address import find, read_conf
from client.caller import Caller
from client.logins import Login, Logins
from client.other_end import OtherEnd
from client.session import Session
from tests.attack.squatter import ROOTS, WAYS, as_account, squatting
from tests.faults import refusing
from tests.rights import need_users
from tests.testbed.bed import Testbed
from wire.errors import ForbiddenError, UnreachableError
from wire.master_account import path_of, recorded

MASTERS, THIEFS = 4300, 4242
TOKEN = "mst_t1_what-nobody-else-may-hear"  # noqa: S105
HOSTS = ["127.0.0.1", "127.0.0.9", "::1"]


def knowing(account: int | None) -> OtherEnd:
    end = OtherEnd("localhost:1")
    end.account = account
    return end


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_said_to_who_has_taken_the_masters_port(host: str, way: str) -> None:
    for account, key in ((MASTERS, "port_of_another"), (None, "port_of_somebody")):
        with squatting(THIEFS, host, way) as thief:
            for token in (TOKEN, None):
                session = Session(host, thief.port, token, patience=0, end=knowing(account))
                with refusing(ForbiddenError, key, port=thief.port, holder=f"uid {THIEFS}"):
                    session.call("task.submit", {"command": ["secret"], "variables": {"KEY": "secret"}}, timeout=10)
                with pytest.raises(ForbiddenError):  # before a password is asked for
                    Session(host, thief.port, patience=0, end=knowing(account)).check_unheard()
            assert thief.heard() == ""


def test_nor_by_an_address_of_the_machine_that_others_reach_too() -> None:
    with Testbed(0) as bed:
        lan = bed.master_address
        for host, called in ((lan, lan), ("0.0.0.0", lan), ("0.0.0.0", "127.0.0.1")):  # noqa: S104  (its way in)
            with squatting(THIEFS, host) as thief:
                session = Session(called, thief.port, TOKEN, patience=0)
                with refusing(ForbiddenError, "port_of_somebody", holder=f"uid {THIEFS}"):
                    session.call("task.list", {})
                assert thief.heard() == ""


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("way", ["takes", "hands on", ROOTS])
def test_it_is_said_to_the_account_that_had_the_port_at_the_log_in(
    host: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("client.session.CONNECT_TIMEOUT_S", 1.0)  # it answers nothing
    with squatting(MASTERS, host, way) as master:
        session = Session(host, master.port, TOKEN, patience=0, end=knowing(MASTERS))
        with pytest.raises(UnreachableError):
            session.call("task.list", {}, timeout=1)
        session.close()
        assert json.loads(master.heard())["params"] == {"token": TOKEN}


def test_nor_to_who_takes_it_while_the_master_is_restarted() -> None:
    with squatting(MASTERS) as master:
        session = Session("127.0.0.1", master.port, patience=5, end=knowing(MASTERS))
        session.connect()
    with squatting(THIEFS, port=master.port) as thief:
        with refusing(ForbiddenError, "port_of_another", holder=f"uid {THIEFS}"):
            session.call("task.submit", {"command": ["secret"]})
        assert thief.heard() == ""


def test_the_first_log_in_asks_whose_the_port_is() -> None:
    asked: list[int] = []
    for answer in (False, True):

        def ask(uid: int, *, answer: bool = answer) -> bool:
            asked.append(uid)
            return answer

        end = knowing(None)
        end.ask = ask
        with squatting(MASTERS) as master:
            session = Session("127.0.0.1", master.port, patience=0, end=end)
            if answer:
                assert session.check_unheard() == end.account == MASTERS
            else:
                with pytest.raises(ForbiddenError):
                    session.check_unheard()
            session.close()
            assert master.heard() == ""
    assert asked == [MASTERS, MASTERS]
    known = knowing(MASTERS)
    known.ask = lambda uid: pytest.fail(f"{uid} is another one than before")
    with squatting(THIEFS) as thief, pytest.raises(ForbiddenError):
        Session("127.0.0.1", thief.port, patience=0, end=known).check_unheard()


def test_what_a_log_in_keeps_and_what_a_task_is_told_is_who_the_master_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MUSTER_CONF", "MUSTER_MASTER", "MUSTER_MASTER_UID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    keep = Logins(str(tmp_path / "muster" / "logins")).keep
    keep(Login("localhost:7001", TOKEN, user="li", until=1.0, master="127.0.0.1:7001", account=MASTERS))
    assert (find(master="localhost:7001").end.account, find(master="localhost:7002").end.account) == (MASTERS, None)
    assert Caller(find(master="localhost:7001")).session.end.account == MASTERS
    monkeypatch.setenv("MUSTER_MASTER_UID", str(THIEFS))
    assert find(master="localhost:7002").end.account == THIEFS, "a program says it of the master that it names"
    monkeypatch.setenv("MUSTER_MASTER", "127.0.0.1:7003")
    assert (find().end.account, find(master="localhost:7001").end.account) == (THIEFS, MASTERS)


# -- the account beside conf.json ---------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A lab's folder of the master's account, into which nobody else may write."""
    need_users()
    for folder in (tmp_path, tmp_path / "task_info"):
        folder.mkdir(exist_ok=True)
        os.chown(folder, MASTERS, MASTERS)
    conf = tmp_path / "conf.json"
    ports = {"data_port": 7001, "train_state_port": 7002, "monitor_port": 7003}
    conf.write_text(json.dumps({"socket_info": ports}), encoding="utf-8")
    return tmp_path


def account_at(place: Path) -> int | None:
    found = recorded(str(place / "conf.json"), str(place / "task_info"))[0]
    for uid in (MASTERS, THIEFS):
        assert read_conf(str(place / "conf.json")).end.is_allowed(uid) is (uid == found)
    return found


def noted(place: Path, uid: int, owner: int, mode: int = 0o644) -> Path:
    path = Path(path_of(str(place / "conf.json")))
    path.unlink(missing_ok=True)
    path.write_text(f"{uid}\n", encoding="ascii")
    path.chmod(mode)
    os.chown(path, owner, owner)
    return path


def test_the_file_beside_conf_json_counts_before_the_owner_of_task_info(place: Path) -> None:
    assert account_at(place) == MASTERS, "a master of the version before writes no file"
    noted(place, 0, 0)
    assert account_at(place) is None, "it names root, who may be it anyway, in a folder that is not root's"
    noted(place, MASTERS, MASTERS)
    assert account_at(place) == MASTERS


def test_no_file_counts_that_somebody_else_can_have_written(place: Path) -> None:
    noted(place, THIEFS, MASTERS)
    assert account_at(place) is None
    for mode in (0o664, 0o646):
        noted(place, MASTERS, MASTERS, mode)
        assert account_at(place) is None
    path = noted(place, MASTERS, MASTERS)
    path.unlink()
    theirs = place / "theirs"
    theirs.write_text(f"{THIEFS}\n", encoding="ascii")
    os.chown(theirs, THIEFS, THIEFS)
    path.symlink_to(theirs)
    assert account_at(place) is None
    path.unlink()
    path.write_text("what?", encoding="ascii")
    assert account_at(place) is None


@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o775])
def test_nor_one_in_a_folder_where_others_may_put_it(place: Path, mode: int) -> None:
    place.chmod(mode)
    noted(place, THIEFS, THIEFS)
    assert account_at(place) is None
    Path(path_of(str(place / "conf.json"))).unlink()
    os.chown(place / "task_info", THIEFS, THIEFS)
    assert account_at(place) is None, "nor is a folder theirs who may have put it there"


def test_nor_in_a_folder_that_somebody_can_put_another_in_the_place_of(place: Path) -> None:
    lab = place / "lab"
    lab.mkdir()
    for name in ("conf.json", "task_info"):
        (place / name).rename(lab / name)
    os.chown(lab, MASTERS, MASTERS)
    assert account_at(lab) == MASTERS
    place.chmod(0o777)
    assert account_at(lab) is None
    place.chmod(0o1777)
    assert account_at(lab) is None, "as beneath /tmp, where everybody can have made it"
    os.chown(lab / "conf.json", MASTERS, MASTERS)
    assert account_at(lab) == MASTERS, "but for whoever wrote the conf.json that somebody named"
    place.chmod(0o755)
    os.chown(place, THIEFS, THIEFS)
    assert account_at(lab) is None


def test_the_master_puts_its_file_in_the_place_of_what_others_laid_there(place: Path) -> None:
    conf = str(place / "conf.json")
    code = f"from pathlib import Path; from master.start.account_file import note; note(Path({conf!r}))"
    path = Path(path_of(str(place / "conf.json")))
    (place / "precious").write_text("mine", encoding="ascii")
    path.symlink_to(place / "precious")
    note = [*as_account(MASTERS), sys.executable, "-c", code]
    subprocess.run(note, check=True, timeout=60)
    assert (account_at(place), path.stat().st_uid, path.stat().st_mode & 0o777) == (MASTERS, MASTERS, 0o644)
    assert not path.is_symlink()
    assert (place / "precious").read_text(encoding="ascii") == "mine"
    before = path.stat()
    subprocess.run(note, check=True, timeout=60)
    assert path.stat().st_ino == before.st_ino, "a start writes nothing that is right already"
    assert [one.name for one in place.iterdir() if one.name.startswith(".")] == []
