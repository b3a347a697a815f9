"""A name that leads to several addresses of this machine, at one of which another account has the master's port.

Real processes with other uids, and a master at the other address; only what the name leads to is said here, because
not every machine's `localhost` has both. The stranger hears nothing, and the client gets to the master.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from client.address import Address
from client.cli.commands import down
from client.other_end import OtherEnd
from client.session import Session
from client.trust import Trust
from master.tls.certificates import OwnCertificates
from monitor.agent.report.call import CallError, learn_master
from monitor.agent.report.settings import Settings as ReportSettings
from tests.attack.squatter import squatting
from tests.faults import refusing, said, says
from tests.rights import need_users
from tests.waiting import PATIENCE_S
from web import upstream
from web.settings import Settings
from wire.console import Web
from wire.errors import ForbiddenError, UnreachableError, UntrustedError
from wire.pinning import fingerprint

THIEFS, MASTERS = 4242, 4300
NAME = "localhost"
V6, V4 = "::1", "127.0.0.1"
WAYS = ("takes", "takes later", "hands on")
_real = socket.getaddrinfo


@pytest.fixture(autouse=True)
def _both(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name leads to both addresses, as it does where /etc/hosts has both."""

    def found(host: Any, *words: Any, **keys: Any) -> list[Any]:
        if host in (NAME, NAME.encode()):
            return [one for address in (V6, V4) for one in _real(address, *words, **keys)]
        return _real(host, *words, **keys)

    monkeypatch.setattr(socket, "getaddrinfo", found)


class Master:
    """What answers every call with what it was asked, as our own account; `port` is where. With `certificates` over
    TLS, and who asks for its authority is shown that. `is_other`: it speaks plain text and is no master."""

    def __init__(
        self, port: int = 0, host: str = V4, certificates: OwnCertificates | None = None, *, is_other: bool = False
    ) -> None:
        self._is_other = is_other
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._server = socket.create_server((host, port), family=family)
        self._certificates = certificates
        self.port = self._server.getsockname()[1]
        self.heard: list[str] = []
        self._ends: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                end = self._server.accept()[0]
                self._ends.append(end)
                threading.Thread(target=self._answer, args=(end,)).start()

    def _answer(self, bare: socket.socket) -> None:
        if self._is_other:
            with suppress(OSError), bare:
                bare.sendall(b"in plain text\n")
                while bare.recv(1000):
                    pass
            return
        with suppress(OSError), bare, self._secured(bare) as end, end.makefile("rb") as lines:
            for line in lines:
                call = json.loads(line)
                if call.get("op") == "authority":
                    end.sendall(json.dumps({"certificate": self._authority(), "cluster": "c"}).encode() + b"\n")
                    continue
                self.heard.append(call["method"])
                end.sendall(json.dumps({"id": call["id"], "result": {"asked": call["method"]}}).encode() + b"\n")

    def _secured(self, bare: socket.socket) -> socket.socket:
        if self._certificates is None:
            return bare
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificates.shown)
        return context.wrap_socket(bare, server_side=True)

    def _authority(self) -> str:
        return self._certificates.read()[1] if self._certificates is not None else ""

    def hang_up(self) -> None:
        """End the connections that are open."""
        while self._ends:
            with suppress(OSError):
                self._ends.pop().shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End it."""
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(PATIENCE_S)
        self.hang_up()


@contextmanager
def serving(
    port: int = 0, host: str = V4, certificates: OwnCertificates | None = None, *, is_other: bool = False
) -> Iterator[Master]:
    master = Master(port, host, certificates, is_other=is_other)
    try:
        yield master
    finally:
        master.close()


@pytest.fixture
def master() -> Iterator[Master]:
    need_users()
    with serving() as made:
        yield made


def session(port: int, patience: float = 0) -> Session:
    return Session(NAME, port, "mst_t1_secret", patience=patience, end=OtherEnd())


@pytest.mark.parametrize("way", WAYS)
def test_the_master_is_asked_where_another_account_has_its_port_at_the_first_address(master: Master, way: str) -> None:
    with squatting(THIEFS, V6, way, master.port) as thief:
        one = session(master.port)
        assert one.call("task.list", {}) == {"asked": "task.list"}
        one.close()
        assert master.heard == ["auth.token", "task.list"]
        assert thief.heard() == ""


def test_where_no_address_is_the_masters_the_first_refusal_is_said(master: Master) -> None:
    with squatting(THIEFS, V6, port=master.port) as first:
        master.close()
        for hosts in ((), (V4,)):
            for _ in hosts:
                other = squatting(MASTERS, V4, port=master.port)
                other.__enter__()
            with refusing(ForbiddenError, "port_of_somebody", holder=f"uid {THIEFS}"):
                session(master.port).call("task.list", {})
            for _ in hosts:
                other.__exit__(None, None, None)
        assert first.heard() == ""


def test_where_no_address_is_anybodys_the_master_cannot_be_reached(master: Master) -> None:
    master.close()
    with refusing(UnreachableError, "master_unreachable", detail="connection refused"):
        session(master.port).call("task.list", {})


def test_a_call_waits_for_a_master_that_is_restarted_though_another_account_has_the_first_address(
    master: Master,
) -> None:
    with squatting(THIEFS, V6, port=master.port) as thief:
        one = session(master.port, patience=PATIENCE_S)
        one.call("task.list", {})
        master.close()
        again: list[Master] = []

        def returned(_why: str) -> None:
            if not again:
                again.append(Master(master.port))

        one.on_retry = returned
        assert one.call("task.get", {}) == {"asked": "task.get"}
        one.close()
        again[0].close()
        assert thief.heard() == ""


def test_the_console_asks_the_master_where_another_account_has_the_first_address(
    master: Master, tmp_path: Path
) -> None:
    ports = dict.fromkeys(("calls", "tasks", "nodes"), master.port)
    known = Settings(tmp_path / "conf.json", Web(), NAME, tmp_path, NAME, ports, "off")
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "web").write_text("mst_web_secret", encoding="ascii")

    async def asked() -> None:
        made = await upstream.Upstream.open(known, "calls", origin="10.0.0.1")
        await made.close()

    for way in WAYS:
        with squatting(THIEFS, V6, way, master.port) as thief:
            asyncio.run(asked())
            assert thief.heard() == ""
    assert master.heard == ["server.hello", "auth.token", "auth.relay"] * len(WAYS)
    with squatting(THIEFS, V6, port=master.port):
        master.close()
        with pytest.raises(UnreachableError, match=f"{THIEFS}"):
            asyncio.run(asked())


def test_a_master_that_still_listens_is_not_gone_though_another_account_has_the_first_address(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(down, "_STOP_S", 0.3)
    with squatting(THIEFS, V6, port=master.port):
        here = Address(NAME, master.port)
        assert not down._gone(here)
        assert not down._nobody_listens(NAME, master.port)
        master.close()
        monkeypatch.setattr(down, "_STOP_S", PATIENCE_S)
        assert down._gone(here)
        assert not down._nobody_listens(NAME, master.port), "somebody does"
    assert down._nobody_listens(NAME, master.port)


# -- over TLS -------------------------------------------------------------------------------------------------------


def certificates(folder: Path) -> OwnCertificates:
    made = OwnCertificates(folder, ["queue"])
    made.ensure()
    return made


@contextmanager
def two_masters(folder: Path, first: str) -> Iterator[tuple[Master, str]]:
    """The master at one address, and at the first one somebody else: who speaks plain text, or shows another authority.
    Gives the master, and its authority's fingerprint."""
    own = certificates(folder / "own")
    with serving(certificates=own) as master:
        is_other = first == "plain text"
        theirs = None if is_other else certificates(folder / "other")
        with serving(master.port, V6, theirs, is_other=is_other) as other:
            yield master, fingerprint(own.read()[1])
            assert other.heard == []


SOMEBODY_ELSE = ("speaks_no_tls", "authority_is_another", "authority_is_not_that")
FIRST = pytest.mark.parametrize("first", ["plain text", "another authority"])


@FIRST
def test_the_pinned_master_is_found_behind_an_address_of_somebody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with two_masters(tmp_path, first) as (master, authority):
        for wanted in (authority, ""):  # it is pinned by the first
            trust = Trust(f"{NAME}:1")
            trust.wanted = wanted
            one = Session(NAME, master.port, "mst_t1_secret", patience=0, trust=trust)
            assert one.call("task.list", {}) == {"asked": "task.list"}
            one.close()
        master.close()
        lost = Session(NAME, master.port, patience=0, trust=Trust(f"{NAME}:1"))
        with pytest.raises((UntrustedError, UnreachableError)) as caught:
            lost.call("task.list", {})
        assert any(says(said(caught.value), key) for key in SOMEBODY_ELSE), repr(said(caught.value))


@FIRST
def test_an_agent_that_dials_in_finds_its_master_behind_an_address_of_somebody_elses(
    tmp_path: Path, first: str
) -> None:
    with two_masters(tmp_path, first) as (master, authority):
        settings = ReportSettings(str(tmp_path), "far")
        settings.point_to(f"{NAME}:{master.port}", authority)
        learn_master(settings)
        assert fingerprint(settings.certificate) == authority
        assert settings.cluster == "c"
        master.close()
        with pytest.raises(CallError, match="no TLS came about" if first == "plain text" else "somebody stands"):
            learn_master(settings)
