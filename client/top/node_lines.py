"""The lines of the nodes: one a node with its GPUs packed, or one a node and one for each of its GPUs. Pure."""

from __future__ import annotations

from collections import Counter

from client.live.gpus import AWAY, FREE, HELD, OTHERS, GpuNow, gpus_of
from client.states import node_condition
from client.text import cells
from client.text.colours import STATE_KINDS
from client.text.columns import cut, fit, width
from client.text.nodes import keeps_out
from client.text.quantities import counted, load_text
from client.top.marks import KINDS, LEGEND, MARKS
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.live.state import State
    from client.shapes import Node
    from client.text.cells import Line, Part

_NAME, _NAME_WIDE, _WORD = 10, 18, 11
_WIDE, _VERY_WIDE = 110, 150
_CELLS = (16, 10, 4, 1)
"""Columns of a packed GPU, the first that fits: who has it and a figure, who has it and levels, levels, the mark."""
_LEAST_TEXT = 12
CLOCK_OFF_S = 2.0
"""A clock that is off by more is told; by so much the master corrects no times either."""
_FIGURE = 4


def head(state: State, size: int) -> str:
    """The titles over the nodes."""
    name, use = _name_size(state, size), _use_size(size)
    cpu, ram = (f"{title:<{use}}" for title in ("CPU", "RAM"))
    return f"{'NODE':<{name}} {'STATE':<{_WORD}} {cpu} {ram} GPUS {LEGEND}"


def node_line(node: Node, state: State, size: int, *, packed: bool) -> Line:
    """A node in `size` columns; `packed`: its GPUs are in this line."""
    gpus = gpus_of(node, state)
    sample = state.samples.get(node["name"], {})
    total, available = sample.get("memory_total_mib"), sample.get("memory_available_mib")
    used = total - available if total is not None and available is not None else None
    said = node_condition(node)
    start: Line = (
        (fit(harmless(node["name"]), _name_size(state, size)), "strong"),
        (" " + fit(said, _WORD), STATE_KINDS.get(said, "warn")),
        *_use(sample.get("cpu_percent"), size),
        *_use(cells.share(used, total), size),
        (" ", ""),
    )
    rest = size - cells.size_of(start)
    if packed and gpus:
        most = max(len(other["gpus"]) for other in state.nodes.values())
        packs = _packed(gpus, most, rest)
        return cells.fit_line((*start, *packs, *_told(node, gpus, sample)), size)
    return cells.fit_line((*start, *_told(node, gpus, sample, counted=True)), size)


def gpu_line(gpu: GpuNow, size: int) -> Line:
    """One GPU in `size` columns."""
    bar = 16 if size >= _VERY_WIDE else 10 if size >= _WIDE else 6
    memory = cells.share(gpu.used_mib, gpu.total_mib)
    parts: list[Part] = [
        (f" {MARKS[gpu.use]}", KINDS[gpu.use]),
        (f"{gpu.number:>3} ", "strong"),
    ]
    if size >= _WIDE:
        parts.append((fit(harmless(gpu.model), 24 if size >= _VERY_WIDE else 12) + " ", ""))
    parts += [
        (cells.bar(gpu.utilization, bar), cells.load_kind(gpu.utilization)),
        (" " + cells.percent_text(gpu.utilization) + "  ", ""),
        (cells.bar(memory, bar), cells.load_kind(memory)),
        (fit(cells.memory_text(gpu.used_mib, gpu.total_mib), 9, right=True), ""),
        (_measure(gpu.temperature, "°C", 3) + (_measure(gpu.power, "W", 4) if size >= _WIDE else ""), "dim"),
        ("  ", ""),
        *_holder(gpu),
    ]
    return cells.fit_line(tuple(parts), size)


def _name_size(state: State, size: int) -> int:
    longest = max((width(harmless(name)) for name in state.nodes), default=0)
    return min(max(longest, 4), _NAME_WIDE if size >= _WIDE else _NAME)


def _use_size(size: int) -> int:
    return 13 if size >= _VERY_WIDE else _FIGURE


def _use(percent: float | None, size: int) -> Line:
    """CPU or RAM: a bar where there is room, and the figure."""
    room = _use_size(size)
    bar: Line = (
        ((" " + cells.bar(percent, room - _FIGURE), cells.load_kind(percent)),) if room > _FIGURE else ((" ", ""),)
    )
    return (*bar, (cells.percent_text(percent), ""))


def _packed(gpus: list[GpuNow], most: int, room: int) -> Line:
    """The GPUs of a node, as wide as there is room for on the node with the most of them: so they stand in columns."""
    each = next((cell for cell in _CELLS if cell * most + _LEAST_TEXT <= room), _CELLS[-1])
    parts: list[Part] = []
    for gpu in gpus[: max(room, 1)]:
        figures = _levels(gpu)
        mark, kind = MARKS[gpu.use], KINDS[gpu.use]
        if each == _CELLS[0]:
            parts.append(
                (
                    mark + fit(_who(gpu), 8) + _figure(gpu, figures),
                    kind,
                )
            )
        elif each == _CELLS[1]:
            parts.append((mark + fit(_who(gpu), 6) + figures, kind))
        elif each == _CELLS[2]:
            parts.append((mark + figures, kind))
        else:
            parts.append((mark, kind))
            continue
        parts.append((" " * (each - width(parts[-1][0])), ""))
    return (*parts, (" ", ""))


def _figure(gpu: GpuNow, levels: str) -> str:
    return cells.percent_text(gpu.utilization) + levels[1] if levels.strip() else ""


def _levels(gpu: GpuNow) -> str:
    """How busy, and how full; blank where neither is measured."""
    memory = cells.share(gpu.used_mib, gpu.total_mib)
    if gpu.utilization is None and memory is None:
        return "  "
    return cells.level(gpu.utilization) + cells.level(memory)


def _who(gpu: GpuNow) -> str:
    if gpu.use == HELD:
        return harmless(gpu.owner) or str(gpu.task)
    if gpu.use == OTHERS:
        return harmless(gpu.others[0]) if gpu.others else "others"
    return {FREE: "free", AWAY: "away"}.get(gpu.use, "aside")


def _told(node: Node, gpus: list[GpuNow], sample: dict[str, object], *, counted: bool = False) -> Line:
    """Return the rest of a node's line: its problem, else its users. A wrong clock goes first: its text is short."""
    out = keeps_out(node)
    first: Line = (*_clock(node.get("clock_offset_s")), *([(f"{out}; ", "warn")] if out else ()))
    if node.get("reason"):
        why: Part = (harmless(node["reason"] or ""), "bad" if node["state"] != "online" else "warn")
        return (*first, why)
    return (*first, *_who_is_there(node, gpus, sample, counted=counted))


def _clock(offset: float | None) -> Line:
    """That the node's clock is off, by which the times of its tasks are corrected."""
    if offset is None or abs(offset) <= CLOCK_OFF_S:
        return ()
    return ((f"clock {abs(offset):.0f} s {'ahead' if offset > 0 else 'behind'}; ", "warn"),)


def _who_is_there(node: Node, gpus: list[GpuNow], sample: dict[str, object], *, counted: bool) -> Line:
    if counted:
        return ((_counted(node, gpus, sample), ""),)
    owners = Counter(harmless(gpu.owner) or f"task {gpu.task}" for gpu in gpus if gpu.use == HELD)
    words = [f"{owner} {count}" for owner, count in owners.most_common()]
    if words and (kept := _kept(node)):
        words[-1] += f"; {kept}"
    whys = [f"GPU {gpu.number}: {harmless(gpu.why)}" for gpu in gpus if gpu.why]
    if whys and words:
        return ((", ".join(words) + "; ", ""), ("; ".join(whys), "warn"))
    return (("; ".join(whys), "warn"),) if whys else ((", ".join(words) or _counted(node, gpus, sample), ""),)


def _counted(node: Node, gpus: list[GpuNow], sample: dict[str, object]) -> str:
    tasks = len(node.get("tasks") or [])
    load = load_text(sample.get("load") or node.get("load"))
    words = [
        f"{sum(gpu.use == FREE for gpu in gpus)} of {len(gpus)} GPUs free" if gpus else "no GPU",
        counted(tasks, "task"),
        f"slots {node.get('slots_held', 0)}/{node['slots']}" if node.get("slots") else "",
        f"load {load}" if load else "",
        _kept(node),
    ]
    return ", ".join(word for word in words if word)


def _kept(node: Node) -> str:
    kept = node.get("reservation")
    return f"reserved for task {kept['task']}" if kept else ""


def _measure(value: float | None, unit: str, room: int) -> str:
    return f" {value:>{room}.0f}{unit}" if value is not None else " " * (1 + room + len(unit))


def _holder(gpu: GpuNow) -> Line:
    """Return who uses the GPU, and its problem."""
    parts: list[Part] = []
    if gpu.task is not None:
        told = " ".join(part for part in (str(gpu.task), harmless(gpu.owner), harmless(gpu.name)) if part)
        told += f", and {counted(gpu.sharers, 'task')} more" if gpu.sharers else ""
        parts.append((told, "good"))
    elif gpu.use == FREE:
        parts.append(("free", "info"))
    elif gpu.use == AWAY:
        parts.append(("its node is away", "dim"))
    names = cut(", ".join(map(harmless, gpu.others)), 30)
    if gpu.others and not any(name in gpu.why for name in gpu.others):
        parts.append(((" + " if parts else "") + f"used by {names}", "warn"))
    if gpu.why:
        parts.append((("; " if parts else "") + harmless(gpu.why), "warn" if gpu.use == OTHERS else "bad"))
    return tuple(parts)
