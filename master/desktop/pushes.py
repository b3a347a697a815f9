"""The frames that desktop clients receive without a request: all tasks, and each node, periodically.

Owns the period, the list of readers, and that each frame is encoded once for all of them. A frame always holds the
complete state of its kind, and is made when it can be sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from master.core.attempts.agent_messages import EncodedSample
from master.core.nodes.inventory import NodeState
from master.core.outcome import Move
from master.core.tasks.task import Task, TaskState
from master.desktop.ended import NewestEnded
from master.desktop.node_rows import gone_row
from master.desktop.node_rows import row as node_row
from master.desktop.send_queue import SendQueue
from master.desktop.task_rows import bare_row
from master.desktop.task_rows import row as task_row
from master.engine.engine import Engine
from master.views.sight import EVERYTHING, Sight
from wire.desktop import encode, frame_of, json_of

EVERY_S = 2.0
NODE_GAP_S = 0.05
"""A round over all nodes takes EVERY_S, or so long for each node if that is more."""
FIRST_S = 0.3
"""After connecting: before, the client starts its readers, but has not connected them to its tables yet."""
SPREAD_S = (0.01, 0.3)
"""Between two readers of the same frame, so that a hundred of them do not hold up everybody else; and for all."""
ENCODINGS = 2
"""How many times in EVERY_S the tasks are encoded at most, however many readers come and however much changes."""
MOST_WAITING = 1000


class Reader:
    """One client on a push port. `sight`: what its user sees of others' tasks; `shown`: the nodes that it has been told
    are online."""

    def __init__(self, send_queue: SendQueue, sight: Callable[[], Sight] = lambda: EVERYTHING) -> None:
        self.send_queue = send_queue
        self.sight = sight
        self.shown: tuple[str, ...] = ()


class TaskPushes:
    """`task_mon`: the three lists, every EVERY_S to each reader."""

    def __init__(self, engine: Engine, home: str) -> None:
        self._engine = engine
        self._core = engine.core
        self._home = home
        self._ended = NewestEnded(engine.core)
        self._readers: dict[Reader, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._rows: dict[int, tuple[TaskState, bytes]] = {}
        self._bare_rows: dict[int, tuple[TaskState, bytes]] = {}
        self._version = 0
        """Grows with each change."""
        self._frames: dict[Sight, tuple[int, float, bytes]] = {}
        """For who sees the same: of which version, when it was encoded (the loop's time), and the frame."""

    def join(self, reader: Reader) -> None:
        """A reader that may be told from now on."""
        self._readers[reader] = None
        self._engine.reply(lambda _error: self._push(reader))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._round)

    def leave(self, reader: Reader) -> None:
        """It is gone."""
        self._readers.pop(reader, None)

    def note(self, moves: Sequence[Move]) -> None:
        """These moves happened, to which also belongs that others moved in the queue."""
        self._ended.note(moves)
        if self._rows or self._bare_rows:
            for task, _, _ in moves:
                self._rows.pop(task.id, None)
                self._bare_rows.pop(task.id, None)
        self._version += 1

    def frame(self, sight: Sight = EVERYTHING) -> bytes | None:
        """The frame of now for who sees this, encoded anew if something changed since it was; None while there is none
        to be told yet. Its tables have no way to mark what a crash could still take back, so that is not shown before
        it is durable."""
        sight = sight if sight.hides_others else EVERYTHING  # its rows show no variables
        now = asyncio.get_running_loop().time()
        version, encoded_at, frame = self._frames.get(sight, (-1, float("-inf"), None))
        if version != self._version and now - encoded_at >= EVERY_S / ENCODINGS and self._engine.is_saved:
            frame = self._encoded(sight)
            self._frames[sight] = (self._version, now, frame)
        return frame

    def tables(self) -> dict[str, list[Task]]:
        """Return the tasks of the client's three tables."""
        waiting = self._core.queued(0, MOST_WAITING)
        return {"wait": waiting, "exec": self._core.active(), "hist": self._ended.list()}

    def _encoded(self, sight: Sight) -> bytes:
        """Return the frame. Most rows do not change between frames, so each is encoded once, and once more as users see
        it who do not own the task."""
        known: dict[int, tuple[TaskState, bytes]] = {}
        bare: dict[int, tuple[TaskState, bytes]] = {}
        tables = self.tables()
        shown = [
            b'"%b":[%b]' % (name.encode(), self._rows_of(tasks, sight, known, bare)) for name, tasks in tables.items()
        ]
        if not sight.hides_others:
            self._rows = known
        else:  # others see the rest of the rows
            there = {task.id for tasks in tables.values() for task in tasks}
            self._rows = {task_id: row for task_id, row in {**self._rows, **known}.items() if task_id in there}
            self._bare_rows = {task_id: row for task_id, row in {**self._bare_rows, **bare}.items() if task_id in there}
        return frame_of("task_mon", b"{%b}" % b",".join(shown))

    def _rows_of(
        self,
        tasks: list[Task],
        sight: Sight,
        known: dict[int, tuple[TaskState, bytes]],
        bare: dict[int, tuple[TaskState, bytes]],
    ) -> bytes:
        rows = []
        for task in tasks:
            is_known = sight.knows(task.owner)
            before = (self._rows if is_known else self._bare_rows).get(task.id)
            if before is None or before[0] is not task.state:
                told = task_row(task, self._home) if is_known else bare_row(task)
                before = (task.state, json_of(told))
            (known if is_known else bare)[task.id] = before
            rows.append(before[1])
        return b",".join(rows)

    def close(self) -> None:
        """Send nothing more."""
        self._readers.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _round(self) -> None:
        loop = asyncio.get_running_loop()
        each, whole = SPREAD_S
        step = min(each, whole / max(len(self._readers), 1))
        for place, reader in enumerate(self._readers):
            loop.call_later(place * step, self._push, reader)
        seen = {reader.sight() for reader in self._readers}
        self._frames = {sight: frame for sight, frame in self._frames.items() if sight in seen or sight is EVERYTHING}
        self._timer = loop.call_later(EVERY_S, self._round) if self._readers else None

    def _push(self, reader: Reader) -> None:
        reader.send_queue.push("task_mon", lambda: self.frame(reader.sight()))


class NodePushes:
    """`mon`: one frame a node, each reader's round over all nodes taking EVERY_S or more."""

    def __init__(self, engine: Engine) -> None:
        self._inventory = engine.core.inventory
        self._samples: dict[str, EncodedSample] = {}
        self._readers: dict[Reader, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._to_come: list[str] = []
        self._round_at = 0.0
        self._slot_s = EVERY_S
        self._frames: dict[str, dict[tuple[str, ...], bytes]] = {}

    def sample(self, node: str, sample: EncodedSample) -> None:
        """The newest sample of a node."""
        self._samples[node] = sample

    def join(self, reader: Reader) -> None:
        """A reader that may be told from now on: at first of all nodes, one after the other."""
        self._readers[reader] = None
        for name in self._inventory.nodes:
            self._push(reader, name)
        if self._timer is None:
            self._begin_round()

    def leave(self, reader: Reader) -> None:
        """It is gone."""
        self._readers.pop(reader, None)

    def close(self) -> None:
        """Send nothing more."""
        self._readers.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _begin_round(self) -> None:
        loop = asyncio.get_running_loop()
        told = {name for reader in self._readers for name in reader.shown}
        self._to_come = [*self._inventory.nodes, *sorted(told - self._inventory.nodes.keys())]
        for name in self._samples.keys() - self._inventory.nodes.keys():
            del self._samples[name]
        self._slot_s = max(EVERY_S / max(len(self._to_come), 1), NODE_GAP_S)
        self._to_come.reverse()
        self._timer = loop.call_later(self._slot_s, self._slot)

    def _slot(self) -> None:
        self._timer = None
        if not self._readers:
            return
        if self._to_come:
            name = self._to_come.pop()
            self._frames.pop(name, None)
            for reader in self._readers:
                self._push(reader, name)
        if self._to_come:
            self._timer = asyncio.get_running_loop().call_later(self._slot_s, self._slot)
        else:
            self._begin_round()

    def _push(self, reader: Reader, name: str) -> None:
        reader.send_queue.push(name, lambda: self._frame(reader, name))

    def _frame(self, reader: Reader, name: str) -> bytes | None:
        """Return the frame of a node for a reader, given the nodes that the reader last received as online. A client
        that learns in one frame that two nodes left removes the wrong rows. So a node that left stays in the list of
        online nodes until the frame about the node itself."""
        node = self._inventory.nodes.get(name)
        online = node is not None and node.state is NodeState.ONLINE
        if not online and name not in reader.shown:
            return None
        reader.shown = self._with_online(reader.shown) if online else tuple(n for n in reader.shown if n != name)
        frames = self._frames.setdefault(name, {})
        frame = frames.get(reader.shown)
        if frame is None:
            newest = self._samples.get(name)
            told = newest.told() if newest is not None else {}
            said = node_row(node, told) if node is not None and online else gone_row(name)
            frame = frames[reader.shown] = encode("mon", {**said, "online": list(reader.shown)})
        return frame

    def _with_online(self, shown: tuple[str, ...]) -> tuple[str, ...]:
        new = [n for n, node in self._inventory.nodes.items() if node.state is NodeState.ONLINE and n not in shown]
        return (*shown, *new)
