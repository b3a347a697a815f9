"""Reports of agents about attempts on their nodes, and what an end means to the owner. Pure."""

from __future__ import annotations

import msgspec

from master.core.attempts.activation import CANNOT_START, SETUP_FAILED
from master.core.attempts.exhaustion import CardUse, ran_out
from master.core.tasks.task import TaskState
from wire.message import Message

NODE = "node"
"""The value of `fault` that blames the node for a launch that was not started (see `wire.agent.Exit`)."""
NOT_EXECUTABLE, NOT_FOUND = 126, 127
"""Exit codes with a meaning of the shell's."""
LIMITS = ("timed_out", "log_too_large")
"""The causes that say that an attempt went beyond a limit."""


class Exit(msgspec.Struct, frozen=True):
    """How an attempt ended, as the agent tells it; `cause` is one of wire.agent.CAUSES. `fault`: of one that was not
    started, `node` where it is the node that could not, else whatever. `run_as`, `log_path`: of one that ran as its
    owner, the account, and the path of its log. `reached`: how many processes heeded the signal before the time limit;
    None if there was none. `ran_out`: what there was too little of, one of wire.agent.RAN_OUT, or "" where nothing says
    so; `last_line`: the line of its log that says most of a bad end, as private as the log."""

    launch_id: str
    cause: str
    at: float
    code: int | None = None
    error: str = ""
    started_at: float | None = None
    fault: str = ""
    run_as: str = ""
    log_path: str = ""
    reached: int | None = None
    ran_out: str = ""
    last_line: str = ""

    @property
    def is_the_nodes(self) -> bool:
        """Is it for the node's fault that nothing was started?"""
        return self.cause == "not_started" and self.fault == NODE


class Seen(msgspec.Struct, frozen=True):
    """One attempt in an agent's inventory: `exit` is set if it ended, else it runs since `started_at` (None: is
    about to); `paused`: all of it stands still. `doubt`: the agent knows too little of it, see `wire.agent.Doubt`;
    `unproven`: the pids of what may be of it, where nothing is proven to be. `gpus`, `name`, `log`: what its launch
    said, see `wire.agent.LaunchSaid`; None and "" where nobody knows."""

    launch_id: str
    started_at: float | None = None
    exit: Exit | None = None
    pid: int = 0
    pid_start: int | None = None
    log_bytes: int = 0
    log_limit: int = 0
    paused: bool = False
    run_as: str = ""
    log_path: str = ""
    doubt: bool = False
    unproven: tuple[int, ...] = ()
    gpus: str | None = None
    name: str = ""
    log: str = ""


def verdict(
    exit_: Exit,
    env: str = "",
    *,
    has_setup: bool = False,
    cancelled: bool = False,
    has_gpus: bool = False,
    card: CardUse | None = None,
    beyond: Message | None = None,
) -> tuple[TaskState, Message | None]:
    """The state that a task ends in, and what there is to say of it beyond that. `env`: the environment asked for;
    `has_setup`: there were lines to run before the command. `cancelled`: somebody has asked for the end, which outranks
    whatever else would have ended it; an exit of its own that came before the kill stays what it is. `has_gpus`: the
    attempt had some; `card`: what of the fullest of them is known. `beyond`: which limit it was killed for."""
    if exit_.cause == "exited" and exit_.code == CANNOT_START and env:
        return TaskState.FAILED, Message("env_failed", code=CANNOT_START, env=env)
    if exit_.cause == "exited" and exit_.code == SETUP_FAILED and has_setup:
        return TaskState.FAILED, Message("setup_failed", code=SETUP_FAILED)
    if exit_.cause == "exited":
        if exit_.code == 0:
            return TaskState.SUCCEEDED, None
        return TaskState.FAILED, ran_out(exit_.ran_out, exit_.code, card, has_gpus=has_gpus) or _code_reason(exit_.code)
    if exit_.cause == "killed" and beyond is not None:
        return TaskState.FAILED, beyond
    if exit_.cause == "killed" or (cancelled and exit_.cause in LIMITS):
        return TaskState.CANCELLED, None
    if exit_.cause == "timed_out":
        limit = Message("time_limit_unheeded") if exit_.reached == 0 else Message("time_limit")
        return TaskState.TIMED_OUT, limit
    if exit_.cause == "log_too_large":
        return TaskState.FAILED, Message("log_too_large", said=exit_.error)
    if exit_.cause == "not_started":
        return TaskState.FAILED, Message("not_started", said=exit_.error)
    if exit_.cause == "rebooted":
        return TaskState.LOST, Message("rebooted")
    return TaskState.LOST, Message("agent_said", said=exit_.error) if exit_.error else Message("exit_unknown")


def _code_reason(code: int | None) -> Message:
    if code == NOT_EXECUTABLE:
        return Message("not_executable", code=code)
    if code == NOT_FOUND:
        return Message("command_not_found", code=code)
    return Message("exit_code", code=code)
