"""All that is to be said of one task, as labels and values, and why it is where it is."""

from __future__ import annotations

from client.text.command import command_line
from client.text.quantities import counted, duration, moment
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.shapes import Task, Why

_UNSAVED = "the disk takes no writes; if the master ends before it does, this is taken back"


def task_page(task: Task, now: float) -> list[tuple[str, str]]:
    """Everything about a task, as labels and values; `now`: seconds since the epoch."""
    started, ended = task["started_at"], task["ended_at"]
    limit = task["time_limit_s"]
    entries = [
        ("id", str(task["id"])),
        ("name", harmless(task["name"])),
        ("state", task["state"]),
        ("reason", harmless(task["reason"] or "")),
        ("not saved", _UNSAVED if task.get("unsaved") else ""),
        ("warning", harmless(task.get("warning") or "")),
        ("exit code", "" if task["exit_code"] is None else str(task["exit_code"])),
        ("owner", harmless(task["owner"])),
        ("project", harmless(task["project"])),
        ("command", command_line(task["command"])),
        ("folder", harmless(task["cwd"])),
        ("env", harmless(task["env"])),
        ("setup", harmless(task.get("setup") or "")),
        ("variables", harmless(", ".join(f"{name}={value}" for name, value in task.get("variables", {}).items()))),
        ("log", harmless(task["log_path"])),
        ("needs", _needs(task)),
        ("runs on", "; ".join(_place(entry["node"], entry["gpus"]) for entry in task["allocation"])),
        ("runs as", harmless(", ".join(dict.fromkeys(entry.get("run_as", "") for entry in task["allocation"])))),
        ("after", ", ".join(f"{entry['id']}:{entry['on']}" for entry in task["after"])),
        ("priority", _priority(task)),
        ("time limit", duration(limit) if limit else ""),
        ("attempt", str(task["attempt"]) if task["attempt"] > 1 else ""),
        ("submitted", moment(task["submitted_at"])),
        ("started", moment(started) if started else ""),
        ("ended", moment(ended) if ended else ""),
        ("took" if ended else "runs for", duration((ended or now) - started) if started else ""),
        ("cancel", _cancel(task)),
    ]
    return [entry for entry in entries if entry[1]]


def _cancel(task: Task) -> str:
    if not task["cancel_requested"] or task["ended_at"]:
        return ""
    asked = task.get("asked_end")
    by = f" by {harmless(asked['by'])}" if asked and asked["by"] else ""
    return f"asked for{by}; the node is ending it"


def _needs(task: Task) -> str:
    cpus, gpu_ids = task.get("cpus"), task.get("gpu_ids")
    parts = [counted(task["gpus"], "GPU")] if task["gpus"] else []
    if gpu_ids:
        parts[0] += f" (exactly {', '.join(map(str, gpu_ids))})"
    if cpus:
        parts.append(counted(cpus, "CPU"))
    parts = parts or ["a slot, no GPU"]
    if task["node"]:
        parts.append(f"node {harmless(task['node'])}")
    return ", ".join(parts)


def _place(node: str, gpus: list[int]) -> str:
    return f"{harmless(node)}, GPU {','.join(map(str, gpus))}" if gpus else harmless(node)


def _priority(task: Task) -> str:
    words = [str(task["priority"])] if task["priority"] else []
    return ", ".join([*words, "urgent"] if task["urgent"] else words)


def why_lines(why: Why) -> list[str]:
    """What there is to say, nothing of it twice."""
    details = why.get("details") or []
    blocked = [] if details else why.get("blocked_by") or []
    told = why.get("brief") or why["reason"] or why.get("warning") or "nothing special"
    found = [f"task {why['id']} ({why['state']}): {harmless(told)}", *(f"  {harmless(detail)}" for detail in details)]
    return found + ([f"  waits for: {', '.join(harmless(str(entry)) for entry in blocked)}"] if blocked else [])
