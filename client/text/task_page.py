"""All that is to be said of one task, as labels and values, and why it is where it is."""

from __future__ import annotations

from client.text.command import command_line
from client.text.quantities import counted, duration, mib, moment
from client.text.snapshots import snapshot_line
from client.text.tasks import array_place
from wire.exit_codes import with_signal
from wire.harmless import harmless
from wire.ranges import ids_in_short, names_in_short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.shapes import After, Expected, Part, Task, Why

NOT_WELL = ("failed", "timed_out", "lost", "cancelled")
"""The states of tasks that ended otherwise than they should."""
FAILED = ("failed", "timed_out", "lost")
"""Those of which one looks into the log for why."""
_UNSAVED = "the disk takes no writes; if the master ends before it does, this is taken back"


def task_page(task: Task, now: float) -> list[tuple[str, str]]:
    """Everything about a task, as labels and values; `now`: seconds since the epoch."""
    started, ended = task["started_at"], task["ended_at"]
    entries = [
        ("id", str(task["id"])),
        ("name", harmless(task["name"])),
        ("state", task["state"]),
        ("reason", harmless(task["reason"] or "")),
        ("last line", harmless(task.get("last_line") or "")),
        ("not saved", _UNSAVED if task.get("unsaved") else ""),
        ("warning", harmless(task.get("warning") or "")),
        ("exit code", "" if task["exit_code"] is None else with_signal(task["exit_code"])),
        ("owner", harmless(task["owner"])),
        ("by admin", "it counts as an admin's" if task.get("by_admin") else ""),
        ("project", harmless(task["project"])),
        ("array", _array(task)),
        ("command", command_line(task["command"])),
        ("folder", harmless(task["cwd"])),
        ("snapshot", snapshot_line(taken) if (taken := task.get("snapshot")) else ""),
        ("env", harmless(task["env"])),
        ("setup", harmless(task.get("setup") or "")),
        ("variables", harmless(", ".join(f"{name}={value}" for name, value in task.get("variables", {}).items()))),
        ("token", f"to {harmless(task['token'])} others with" if task.get("token") else ""),
        ("log", harmless(task["log_path"])),
        ("needs", _needs(task)),
        ("within", "" if task.get("within") is None else f"allocation {task['within']}"),
        ("runs on", "; ".join(_place(entry["node"], entry["gpus"]) for entry in task["allocation"])),
        ("GPU use", _gpu_use(task)),
        ("held by", _held_by(task)),
        ("runs as", harmless(_rights(task))),
        ("after", ", ".join(map(_predecessor, task["after"]))),
        ("priority", _priority(task)),
        ("begins", moment(task["begin_at"]) if task.get("begin_at") else ""),
        ("time limit", _limit(task)),
        ("expected", _expected(task)),
        ("retries", _retries(task)),
        ("elastic", _elastic(task)),
        ("signal", _signal(task)),
        ("attempt", str(task["attempt"]) if task["attempt"] > 1 else ""),
        ("submitted", moment(task["submitted_at"])),
        ("waits since", _since(task, now)),
        ("started", moment(started) if started else ""),
        ("ended", moment(ended) if ended else ""),
        ("took" if ended else "runs for", duration((ended or now) - started) if started else ""),
        ("clock", _clocks(task["allocation"])),
        ("cancel", _cancel(task)),
        ("next", next_step(task)),
    ]
    return [entry for entry in entries if entry[1]]


def _gpu_use(task: Task) -> str:
    """`n1 GPU 0: 12.3G of 80G, 97 %`; of a GPU that it shares also what all use together."""
    told = []
    for one in task.get("gpu_use") or ():  # type: ignore[attr-defined]  # which `show` alone has
        own, of_all = one["used_mib"], one["memory_used_mib"]
        used = mib(of_all if own is None else own) + (f" ({mib(of_all)} in use)" if task.get("share") and own else "")
        memory = f"{used} of {mib(one['memory_mib'])}" if (own, of_all) != (None, None) else ""
        busy = "" if one["utilization"] is None else f"{one['utilization']:.0f} %"
        figures = ", ".join(filter(None, (memory, busy))) or "not measured"
        told.append(f"{harmless(one['node'])} GPU {one['gpu']}: {figures}")
    return "; ".join(told)


def _held_by(task: Task) -> str:
    """`task 7 of wang (bert), task 9 of li`: who has what it waits for."""
    found = task.get("held_by") or []
    told = [
        f"task {one['id']} of {harmless(one['owner'])}" + (f" ({harmless(one['name'])})" if one["name"] else "")
        for one in found  # type: ignore[attr-defined]  # which `show` alone has
    ]
    more = task.get("holders", 0) - len(told)  # type: ignore[operator]
    return ", ".join(told) + (f" and {more} more" if more > 0 else "")


def next_step(task: Task | Why) -> str:
    """The command that goes on from here, of a task that did not end well; else ""."""
    return f"muster retry {task['id']}" if task["state"] in NOT_WELL else ""


def log_end_lines(lines: list[str]) -> list[str]:
    """The last lines of a log, below a word of what they are."""
    return ["its log ends with:", *(f"  {line}" for line in lines)] if lines else []


def _array(task: Task) -> str:
    place = array_place(task)
    if not place:
        return ""
    values = ", ".join(f"{name}={value}" for name, value in (task.get("sweep") or {}).items())
    return harmless(place + (f" ({values})" if values else ""))


def _clocks(parts: list[Part]) -> str:
    """Of the nodes whose clocks were wrong, so that the times above are not as they told them."""
    wrong = [
        f"{harmless(part['node'])}'s was {duration(abs(offset))} {'ahead of' if offset > 0 else 'behind'} the master's"
        for part in parts
        if (offset := part.get("clock_offset_s"))
    ]
    return f"{', '.join(wrong)}: its times here are corrected by that" if wrong else ""


def _limit(task: Task) -> str:
    limit = task["time_limit_s"]
    then = ", then behind all others and on" if task.get("on_timeout") == "requeue" else ""
    return f"{duration(limit)}{then}" if limit else ""


def _retries(task: Task) -> str:
    most = task.get("max_retries")
    named = task.get("retry_on") or []
    return f"{task.get('retries', 0)} of {most}{', on ' if named else ''}{', '.join(named)}" if most else ""


def _elastic(task: Task) -> str:
    """`from out/*.pt on, resized 2 times`."""
    if not task.get("elastic"):
        return ""
    times = task.get("resizes") or 0
    told = f", resized {counted(times, 'time')}, before which it ran {duration(task['ran_s'])}" if times else ""
    return harmless(f"from {task['checkpoint']} on{told}")


def _since(task: Task, now: float) -> str:
    """Since when only room keeps it, where that is not since it was submitted."""
    eligible = task.get("eligible_at")
    return moment(eligible) if task["state"] == "waiting" and eligible and eligible <= now else ""


def _rights(task: Task) -> str:
    """Return the account whose rights the task has on each of its nodes, as far as known; empty for an allocation,
    which runs nothing."""
    if task.get("is_allocation"):
        return ""
    is_begun = task["started_at"] is not None
    told = dict.fromkeys(_rights_of(part, is_begun=is_begun) for part in task["allocation"])
    return "; ".join(filter(None, told))


def _rights_of(part: Part, *, is_begun: bool) -> str:
    """Return the account whose rights the task has there. That it is the agent's own is only known of a task that
    began: a task whose owner has no account on the node was not started as the agent."""
    if part.get("run_as"):
        return f"{part['run_as']}, its owner's account"
    if part.get("login"):
        return f"{part['login']}, its owner's SSH account there"
    account = part.get("account", "") if is_begun else ""
    if account in ("", "root"):
        return account and f"{account}, as the agent there"
    return f"{account}, an account that all tasks there share"


_SOURCES = {
    "command": "{runs} of this command",
    "gpus": "{runs} of the owner's with as many GPUs",
    "owner": "{runs} of the owner's",
    "all": "{runs} of anybody's",
}


def _expected(task: Task) -> str:
    """`20m to 25m (from 5 runs of this command)`."""
    expected: Expected | None = task.get("expected_s")  # type: ignore[assignment]  # which `show` alone has
    if expected is None:
        return ""
    low, high = duration(expected["low"]), duration(expected["high"])
    span = low if low == high else f"{low} to {high}"
    return f"{span} (from {_SOURCES[expected['source']].format(runs=counted(expected['runs'], 'run'))})"


def _cancel(task: Task) -> str:
    if not task["cancel_requested"] or task["ended_at"]:
        return ""
    asked = task.get("asked_end")
    by = f" by {harmless(asked['by'])}" if asked and asked["by"] else ""
    return f"asked for{by}; the node is ending it"


def _signal(task: Task) -> str:
    early = task.get("signal")
    if not early:
        return ""
    whom = "the command itself" if early["main_only"] else "whoever heeds it"
    return f"{harmless(early['name'])} to {whom}, {duration(early['before_s'])} before the time limit"


def _predecessor(said: After) -> str:
    """`7:ok`, `12/:any`, as one types it."""
    return f"{said['id']}{'/' if said.get('array') else ''}:{said['on']}"


def _needs(task: Task) -> str:
    cpus, gpu_ids = task.get("cpus"), task.get("gpu_ids")
    parts = [_gpus(task)] if task["gpus"] else []
    if gpu_ids:
        parts[0] += f" (exactly {', '.join(map(str, gpu_ids))})"
    if cpus:
        parts.append(counted(cpus, "CPU"))
    if memory := task.get("memory_mib"):
        parts.append(f"{memory} MiB of memory")
    if disk := task.get("tmp_disk_mib"):
        parts.append(f"{disk} MiB of temporary disk")
    parts += [counted(count, f"{harmless(name)} licence") for name, count in (task.get("licences") or {}).items()]
    parts = parts or ["a slot, no GPU"]
    parts += _nodes(task)
    if excluded := task.get("exclude"):
        parts.append(f"not on {harmless(names_in_short(excluded))}")
    return ", ".join(parts)


def _nodes(task: Task) -> list[str]:
    """`on each of 2 nodes of gpu[1-4]`."""
    if gpus_on := task.get("gpus_on"):
        each = [f"GPU {ids_in_short(gpus)} of {harmless(name)}" for name, gpus in gpus_on.items()]
        return [each[0] if len(each) == 1 else f"on each of {len(each)} nodes: {' and '.join(each)}"]
    count, listed = task.get("nodes", 1), task.get("node_list") or []
    named = harmless(names_in_short(listed))
    if count > 1:
        return [f"on each of {count} nodes" + (f" of {named}" if listed else "")]
    if listed:
        return [f"on one of {named}"]
    return [f"node {harmless(task['node'])}"] if task["node"] else []


def _gpus(task: Task) -> str:
    """`1 to 4 GPUs of model A100 with 20000 MiB`."""
    most = task.get("gpus_max")
    told = f"{task['gpus']} to {most} GPUs" if most else counted(task["gpus"], "GPU")
    if models := task.get("gpu_models"):
        told += f" of model {' or '.join(map(harmless, models))}"
    if memory := task.get("gpu_memory_mib"):
        told += f", {memory} MiB of each, shared" if task.get("share") else f" with {memory} MiB"
    elif task.get("share"):
        learned = task.get("learned_gpu_mib")
        told += (
            f", shared (such tasks used {learned} MiB)"
            if learned
            else ", shared once it is known how much such tasks use"
        )
    if unused := task.get("min_free_util"):
        told += f", {unused:g} % unused"
    return told


def _place(node: str, gpus: list[int]) -> str:
    return f"{harmless(node)}, GPU {','.join(map(str, gpus))}" if gpus else harmless(node)


def _priority(task: Task) -> str:
    words = [str(task["priority"])] if task["priority"] else []
    return ", ".join([*words, "urgent"] if task["urgent"] else words)


def why_lines(why: Why) -> list[str]:
    """Return the lines of the reason, without repetition, and the next command."""
    details = why.get("details") or []
    blocked = [] if details else why.get("blocked_by") or []
    told = why.get("brief") or why["reason"] or why.get("warning") or "nothing special"
    found = [f"task {why['id']} ({why['state']}): {harmless(told)}", *(f"  {harmless(detail)}" for detail in details)]
    if ways := why.get("would_start"):
        found.append(f"  would start if {', or if '.join(map(harmless, ways))}")
    found += [f"  waits for: {', '.join(harmless(str(entry)) for entry in blocked)}"] if blocked else []
    return found + [f"  next: {step}" for step in (next_step(why),) if step]
