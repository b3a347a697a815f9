"""A Unix account of the master's machine gets in with one command, whatever address the master listens on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import in_words
from tests.people_here import MASTER, PEOPLE, PeopleHere, as_person
from tests.system.lab import ROOT, Lab
from tests.testbed.bed import Testbed
from tests.waiting import PATIENCE_S
from wire.message import Message


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every account can pass through, and nobody else can write in."""
    made = Path(tempfile.mkdtemp(prefix="muster-local-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def lan() -> Iterator[str]:
    """An address of this machine that is no loopback one."""
    with Testbed(0) as bed:
        yield bed.master_address


def lab_of(folder: Path, people: PeopleHere, uid: int, bind: str) -> Lab:
    """A lab whose master runs as this account."""
    lab = Lab(folder, nodes=0)
    os.chown(folder, uid, uid)
    lab.before = [*people.inside, "setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    lab.write_conf(local_users="same name", bind=bind)
    return lab


def whoami(lab: Lab, people: PeopleHere, name: str) -> subprocess.CompletedProcess[str]:
    """What somebody types whose profile says MUSTER_CONF, the first time."""
    home = people.folder(lab.folder.parent / f"home-{name}", name)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "MUSTER_CONF": str(lab.conf)}
    words = [*people.inside, *as_person(name), sys.executable, "-m", "muster", "whoami"]
    return subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)


@pytest.mark.parametrize("bind", ["127.0.0.1", "0.0.0.0", "lan"])  # noqa: S104  (others must be able to come in)
def test_one_command_is_enough_for_a_user_of_the_same_name(folder: Path, lan: str, bind: str) -> None:
    people = PeopleHere(folder)
    lab = lab_of(folder / "lab", people, MASTER, lan if bind == "lan" else bind)
    lab.start()
    try:
        with lab.client() as owner:
            owner.people.add("alice")
        done = whoami(lab, people, "alice")
        assert (done.returncode, done.stdout.splitlines()[:1]) == (0, ["user    alice"]), done.stderr
        other = whoami(lab, people, "bob")
        told = str(Message("account_not_added", account="bob"))
        assert (other.returncode, other.stdout.startswith(f"nobody: {told}")) == (1, True), other
    finally:
        assert lab.close() == []


def test_a_master_of_another_account_at_the_same_address_is_believed_nothing(folder: Path, lan: str) -> None:
    people = PeopleHere(folder)
    lab = lab_of(folder / "lab", people, MASTER, lan)
    lab.start()
    lab.stop_master()
    false = lab_of(folder / "false", people, PEOPLE["bob"], lan)
    false.write_conf(socket_info=lab.keys["socket_info"])
    false.start()
    try:
        done = whoami(lab, people, "alice")
        assert (done.returncode, in_words(done.stderr, "authority_unknown")) == (1, True), done.stderr
    finally:
        assert [*false.close(), *lab.close()] == []
