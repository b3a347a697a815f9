"""SSH accounts on a node, and a log folder in which each of them may write: alice knows the number of bob's next task,
and lays something where its log could be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.faults import says
from tests.system.accounts_lab import AccountsLab
from tests.system.chaos import let_share
from tests.system.ssh_asking import ended, task_of
from tests.system.test_accounts import submit_as, why
from tests.testbed.accounts import PEOPLE
from tests.testbed.bed import Testbed
from tests.waiting import until

LIE = "loss 0.0001, everything is fine\n"


@pytest.fixture
def lab(testbed: Testbed, tmp_path: Path) -> Iterator[AccountsLab]:
    lab = AccountsLab(tmp_path / "lab", testbed, testbed.hosts[2])
    let_share(lab)
    yield lab
    left = lab.close()
    testbed.renew()
    assert left == []


def alice_lays(path: Path) -> None:
    path.write_text(LIE, encoding="utf-8")
    path.chmod(0o666)
    os.chown(path, PEOPLE["alice"], PEOPLE["alice"])


def read(lab: AccountsLab, number: int) -> str:
    with lab.client() as client:
        return client.read_log(number, 0, 1 << 20)[0].decode()


def test_what_lies_at_the_place_of_anothers_log_neither_fails_the_task_nor_is_shown_as_its_log(
    lab: AccountsLab,
) -> None:
    lab.start_trusted()
    logs = lab.root / "train_logs"
    first = submit_as(lab, "bob", "echo first")
    assert ended(lab, first) == ("succeeded", 0)
    held, number = first + 1, first + 2
    for one in (held, number):
        alice_lays(logs / f"{one}.log")
    lab.be("bob")
    with lab.client() as client:
        assert client.submit("true", hold=True) == held
    assert read(lab, held) == ""
    assert lab.muster("logs", "--search", "loss", str(held)).stdout == ""
    assert submit_as(lab, "bob", "echo mine") == number
    assert ended(lab, number) == ("succeeded", 0)
    log = Path(task_of(lab, number)["log_path"])
    assert log == logs / "bob" / f"{number}.log"
    assert read(lab, number).startswith("mine\n")
    assert (log.stat().st_uid, log.parent.stat().st_uid, log.parent.stat().st_mode & 0o7777) == (
        *(PEOPLE["bob"], PEOPLE["bob"], 0o2750),
    )
    assert (logs / f"{number}.log").read_text(encoding="utf-8") == LIE


def test_while_another_account_has_laid_its_folders_place_a_task_waits_and_says_so(lab: AccountsLab) -> None:
    lab.start_trusted()
    planted = lab.root / "train_logs" / "bob"
    planted.mkdir()
    os.chown(planted, PEOPLE["alice"], PEOPLE["alice"])
    number = submit_as(lab, "bob", "echo mine")
    until("it is told why", lambda: says(why(lab, number), "account_rests"), seen=partial(why, lab, number))
    told = str(why(lab, number))
    assert f"uid {PEOPLE['alice']} has laid something of its own" in told
    planted.rmdir()
    assert ended(lab, number) == ("succeeded", 0)
    assert read(lab, number).startswith("mine\n")
