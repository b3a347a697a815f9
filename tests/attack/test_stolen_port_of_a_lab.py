"""A squatter at the ports of a real lab: a master of an account of its own, other people of its machine, one of whom
takes its ports while it is down. Of all that the programs around it send, they hear nothing; `up` says who it is."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from client import address
from client.api import Client
from client.caller import token_for
from client.logins import Login, Logins
from client.session import Session
from client.trust import Trust
from monitor.influx_follower import Asker, Stream
from tests.attack.squatter import as_account, squatting
from tests.client.terminal import Terminal
from tests.faults import in_words, refusing
from tests.people_here import MASTER, PEOPLE, PeopleHere
from tests.system.lab import ROOT, Lab
from tests.testbed.bed import Testbed
from tests.waiting import PATIENCE_S
from web import settings
from web.upstream import Upstream
from wire import netlink
from wire.errors import ForbiddenError, MusterError, UnauthenticatedError, UnreachableError, UntrustedError
from wire.framing import encode
from wire.master_account import path_of
from wire.message import Message
from wire.pinning import fingerprint, unverified

TOKEN = "mst_t1_what-nobody-else-may-hear"  # noqa: S105
PASSWORD = "gull kettle 七 orchard"  # noqa: S105
SECRET = "hunter2"  # noqa: S105
PORTS = ("data_port", "train_state_port", "monitor_port")


class Place:
    """The lab, and commands of people there."""

    def __init__(self, folder: Path) -> None:
        self.people = PeopleHere(folder)
        self.lab = Lab(folder / "lab", nodes=1)
        os.chown(self.lab.folder, MASTER, MASTER)
        self.lab.before = [*self.people.inside, *as_account(MASTER)]
        self.lab.write_conf(local_users="same name")

    def port(self, name: str = "data_port") -> int:
        """One of the three."""
        return int(self.lab.keys["socket_info"][name])

    def muster(self, uid: int, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """A command of somebody's."""
        command = [*self.people.inside, *as_account(uid), sys.executable, "-m", "muster", *words]
        return subprocess.run(
            command, cwd=ROOT, env={**self.lab.environment(), "HOME": "/nonexistent", "XDG_CONFIG_HOME": "", **more},
            capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False,
        )  # fmt: skip


@pytest.fixture
def place() -> Iterator[Place]:
    """No master runs yet."""
    folder = Path(tempfile.mkdtemp(prefix="muster-squatter-"))
    folder.chmod(0o755)
    made = Place(folder)
    try:
        yield made
    finally:
        assert made.lab.close() == []
        shutil.rmtree(folder)


def test_others_of_the_machine_are_served_until_somebody_else_has_the_port(place: Place) -> None:
    alice, conf = PEOPLE["alice"], str(place.lab.conf)
    place.lab.start()
    with place.lab.client() as owner:
        owner.people.add("alice")
    assert Path(path_of(conf)).read_text(encoding="ascii") == f"{MASTER}\n"
    submit = ["submit", "--var", f"KEY={SECRET}", "--", "echo", SECRET]
    done = place.muster(alice, submit[0], "--conf", conf, *submit[1:])
    assert done.returncode == 0, done.stderr
    here = f"127.0.0.1:{place.port()}"
    for more in ({"MUSTER_MASTER_UID": str(MASTER)}, {"MUSTER_MASTER": here, "MUSTER_MASTER_UID": str(MASTER)}):
        done = place.muster(alice, "queue", "--master", here, **more)
        assert done.returncode == 0, done.stderr
    place.lab.stop_master()
    ways = [("--conf", conf), ("--master", here), ("--master", f"plain://{here}")]
    for uid in (alice, MASTER, 0):
        with squatting(PEOPLE["bob"], port=place.port()) as bob:
            for way in ways:
                for words in (submit, ["submit", "--token", TOKEN, "--", "true"], ["queue"], ["down"], ["whoami"]):
                    done = place.muster(uid, words[0], *way, *words[1:])
                    assert (done.returncode, done.stdout) == (1, ""), (words, done.stderr)
                    keys = ("port_of_another", "port_of_somebody")
                    assert any(in_words(done.stderr, key, port=place.port()) for key in keys)
                    assert f"(uid {PEOPLE['bob']})" in done.stderr
            done = place.muster(uid, "queue", "--conf", conf, MUSTER_TOKEN=TOKEN)
            assert done.returncode == 1
            assert bob.heard() == ""
    place.lab.start()
    assert place.muster(alice, "queue", "--conf", conf).returncode == 0, "and when it is back"


def test_the_first_log_in_at_a_terminal_asks_whose_the_port_is(place: Place) -> None:
    alice, here = PEOPLE["alice"], f"127.0.0.1:{place.port()}"
    place.lab.start()
    with place.lab.client() as owner:
        owner.people.add("carol", password=PASSWORD)
    home = place.lab.folder.parent / "home"
    home.mkdir()
    os.chown(home, alice, alice)
    more = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "PYTHONPATH": str(ROOT)}
    words = [*place.people.inside, *as_account(alice), sys.executable, "-m", "muster", "login", here, "--user", "carol"]
    for answer in (b"n", b"y"):
        with Terminal(words, more) as terminal:
            terminal.shows(f"held by queue (uid {MASTER})".encode())
            terminal.types(f"{answer.decode()}\n")
            if answer == b"y":
                terminal.shows(b"Password of")
                terminal.types(f"{PASSWORD}\n")
            code, said = terminal.ends()
            assert code == (0 if answer == b"y" else 1), said
    assert '"carol"' in place.muster(alice, "whoami", "--json", "--master", here, **more).stdout
    place.lab.stop_master()
    with squatting(PEOPLE["bob"], port=place.port()) as bob:
        done = place.muster(alice, "whoami", "--master", here, **more)
        assert in_words(done.stderr, "port_of_another", port=place.port(), account=f"queue (uid {MASTER})")
        with Terminal(words, more) as terminal:
            code, said = terminal.ends()
            assert (code, b"Password" in said) == (1, False), said
        assert bob.heard() == ""


def test_a_master_of_the_version_before_is_known_by_its_folder(place: Place) -> None:
    place.lab.start()
    with place.lab.client() as owner:
        owner.people.add("alice")
    Path(path_of(str(place.lab.conf))).unlink()
    done = place.muster(PEOPLE["alice"], "queue", "--conf", str(place.lab.conf))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("uid", [0, MASTER], ids=["root", "an account"])
def test_up_names_who_has_a_port(place: Place, uid: int) -> None:
    os.chown(place.lab.folder, uid, uid)
    for name in PORTS:
        with squatting(PEOPLE["bob"], port=place.port(name)) as bob:
            what = f"process {bob.process.pid} (python" if uid == 0 else "a process"  # others' are seen by root alone
            for words in (["up", "--detach"], ["up"]):
                done = place.muster(uid, *words, "--conf", str(place.lab.conf))
                assert done.returncode != 0
                assert f"held by {what}" in done.stderr, done.stderr
                assert f"of bob (uid {PEOPLE['bob']})" in done.stderr
                assert "a master runs" not in done.stderr
                assert str(place.port(name)) in done.stderr
            assert bob.heard() == ""


def test_one_port_of_the_three_is_enough_for_nothing(place: Place) -> None:
    place.lab.start()
    where = address.find(conf=str(place.lab.conf))
    with squatting(PEOPLE["bob"]) as bob:
        where.train_state = where.monitor = bob.port
        with Client(where, None) as client:
            ours = client.submit(["true"], hold=True)
            for follow in (lambda: client.wait([ours], 5), lambda: next(client.watch("nodes"))):
                with refusing(ForbiddenError, "port_of_another", port=bob.port):
                    follow()
            client.cancel([ours])
        assert bob.heard() == ""


def test_the_writer_of_metrics_and_the_console_say_nothing_either(place: Place) -> None:
    place.lab.start()
    place.lab.stop_master()
    conf = place.lab.conf
    assert (place.lab.task_info / "services" / "metrics").exists()
    place.lab.write_conf(web={"port": 1})
    known = settings.load(conf)
    with squatting(PEOPLE["bob"], port=place.port()) as bob:
        with pytest.raises(ForbiddenError):
            next(Stream(str(conf), "tasks", queue.Queue())._follow())
        with pytest.raises(ForbiddenError):
            Asker(str(conf), queue.Queue())._ask()
        with refusing(UnreachableError, "master_port_taken", uid=PEOPLE["bob"]):
            asyncio.run(_opened(known))
        assert bob.heard() == ""
    place.lab.start()
    asyncio.run(_opened(known))


async def _opened(known: settings.Settings) -> None:
    made = await Upstream.open(known, "calls", shown="", origin="127.0.0.1")
    await made.close()


# -- where the kernel does not tell -------------------------------------------------------------------------------


def test_what_the_kernel_does_not_tell_is_encrypted_or_not_said(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at a container's published port: the other end is in another network namespace."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    place.lab.start()
    monkeypatch.setattr(netlink, "other_end", lambda _ours, _theirs: netlink.ELSEWHERE)
    here = f"127.0.0.1:{place.port()}"
    for name in (here, f"plain://{here}"):
        with Client(address.parse(name), TOKEN) as unknown, pytest.raises((UntrustedError, ForbiddenError)):
            unknown.people.whoami()
    with Client(address.find(conf=str(place.lab.conf))) as ours:
        authority = ours.info()["tls"]["authority"]
        assert ours.session.is_encrypted, "conf.json's folder has the certificate"
    known = address.parse(here)
    known.end.fingerprint = authority
    with Client(known) as first:
        assert first.info()["pid"]
        assert first.session.is_encrypted
    with Client(address.parse(here)) as later:
        assert later.info()["pid"], "it is pinned by now"
    place.lab.stop_master()
    with squatting(PEOPLE["bob"], port=place.port()) as bob:
        for where in (address.parse(here), address.find(conf=str(place.lab.conf))):
            with Client(where, TOKEN) as client, pytest.raises(MusterError) as told:
                client.call("task.submit", {"command": [SECRET]})
            assert "plain://" not in str(told.value)
        assert SECRET not in (heard := bob.heard())
        assert TOKEN not in heard


FORWARDER = """
import os, socket, sys, threading
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))

def carry(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # either end is gone

with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        caller = server.accept()[0]
        master = socket.create_connection((b"127.0.0.1", int(sys.argv[2])))
        for ends in ((caller, master), (master, caller)):
            threading.Thread(target=carry, args=ends, daemon=True).start()
"""


def test_a_known_authority_proves_who_answers_behind_somebody_elses_forwarding(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with an `ssh -L` of bob's, or a container without root."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    place.lab.start()
    words = [sys.executable, "-c", FORWARDER, str(PEOPLE["bob"]), str(place.port())]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as forwarder:
        try:
            assert forwarder.stdout is not None
            where = address.parse(f"127.0.0.1:{int(forwarder.stdout.readline())}")
            with Client(where) as client, pytest.raises(ForbiddenError):
                client.info()
            with socket.create_connection(("127.0.0.1", place.port())) as sock:
                pem = ssl_authority(sock)
            where.end.fingerprint = fingerprint(pem)
            with Client(where) as client:
                with pytest.raises(UnauthenticatedError, match="no log-ins yet"):
                    client.info()  # the master answers, to whom it takes for bob
                assert client.session.is_encrypted
        finally:
            forwarder.kill()
    with squatting(PEOPLE["bob"], port=where.data) as bob:
        with Client(where, TOKEN) as client, pytest.raises(ForbiddenError, match=f"uid {PEOPLE['bob']}"):
            client.info()
        assert TOKEN not in bob.heard()


def ssl_authority(sock: socket.socket) -> str:
    """What the master shows to whoever asks."""
    with unverified().wrap_socket(sock) as encrypted:
        encrypted.sendall(encode({"op": "authority"}))
        with encrypted.makefile("rb") as lines:
            return str(json.loads(lines.readline())["certificate"])


# -- TLS stripped -------------------------------------------------------------------------------------------------


def test_plain_text_is_neither_advised_nor_spoken_where_tls_was(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By one of the machine's own addresses, where a log-in over TLS is, and its authority is pinned."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with Testbed(0) as bed:
        lan = bed.master_address
        place.lab.write_conf(bind="0.0.0.0")  # noqa: S104
        place.lab.start()
        here = f"{lan}:{place.port()}"
        with place.lab.client() as owner:
            authority = owner.info()["tls"]["authority"]
            owner.people.add("alice")
            token = owner.people.new_token("alice")["token"]
        first = address.parse(here)
        assert first.trust is not None
        first.trust.wanted = authority
        with Client(first, token) as client:
            assert client.people.whoami()["user"] == "alice"
        logins = Logins(str(tmp_path / "config" / "muster" / "logins"))
        logins.keep(Login(here, token, user="alice", until=9e9, master=here, tls=True))
        place.lab.stop_master()
        environment = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
        for uid in (PEOPLE["bob"], 0):  # root's: not even who is trusted hears it in plain text
            with squatting(uid, lan, port=place.port()) as squatter:
                done = place.muster(0, "queue", "--master", here, **environment)
                before, after = str(Message("speaks_no_tls", detail="|")).split("|")
                assert before in done.stderr
                assert after in done.stderr
                assert "plain://" not in done.stderr
                for given in ({}, {"MUSTER_TOKEN": token}):
                    done = place.muster(0, "queue", "--master", f"plain://{here}", **environment, **given)
                    told = str(Message("not_called_in_plain", at=here, plain="plain://"))
                    assert (done.returncode, told in done.stderr) == (1, True), done.stderr
                done = place.muster(0, "queue", "--master", f"plain://{here}", "--token", token, **environment)
                assert done.returncode == 1
                fingerprint = {"MUSTER_CA_FINGERPRINT": authority}  # as tasks and scripts have it, with no file
                done = place.muster(0, "queue", "--master", f"plain://{here}", MUSTER_TOKEN=token, **fingerprint)
                assert done.returncode == 1
                assert token not in squatter.heard()
        Trust(here)  # the file with the authority is gone, the log-in is not
        shutil.rmtree(tmp_path / "config" / "muster" / "authorities")
        with squatting(0, lan, port=place.port()) as squatter:
            done = place.muster(0, "queue", "--master", f"plain://{here}", **environment)
            assert str(Message("token_of_tls")) in done.stderr
            session = Session(lan, place.port(), token, patience=0, end=address.find(master=f"plain://{here}").end)
            with refusing(ForbiddenError, "token_of_tls"):
                session.call("task.list", {})
            assert token not in squatter.heard()


@pytest.mark.parametrize("by_hand", ["variable", "argument"])
def test_nor_does_the_token_of_a_log_in_at_another_address_travel_in_plain_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_hand: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config" / "muster" / "logins"
    Logins(str(folder)).keep(Login("queue.lab:7", TOKEN, user="li", until=9e9, master="queue.lab:7"))
    (folder / "broken.json").write_text("{", encoding="ascii")
    if by_hand == "variable":
        monkeypatch.setenv("MUSTER_TOKEN", TOKEN)
    given = TOKEN if by_hand == "argument" else None
    with squatting(0) as roots:  # who may hear anything else
        for name in (f"127.0.0.1:{roots.port}", f"plain://127.0.0.1:{roots.port}"):
            where = address.find(master=name)
            with Client(where, token_for(where, given)) as client, pytest.raises(MusterError):
                client.info()
        assert TOKEN not in roots.heard()


def test_a_log_in_says_itself_that_it_came_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    logins = Logins(str(tmp_path))
    told = {
        "queue.lab:7": True,
        "plain://10.0.0.5:7": False,
        "127.0.0.1:7": False,
        "localhost:7": False,
    }
    for master, is_tls in told.items():
        logins.keep(Login("one", TOKEN, user="li", until=1.0, master=master))
        found = logins.of("one")
        assert found is not None
        assert found.tls is is_tls, master
        assert "tls" not in json.loads((tmp_path / "one.json").read_text()), "a version before takes it, too"
    logins.keep(Login("one", TOKEN, user="li", until=1.0, master="127.0.0.1:7", tls=True))
    assert json.loads((tmp_path / "one.json").read_text())["tls"] is True
    assert logins.of("one").tls  # type: ignore[union-attr]
