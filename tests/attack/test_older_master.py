"""A master of the version that labs run opens a folder of ours. It would ignore what it does not know, and let users'
tasks run with rights that they do not have. It refuses, whatever it is allowed to do, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from master.core.outcome import Pending
from master.core.people.people import People
from master.core.tasks.records import Change
from master.core.tasks.task import Task
from master.durable import queue_files as snapshot
from master.durable import upgrade
from master.durable.disk import OsDisk
from master.durable.store import Store
from tests import landed
from tests.cases import each_case
from tests.faults import refusing
from wire.errors import StoreCorruptError

OPEN = """
import itertools, json, sys
from pathlib import Path
from master.durable.disk import OsDisk
from master.durable.recovery import Permit
from master.durable.store import Store
from wire.errors import MusterError

told = []
for edits, damage in itertools.product((False, True), repeat=2):
    store = Store(Path(sys.argv[1]), OsDisk(), permit=Permit(edits=edits, damage=damage))
    try:
        told.append(sorted(store.open().tasks))
    except MusterError as error:
        told.append(str(error))
    finally:
        store.close()
print(json.dumps(told))
"""
"""Plainly, with `--accept-edits`, with `--skip-damaged`, and with both."""


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The version that labs run."""
    return landed.unpack("users", tmp_path_factory.mktemp("landed"))


def ours(folder: Path) -> Path:
    """A folder that this version began, with users and tasks as only it knows them."""
    store, pending = Store(folder, OsDisk()), Pending()
    store.open()
    people = People(pending)
    people.add("amy", role="admin")
    people.add("bob")
    outcome = pending.take()
    assert outcome is not None
    store.append(outcome.change)
    store.append(Change(tasks=[Task(id=1, owner="amy", command="true", gpus=1, share=True, by_admin=True)]))
    store.commit()
    store.close()
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name != "lock"}


def told(code: Path, folder: Path) -> list[str | list[int]]:
    return list(json.loads(landed.run(code, "-c", OPEN, str(folder))))


def test_it_refuses_and_says_which_version_to_start(code: Path, tmp_path: Path) -> None:
    folder = ours(tmp_path / "task_info")
    before = files(folder)
    says = f"a later version of Muster wrote this folder (format {snapshot.FORMAT}; this one knows 2)"
    with each_case() as cases:
        for number, said in enumerate(told(code, folder)):
            with cases.case(f"permit {number}"):
                assert says in str(said)
                assert f"before-{snapshot.FORMAT}" in str(said)
    assert files(folder) == before


def zeroed(state: Path) -> None:
    state.write_bytes(bytes(4096))


def without_format(state: Path) -> None:
    """As an editor may leave it who wants it to start."""
    state.write_text(state.read_text("utf-8").replace(f'"format": {snapshot.FORMAT},', '"format": 3.5,'), "utf-8")


@pytest.mark.parametrize("damage", [Path.unlink, zeroed, without_format])
def test_it_refuses_also_where_the_file_that_says_the_format_is_damaged(
    code: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    folder = ours(tmp_path / "task_info")
    damage(folder / snapshot.STATE)
    before = files(folder)
    assert [one for one in told(code, folder) if not isinstance(one, str)] == []
    assert files(folder) == before


def test_a_version_that_does_not_know_of_the_own_account_fence_refuses_and_keeps_its_own_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions of format 3 ignore `own_account` and `by_admin`, and would run what waits as the master's account."""
    folder = tmp_path / "task_info"
    with monkeypatch.context() as before:
        before.setattr(snapshot, "FORMAT", 3)
        ours(folder)
        written = files(folder)
    store = Store(folder, OsDisk())
    store.open()
    store.close()
    assert (folder / upgrade.KEPT / snapshot.STATE).read_bytes() == written[snapshot.STATE]
    monkeypatch.setattr(snapshot, "FORMAT", 3)
    with refusing(StoreCorruptError, "folder_of_later_version", path=str(folder / snapshot.STATE), known=3):
        Store(folder, OsDisk()).open()
