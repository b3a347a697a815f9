"""The lines that the desktop client shows as 日志信息: events of tasks and nodes, in Chinese, as in the old master.

Owns which events are news and their words. The commands and names in them are written by users, so they are cut; what
could be repeated at will (a client that comes and goes, a node that flaps) is counted beyond a few.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from master.core.attempts.activation import CANNOT_START
from master.core.attempts.exhaustion import RAN_OUT
from master.core.nodes.inventory import NodeState
from master.core.outcome import Move
from master.core.tasks.task import ENDED, HELD, Task, TaskState
from master.core.tasks.transitions import State
from master.desktop.news_file import NewsFile
from master.desktop.task_rows import command_text, id_text
from master.engine.engine import Engine
from master.views.sight import HIDDEN
from wire.errors import ConfigError
from wire.message import Message

SHOWN_COMMAND = 200
TOGETHER = 10
"""If more tasks than this had the same event at one moment, they share one line."""
SOON_S = 0.1
"""After something happened, until it can be read."""
SO_MANY, IN_S = 10, 60.0
"""Of what can be repeated at will so many lines are written in so many seconds."""

_PAUSED, _RUNNING = TaskState.PAUSED, TaskState.RUNNING
_ENDS = {
    TaskState.SUCCEEDED: "已完成",
    TaskState.FAILED: "运行失败",
    TaskState.TIMED_OUT: "超过时限，已终止",
    TaskState.CANCELLED: "已中止",
    TaskState.LOST: "结果未知（节点重启，或已被放弃）",
}

_LIMITS = ("log_too_large: ", "share_outgrown: ", "stray_task: ", "idle_task: ")
"""How the reason of a task begins that was ended for its log, its share of a GPU, a GPU that it was not given or GPUs
that it did not use, and has an exit code that says nothing."""


Event: TypeAlias = tuple[str, int, Task | None]
"""The kind of an event, the task's id, and the task if it still exists."""
_ADDED, _STARTED, _REMOVED, _AGAIN = "已添加", "开始运行", "已删除", "重新排队"
_HELD = "已暂缓，放行后才会运行"
_LIVE = frozenset({_PAUSED, _RUNNING})
_PAUSES = {(_RUNNING, _PAUSED): "已暂停，仍占用其 GPU", (_PAUSED, _RUNNING): "已继续运行"}


def news_path(server_log: Path) -> Path:
    """Where it lies: beside the master's log."""
    return server_log.with_name(f"{server_log.stem}.news.log")


class News:
    """Receives what has become durable from the engine, and arrivals from the sessions. `hides`: a line only names the
    task, its owner and where it runs; `clock`: monotonic seconds."""

    def __init__(
        self,
        engine: Engine,
        path: Path,
        group: int | None,
        *,
        hides: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self._core = engine.core
        try:
            self._file = NewsFile(path, group)
        except OSError as error:
            raise ConfigError(Message("news_log_refused", path=str(path), detail=error.strerror)) from None
        self._hides = hides
        self._clock = clock
        self._online: set[str] = set()
        self._aside = {name for name, note in engine.core.notes.items() if note.sick is not None}
        self._there: Counter[str] = Counter()
        self._said: dict[str, tuple[float, int]] = {}
        self._lines: list[str] = []
        """Lines that are not in the file yet; `_timer` writes them."""
        self._told: dict[str, int] = {}
        self._more: defaultdict[str, list[int]] = defaultdict(list)
        """How many lines of these are about what, and which tasks come on top, in one line."""
        self._timer: asyncio.TimerHandle | None = None
        engine.observers.append(self)

    def say(self, text: str) -> None:
        """One line, behind what has happened so far."""
        self._sum_up()
        self._lines.append(text)
        self._write()

    def close(self) -> None:
        """Write nothing more."""
        self._write()
        self._file.close()

    def _write(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._sum_up()
        if self._lines:
            lines, self._lines = self._lines, []
            self._file.write(lines)

    # -- clients ------------------------------------------------------------------------------------------------

    def came(self, address: str) -> None:
        """A client opened its window."""
        self._there[address] += 1
        if self._there[address] == 1:
            self._say_seldom("clients", f"客户端 {address} 已连接")
            self._write()

    def went(self, address: str) -> None:
        """It is gone."""
        self._there[address] -= 1
        if self._there[address] <= 0:
            del self._there[address]
            self._say_seldom("clients", f"客户端 {address} 已断开")
            self._write()

    def _say_seldom(self, kind: str, text: str) -> None:
        now = self._clock()
        begin, count = self._said.get(kind, (now, 0))
        if now - begin >= IN_S:
            if count > SO_MANY:
                self._lines.append(f"另有 {count - SO_MANY} 条类似的消息未列出")
            begin, count = now, 0
        self._said[kind] = (begin, count + 1)
        if count < SO_MANY:
            self._lines.append(text)

    # -- what has become durable ----------------------------------------------------------------------------------

    def published(self, moves: Sequence[Move], nodes: set[str]) -> None:
        """Something happened."""
        events: list[Event] = [
            (what, task.id, None if after is None else task)
            for task, before, after in moves
            if after is not before
            for what in _what(before, after)
        ]
        if events:
            self._tell(events)
        if nodes:
            for name in sorted(nodes):
                self._of_node(name)
        if self._timer is None and self._lines:  # a thousand commits together: nobody is to wait for it
            self._timer = asyncio.get_running_loop().call_later(SOON_S, self._write)

    def _tell(self, events: list[Event]) -> None:
        """In the order of what happened; where it was much, the same of many tasks together."""
        if len(events) <= TOGETHER:
            self._tell_apart(events)
            return
        kinds: dict[str, list[Event]] = {}
        for event in events:
            kinds.setdefault(event[0], []).append(event)
        for what, alike in kinds.items():
            if len(alike) > TOGETHER:
                self._lines.append(_line_of_many(what, [event[1] for event in alike]))
            else:
                self._tell_apart(alike)

    def _tell_apart(self, events: list[Event]) -> None:
        """Each in a line of its own, unless there are many of these already that will be written with it."""
        told = self._told
        for event in events:
            what = event[0]
            count = told[what] = told[what] + 1 if what in told else 1
            if count <= TOGETHER:
                self._lines.append(_line(event, _LITTLE if self._hides else _MORE))
                self._tell_if_too_large(event)
            else:
                self._more[what].append(event[1])

    def _tell_if_too_large(self, event: Event) -> None:
        """Of a task that waits for a node with so many GPUs, as a client's may: the client is told nowhere else."""
        what, number, task = event
        if task is None or what not in (_ADDED, _AGAIN) or self._has_gpus(task.gpus):
            return
        why = self._core.why_it_waits(task)
        if why is not None and why.key == "never":
            from master.desktop.chinese import words_in_chinese  # noqa: PLC0415  (a start has no use for it)

            more = "" if self._hides else f"（{_short(words_in_chinese(str(why.args['why'])))}）"
            self._lines.append(f"任务 {id_text(number)} 会一直等待，直到有节点满足其要求{more}")

    def _has_gpus(self, count: int) -> bool:
        """Whether a node has so many."""
        return any(len(node.spec.gpu_models) >= count for node in self._core.inventory.nodes.values())

    def _sum_up(self) -> None:
        """Write one line for all events that got no line of their own, and begin to count anew."""
        self._lines += [_line_of_many(what, numbers) for what, numbers in self._more.items()]
        self._told.clear()
        self._more.clear()

    def _of_node(self, name: str) -> None:
        node = self._core.inventory.nodes.get(name)
        online = node is not None and node.state is NodeState.ONLINE
        if online and name not in self._online:
            self._online.add(name)
            self._say_seldom(f"node {name}", f"节点 {name} 已上线")
        elif not online and name in self._online:
            self._online.discard(name)
            self._say_seldom(f"node {name}", f"节点 {name} {'已移除' if node is None else '已掉线'}")
        note = self._core.notes.get(name)
        sick = note.sick if note is not None else None
        if sick is not None and name not in self._aside:
            self._aside.add(name)
            why = HIDDEN if self._hides else _short(sick)
            self._lines.append(f"节点 {name} 无法启动任务，已停止分配（{why}）；任务会在其他节点运行")
        elif sick is None and name in self._aside:
            self._aside.discard(name)
            self._lines.append(f"节点 {name} 已恢复分配任务")


def _what(before: State, after: State) -> tuple[str, ...]:
    """The words for a move; none where it is no news."""
    if after is None:
        return (_REMOVED,)
    if before is None:
        if after in ENDED:
            return ()  # it was taken back from the history
        return (_ADDED, _HELD) if after is HELD else (_ADDED,)
    if before in ENDED:
        return (_AGAIN,)
    if (before, after) in _PAUSES:
        return (_PAUSES[before, after],)
    if after in _LIVE:
        return (_STARTED,)
    if after is HELD:
        return (_HELD,)
    if after in _ENDS:
        return (_ENDS[after],)
    return ("已放行",) if before is HELD else ()


def _line(event: Event, told: Mapping[str, Callable[[Task], str]]) -> str:
    what, number, task = event
    more = told.get(what)
    return f"任务 {id_text(number)} {what}{'' if task is None or more is None else more(task)}"


def _line_of_many(what: str, numbers: list[int]) -> str:
    return f"任务 {_ranges(numbers)} {what}，共 {len(numbers)} 个"


def _wished(task: Task) -> str:
    wanted = f"GPU {task.gpus} 块" if task.gpus else "不用 GPU"
    return f"（用户 {_short(task.owner)}，{wanted}）"


def _asked(task: Task) -> str:
    return f"（{_wishes(task)}）：{_short(command_text(task))}"


def _wishes(task: Task) -> str:
    wanted = f"GPU {task.gpus} 块" if task.gpus else "不用 GPU"
    return f"用户 {_short(task.owner)}，{wanted}" + (f"，节点 {task.node}" if task.node else "")


def _why_ended(task: Task) -> str:
    if task.state is TaskState.FAILED and task.env and task.exit_code == CANNOT_START:
        return f"（环境 {_short(task.env)} 不存在或无法激活，详情见任务日志）"
    says_more = task.exit_code is None or task.reason_key in RAN_OUT or (task.reason or "").startswith(_LIMITS)
    if task.state is TaskState.FAILED and task.reason and says_more:
        from master.desktop.chinese import words_in_chinese  # noqa: PLC0415  (a start has no use for it)

        return f"（{_short(words_in_chinese(task.reason))}）"
    return f"（退出码 {task.exit_code}）" if task.exit_code else ""


def _place(task: Task) -> str:
    parts = (
        f"节点 {part.node}" + (f"，GPU {', '.join(map(str, part.gpus))}" if part.gpus else "")
        for part in task.allocation
    )
    placed = "；".join(parts)
    return f"：{placed}" if placed else ""  # it may have ended by now


_MORE: dict[str, Callable[[Task], str]] = {
    _ADDED: _asked,
    _STARTED: _place,
    **dict.fromkeys(_ENDS.values(), _why_ended),
}
"""Details for the line of a single event, by its kind."""
_LITTLE: dict[str, Callable[[Task], str]] = {_ADDED: _wished, _STARTED: _place}
"""Likewise, where the commands of tasks are hidden."""


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_COMMAND else f"{text[:SHOWN_COMMAND]}…"


def _ranges(ids: Iterable[int]) -> str:
    """`3 至 7、9`."""
    numbers = sorted(ids)
    ends = [at for at, number in enumerate(numbers, 1) if at == len(numbers) or numbers[at] != number + 1]
    parts = [numbers[begin:end] for begin, end in zip([0, *ends], ends[:TOGETHER], strict=False)]
    shown = [f"{part[0]} 至 {part[-1]}" if len(part) > 1 else str(part[0]) for part in parts]
    return "、".join(shown) + (" 等" if len(ends) > TOGETHER else "")
