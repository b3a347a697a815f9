"""Texts that the keys `show`, `why` and `help` put on the screen. Pure."""

from __future__ import annotations

from client.states import node_condition
from client.text import node_page as node_text
from client.text import task_page as task_text
from client.text.attempts import attempts_table
from client.text.differences import difference_lines
from client.text.nodes import gpus_aside
from client.top.marks import MARKS, MEANINGS
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from client.shapes import Diff, Node, NodePage, TaskPage, Why

KEYS = (
    ("↑ ↓ j k PgUp PgDn g G", "move; Ctrl-U, Ctrl-D by half a screen"),
    ("Tab", "between nodes and queue"),
    ("z", "this part alone on the screen, and back"),
    ("l", "follow its log; on a GPU, of the task there"),
    ("c", "cancel it, after a question"),
    ("w", "why it waits or ended; what ails a node"),
    ("s", "everything about the task or the node"),
    ("d", "in what it differs from another task"),
    ("o", "sort: the next order (told in the head)"),
    ("/", "filter: words that must be there; Esc: none"),
    ("m", "only my tasks, and everybody's"),
    ("e", "also the tasks that ended meanwhile"),
    ("x", "GPUs: a line each, packed, or what fits"),
    ("Enter", "a node's GPUs: a line each; a task: show it"),
    ("? h", "this help"),
    ("q", "quit; also closes what is open (Ctrl-C quits)"),
)
PACKED = "Packed, a GPU is its mark and two levels, ▁ to █: how busy, how full."


def help_page() -> str:
    """All keys and marks."""
    keys = [f"{key:<24}{text}" for key, text in KEYS]
    marks = [f"{MARKS[use]:<24}{text}" for use, text in MEANINGS.items()]
    return "\n".join([*keys, "", "GPUs", *marks, "", PACKED])


def task_page(task: TaskPage, now: float, log_end: Sequence[str] = ()) -> str:
    """Everything about a task; `now`: seconds since the epoch; `log_end`: the last lines of its log."""
    attempts = task.get("attempts")  # masters before told of none
    table = f"\n\n{attempts_table(attempts, None).rstrip()}" if attempts else ""
    end = "".join(f"\n{line}" for line in task_text.log_end_lines([*log_end]))
    return _page(task_text.task_page(task, now)) + table + (f"\n{end}" if end else "")


def diff_page(diff: Diff) -> str:
    """In what two tasks differ."""
    return "\n".join(difference_lines(diff))


def why_page(why: Why, log_end: Sequence[str] = ()) -> str:
    """Why a task is in its state; `log_end`: the last lines of its log."""
    end = task_text.log_end_lines([*log_end])
    return "\n".join([*task_text.why_lines(why), *(["", *end] if end else [])])


def node_page(node: NodePage) -> str:
    """Everything about a node; its GPUs are in the list."""
    tasks = ", ".join(map(str, node["tasks"]))
    return _page([*node_text.node_page(node), ("tasks", tasks), ("GPUs aside", "; ".join(gpus_aside(node)))])


def node_why(node: Node) -> str:
    """Return the problems of a node and its GPUs."""
    said = node["reason"] or ("nothing is the matter with it" if node["schedulable"] else node_condition(node))
    more = [harmless(node.get("mismatch") or ""), *(f"GPU {one}" for one in gpus_aside(node))]
    return "\n".join([f"node {harmless(node['name'])}: {harmless(said)}", *(f"  {one}" for one in more if one)])


def _page(entries: list[tuple[str, str]]) -> str:
    return "\n".join(f"{label + ':':<12} {value}" for label, value in entries if value)
