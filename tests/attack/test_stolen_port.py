"""While the master is down another account of its machine may take its port, and wait for who comes with a token.

Real processes with other uids, in the way that anybody can: one that takes connections, one that listens and takes
them when it has seen the check, on both families.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from client.address import find
from client.caller import Caller
from client.logins import Login, Logins
from client.port_holder import account_of, holders
from client.session import Session
from tests.rights import need_users
from tests.waiting import PATIENCE_S
from wire.errors import ForbiddenError, UnreachableError

MASTERS, THIEFS = 4300, 4242
TOKEN = "mst_t1_what-nobody-else-may-hear"  # noqa: S105
WAYS = ["takes", "lets wait"]
HOSTS = ["127.0.0.1", "::1"]
HOLDER = """
import os, socket, sys
uid, host, way = int(sys.argv[1]), sys.argv[2], sys.argv[3]
os.setgroups([])
os.setgid(uid)
os.setuid(uid)
family = socket.AF_INET6 if ":" in host else socket.AF_INET
with socket.create_server((host, 0), family=family) as server:
    print(server.getsockname()[1], flush=True)
    if way == "lets wait":
        sys.stdin.readline()
    with server.accept()[0] as caller:
        caller.settimeout(60)
        heard = b""
        while not heard.endswith(b"\\n") and (data := caller.recv(65536)):
            heard += data
    print(heard.decode(), flush=True)
"""


class Holder:
    """A process of an account's that has a port."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stdout is not None
        self.port = int(process.stdout.readline())

    def heard(self) -> str:
        """What somebody said to it, whose connection is over by now."""
        return self._process.communicate("\n", timeout=PATIENCE_S)[0].strip()


@contextmanager
def held(uid: int, host: str, way: str = "takes") -> Iterator[Holder]:
    need_users()
    words = [sys.executable, "-c", HOLDER, str(uid), host, way]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Holder(process)
        finally:
            process.kill()


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("way", WAYS)
def test_no_token_is_said_to_who_has_taken_the_masters_port(host: str, way: str) -> None:
    with held(THIEFS, host, way) as thief:
        session = Session(host, thief.port, TOKEN, patience=0, account=MASTERS)
        with pytest.raises(ForbiddenError, match=rf"held by uid {THIEFS}.*\(uid {MASTERS}\).*is the master down"):
            session.call("task.list", {})
        assert thief.heard() == ""
    with held(THIEFS, host, way) as thief:
        with pytest.raises(ForbiddenError):
            Session(host, thief.port, patience=0, account=MASTERS).check_unheard()  # before a password is asked for
        assert thief.heard() == ""


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("way", WAYS)
def test_it_is_said_to_the_account_that_had_the_port_at_the_log_in(host: str, way: str) -> None:
    with held(MASTERS, host, way) as master:
        session = Session(host, master.port, TOKEN, patience=0, account=MASTERS)
        with pytest.raises(UnreachableError):
            session.call("task.list", {}, timeout=5)
        session.close()
        assert json.loads(master.heard())["params"] == {"token": TOKEN}


def test_who_holds_a_port_is_known_whether_he_has_taken_the_connection_or_not() -> None:
    with held(MASTERS, "127.0.0.1", "lets wait") as master:
        session = Session("127.0.0.1", master.port, patience=0)
        assert session.check_unheard() == MASTERS
        assert session._socket is not None
        assert holders(session._socket) == {MASTERS}
        assert account_of(session._socket) == MASTERS
        session.close()
        assert master.heard() == ""


def test_what_a_log_in_keeps_and_what_a_task_is_told_is_who_the_master_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MUSTER_CONF", "MUSTER_MASTER", "MUSTER_MASTER_UID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    keep = Logins(str(tmp_path / "muster" / "logins")).keep
    keep(Login("localhost:7001", TOKEN, user="li", until=1.0, master="127.0.0.1:7001", account=MASTERS))
    assert (find(master="localhost:7001").account, find(master="localhost:7002").account) == (MASTERS, None)
    assert Caller(find(master="localhost:7001")).session.account == MASTERS
    monkeypatch.setenv("MUSTER_MASTER", "127.0.0.1:7003")
    monkeypatch.setenv("MUSTER_MASTER_UID", str(THIEFS))
    assert (find().account, find(master="localhost:7001").account) == (THIEFS, MASTERS)
