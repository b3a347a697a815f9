"""A folder of an earlier version becomes one of this version's, or stays what it was: whatever cuts the first start
short, that version loads it as before or refuses it, and this one goes on."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from master.core.tasks.attempt import Part
from master.core.tasks.records import Change
from master.core.tasks.task import Task, TaskState
from master.durable import queue_files as snapshot
from master.durable import store as store_module
from master.durable import upgrade
from master.durable.disk import OsDisk
from master.durable.journal import JOURNAL
from master.durable.store import Store
from tests import landed
from tests.faults import refusing, said, says
from tests.master.durable.simulated_disk import Fate, SimulatedDisk
from wire.errors import StoreCorruptError, StoreUnavailableError
from wire.message import Message

FOLDER = Path("task_info")
FATES: tuple[Fate, ...] = ("dropped", "kept", "torn", "torn", "torn")
LOADER = Path(landed.__file__).with_name("landed_load.py")
_WRITE = """
import sys
from pathlib import Path
import msgspec
from master.core.task import Allocation, Change, Launch, Task, TaskState
from master.durable.disk import OsDisk
from master.durable.store import Store

store = Store(Path(sys.argv[1]), OsDisk())
store.open()
places = [Allocation("a", [0, 1])]
runs = Task(id=1, command="true", state=TaskState.RUNNING, attempt=2, started_at=5.0, allocation=places,
            launch=Launch("1.2.x", "a", "boot", "state", machine="m", pid=7), cancel_requested=True)
tasks = {1: runs, 2: Task(id=2, command="true"), 3: Task(id=3, command="true", state=TaskState.FAILED, exit_code=3)}
store.append(Change(tasks=list(tasks.values()), answered={"once": msgspec.Raw(b"1")}))
store.commit()
for step in store.compact(tasks, {"once": msgspec.Raw(b"1")}):
    if step is not None:
        step()
store.append(Change(tasks=[Task(id=4, command="the journal knows it")], state={"notes": msgspec.Raw(b"{}")}))
store.commit()
store.close()
"""

_WRITE_WITH_USERS = """
import sys
from pathlib import Path
import msgspec
from master.core.attempt import Part
from master.core.task import Change, Task, TaskState
from master.durable.disk import OsDisk
from master.durable.store import Store

store = Store(Path(sys.argv[1]), OsDisk())
store.open()
part = Part("a", [0, 1], "1.2.x", "boot", "state", machine="m", pid=7)
runs = Task(id=1, command="true", state=TaskState.RUNNING, attempt=2, allocation=[part])
tasks = {1: runs, 2: Task(id=2, command="true")}
store.append(Change(tasks=list(tasks.values()), state={"users": msgspec.Raw(b'{"1":"wang"}')}))
store.commit()
for step in store.compact(tasks, {}):
    if step is not None:
        step()
store.append(Change(tasks=[Task(id=3, command="the journal knows it")]))
store.commit()
store.close()
"""


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The version before."""
    return landed.unpack("before", tmp_path_factory.mktemp("code"))


@pytest.fixture(scope="module")
def written(code: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a folder that it wrote."""
    folder = tmp_path_factory.mktemp("written") / "task_info"
    landed.run(code, "-c", _WRITE, str(folder))
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in ("lock", "reserve")}


@pytest.fixture(autouse=True)
def _small_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "RESERVE_BYTES", 4096)


def laid_out(files: dict[str, bytes], folder: Path) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def loaded(code: Path, folders: list[Path]) -> list[dict[str, Any]]:
    """What starts of the version before make of these folders; of its files those of its own."""
    found = json.loads(landed.run(code, "-P", str(LOADER), told=json.dumps([(str(one), "") for one in folders])))
    for one in found:
        one.pop("files", None)
    return list(found)


def format_of(state: bytes) -> int:
    return int(json.loads(state).get("format", 1))


@pytest.mark.parametrize("torn", [b"", b"0123abcd 9999 9998 {"])
def test_the_power_may_go_at_any_moment_of_the_first_start(
    code: Path, written: dict[str, bytes], tmp_path: Path, torn: bytes
) -> None:
    written = {**written, JOURNAL: written[JOURNAL] + torn}
    disk = SimulatedDisk({FOLDER / name: data for name, data in written.items()})
    chance = random.Random(3)
    lefts: dict[tuple[tuple[str, bytes], ...], dict[Path, bytes]] = {}

    def cut() -> None:
        for fate in FATES:
            left = disk.crash(fate, chance)
            lefts[tuple(sorted((str(path), data) for path, data in left.items()))] = left

    disk.after_each = cut
    store = Store(FOLDER, disk)
    store.open()
    store.append(Change(tasks=[Task(id=5, command="the first of this version's")]))
    store.commit()
    disk.after_each = lambda: None

    theirs: dict[str, Path] = {}
    for number, left in enumerate(lefts.values()):
        image = Store(FOLDER, SimulatedDisk(left)).open()
        assert set(image.tasks) - {5} == {1, 2, 3, 4}
        assert image.tasks[1].attempts[-1].parts == [Part("a", [0, 1], "1.2.x", "boot", "state", machine="m", pid=7)]
        files = {str(path.relative_to(FOLDER)): data for path, data in left.items()}
        if format_of(files[snapshot.STATE]) == snapshot.FORMAT:
            assert {name: files.get(f"{upgrade.KEPT}/{name}") for name in written} == written
        own = {name: data for name, data in files.items() if name not in ("lock", "reserve")}
        outside = repr(sorted(item for item in own.items() if "/" not in item[0]))
        if outside not in theirs:
            theirs[outside] = laid_out(own, tmp_path / str(number))
    begun = {folder: format_of((folder / snapshot.STATE).read_bytes()) for folder in theirs.values()}
    assert set(begun.values()) == {1, snapshot.FORMAT}
    (as_it_was,) = loaded(code, [laid_out(written, tmp_path / "as it was")])
    assert as_it_was["tasks"]["1"]["launch"]["pid"] == 7
    assert ("damage" in as_it_was["state"]) == bool(torn)
    for folder, found in zip(begun, loaded(code, list(begun)), strict=True):
        assert found == (as_it_was if begun[folder] == 1 else {"refused": "store_corrupt"})
    assert len(lefts) > 50


def test_a_copy_that_was_not_finished_is_made_anew_of_what_the_folder_is_then(
    written: dict[str, bytes], tmp_path: Path
) -> None:
    """The version before may have gone on there since."""
    folder = laid_out(written, tmp_path / "task_info")
    half_made = {"wait_task.json": b"[", "queues.sums.tmp": b"x", JOURNAL: b"", "exec_task.json.tmp.tmp": b"x"}
    laid_out(half_made, folder / upgrade.KEPT)
    store = Store(folder, OsDisk())
    store.open()
    store.close()
    assert {path.name: path.read_bytes() for path in (folder / upgrade.KEPT).iterdir()} == written


def test_the_version_that_writes_format_2_is_kept_a_copy_and_refuses_the_folder_from_then_on(tmp_path: Path) -> None:
    users = landed.unpack("users", tmp_path / "code")
    folder = tmp_path / "task_info"
    landed.run(users, "-c", _WRITE_WITH_USERS, str(folder))
    laid_out({"wait_task.json": b"what it was in format 1"}, folder / "before-2")
    written = {path.name: path.read_bytes() for path in folder.iterdir() if path.name in upgrade.COPIED}
    assert format_of(written[snapshot.STATE]) == 2
    as_it_was = laid_out(written, tmp_path / "as it was")

    store = Store(folder, OsDisk())
    image = store.open()
    store.append(Change(tasks=[Task(id=4, command="true", share=True, gpu_memory_mib=8000, gpus=1)]))
    store.commit()
    store.close()
    assert set(image.tasks) == {1, 2, 3}
    assert image.tasks[1].attempts[-1].parts == [Part("a", [0, 1], "1.2.x", "boot", "state", machine="m", pid=7)]
    assert {path.name: path.read_bytes() for path in (folder / upgrade.KEPT).iterdir()} == written
    assert (folder / "before-2" / "wait_task.json").read_bytes() == b"what it was in format 1"

    ours = laid_out({path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}, tmp_path / "ours")
    there, here = loaded(users, [as_it_was, ours])
    assert set(there["tasks"]) == {"1", "2", "3"}
    assert here == {"refused": "store_corrupt"}
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        landed.run(users, "-c", _WRITE_WITH_USERS, str(ours))
    assert (
        f"a later version of Muster wrote this folder (format {snapshot.FORMAT}; this one knows 2)"
        in refusal.value.stderr
    )
    assert upgrade.KEPT in refusal.value.stderr


@pytest.mark.parametrize("earlier", [3, 4, 5])
def test_a_folder_of_an_earlier_format_is_kept_a_copy_and_brought_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: int
) -> None:
    folder = tmp_path / "task_info"
    with monkeypatch.context() as version:
        version.setattr(snapshot, "FORMAT", earlier)
        store = Store(folder, OsDisk())
        store.open()
        store.close()
    before = (folder / snapshot.STATE).read_bytes()
    assert format_of(before) == earlier
    store = Store(folder, OsDisk())
    store.open()
    store.close()
    assert format_of((folder / snapshot.STATE).read_bytes()) == snapshot.FORMAT == 6
    assert (folder / "before-6" / snapshot.STATE).read_bytes() == before


def test_nobody_else_may_read_the_copy(written: dict[str, bytes], tmp_path: Path) -> None:
    folder = laid_out(written, tmp_path / "task_info")
    store = Store(folder, OsDisk())
    store.open()
    store.close()
    kept = folder / upgrade.KEPT
    assert {path.name: path.stat().st_mode & 0o777 for path in (kept, *kept.iterdir())} == {
        upgrade.KEPT: 0o700, **dict.fromkeys(written, 0o600)
    }  # fmt: skip
    assert any(says(note, "folder_brought_up", number=snapshot.FORMAT, kept=str(kept)) for note in store.notes)


def test_a_new_folder_is_of_this_format_and_keeps_no_copy(tmp_path: Path) -> None:
    for _ in range(2):
        store = Store(tmp_path / "task_info", OsDisk())
        store.open()
        store.close()
    assert format_of((tmp_path / "task_info" / snapshot.STATE).read_bytes()) == snapshot.FORMAT
    assert not (tmp_path / "task_info" / upgrade.KEPT).exists()


def test_where_there_is_no_room_for_the_copy_nothing_was_done(written: dict[str, bytes]) -> None:
    files = {FOLDER / name: data for name, data in written.items()}
    disk = SimulatedDisk(files)
    disk.capacity = sum(map(len, files.values())) + 100
    with refusing(StoreUnavailableError, "folder_unusable", detail="No space left on device"):
        Store(FOLDER, disk).open()
    assert {path: disk.read(path) for path in files} == files
    disk.capacity = None
    assert set(Store(FOLDER, disk).open().tasks) == {1, 2, 3, 4}


@pytest.mark.parametrize("more", ["", '"and what else it may hold": 1, '])
def test_a_folder_of_a_later_version_is_refused_in_one_line_that_says_so(tmp_path: Path, more: str) -> None:
    store = Store(tmp_path, OsDisk())
    store.open()
    store.close()
    state = tmp_path / snapshot.STATE
    text = state.read_text("utf-8")
    ours = f'"format": {snapshot.FORMAT},'
    assert ours in text
    state.write_text(text.replace(ours, f'"format": {snapshot.FORMAT + 1}, {more}'), "utf-8")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name != "lock"}
    with pytest.raises(StoreCorruptError) as refusal:
        Store(tmp_path, OsDisk()).open()
    later = Message("folder_of_later_version", path=str(state), number=snapshot.FORMAT + 1, known=snapshot.FORMAT)
    assert said(refusal.value) == later
    assert "\n" not in str(refusal.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name != "lock"} == before


def test_a_file_of_the_first_format_that_somebody_only_laid_out_anew_holds_nothing_up(
    written: dict[str, bytes], tmp_path: Path
) -> None:
    folder = laid_out(written, tmp_path / "task_info")
    for name in snapshot.QUEUES:
        (folder / name).write_text(json.dumps(json.loads(written[name]), indent=2), "utf-8")
    store = Store(folder, OsDisk())
    image = store.open()
    assert {number: task.state for number, task in image.tasks.items()} == {
        1: TaskState.RUNNING, 2: TaskState.WAITING, 3: TaskState.FAILED, 4: TaskState.WAITING
    }  # fmt: skip
    assert {name for name in snapshot.QUEUES for note in store.notes if says(note, "edits_known_better", name=name)}
