"""Who is at the other end of a real loopback connection."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from master.callers.addresses import origin
from master.callers.peer import Peer, identify
from master.edited_files.ownership import user_name
from tests import rights
from tests.testbed.bed import Testbed
from wire import netlink

NOBODY = 65534
OURS = os.geteuid()
CALLER = """
import os, socket, sys
family, host, port, uid, closes = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
origin = sys.argv[6].encode()
if uid:
    os.setuid(uid)
caller = socket.socket(family)
if origin:
    caller.bind((origin, 0))
caller.connect((host.encode(), port))
caller.sendall(b"hello")
if closes == "closes":
    caller.close()
if closes == "half":
    caller.shutdown(socket.SHUT_WR)
print("here", flush=True)
sys.stdin.read()
"""


def _from(sock: socket.socket) -> str:
    return str(sock.getpeername()[0])


@contextmanager
def _called(
    family: int = socket.AF_INET, uid: int = 0, closes: str = "stays", host: str = "", origin: str = ""
) -> Iterator[socket.socket]:
    """An accepted connection of another process. `uid`: the user that it becomes, if not 0."""
    host = host or ("::1" if family == socket.AF_INET6 else "127.0.0.1")
    with socket.create_server((host, 0), family=family) as server:
        port = str(server.getsockname()[1])
        process = subprocess.Popen(
            [sys.executable, "-c", CALLER, str(int(family)), host, port, str(uid), closes, origin],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"here\n"
            accepted, _ = server.accept()
            with accepted:
                yield accepted
        finally:
            process.communicate()


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_the_user_who_runs_the_master_is_known_without_a_log_in(family: int) -> None:
    with _called(family) as sock:
        assert identify(sock).user == pwd.getpwuid(os.geteuid()).pw_name


def test_by_whichever_of_its_addresses_a_process_of_this_machine_calls_the_kernel_tells_who_it_is() -> None:
    with Testbed(1) as bed:
        lan = bed.master_address
        for host, origin in ((lan, ""), (lan, lan), (lan, "127.0.0.1"), ("127.0.0.1", lan)):
            with _called(host=host, origin=origin) as sock:
                assert identify(sock) == Peer(_from(sock), user_name(OURS), is_ours=True, is_here=True, uid=OURS)
            with _called(host=host, origin=origin, uid=NOBODY) as sock:
                assert identify(sock) == Peer(_from(sock), is_here=True, uid=NOBODY)


def test_another_machine_is_not_here() -> None:
    with Testbed(1) as bed:
        host = bed.hosts[0]
        with socket.create_server((bed.master_address, 0)) as server:
            call = f"import socket; socket.create_connection(({bed.master_address!r}, {server.getsockname()[1]}))"
            host.run("python3", "-c", call)
            accepted, _ = server.accept()
            with accepted:
                assert identify(accepted) == Peer(host.address)
        assert not netlink.is_here(host.address)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.200.0.9", "::1", "::ffff:127.0.0.1"])
def test_loopback_is_here(address: str) -> None:
    assert netlink.is_here(address)


@pytest.mark.parametrize(
    "address", ["198.51.100.7", "2001:db8::7", "fe80::1%lo", "::ffff:198.51.100.7", "255.255.255.255"]
)
def test_nobody_elses_address_is_here(address: str) -> None:
    assert not netlink.is_here(address)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_another_user_of_the_machine_is_not(family: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        rights.need_users()
        uid = NOBODY
    else:
        uid = 0  # it stays who it is; then we are somebody else
        monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    with _called(family, uid=uid) as sock:
        assert identify(sock).user is None


@pytest.mark.parametrize("closes", ["closes", "half"])
@pytest.mark.parametrize("asked", [True, False], ids=["the kernel is asked", "its table is read"])
def test_only_a_connection_that_is_established_tells_who_is_there(
    monkeypatch: pytest.MonkeyPatch, closes: str, *, asked: bool
) -> None:
    """Of one that its owner has closed the kernel may say that it is root's."""
    monkeypatch.setattr(netlink, "_can_be_asked", lambda: asked)
    with _called(closes=closes) as sock:
        assert identify(sock).user is None
    with _called() as sock:
        assert identify(sock).user == user_name(os.geteuid())
    if rights.has_users():
        with _called(uid=NOBODY) as sock:
            assert identify(sock).user is None


@pytest.mark.parametrize("asked", [True, False], ids=["the kernel is asked", "its table is read"])
def test_who_reaches_an_ipv4_address_with_an_ipv6_socket_is_known_too(
    monkeypatch: pytest.MonkeyPatch, *, asked: bool
) -> None:
    """As programs in Java do, and whatever else knows one kind of socket."""
    monkeypatch.setattr(netlink, "_can_be_asked", lambda: asked)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_INET6) as caller:
        caller.connect(("::ffff:127.0.0.1", server.getsockname()[1]))
        accepted, _ = server.accept()
        with accepted:
            assert identify(accepted) == Peer("127.0.0.1", user_name(OURS), is_ours=True, is_here=True, uid=OURS)


def test_a_machine_is_one_origin_whichever_of_its_ipv6_addresses_it_uses() -> None:
    assert origin("2001:db8::1") == origin("2001:db8::ffff:1") != origin("2001:db8:0:1::1")
    assert origin("::ffff:192.0.2.7") == origin("192.0.2.7") != origin("192.0.2.8")


def test_a_socket_that_only_listens_there_is_nobodys_other_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours, theirs = ("127.0.0.1", 9), server.getsockname()
        assert netlink._owner_by_diag(ours, theirs) == netlink.ELSEWHERE
        assert netlink._owner_by_table(ours, theirs) == netlink.ELSEWHERE


def test_among_many_connections_each_is_asked_about_by_itself() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=200) as server, ExitStack() as stack:
        ends = [stack.enter_context(socket.create_connection(server.getsockname())) for _ in range(100)]
        for one in ends:
            stack.enter_context(server.accept()[0])
            assert netlink.owner(server.getsockname(), one.getsockname()) == os.geteuid()
        assert netlink._can_be_asked(), "this kernel has tcp_diag"


def test_a_user_without_a_name_is_called_by_number() -> None:
    assert user_name(3_999_999_999) == "3999999999"
