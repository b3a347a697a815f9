"""The two lists, nodes and queue: how they share the screen, what their heads tell, and what is chosen in them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from textual.app import ComposeResult
from textual.containers import Vertical

from client.live.listing import NODE_SORTS, TASK_SORTS
from client.live.state import State
from client.text import cells
from client.text.columns import fit
from client.top import frame, node_lines, task_lines
from client.top.rows import Rows
from client.top.view import PACKINGS, View, next_of, node_rows, task_rows, unpacked
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.text.cells import Line

_TALL = 36
CLOCK_STEP_S = 5
"""How long a task runs is told in steps: with seconds every line would be another one at every drawing."""


class Lists(Vertical):
    """Both lists of one state, as one view wants them. `me`: whose tasks are `mine`."""

    CSS = "Lists { height: 1fr; } #nodes { height: 8; } #tasks { height: 1fr; }"
    DEFAULT_CSS = CSS

    def __init__(self, state: State, view: View, me: str) -> None:
        super().__init__()
        self.state = state
        self.view = view
        self.zoomed: str | None = None
        self.node_rows = Rows(self._node_head, self._node_line, id="nodes")
        self.task_rows = Rows(self._task_head, self._task_line, id="tasks")
        self._me = me
        self._made_of: Any = None
        self._ids: list[int] = []
        self._arrays = False
        self._unpacked: set[str] = set()

    def compose(self) -> ComposeResult:
        """Nodes above the queue."""
        yield self.node_rows
        yield self.task_rows

    @property
    def on_nodes(self) -> bool:
        """Has the list of nodes the cursor?"""
        return self.node_rows.has_focus

    def focus_list(self, name: str) -> None:
        """Give the cursor to `nodes` or `tasks`."""
        (self.node_rows if name == "nodes" else self.task_rows).focus()

    def draw(self) -> None:
        """Draw what differs from what is on the screen."""
        room = self._room_of_nodes()
        rows = node_rows(self.state, self.view, room)
        self._unpacked = unpacked(rows)
        self._share(min(len(rows), room) + 1)
        self.node_rows.show(rows)
        self.task_rows.show(self._task_ids())

    def chosen_node(self) -> str | None:
        """The node under the cursor; None on a GPU or a task."""
        row = self.node_rows.selected if self.on_nodes else None
        return row[0] if row is not None and row[1] is None else None

    def chosen_task(self) -> int | None:
        """The task under the cursor, or the one that holds the GPU there."""
        if not self.on_nodes:
            task_id: int | None = self.task_rows.selected
            return task_id
        name, index = self.node_rows.selected or ("", None)
        node = self.state.nodes.get(name)
        held = [gpu["held_by"] for gpu in node["gpus"] if gpu["index"] == index] if node else []
        return held[0][0] if held and held[0] else None

    def waiting_in_sight(self) -> Iterator[int]:
        """The tasks on the screen that wait."""
        for task_id in self.task_rows.visible_keys:
            task = self.state.tasks.get(task_id) if isinstance(task_id, int) else None
            if task is not None and task["state"] == "waiting":
                yield task["id"]

    # -- what a key changes; each says in a few words what it is now --------------------------------------------

    def sort(self) -> str:
        """The next order of the list with the cursor."""
        if self.on_nodes:
            self.view.node_sort = next_of(NODE_SORTS, self.view.node_sort)
            return f"nodes by {self.view.node_sort}"
        self.view.task_sort = next_of(TASK_SORTS, self.view.task_sort)
        return f"tasks by {self.view.task_sort}"

    def mine(self) -> str:
        """Only my tasks, or everybody's."""
        self.view.mine = None if self.view.mine else self._me
        return f"only the tasks of {self._me}" if self.view.mine else "everybody's tasks"

    def ended(self) -> str:
        """With the tasks that ended meanwhile, or without."""
        self.view.ended = not self.view.ended
        return "with the tasks that ended meanwhile" if self.view.ended else "without ended tasks"

    def pack(self) -> str:
        """GPUs with lines of their own, packed, or as there is room."""
        self.view.gpus = next_of(PACKINGS, self.view.gpus)
        self.view.opened.clear()
        return {"all": "a line for each GPU", "packed": "GPUs packed"}.get(self.view.gpus, "GPUs as there is room")

    def zoom(self) -> None:
        """The list with the cursor alone, or both."""
        self.zoomed = None if self.zoomed else "nodes" if self.on_nodes else "tasks"

    # -- the screen -------------------------------------------------------------------------------------------

    def _room_of_nodes(self) -> int:
        """Lines for the nodes without their head, should they need so many: about half, more on a tall screen."""
        lines = self.size.height - 2
        if self.zoomed:
            return lines + 1 if self.zoomed == "nodes" else 0
        return max(1, lines * 6 // 10 if lines >= _TALL else lines * 45 // 100)

    def _share(self, height: int) -> None:
        self.node_rows.display = self.zoomed != "tasks"
        self.task_rows.display = self.zoomed != "nodes"
        wanted = "1fr" if self.zoomed == "nodes" else str(height)
        if str(self.node_rows.styles.height) != wanted:
            self.node_rows.styles.height = wanted

    def _task_ids(self) -> list[int]:
        view = self.view
        made_of = (self.state.tasks_version, view.task_sort, view.task_filter, view.mine, view.ended)
        if made_of != self._made_of:
            self._made_of, self._ids = made_of, task_rows(self.state, view)
            self._arrays = task_lines.has_arrays(map(self.state.task, self._ids))
        return self._ids

    def _node_head(self, size: int) -> Line:
        chosen = [self.view.node_sort] if self.view.node_sort != NODE_SORTS[0] else []
        return _head(node_lines.head(self.state, size), self.node_rows, chosen, self.view.node_filter, size)

    def _task_head(self, size: int) -> Line:
        chosen = [f"by {self.view.task_sort}"] if self.view.task_sort != TASK_SORTS[0] else []
        chosen += ["mine"] if self.view.mine else []
        chosen += ["+ended"] if self.view.ended else []
        return _head(task_lines.head(size, arrays=self._arrays), self.task_rows, chosen, self.view.task_filter, size)

    def _node_line(self, row: tuple[str, int | None], size: int) -> Line:
        return frame.row_line(self.state, row, size, packed=row[0] not in self._unpacked)

    def _task_line(self, task_id: int, size: int) -> Line:
        task = self.state.task(task_id)
        now = time.time() // CLOCK_STEP_S * CLOCK_STEP_S
        gone: Line = ((f"{task_id} is gone", "dim"),)
        line = task_lines.task_line(task, size, now, arrays=self._arrays) if task else gone
        return cells.fit_line(line, size)


def _head(titles: str, rows: Rows, chosen: list[str], text: str, size: int) -> Line:
    """The titles, and at the right what is chosen and which part of the list this is."""
    told = " ".join([*chosen, *([f"/{harmless(text)}"] if text else []), rows.position])
    room = max(size - len(told) - 1, 0)
    return ((fit(titles.rstrip(), room), "title"), (" ", ""), (told, "info"))
