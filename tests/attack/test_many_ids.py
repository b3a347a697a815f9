"""Who subscribes to very many tasks: what the master keeps of that counts as what it keeps for that user."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.attack.test_slow_senders import dialled
from tests.rights import need_users
from tests.system.lab import Lab
from tests.waiting import PATIENCE_S

ACCOUNT = 4301
IDS = 50_000
HELD = 8 << 20


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    need_users()
    lab = Lab(tmp_path, nodes=0)
    lab.write_conf(limits={"held_bytes": HELD, "connections_per_user": 64})
    lab.start()
    yield lab
    assert lab.close() == []


class Follower:
    """A connection of this token's user, as an account of this machine, to the port that tells of tasks."""

    def __init__(self, lab: Lab, token: str) -> None:
        self.socket = dialled(lab.keys["socket_info"]["train_state_port"], "127.0.0.1", ACCOUNT)
        self.socket.settimeout(PATIENCE_S)
        self._lines = self.socket.makefile("rb")
        self.call("auth.token", token=token)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call; the answer, empty where the connection is closed."""
        self.socket.sendall(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"
        )
        line = self.line()
        told: dict[str, Any] = json.loads(line) if line else {}
        return told

    def line(self) -> bytes:
        """The next line; empty where the connection is closed."""
        return self._lines.readline()

    def is_open(self) -> bool:
        """Does it get an answer?"""
        try:
            return "result" in self.call("auth.whoami")
        except ConnectionError:
            return False

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


def test_what_somebody_is_told_of_counts_as_kept_for_them_until_they_leave(lab: Lab) -> None:
    with lab.client() as owner:
        for name in ("eve", "ann"):
            owner.people.add(name, role="viewer")
        eves, anns = (owner.people.new_token(name)["token"] for name in ("eve", "ann"))
    many = {"ids": list(range(IDS)), "snapshot": "none"}
    with closing(Follower(lab, eves)) as second, closing(Follower(lab, anns)) as other:
        with closing(Follower(lab, eves)) as first:
            assert "result" in first.call("subscribe", **many)
            assert first.is_open()
            second.call("subscribe", **many)
            assert not second.is_open()
            assert first.is_open()
            assert "result" in other.call("subscribe", **many)
            assert other.is_open()
        with closing(Follower(lab, eves)) as third:
            assert "result" in third.call("subscribe", **many)
            assert third.is_open()
            assert "result" in third.call("subscribe", **many), "the same again is no more"
            assert third.is_open()
