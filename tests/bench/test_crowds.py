"""The crowds of slow senders of the benchmark: which accounts they are, and what is counted of them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from bench.crowd_side import Crowd, socket_of
from bench.crowds import ACCOUNTS, CALLS, CONNECTIONS, FIRST_ACCOUNT, CrowdedLab, _people, _process, _usual
from bench.lab import Scale, workshop
from tests.rights import need_users
from wire.netlink import owner

FEW = Scale(runs=1, share=0.02)


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_each_connection_is_that_of_its_account(server: socket.socket) -> None:
    need_users()
    for account in (FIRST_ACCOUNT, FIRST_ACCOUNT + 1):
        with socket_of(account) as sock:
            sock.connect(server.getsockname())
            taken, theirs = server.accept()
            with taken:
                assert owner(taken.getsockname(), theirs) == account


def test_connections_that_the_master_closed_are_not_counted(server: socket.socket) -> None:
    crowd = Crowd()
    with closing(crowd):
        crowd.connect({"account": FIRST_ACCOUNT, "port": server.getsockname()[1], "count": 1, "tokens": []})
        taken, _ = server.accept()
        assert crowd.held() == {"before_login": 1, "logged_in": 0}
        taken.close()
        assert crowd.held() == {"before_login": 0, "logged_in": 0}


@pytest.mark.parametrize("accounts", [1, ACCOUNTS])
def test_raised_limits_admit_half_the_crowd_before_login_and_half_logged_in(accounts: int) -> None:
    need_users()
    count = FEW.of(CONNECTIONS)
    with workshop() as folder, CrowdedLab(folder) as lab:
        jobs, _ = _people(lab, accounts, count)
        assert sum(job["count"] for job in jobs) == count
        with _process("crowd", jobs) as crowd:
            assert crowd.ask("come") == {"before_login": count // 2, "logged_in": count // 2}


def test_what_one_account_may_not_have_is_counted_as_refused_and_the_other_user_is_answered() -> None:
    need_users()
    with workshop() as folder:
        told = _usual(folder, 1, FEW)
    assert told.before_login <= 64
    assert told.before_login + told.logged_in + told.refused == FEW.of(CONNECTIONS)
    assert told.answered == told.asked == FEW.of(CALLS)
