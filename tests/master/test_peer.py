"""Who is at the other end of a real loopback connection."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from master.peer import identify, user_name
from tests.testbed.bed import Testbed

NOBODY = 65534
CALLER = """
import os, socket, sys
family, host, port, uid, closes = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
if uid:
    os.setuid(uid)
caller = socket.socket(family)
caller.connect((host.encode(), port))
caller.sendall(b"hello")
if closes == "closes":
    caller.close()
print("here", flush=True)
sys.stdin.read()
"""


@contextmanager
def _called(
    family: int = socket.AF_INET, uid: int = 0, closes: str = "stays", host: str = ""
) -> Iterator[socket.socket]:
    """An accepted connection of another process. `uid`: the user that it becomes, if not 0."""
    host = host or ("::1" if family == socket.AF_INET6 else "127.0.0.1")
    with socket.create_server((host, 0), family=family) as server:
        port = str(server.getsockname()[1])
        process = subprocess.Popen(
            [sys.executable, "-c", CALLER, str(int(family)), host, port, str(uid), closes],
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


def test_whoever_calls_this_machine_by_its_address_is_known_as_on_loopback() -> None:
    with Testbed(1) as bed:
        with _called(host=bed.master_address) as sock:
            assert identify(sock).user == pwd.getpwuid(os.geteuid()).pw_name
        with _called(host=bed.master_address, uid=NOBODY) as sock:
            assert identify(sock).user is None


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_another_user_of_the_machine_is_not(family: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        uid = NOBODY
    else:
        uid = 0  # it stays who it is; then we are somebody else
        monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    with _called(family, uid=uid) as sock:
        assert identify(sock).user is None


def test_nobody_becomes_root_by_hanging_up_before_he_is_looked_at() -> None:
    uid = NOBODY if os.geteuid() == 0 else 0
    with _called(uid=uid, closes="closes") as sock:
        assert identify(sock).user is None


def test_a_user_without_a_name_is_called_by_number() -> None:
    assert user_name(3_999_999_999) == "3999999999"
