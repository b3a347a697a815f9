"""Why a task is where it is, in a few words, for a terminal that is too narrow for the sentence.

Loaded only where something has to be cut. A reason without a short form keeps its sentence, and so does a reason that
an older master sends without a key.
"""

from __future__ import annotations

import time

from wire.harmless import harmless
from wire.message import Message, Several, revived, worded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.shapes import Allocated, Attempt, Task

SHORT = {
    # Why it waits.
    "held": "held",
    "held_because": "held: {why}",
    "held_when_filed": "held",
    "waits_for": "after {tasks:, }",
    "to_succeed": "{id} (ok)",
    "to_fail": "{id} (fail)",
    "to_end": "{id}",
    "array_to_succeed": "{id}/ (ok)",
    "array_to_fail": "{id}/ (fail)",
    "array_to_end": "{id}/",
    "begins_at": "begins {at}",
    "tried_again_at": "retry {at} ({retry} of {most})",
    "goes_on_at": "goes on {at}",
    "never": "never: {why}",
    "waits_for_allocation": "allocation {id}",
    "no_node_ready": "no node ready{obstacles:colon}",
    "no_node_open": "no open node{obstacles:colon}",
    "next": "next",
    "needs": "{request}{obstacles:colon}",
    "over_quota": "quota{obstacles:colon}",
    "quota_reached": "{name} has {used} of {most} GPUs",
    "allocated_enough": "{name} has {used} of {most} allocated GPUs",
    "idle_holds_next": "task{tasks:|s} {tasks} {tasks:is|are} idle",
    "runs_enough": "{name} runs {used} of {most} tasks",
    "cluster_runs_enough": "{used} of {most} tasks run",
    "array_runs_enough": "{used} of {most} of array {id} run",
    "array_failed": "{count} of array {id} failed",
    "array_failed_so": "{count} of array {id} failed: {said}",
    "array_failed_with": "{count} of array {id} failed: {line}",
    "one_slot": "a slot",
    "memory": "{mib} MiB",
    "tmp_disk": "{mib} MiB of disk",
    "of_model": "{what} {models:/}",
    "with_memory": "{what} of {mib} MiB",
    # The obstacle, behind the node's name.
    "free": "has {free} {unit}{free:|s} free",
    "memory_free": "has {free} MiB free",
    "tmp_disk_free": "has {free} MiB of disk free",
    "suited": "has {fitting} that fit{fitting:s|}",
    "slots_taken": "has {taken} of {has} slots taken",
    "allocation_free": "allocation {id} has {free} free",
    "kept_for_it": "{node} is reserved for it, after {tasks:few}",
    "kept_for_it_until": "{node} is reserved for it by {until:by}",
    "kept_for_it_after": "{node} is reserved for it, after {tasks:few}",
    "kept_for_it_free": "{node} is reserved for it",
    "kept_for_another": "{node} is reserved for {task}",
    "kept_for_another_until": "{node} is reserved for {task}",
    "kept_for_another_still": "{node} is reserved for {task}",
    "kept_for_another_free": "{node} is reserved for {task}",
    "could_not_start_it": "could not start it",
    # How it ended.
    "not_executable": "exit {code}: not executable",
    "command_not_found": "exit {code}: not found",
    "oom_gpu": "out of GPU memory",
    "oom_gpu_own": "out of GPU memory ({own} of {total} MiB its own)",
    "oom_gpu_others": "out of GPU memory ({others} of {total} MiB others')",
    "oom_host": "out of memory",
    "shm_full": "shared memory full",
    "disk_was_full": "disk full",
    "env_failed": "exit {code}: environment {env}",
    "setup_failed": "exit {code}: setup failed",
    "time_limit": "time limit",
    "time_limit_unheeded": "time limit",
    "log_too_large": "log too large",
    "ended_for_share": "{used} MiB of GPU memory used",
    "ended_as_idle": "GPUs idle",
    "ended_as_stray": "used a GPU that it was not given",
    "not_started": "not started: {said}",
    "not_started_anywhere": "not started: {tries:; }",
    "rebooted": "node rebooted",
    "claim_gone": "{node} rebooted",
    "no_record": "{node} does not know it",
    "given_up": "{node} given up by {by}",
    "account_given_up": "{node} given up by {by}",
    "predecessor_removed": "{id} was removed",
    "predecessor_did_not_succeed": "{id} ended: {state}",
    "predecessor_did_not_fail": "{id} ended: {state}",
}
_IN_THE_WAY = ("has ", "could not ")
"""How that begins which follows a node's name without a colon."""


def short_reason(task: Task | Attempt | Allocated, *, without_needs: bool = False) -> str | None:
    """The reason in a few words, harmless and on one line; None where there is nothing shorter. `without_needs`: not
    what it needs, where that stands in a column."""
    key, args, code = task.get("reason_key"), task.get("reason_args"), task.get("exit_code")
    if not key or args is None:
        return short_exit(int(code)) if isinstance(code, int) and code and not task["reason"] else None
    try:
        message = _shortened(revived(key, args))
    except ValueError:  # of a master of another version
        return None
    if key == "needs" and without_needs and message.args["obstacles"]:
        text = "; ".join(map(str, message.args["obstacles"]))  # type: ignore[arg-type]
    elif key in ("exit_code", "killed_from_outside"):
        text = short_exit(int(args["code"]))
    else:
        text = worded(message, SHORT)
    return harmless(text)


def short_exit(code: int) -> str:
    """`exit 3`, `exit 137`: whether a signal ended a program, or it exited so by itself, nobody has seen."""
    return f"exit {code}"


def _shortened(message: Message) -> Message:
    """The message with all that is in it in short forms."""
    args: dict[str, Any] = {name: _value(value) for name, value in message.args.items()}
    if isinstance(at := args.get("at"), (int, float)) and message.key in SHORT:
        args["at"] = time.strftime("%m-%d %H:%M", time.localtime(at))
    if message.key == "needs":
        args["obstacles"] = tuple(_of_one_unit(one, str(args["request"])) for one in args["obstacles"])
    return Message(message.key, **args)


def _value(value: Any) -> Any:
    if isinstance(value, Message):
        inner = _shortened(value)
        if value.key in ("obstacle", "obstacle_because", "cluster_obstacle", "cluster_obstacle_because"):
            return _obstacle(inner)
        if value.key in ("exit_code", "killed_from_outside"):
            return short_exit(int(str(inner.args["code"])))
        return worded(inner, SHORT)
    return tuple(map(_value, value)) if isinstance(value, tuple) else value


def _obstacle(message: Message) -> str:
    """`n1 has 1 GPU free`, `n2: unreachable`; what it is because of is left out."""
    nodes, what = message.args.get("nodes", "the cluster"), str(message.args["what"])
    if not what.startswith(_IN_THE_WAY):
        return f"{nodes}: {what}"
    if isinstance(nodes, Several) and nodes.count > 1:
        what = what.replace("has ", "have ", 1)
    return f"{nodes} {what}"


def _of_one_unit(obstacle: str, request: str) -> str:
    """`n1 has 1 free`, where GPUs alone are asked for."""
    if " and " in request or "GPU" not in request:
        return obstacle
    return obstacle.replace(" GPU free", " free").replace(" GPUs free", " free")
