"""Whole screens and single rows as lines: the cluster in one line, a node or a GPU, everything. Pure."""

from __future__ import annotations

from collections import Counter

from client.live.gpus import ASIDE, HELD, OTHERS, gpus_of
from client.text import cells
from client.text.people import share_mark
from client.text.quantities import counted, duration
from client.top import node_lines, task_lines
from client.top.view import View, node_rows, task_rows, unpacked
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.live.state import State
    from client.shapes import Share
    from client.text.cells import Line, Part
    from client.top.view import NodeKey

_GPU_LINES = 200
_TASKS = 50
_WITH_ADDRESS = 100


def frame(state: State, address: str, size: int, now: float, me: str = "", *, share: Share | None = None) -> list[Line]:
    """The whole screen, `size` columns wide and as long as it takes; `now`: seconds since the epoch; `share`: of `me`
    in the queue."""
    view = View()
    rows = node_rows(state, view, _GPU_LINES)
    ids = task_rows(state, view)
    head = headline(state, address, size, now, me, share=share)
    lines = [head, (), ((node_lines.head(state, size)[:size], "strong"),)]
    open_nodes = unpacked(rows)
    lines += [row_line(state, row, size, packed=row[0] not in open_nodes) for row in rows]
    tasks = [state.tasks[task_id] for task_id in ids[:_TASKS]]
    arrays = task_lines.has_arrays(tasks)
    lines += [(), ((task_lines.head(size, arrays=arrays), "strong"),)]
    lines += [task_lines.task_line(task, size, now, arrays=arrays) for task in tasks]
    if len(ids) > _TASKS:
        lines.append(((f"… and {len(ids) - _TASKS:,} more: muster queue --limit 0", "dim"),))
    return lines


def row_line(state: State, row: NodeKey, size: int, *, packed: bool) -> Line:
    """The line of a node, with its GPUs in it if `packed`, or of one of its GPUs."""
    name, index = row
    node = state.nodes.get(name)
    if node is None:
        return cells.fit_line(((f"{harmless(name)} is gone", "dim"),), size)
    if index is None:
        return node_lines.node_line(node, state, size, packed=packed)
    found = next((gpu for gpu in gpus_of(node, state) if gpu.number == index), None)
    return node_lines.gpu_line(found, size) if found else cells.fit_line((("gone", "dim"),), size)


def headline(state: State, address: str, size: int, now: float, me: str = "", *, share: Share | None = None) -> Line:
    """Return the cluster in a line: the user and the address, what is in use, how many tasks there are, and whether the
    shown state is still current; from half of it on, also what is taken of the user's share of the queue. A narrow line
    leaves out the address, and the user if there is no room."""
    gpus = [gpu for node in state.nodes.values() for gpu in gpus_of(node, state)]
    uses = Counter(gpu.use for gpu in gpus)
    ill = sum(node["state"] != "online" for node in state.nodes.values())
    states = Counter(task["state"] for task in state.tasks.values())
    nodes = counted(len(state.nodes), "node")
    wide = size >= _WITH_ADDRESS
    own = share_mark(share)
    parts: list[Part] = [*([(f"{own}  ", "warn")] if own else []), (nodes, "")]
    parts += [(f" ({ill} ill)", "bad")] if ill else []
    parts.append((f"  GPUs {uses[HELD]}/{len(gpus)} held", ""))
    parts += [(f", {uses[OTHERS]} others'", "warn")] if uses[OTHERS] else []
    parts += [(f", {uses[ASIDE]} aside", "bad")] if uses[ASIDE] else []
    running = states["running"] + states["starting"]
    parts.append((f"  {running:,} run, {states['waiting']:,} wait", ""))
    parts += [(f", {states['held']:,} held", "")] if states["held"] else []
    mark: Part = ("● live", "good") if state.complete else ("… connecting", "info")
    if state.lost:
        since = min(at for _, at in state.lost.values())
        mark = (f"✗ NO MASTER for {duration(now - since)}, trying again", "alarm")
    room = size - len(mark[0]) - 1
    who = f"{harmless(me)}  " if me else ""
    if wide:
        parts[:0] = [("muster top  ", "strong"), (f"{who.rstrip()} at {address}  " if me else f"{address}  ", "dim")]
    elif cells.size_of((*parts, (who, ""))) <= room:
        parts[:0] = [(who, "dim")]
    return (*cells.fit_line(tuple(parts), max(room, 0)), (" ", ""), mark)
