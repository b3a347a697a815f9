"""What an agent tells of an attempt, and what its end means to the owner. Pure."""

from __future__ import annotations

import msgspec

from master.core.task import TaskState


class Exit(msgspec.Struct, frozen=True):
    """How an attempt ended, as the agent tells it; `cause` is one of wire.agent.CAUSES."""

    launch_id: str
    cause: str
    at: float
    code: int | None = None
    error: str = ""
    started_at: float | None = None


class Seen(msgspec.Struct, frozen=True):
    """One attempt in an agent's inventory: `exit` is set if it ended, else it runs since `started_at` (None: is
    about to)."""

    launch_id: str
    started_at: float | None = None
    exit: Exit | None = None


def verdict(exit_: Exit) -> tuple[TaskState, str | None]:
    """The state that a task ends in, and what there is to say of it beyond that."""
    if exit_.cause == "exited":
        return (TaskState.SUCCEEDED, None) if exit_.code == 0 else (TaskState.FAILED, _code_reason(exit_.code))
    if exit_.cause == "killed":
        return TaskState.CANCELLED, None
    if exit_.cause == "timed_out":
        return TaskState.TIMED_OUT, "its time limit ended it"
    if exit_.cause == "not_started":
        return TaskState.FAILED, f"could not be started: {exit_.error}"
    if exit_.cause == "rebooted":
        return TaskState.LOST, "node_rebooted: the machine restarted during the attempt"
    return TaskState.LOST, exit_.error or "exit unknown: what stood over the attempt was killed"


def _code_reason(code: int | None) -> str:
    known = {
        126: "the command may not be executed",
        127: "the command was not found",
        137: "killed from outside (signal 9)",
    }
    text = known.get(code or 0)
    return f"exit code {code}" + (f": {text}" if text else "")
