"""What the keys `show`, `why` and `help` put on the screen, as text. Pure."""

from __future__ import annotations

from client.cli.node_words import load_text, word
from client.cli.text import command_line, duration, harmless, mib, moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.shapes import Node, NodePage, Task, Why

KEYS = (
    ("↑ ↓ j k PgUp PgDn g G", "move; Ctrl-U, Ctrl-D by half a screen"),
    ("Tab", "between nodes and queue"),
    ("z", "this part alone on the screen, and back"),
    ("l", "follow its log; on a GPU, of the task there"),
    ("c", "cancel it, after a question"),
    ("w", "why it waits or ended; what ails a node"),
    ("s", "everything about the task or the node"),
    ("o", "sort: the next order (told in the head)"),
    ("/", "filter: words that must be there; Esc: none"),
    ("m", "only my tasks, and everybody's"),
    ("e", "also the tasks that ended meanwhile"),
    ("x", "GPUs: a line each, packed, or what fits"),
    ("Enter", "a node's GPUs: a line each; a task: show it"),
    ("? h", "this help"),
    ("q", "quit; also closes what is open (Ctrl-C quits)"),
)
MARKS = (
    ("#", "held by a task"),
    ("·", "free"),
    ("~", "used by somebody else"),
    ("!", "set aside or kept back: the line says why"),
    ("?", "not known: its node is away"),
)
PACKED = "Packed, a GPU is its mark and two levels, ▁ to █: how busy, how full."


def help_page() -> str:
    """All keys and marks."""
    keys = [f"{key:<24}{text}" for key, text in KEYS]
    marks = [f"{mark:<24}{text}" for mark, text in MARKS]
    return "\n".join([*keys, "", "GPUs", *marks, "", PACKED])


def task_page(task: Task, now: float) -> str:
    """Everything about a task; `now`: seconds since the epoch."""
    started, ended, limit = task["started_at"], task["ended_at"], task["time_limit_s"]
    places = [f"{entry['node']}, GPU {','.join(map(str, entry['gpus'])) or 'none'}" for entry in task["allocation"]]
    return _page([
        ("id", str(task["id"])),
        ("name", task["name"]),
        ("state", task["state"]),
        ("reason", task["reason"] or ""),
        ("warning", task.get("warning") or ""),
        ("exit code", "" if task["exit_code"] is None else str(task["exit_code"])),
        ("owner", task["owner"]),
        ("project", task["project"]),
        ("command", command_line(task["command"])),
        ("folder", task["cwd"]),
        ("environment", task["env"]),
        ("log", task["log_path"]),
        ("needs", f"{task['gpus']} GPUs" + (f", node {task['node']}" if task["node"] else "")),
        ("runs on", "; ".join(places)),
        ("after", ", ".join(f"{entry['id']}:{entry['on']}" for entry in task["after"])),
        ("priority", "urgent" if task["urgent"] else str(task["priority"] or "")),
        ("time limit", duration(limit) if limit else ""),
        ("submitted", moment(task["submitted_at"])),
        ("started", moment(started) if started else ""),
        ("ended", moment(ended) if ended else ""),
        ("took" if ended else "runs for", duration((ended or now) - started) if started else ""),
    ])  # fmt: skip


def why_page(why: Why) -> str:
    """Why a task is in its state."""
    blocked = ", ".join(harmless(str(entry)) for entry in why.get("blocked_by") or [])
    told = why["reason"] or why.get("warning") or "nothing special"
    return "\n".join([
        f"task {why['id']} ({why['state']}): {harmless(told)}",
        *(f"  {harmless(detail)}" for detail in why.get("details") or []),
        *([f"  waits for: {blocked}"] if blocked else []),
    ])  # fmt: skip


def node_page(node: NodePage) -> str:
    """Everything about a node; its GPUs are in the list."""
    machine = [node["hostname"], f"Python {node['python']}" if node["python"] else None]
    return _page([
        ("name", node["name"]),
        ("state", word(node)),
        ("reason", node["reason"] or ""),
        ("set aside", f"by {node['drained_by']}, {moment(node['drained_at'])}" if node["drained_by"] else ""),
        ("mismatch", node.get("mismatch") or ""),
        ("reached by", f"{node['driver'] or ''} {node['address']}"),
        ("machine", ", ".join(filter(None, machine))),
        ("cpus", f"{node['cpus']} ({node['cpus_held']} held)"),
        ("slots", f"{node['slots']} ({node['slots_held']} held)"),
        ("memory", mib(node["memory_mib"]) if node["memory_mib"] else ""),
        ("load", load_text(node["load"])),
        ("labels", ", ".join(f"{key}={value}" for key, value in node["labels"].items())),
        ("tasks", ", ".join(map(str, node["tasks"]))),
        ("GPUs aside", "; ".join(_aside(node))),
    ])  # fmt: skip


def node_why(node: Node) -> str:
    """What is the matter with a node and its GPUs."""
    said = node["reason"] or ("nothing is the matter with it" if node["schedulable"] else word(node))
    more = [harmless(node.get("mismatch") or ""), *(f"GPU {one}" for one in _aside(node))]
    return "\n".join([f"node {harmless(node['name'])}: {harmless(said)}", *(f"  {one}" for one in more if one)])


def _aside(node: Node) -> list[str]:
    return [
        f"{gpu['index']}: {harmless(gpu['health'])}"
        for gpu in node["gpus"]
        if gpu["health"] is not None and gpu["health"] != "ok"
    ]


def _page(entries: list[tuple[str, str]]) -> str:
    return "\n".join(f"{label + ':':<12} {harmless(value)}" for label, value in entries if value)
