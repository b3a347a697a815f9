"""The journal's end after each kind of loss: what was answered is missed and ends access, what was not is cut off.

`docs/reliability.md` has the table; each of its rows is a test here.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from master.core.tasks.records import Change
from master.core.tasks.task import Task
from master.durable import store as store_module
from master.durable.disk import OsDisk
from master.durable.store import Image, Permit, Store, StoreCorruptError, StoreUnavailableError
from tests.faults import says
from tests.master.durable.simulated_disk import Fate, SimulatedDisk

NULL = msgspec.Raw(b"null")
SHORT, LARGE = 20, 6000
"""Bytes of a record that a kill left; bytes of a record that takes more than one page."""
SEEDS = 20


@pytest.fixture(autouse=True)
def _small_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "RESERVE_BYTES", 4096)


class Lab:
    """A queue and its witness below one folder; `disk` is the machine's unless a test gives one."""

    def __init__(self, top: Path, disk: OsDisk | SimulatedDisk | None = None) -> None:
        self.top = top
        self.disk = disk or OsDisk()
        self.folder, self.witness = top / "task_info", top / "log.queue"
        top.mkdir(exist_ok=True)

    def start(self, permit: Permit | None = None) -> tuple[Store, Image]:
        """Open it as a start of the master does."""
        store = Store(self.folder, self.disk, permit=permit, witness=self.witness)
        image = store.open()
        store.anchor({"lineage": msgspec.Raw(b"1")}, anew=False)
        return store, image

    def copy(self, name: str) -> Lab:
        """All its files as they are now, as a kill of the master leaves them."""
        shutil.copytree(self.top, self.top.with_name(name), ignore=shutil.ignore_patterns("*.then"))
        lab = Lab(self.top.with_name(name))
        # The witness names the folder that it is about.
        told = lab.witness.read_bytes().replace(bytes(self.folder), bytes(lab.folder))
        lab.witness.write_bytes(told)
        return lab

    @property
    def journal(self) -> Path:
        return self.folder / "journal.jsonl"

    def lose_lines(self, count: int, *, torn: int = 0) -> None:
        """The last records are lost, but for some bytes of the first of them."""
        lines = self.journal.read_bytes().splitlines(keepends=True)
        self.journal.write_bytes(b"".join(lines[:-count]) + lines[-count][:torn])

    def forget_ids(self) -> None:
        (self.folder / "ids").unlink()

    def forget_witness(self) -> None:
        self.witness.unlink()


def submit(store: Store, *ids: int) -> None:
    for number in ids:
        store.append(Change(tasks=[Task(id=number, command="x")]))
        store.commit()


def revoke(store: Store, name: str = "token/t") -> None:
    store.append(Change(state={name: NULL}))
    store.commit()


def worked(lab: Lab) -> Store:
    """A master that has worked there, and whose last record gave no id and revoked a token."""
    store, _ = lab.start()
    submit(store, 1, 2)
    revoke(store, "token/s")
    revoke(store)
    return store


def stopped(lab: Lab) -> Lab:
    worked(lab).close()
    return lab


def killed(lab: Lab) -> Lab:
    store = worked(lab)
    left = lab.copy("left")
    store.close()
    return left


EVERY_END = pytest.mark.parametrize("end", [stopped, killed])


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "lab")


LOST_END = ("journal_end_lost", "journal_end_lost_by_ids")
OLDER, CUT = ("folder_older",), ("torn_end_lost",)
"""What a start tells of it, by the keys of its messages."""


def ends_access(lab: Lab, *, told: tuple[str, ...] = LOST_END) -> None:
    """The next start ends access and tells why; the one after it knows nothing new."""
    store, image = lab.start()
    assert store.access_is_to_end
    assert image.next_id > max(image.tasks)
    (loss,) = store.damage
    assert any(map(loss.tells, told))
    assert loss.tells("people_lost") or loss.tells("folder_older")
    store.append(Change(state={"end_access": NULL}))
    store.commit()
    if store.is_older_copy:
        store.take_as_it_is()
    submit(store, image.next_id)
    store.close()
    again, following = lab.start()
    assert not again.access_is_to_end
    assert len(again.damage) == 1
    assert following.next_id == image.next_id + 1
    again.close()


def keeps_access(lab: Lab, *, next_id: int, told: bool = False) -> Store:
    store, image = lab.start()
    assert not store.access_is_to_end
    assert bool(store.damage) == told
    assert image.next_id == next_id
    submit(store, image.next_id)
    store.close()
    return store


# -- nothing is lost ------------------------------------------------------------------------------------------------


@EVERY_END
def test_where_nothing_is_lost_all_goes_on(lab: Lab, end: Callable[[Lab], Lab]) -> None:
    left = end(lab)
    for next_id in (3, 4, 5):
        keeps_access(left, next_id=next_id)


def test_a_record_that_a_kill_left_in_half_ends_nobodys_access(lab: Lab) -> None:
    store = worked(lab)
    left = lab.copy("left")
    with left.journal.open("ab") as journal:
        journal.write(b"0badc0de 2 1 {"[:SHORT])
    store.close()
    opened, image = left.start()
    assert not opened.access_is_to_end
    (told,) = opened.damage
    assert told.tells("torn_unanswered")
    assert not told.tells("people_lost")
    assert (left.folder / "journal.torn").exists()
    assert image.next_id == 3, "the numbers go on without a gap"
    opened.close()


def test_a_commit_of_several_records_that_a_kill_left_in_half_ends_nobodys_access(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = worked(lab)
    lefts: list[Lab] = []

    def written(fd: int, data: bytes) -> int:
        first = data.index(b"\n") + 1
        for size in (SHORT, first, first + SHORT):
            OsDisk.write(lab.disk, fd, data[:size])  # type: ignore[arg-type]
            lefts.append(lab.copy(f"left-{size}"))
            OsDisk.truncate(lab.disk, fd, store.journal.size)  # type: ignore[arg-type]
        return OsDisk.write(lab.disk, fd, data)  # type: ignore[arg-type]

    monkeypatch.setattr(lab.disk, "write", written)
    store.append(Change(tasks=[Task(id=3, command="y" * LARGE)]))
    store.append(Change(tasks=[Task(id=4, command="y" * LARGE)]))
    store.commit()
    store.close()
    assert len(lefts) == 3
    for left in lefts:
        opened, _ = left.start()
        assert not opened.access_is_to_end
        assert all(loss.tells("torn_unanswered") for loss in opened.damage)
        opened.close()


def test_a_kill_after_a_compaction_and_in_the_middle_of_the_next_record_ends_nobodys_access(lab: Lab) -> None:
    store, image = lab.start()
    submit(store, 1, 2)
    store.append(Change(state={"other": msgspec.Raw(b"1")}))
    for step in store.compact(image.tasks, image.answered):
        store.append(Change(state={"other": msgspec.Raw(b"2")}))
        if step is not None:
            step()
    left = lab.copy("left")
    with left.journal.open("ab") as journal:
        journal.write(b"0badc0de 2 1 {")
    store.close()
    opened, _ = left.start()
    assert not opened.access_is_to_end
    assert opened.damage[0].tells("torn_unanswered")
    opened.close()


def test_what_a_full_disk_refused_and_a_kill_left_there_ends_nobodys_access() -> None:
    disk = SimulatedDisk()
    lab = Simulated(disk)
    store = worked(lab)
    disk.remove(lab.folder / "reserve")
    disk.capacity = sum(len(content.now) for content in disk.files.values()) + 1000

    def fails(fd: int, size: int) -> None:  # noqa: ARG001  (their names are the disk's)
        raise OSError(28, "full")

    disk.truncate = fails  # type: ignore[method-assign]
    store.append(Change(tasks=[Task(id=3, command="y" * LARGE)]))
    with pytest.raises(StoreUnavailableError):
        store.commit()
    after = lab.killed()
    opened, image = after.start()
    assert not opened.access_is_to_end
    assert opened.damage[0].tells("torn_unanswered")
    assert image.next_id == 3


def refuse_ids(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the file `ids` cannot be put in the place of the one that is there; all else can be written."""
    real = lab.disk.draft

    def draft(path: Path) -> int:
        if path.name == "ids.tmp":
            raise OSError(1, "Operation not permitted")
        return real(path)

    monkeypatch.setattr(lab.disk, "draft", draft)


def worked_on_without_ids(lab: Lab, monkeypatch: pytest.MonkeyPatch, name: str = "after") -> Lab:
    """The lab after a kill of a master that could not write `ids`, and whose last record revoked a token."""
    refuse_ids(lab, monkeypatch)
    store, image = lab.start()
    assert says(store.ids_fault, "ids_with_witness", detail="Operation not permitted")
    submit(store, image.next_id, image.next_id + 1)
    store.append(Change(state={"other": msgspec.Raw(b"1")}))
    store.commit()
    submit(store, image.next_id + 2)
    revoke(store, "token/u")
    after = lab.copy(name)
    store.close()
    return after


@EVERY_END
def test_a_kill_in_the_middle_of_a_write_ends_nobodys_access_though_ids_could_not_be_written(
    lab: Lab, end: Callable[[Lab], Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    after = worked_on_without_ids(end(lab), monkeypatch)
    again = worked_on_without_ids(after, monkeypatch, "again")
    with again.journal.open("ab") as journal:
        journal.write(b"0badc0de 2 1 {"[:SHORT])
    opened, image = again.start()
    assert not opened.access_is_to_end
    assert opened.damage[0].tells("torn_unanswered")
    assert (image.next_id, opened.ids_fault) == (9, None)
    opened.close()
    keeps_access(again, next_id=9, told=True)


def test_a_kill_after_ids_could_be_written_no_more_ends_nobodys_access(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = lab.start()
    submit(store, 1, 2)
    refuse_ids(lab, monkeypatch)
    ids, real = store._promised._fd, lab.disk.write_at
    monkeypatch.setattr(lab.disk, "write_at", lambda fd, at, data: 0 if fd == ids else real(fd, at, data))
    for number in range(3, 6):
        submit(store, number)
        revoke(store, f"token/{number}")
    assert store.ids_fault
    left = lab.copy("left")
    with left.journal.open("ab") as journal:
        journal.write(b"0badc0de 2 1 {")
    store.close()
    opened, image = left.start()
    assert (opened.access_is_to_end, image.next_id) == (False, 6)
    opened.close()


def test_where_neither_ids_nor_the_witness_can_be_written_that_is_told(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put_own(path: Path, data: bytes) -> int:
        raise OSError(1, f"{path}: {len(data)}")

    refuse_ids(lab, monkeypatch)
    store, _ = lab.start()
    assert says(store.ids_fault, "ids_with_witness")
    store.close()
    monkeypatch.setattr(lab.disk, "put_own", put_own)
    store, _ = lab.start()
    assert says(store.ids_fault, "ids_without_witness")
    store.close()


# -- the end is lost ------------------------------------------------------------------------------------------------


@EVERY_END
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("forget", [None, Lab.forget_ids, Lab.forget_witness])
def test_records_cut_off_at_their_boundary_that_gave_no_id_are_missed(
    lab: Lab, end: Callable[[Lab], Lab], count: int, forget: Callable[[Lab], None] | None
) -> None:
    left = end(lab)
    left.lose_lines(count)
    if forget is not None:
        forget(left)
    ends_access(left, told=OLDER if forget is Lab.forget_ids else LOST_END)


@EVERY_END
@pytest.mark.parametrize("torn", [0, SHORT])
@pytest.mark.parametrize("stops", [False, True])
def test_records_cut_off_are_missed_though_ids_could_not_be_written(
    lab: Lab,
    end: Callable[[Lab], Lab],
    torn: int,
    stops: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = end(lab)
    after = worked_on_without_ids(before, monkeypatch)
    left = before if stops else after
    left.lose_lines(1, torn=torn)
    monkeypatch.undo()
    monkeypatch.setattr(store_module, "RESERVE_BYTES", 4096)
    store, _ = left.start()
    assert store.access_is_to_end
    assert store.damage
    store.close()


def test_records_cut_off_together_with_an_older_ids_file_are_missed(lab: Lab) -> None:
    store, _ = lab.start()
    submit(store, 1, 2)
    ids = (lab.folder / "ids").read_bytes()
    revoke(store)
    left = lab.copy("left")
    store.close()
    left.lose_lines(1)
    (left.folder / "ids").write_bytes(ids)
    ends_access(left, told=OLDER)


@EVERY_END
def test_an_answered_record_that_was_left_in_half_is_missed(lab: Lab, end: Callable[[Lab], Lab]) -> None:
    left = end(lab)
    left.lose_lines(1, torn=SHORT)
    ends_access(left, told=CUT)


@pytest.mark.parametrize("block", [512, 4096])
def test_a_last_block_of_zeros_is_missed(lab: Lab, block: int) -> None:
    left = killed(lab)
    data = left.journal.read_bytes()
    start = max(len(data) - 1, 0) // block * block
    left.journal.write_bytes(data[:start] + bytes(len(data) - start))
    if start == 0:  # also the first record, with which every journal begins
        with pytest.raises(StoreCorruptError):
            left.start()
        store, _ = left.start(Permit(damage=True))
        assert store.access_is_to_end
        store.close()
    else:
        ends_access(left, told=CUT)


def test_a_start_that_misses_the_end_and_is_killed_leaves_it_to_the_next_to_end_access(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = killed(lab)
    left.lose_lines(1)
    lefts: list[Lab] = []
    real = OsDisk.sync

    def sync(self: OsDisk, fd: int) -> None:
        real(self, fd)
        lefts.append(left.copy(f"killed-{len(lefts)}"))

    with monkeypatch.context() as patched:
        patched.setattr(OsDisk, "sync", sync)
        left.start()[0].close()
    assert len(lefts) > 3
    for again in lefts[:-2]:  # the last two are of the end, in order
        store, _ = again.start()
        assert store.access_is_to_end
        store.close()


# -- a power cut ----------------------------------------------------------------------------------------------------


class Simulated(Lab):
    """The same on a disk that forgets what was not synced."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.top = Path("lab")
        self.disk: SimulatedDisk = disk
        self.folder, self.witness = self.top / "task_info", self.top / "log.queue"

    def killed(self) -> Simulated:
        """The machine goes on."""
        after = SimulatedDisk({path: content.now for path, content in self.disk.files.items()})
        after.boot = self.disk.boot  # type: ignore[method-assign]
        return Simulated(after)

    def without_power(self, fate: Fate, chance: random.Random) -> Simulated:
        return Simulated(SimulatedDisk(self.disk.crash(fate, chance)))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_after_a_power_cut_at_any_operation_of_a_start_or_a_commit_access_stays(seed: int) -> None:
    chance = random.Random(seed)
    disk = SimulatedDisk()
    lefts: list[dict[Path, bytes]] = []
    store = worked(Simulated(disk))
    disk.after_each = lambda: lefts.extend(disk.crash(fate, chance) for fate in ("dropped", "kept", "torn"))
    submit(store, 3)
    revoke(store, "token/u")
    # The master is killed, and starts again: what it had written may not be on the disk yet.
    store.append(Change(state={"token/v": NULL}))
    store.append(Change(tasks=[Task(id=4, command="x" * chance.randint(1, 2000))]))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SimulatedDisk, "sync", _die)
        with pytest.raises(KeyboardInterrupt):
            store.commit()
    again, _ = Simulated(disk).start()
    submit(again, 5)
    again.close()
    assert len(lefts) > 60
    for left in lefts:
        opened = Store(Path("lab/task_info"), SimulatedDisk(left), witness=Path("lab/log.queue"))
        opened.open()
        assert not opened.access_is_to_end


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_disk_that_forgot_an_answered_record_at_a_power_cut_is_found_out_where_a_mark_was_written_back() -> None:
    for torn in (0, SHORT):
        disk = SimulatedDisk()
        lab = Simulated(disk)
        worked(lab)
        left = lab.without_power("kept", random.Random(0))
        data = left.disk.read(left.journal)
        last = data[:-1].rindex(b"\n") + 1
        left.disk.files[left.journal].now = data[: last + torn]
        ends_access(left, told=CUT if torn else LOST_END)


# -- copies ---------------------------------------------------------------------------------------------------------


@EVERY_END
def test_a_backup_that_is_put_back_after_any_end_of_the_master_ends_access(
    lab: Lab, end: Callable[[Lab], Lab], tmp_path: Path
) -> None:
    store, _ = lab.start()
    submit(store, 1)
    shutil.copytree(lab.folder, tmp_path / "backup")
    store.close()
    left = end(lab)
    shutil.rmtree(left.folder)
    shutil.copytree(tmp_path / "backup", left.folder)
    ends_access(left, told=OLDER)


def test_a_backup_of_the_same_life_of_a_master_that_was_killed_ends_access(lab: Lab, tmp_path: Path) -> None:
    store, _ = lab.start()
    submit(store, 1)
    shutil.copytree(lab.folder, tmp_path / "backup")
    revoke(store)
    left = lab.copy("left")
    store.close()
    shutil.rmtree(left.folder)
    shutil.copytree(tmp_path / "backup", left.folder)
    ends_access(left, told=OLDER)


@pytest.mark.parametrize("count", [4, 500])
def test_a_backup_from_before_some_tasks_ends_access_and_gives_none_of_their_ids_again(
    lab: Lab, tmp_path: Path, count: int
) -> None:
    store, _ = lab.start()
    submit(store, 1)
    shutil.copytree(lab.folder, tmp_path / "backup")
    submit(store, *range(2, 2 + count))
    left = lab.copy("left")
    store.close()
    shutil.copytree(tmp_path / "backup", left.folder, dirs_exist_ok=True)
    store, image = left.start()
    assert image.next_id > 1 + count
    assert store.access_is_to_end
    store.close()


def test_a_witness_on_another_disk_keeps_the_ids_of_a_backup_from_being_given_again(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OsDisk, "share_a_disk", lambda *_: False)
    store, _ = lab.start()
    submit(store, 1)
    shutil.copytree(lab.folder, tmp_path / "backup")
    submit(store, 2, 3)
    revoke(store)
    left = lab.copy("left")
    store.close()
    shutil.copytree(tmp_path / "backup", left.folder, dirs_exist_ok=True)
    store, image = left.start()
    assert image.next_id > 3
    store.close()


# -- earlier versions ----------------------------------------------------------------------------------------------


def without_record(ids: bytes) -> bytes:
    """What a version writes that notes no record."""
    return b"".join(line for line in ids.splitlines(keepends=True) if not line.startswith(b"record"))


def test_an_end_in_half_after_a_version_that_noted_no_record_ends_access_as_before(lab: Lab) -> None:
    left = killed(lab)
    ids = left.folder / "ids"
    ids.write_bytes(without_record(ids.read_bytes()))
    with left.journal.open("ab") as journal:
        journal.write(b"0badc0de 2 1 {")
    ends_access(left, told=CUT)


def test_a_version_that_notes_no_record_reads_our_files_and_we_read_its() -> None:
    """What it makes of `ids` and of the witness, line by line."""
    disk = SimulatedDisk()
    lab = Simulated(disk)
    worked(lab)
    lines = disk.read(lab.folder / "ids").decode("ascii").split("\n")[:-1]
    assert int(lines[0]) >= 2
    assert lines[1] == disk.boot()
    assert [int(line) for line in lines[2:] if line.isdecimal()] == [2]
    told = msgspec.json.decode(disk.read(lab.witness))
    assert set(told) == {"folder", "ids", "seq", "pieces"}
    assert told["folder"] == str(lab.folder)


def test_the_files_that_note_the_last_record_do_not_grow() -> None:
    disk = SimulatedDisk()
    lab = Simulated(disk)
    store = worked(lab)
    sizes = {path: disk.size(path) for path in (lab.folder / "ids", lab.witness)}
    for _ in range(300):
        revoke(store)
    assert {path: disk.size(path) for path in sizes} == sizes


def test_a_commit_syncs_nothing_but_the_journal() -> None:
    disk = SimulatedDisk()
    store = worked(Simulated(disk))
    for change in (Change(tasks=[Task(id=3, command="x")]), Change(state={"token/t": NULL}), Change(gone=[3])):
        disk.log.clear()
        store.append(change)
        store.commit()
        assert [done for done in disk.log if done.startswith("sync")] == ["sync"]
