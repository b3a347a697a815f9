"""Somebody who opens all connections that they may, from this machine or elsewhere: the others come in as before, also
those who have the same address. Real processes of other uids at a real master, and the counting by itself."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from master.callers import subordinates
from master.callers.peer import Peer
from master.drivers import report
from master.drivers.report import ArchiveTransfer
from tests.master.core.small_core import core_with
from tests.master.ports.test_connection_counts import OURS, Guest, Hall
from tests.rights import need_users
from tests.system.lab import Lab
from tests.testbed.archives import archive_of
from tests.waiting import PATIENCE_S, until

ANN, BOB = 4301, 4302
MANY = 128
"""As many as one address may have."""
COMES = """
import json, os, socket, sys
uid, port, token, count = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
os.setgroups([])
os.setgid(uid)
os.setuid(uid)
kept, heard = [], []
for number in range(count):
    caller = socket.socket()
    caller.settimeout(60)
    caller.bind((f"127.0.0.{number % 3 + 1}", 0))
    caller.connect(("127.0.0.1", port))
    kept.append(caller)
    asked = {"jsonrpc": "2.0", "id": 1, "method": "auth.token", "params": {"token": token}}
    if token:
        caller.sendall(json.dumps(asked).encode() + b"\\n")
        answer = json.loads(caller.makefile().readline())
        heard.append(answer.get("result", {}).get("user") or answer["error"]["data"]["key"])
print(json.dumps(heard), flush=True)
sys.stdin.read()
"""
"""As this account it opens so many connections, shows a token on each, tells as whom each was taken, and keeps them."""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    need_users()
    lab = Lab(tmp_path, nodes=1)
    lab.start()
    yield lab
    assert lab.close() == []


def token_of(lab: Lab, name: str) -> str:
    with lab.client() as owner:
        owner.people.add(name)
        return owner.people.new_token(name)["token"]


def comes(lab: Lab, uid: int, token: str, count: int) -> tuple[subprocess.Popen[str], list[str]]:
    port = lab.keys["socket_info"]["data_port"]
    words = [sys.executable, "-c", COMES, str(uid), str(port), token, str(count)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told = process.stdout.readline()
    if not told:
        leaves(process)
    return process, json.loads(told)


def leaves(process: subprocess.Popen[str]) -> None:
    process.communicate("", timeout=PATIENCE_S)


def test_an_account_with_many_connections_keeps_no_other_account_out(lab: Lab) -> None:
    anns, bobs = token_of(lab, "ann"), token_of(lab, "bob")
    crowd, heard = comes(lab, ANN, anns, MANY)
    silent, _ = comes(lab, ANN, "", MANY)
    try:
        assert heard == ["ann"] * MANY
        other, heard = comes(lab, BOB, bobs, 3)
        leaves(other)
        assert heard == ["bob"] * 3
    finally:
        leaves(silent)
        leaves(crowd)


def test_a_user_has_no_more_connections_by_having_more_accounts(lab: Lab) -> None:
    lab.stop_master()
    lab.write_conf(limits={"connections_per_user": 4})
    lab.start()
    anns = token_of(lab, "ann")
    crowd, heard = comes(lab, ANN, anns, 4)
    try:
        assert heard == ["ann"] * 4
        more, heard = comes(lab, BOB, anns, 1)
        leaves(more)
        # The answer to the token is not told: there is no place for the connection.
        assert heard == ["no_more_of_this_user"]
    finally:
        leaves(crowd)


# -- the counting -------------------------------------------------------------------------------------------------


def local(uid: int | None) -> Peer:
    return Peer("127.0.0.1", is_here=True, uid=uid)


def logs_in(hall: Hall, peer: Peer | str, user: str) -> Guest:
    guest = hall.comes(peer)
    hall.refused = hall.refused or hall.places.settle(guest, user)
    if hall.refused is not None:
        hall.places.leave(guest)
    return guest


@pytest.mark.parametrize("where", ["here", "at one address"])
def test_users_at_one_address_have_places_of_their_own(where: str) -> None:
    hall = Hall(connections_per_user=4)
    at = {"ann": local(ANN), "bob": local(BOB)} if where == "here" else dict.fromkeys(("ann", "bob"), Peer("10.0.0.1"))
    for _ in range(4):
        logs_in(hall, at["ann"], "ann")
        assert hall.refused is None
    logs_in(hall, at["ann"], "ann")
    assert "limits.connections_per_user" in str(hall.refused)
    logs_in(hall, "10.0.0.9", "ann")
    assert "ann" in str(hall.refused), "from wherever"
    logs_in(hall, at["bob"], "bob")
    assert hall.refused is None


def test_where_few_files_may_be_open_one_user_does_not_take_all_places() -> None:
    hall = Hall(connections=24)
    for _ in range(24):
        logs_in(hall, local(ANN), "ann")
    assert hall.refused is not None
    for number in range(5):
        logs_in(hall, local(BOB), "bob")
        assert hall.refused is None, number


def test_subordinate_uids_are_one_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "subuid"
    file.write_text("ann:100000:65536\nnonsense\nbob:165536:65536\n", encoding="ascii")
    monkeypatch.setattr(subordinates, "SUBUID", file)
    hall = Hall()
    other = hall.comes(local(165536))
    flood = [hall.comes(local(100000 + number)) for number in range(20)]
    assert sum(guest.why is None for guest in flood) == 8
    assert other.why is None
    assert subordinates.subordinate_of(300000) is None
    file.unlink()
    assert subordinates.subordinate_of(100000) is None


@pytest.mark.parametrize("owner", ["ann", "4301"])
def test_an_account_and_its_subordinate_uids_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str
) -> None:
    subuid, passwd = tmp_path / "subuid", tmp_path / "passwd"
    subuid.write_text(f"{owner}:100000:65536\n", encoding="ascii")
    passwd.write_text("root:x:0:0::/root:/bin/sh\n+::::::\nann:x:4301:4301::/home/ann:/bin/sh\n", encoding="ascii")
    monkeypatch.setattr(subordinates, "SUBUID", subuid)
    monkeypatch.setattr(subordinates, "PASSWD", passwd)
    hall = Hall()
    flood = [hall.comes(local(ANN if number % 2 else 100000 + number)) for number in range(20)]
    assert sum(guest.why is None for guest in flood) == 8


def test_an_account_that_only_a_directory_knows_is_one_with_its_subordinate_uids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked beside the loop, for it may hang; by the next connection it is known."""
    subuid = tmp_path / "subuid"
    subuid.write_text("far:100000:65536\n", encoding="ascii")
    monkeypatch.setattr(subordinates, "SUBUID", subuid)
    asked = threading.Event()

    def getpwnam(name: str) -> SimpleNamespace:
        assert asked.wait(PATIENCE_S)
        assert name == "far"
        return SimpleNamespace(pw_uid=ANN)

    monkeypatch.setattr(subordinates, "getpwnam", getpwnam)
    assert subordinates.subordinate_of(100000) == "far"
    asked.set()
    until("its uid", lambda: subordinates.subordinate_of(100000) == ANN)
    hall = Hall()
    flood = [hall.comes(local(ANN if number % 2 else 100000 + number)) for number in range(20)]
    assert sum(guest.why is None for guest in flood) == 8


@pytest.mark.parametrize(("most", "crowd"), [(512, 12), (4096, 20)])
def test_few_users_do_not_take_all_places(most: int, crowd: int) -> None:
    hall = Hall(connections=most, connections_per_user=512)
    for user in range(crowd):
        for _ in range(600):
            logs_in(hall, local(5000 + user), f"u{user}")
            hall.refused = None
    for user in range(5):
        for number in range(4):
            logs_in(hall, local(6000 + user), f"late{user}")
            assert hall.refused is None, (user, number)
    for _ in range(4):
        hall.speaks(OURS)
        assert hall.refused is None


def test_who_has_many_connections_gets_no_more_as_places_become_few() -> None:
    hall = Hall(connections=512, connections_per_user=512)
    had = []
    for user in range(6):
        before = hall.places.taken
        for _ in range(600):
            logs_in(hall, local(5000 + user), f"u{user}")
            hall.refused = None
        had.append(hall.places.taken - before)
    assert had == sorted(had, reverse=True)
    assert had[0] <= 512 // 4
    assert had[-1] > 8, "but each has more than a few"


def test_who_keeps_most_bytes_pays_for_what_all_keep_together() -> None:
    hall = Hall()
    crowd = [logs_in(hall, local(uid), f"user {uid}") for uid in range(4301, 4305)]
    assert all(hall.holds(guest, 1000) for guest in crowd)
    other = logs_in(hall, local(4400), "bob")
    assert hall.holds(other, 500)
    assert (other.why, [guest.why is None for guest in crowd].count(False)) == (None, 1)


def test_bytes_go_with_a_connection_to_its_user() -> None:
    hall = Hall()
    first, second = hall.comes(local(ANN)), hall.comes(local(ANN))
    assert hall.holds(first, 900)
    assert hall.places.settle(first, "ann") is None
    assert hall.holds(second, 900), "what was kept is the user's now"
    assert hall.places.settle(second, "ann") is None
    assert not hall.holds(second, 901)
    assert hall.places.settle(logs_in(hall, local(BOB), "ann"), "ann", is_service=True) is None
    for guest in hall.guests:
        hall.places.leave(guest)
    assert hall.places.is_empty


def test_where_the_masters_account_is_shared_only_root_and_services_are_not_counted() -> None:
    hall = Hall(only_root=True)
    shared = Peer("127.0.0.1", "ann", is_ours=True, is_here=True, uid=1000)
    flood = [hall.comes(shared) for _ in range(20)]
    assert sum(guest.why is None for guest in flood) == 8
    roots = [hall.comes(Peer("127.0.0.1", "root", is_ours=True, is_here=True, uid=0)) for _ in range(20)]
    assert {guest.why for guest in roots} == {None}
    console = []
    for _ in range(20):
        console.append(hall.comes(shared))
        assert hall.places.settle(console[-1], "web", is_service=True) is None
    assert {guest.why for guest in console} == {None}
    assert Hall().comes(OURS).why is None


class Connection(asyncio.Transport):
    """One over which the archive would be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.is_cut = False

    def set_protocol(self, _protocol: asyncio.BaseProtocol) -> None: ...

    def write(self, _data: object) -> None: ...

    def abort(self) -> None:
        self.is_cut = True


def test_who_fetches_the_archive_and_never_reads_it_keeps_no_agent_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "TRANSFERS", 4)
    monkeypatch.setattr(report, "TRANSFERS_OF_ONE", 2)

    async def story() -> None:
        tls: Any = SimpleNamespace(is_on=True)
        server = report.ReportServer(core_with(), tls, archive_of(b"archive"), "lab")

        def asks(whence: str) -> Connection:
            connection = Connection()
            server.receive(connection, b'{"op":"archive"}\n', "127.0.0.1", whence=whence, is_plain=False)
            return connection

        greedy = [asks(f"account {4301 + number // 2} here") for number in range(4)]
        agent = asks("account 4400 here")
        assert [one.is_cut for one in greedy] == [True, False, False, False]
        assert not agent.is_cut
        for transfer in list(server.transfers):
            assert isinstance(transfer, ArchiveTransfer)
            transfer.connection_lost(None)
        assert not server.transfers

    asyncio.run(story())
