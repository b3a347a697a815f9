"""Cases share a master for as long as each leaves it as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.master.in_process import InProcess, Peer
from tests.master.shared_master import check_on_shared_masters


async def looks(master: InProcess, _peer: Peer, _: str) -> bool:
    assert not master.core.tasks
    return True


async def submits(master: InProcess, peer: Peer, _: str) -> bool:
    assert not master.core.tasks
    await peer.call("task.submit", command="true")
    return False


async def changes_and_fails(_master: InProcess, peer: Peer, _: str) -> bool:
    await peer.call("task.submit", command="true")
    raise KeyError("k")


CHECKS = {"looks": looks, "submits": submits, "fails": changes_and_fails}


async def check(master: InProcess, peer: Peer, what: str) -> bool:
    return await CHECKS[what](master, peer, what)


def test_cases_that_change_nothing_share_a_master(tmp_path: Path) -> None:
    assert check_on_shared_masters(tmp_path, {"one": "looks", "two": "looks"}, check) == 1


def test_the_case_after_one_that_changed_something_has_a_new_master(tmp_path: Path) -> None:
    assert check_on_shared_masters(tmp_path, {"one": "submits", "two": "looks", "three": "submits"}, check) == 2


def test_the_case_after_one_that_failed_has_a_new_master(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"^1 of 2 cases failed:\none: KeyError: 'k'"):
        check_on_shared_masters(tmp_path, {"one": "fails", "two": "looks"}, check)


def test_each_new_master_is_prepared(tmp_path: Path) -> None:
    prepared: list[Peer] = []

    async def prepare(peer: Peer) -> None:
        prepared.append(peer)

    assert check_on_shared_masters(tmp_path, {"one": "submits", "two": "looks"}, check, prepare) == 2
    assert len(prepared) == 2
