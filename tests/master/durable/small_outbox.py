"""A master in small that ends tasks on a disk in memory, and a consumer of its outbox."""

from __future__ import annotations

import random
from pathlib import Path

from master.core.tasks.records import Change, NotedMove
from master.core.tasks.task import ENDED, Task, TaskState
from master.core.tasks.transitions import State
from master.durable.outbox import Event, Gap, Moved, Reader
from master.durable.store import Store
from tests.master.durable.simulated_disk import Fate, SimulatedDisk

FOLDER = Path("task_info")
NAME = "hooks.task_ended"
CURSOR = FOLDER / "outbox" / NAME


def is_end(before: State, after: State) -> bool:
    return after in ENDED and before not in ENDED


class Lab:
    """A master in small that ends tasks, and a consumer that hears of it."""

    def __init__(self, disk: SimulatedDisk, *names: str) -> None:
        self.disk = disk
        self.store = Store(FOLDER, disk)
        self.image = self.store.open()
        self.tasks = self.image.tasks
        self.store.serve(names or [NAME])
        self.heard: list[Event] = []

    @property
    def reader(self) -> Reader:
        return self.store.outbox.reader(NAME)

    def move(self, *moves: tuple[int, State, State], commit: bool = True) -> None:
        """Let these moves be one record."""
        noted = [NotedMove(*move) for move in moves]
        for task_id, _, after in moves:
            assert after is not None
            self.tasks[task_id] = Task(id=task_id, command="x" * 300, state=after, attempt=1)
        self.store.append(Change(tasks=[self.tasks[move[0]] for move in moves], moves=noted))
        if commit:
            self.store.commit()

    def end(self, *ids: int, commit: bool = True) -> None:
        self.move(*((number, TaskState.RUNNING, TaskState.SUCCEEDED) for number in ids), commit=commit)

    def hear(self, most: int = 100) -> list[Event]:
        """Deliver all that there is."""
        before = len(self.heard)
        while True:
            self.heard += self.reader.read(is_end, most)
            self.reader.finish()
            if self.reader.is_at_end:
                return self.heard[before:]

    def compact(self) -> None:
        for step in self.store.compact(self.tasks, {}, next_id=max(self.tasks, default=0) + 1):
            if step is not None:
                step()

    def cut(self, fate: Fate = "kept") -> dict[Path, bytes]:
        """What is on the disk if all ends now; `kept`: only the process."""
        return self.disk.crash(fate, random.Random(0))


def again(left: dict[Path, bytes], *names: str) -> Lab:
    return Lab(SimulatedDisk(left), *names)


def ids(events: list[Event]) -> list[int]:
    return [event.task_id for event in events if isinstance(event, Moved)]


def gaps(events: list[Event]) -> list[tuple[int, int]]:
    return [(event.first, event.last) for event in events if isinstance(event, Gap)]
