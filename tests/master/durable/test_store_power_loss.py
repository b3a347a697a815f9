"""The store after a power cut at every single operation: nothing acknowledged is lost, no id comes twice."""

from __future__ import annotations

import copy
import random
from pathlib import Path

import msgspec
import pytest

from master.core.tasks.records import Change
from master.core.tasks.task import Task, TaskState
from master.durable import store as store_module
from master.durable.store import Image, Store
from tests.master.durable.simulated_disk import Fate, SimulatedDisk

FOLDER = Path("task_info")
STORES_OWN = ("files", "damage")
"""Pieces of state that the store writes for itself."""
FATES: list[Fate] = ["dropped", "kept", "torn", "torn", "torn"]


@pytest.fixture(autouse=True)
def _small_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "RESERVE_BYTES", 4096)


class World:
    """A master in small: changes tasks at random, and knows what the store must give back after each record."""

    def __init__(self, disk: SimulatedDisk, seed: int) -> None:
        self.chance = random.Random(seed)
        self.disk = disk
        self.store = Store(FOLDER, disk)
        image = self.store.open()
        self.tasks, self.answered, self.next_id = image.tasks, image.answered, image.next_id
        self.state = {key: piece for key, piece in image.state.items() if key not in STORES_OWN}
        self.after = {image.seq: self.snapshot()}
        self.acknowledged = self.appended = image.seq

    def snapshot(self) -> bytes:
        tasks = [self.tasks[key] for key in sorted(self.tasks)]
        return canonical(tasks, self.state, self.answered)

    def submit(self) -> None:
        count = self.chance.choice((1, 1, 1, 7))
        tasks = [Task(id=self.next_id + i, command=["x" * self.chance.randint(1, 400)]) for i in range(count)]
        self.next_id += count
        self.tasks.update((task.id, task) for task in tasks)
        request = f"request-{self.next_id}"
        self.answered[request] = msgspec.Raw(b"%d" % tasks[0].id)
        self.append(Change(tasks=tasks, answered={request: self.answered[request]}))

    def advance(self) -> None:
        """Edit, start, end or requeue one task."""
        if not self.tasks:
            return
        task = self.tasks[self.chance.choice(sorted(self.tasks))]
        following = {"waiting": "starting", "starting": "running", "running": "failed", "failed": "waiting"}
        if self.chance.random() < 0.3:
            task.name = f"edited {self.chance.random()}"
        else:
            task.state = TaskState(following[task.state])
            task.ended_at = 1.7e9 if task.state is TaskState.FAILED else None
        self.append(Change(tasks=[task]))

    def delete(self) -> None:
        if self.tasks:
            gone = self.chance.choice(sorted(self.tasks))
            del self.tasks[gone]
            self.append(Change(gone=[gone]))

    def set(self) -> None:
        self.state["epoch"] = msgspec.Raw(b"%d" % self.chance.randint(1, 99))
        self.append(Change(state={"epoch": self.state["epoch"]}))

    def archive(self) -> None:
        ended = [task for task in self.tasks.values() if task.state is TaskState.FAILED][:2]
        if ended:
            self.store.archive(copy.deepcopy(ended))
            for task in ended:
                del self.tasks[task.id]
            self.append(Change(gone=[task.id for task in ended]))

    def append(self, change: Change) -> None:
        before = self.appended
        self.appended = self.store.append(change)
        # The store's own records in between change nothing that a master knows of.
        self.after.update(dict.fromkeys(range(before, self.appended), self.after[before]))
        self.after[self.appended] = self.snapshot()

    def commit(self) -> None:
        self.store.commit()
        self.acknowledged = self.appended

    def work(self, turns: int) -> None:
        for _ in range(turns):
            for _ in range(self.chance.choice((1, 1, 2, 5))):
                act = self.chance.choices(
                    (self.submit, self.advance, self.delete, self.set, self.archive), (5, 8, 1, 1, 0.4)
                )[0]
                act()
            if self.chance.random() < 0.8:
                self.commit()

    def compact(self, *, busy: bool = True) -> None:
        """Compact while tasks change; or, not busy, with changes that nobody committed before it or during it."""
        if not busy:
            self.submit()
            self.advance()
        for step in self.store.compact(self.tasks, self.answered, next_id=self.next_id):
            if busy and self.chance.random() < 0.7:
                self.work(1)
            if step is not None:
                step()
            if busy and self.chance.random() < 0.5:
                self.work(1)


def canonical(tasks: list[Task], state: dict[str, msgspec.Raw], answered: dict[str, msgspec.Raw]) -> bytes:
    return msgspec.json.encode([tasks, dict(sorted(state.items())), dict(sorted(answered.items()))])


def check(image: Image, world: World) -> None:
    """Some moment between the last answer and the last record is back, whole."""
    assert world.acknowledged <= image.seq
    state = {key: piece for key, piece in image.state.items() if key not in STORES_OWN}
    tasks = [image.tasks[key] for key in sorted(image.tasks)]
    moments = {world.after[seq] for seq in range(world.acknowledged, world.appended + 1)}
    assert canonical(tasks, state, image.answered) in moments
    assert image.next_id > max(image.tasks, default=0)


def used_ids(world: World, seq: int) -> int:
    """The highest id that any record up to `seq` made."""
    highest = 0
    for number in range(min(world.after), min(seq, world.appended) + 1):
        tasks = msgspec.json.decode(world.after[number])[0]
        highest = max([highest, *(task["id"] for task in tasks)])
    return highest


def go_on(disk: SimulatedDisk, image: Image, store: Store) -> None:
    """What was recovered can be worked with, and recovered again."""
    fresh = Task(id=image.next_id, command="after the cut")
    seq = store.append(Change(tasks=[fresh]))
    store.commit()
    store.close()
    again = Store(FOLDER, SimulatedDisk(disk.crash("dropped", random.Random(0)))).open()
    assert again.seq == seq > image.seq
    assert again.tasks[fresh.id].command == "after the cut"
    assert len(again.tasks) == len(image.tasks) + 1


def crash_everywhere(disk: SimulatedDisk, world: World, seed: int) -> None:
    """From now on, cut the power after each operation of the disk, in several ways, and start from what is left."""
    chance = random.Random(seed)
    seen: set[int] = set()

    def cut() -> None:
        for fate in FATES:
            left = disk.crash(fate, chance)
            mark = hash((world.acknowledged, *sorted(left.items())))
            if mark in seen:
                continue
            seen.add(mark)
            after = SimulatedDisk(left)
            store = Store(FOLDER, after)
            image = store.open()
            check(image, world)
            assert image.next_id > used_ids(world, world.acknowledged)
            if chance.random() < 0.2:
                go_on(after, image, store)

    disk.after_each = cut


@pytest.mark.parametrize("seed", range(6))
def test_power_cut_at_every_operation_loses_nothing_that_was_answered(seed: int) -> None:
    disk = SimulatedDisk()
    world = World(disk, seed)
    crash_everywhere(disk, world, seed)
    for busy in (True, False, True):
        world.work(8)
        world.compact(busy=busy)
    world.work(4)
    assert len(disk.log) > 100


@pytest.mark.parametrize("seed", range(4))
def test_power_cut_during_the_start_after_a_power_cut(seed: int) -> None:
    disk = SimulatedDisk()
    world = World(disk, seed)
    world.work(5)
    world.compact()
    chance = random.Random(seed)
    large = Task(id=world.next_id, command="y" * 3000)
    world.tasks[large.id] = large
    world.append(Change(tasks=[large]))
    lefts: list[dict[Path, bytes]] = []
    disk.after_each = lambda: lefts.append(disk.crash("torn", chance))
    world.commit()
    world.acknowledged = world.appended - 1
    for left in lefts * 4:
        second = SimulatedDisk(left)
        crash_everywhere(second, world, seed)
        check(Store(FOLDER, second).open(), world)


def test_power_cut_while_a_new_folder_is_made() -> None:
    disk = SimulatedDisk()
    chance = random.Random(1)
    starts: list[Image] = []

    def cut() -> None:
        starts.extend(Store(FOLDER, SimulatedDisk(disk.crash(fate, chance))).open() for fate in FATES)

    disk.after_each = cut
    Store(FOLDER, disk).open()
    assert len(starts) > 50
    assert all(image.seq == 0 and image.next_id == 1 and not image.tasks for image in starts)


def test_power_cut_while_old_tasks_are_taken_over_and_filed() -> None:
    old = {
        FOLDER / "wait_task.json": b'[{"task_id":"26112106053964","exec":"python a.py","state":"wait"}]',
        FOLDER / "exec_task.json": b'[{"task_id":"26112106053965","exec":"python b.py","state":"exec"}]',
        FOLDER / "hist_task.json": b'[{"task_id":"26112106053966","exec":"python c.py","state":"accp"}]',
    }
    disk = SimulatedDisk(old)
    chance = random.Random(2)
    starts: list[Image] = []

    def cut() -> None:
        for fate in FATES:
            left = disk.crash(fate, chance)
            starts.append(Store(FOLDER, SimulatedDisk(left)).open())
            for path, data in old.items():
                assert data in (left[path], left.get(path.with_name(path.name + ".old")))

    disk.after_each = cut
    store = Store(FOLDER, disk)
    image = store.open()
    for step in store.compact(image.tasks, image.answered):
        if step is not None:
            step()
    for start in starts:
        assert {task.id % 10: task.state.value for task in start.tasks.values()} == {
            4: "waiting", 5: "lost", 6: "succeeded"
        }  # fmt: skip
    assert len(starts) > 100
