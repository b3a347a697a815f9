"""A task that was given a place -> the `launch` message that its agent gets. Pure.

Everything runs under bash. The words of a command given as a list reach `exec "$@"` as positional parameters, so no
quote or dollar in them is ever read by a shell; a command given as text is bash code and is meant to be read by it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from master.core.activation import activation
from master.core.attempt import Part
from master.core.run_as import placed_log
from master.core.task import Task
from wire.agent import Launch


class LaunchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What of conf.json goes into a launch. `conda`: absolute prefix. `roots`: folders that every node must have.
    `log_folder`: of logs that nobody placed. `log_bytes`: how large a log may become; 0: as large as it likes.
    `run_as_allowed`: accounts of the system's that tasks may run as, by name or uid."""

    conda: str
    task_env: dict[str, str]
    grace_s: float
    roots: tuple[str, ...] = ()
    log_folder: str = ""
    log_bytes: int = 0
    run_as_allowed: tuple[str | int, ...] = ()


def launch_message(
    task: Task,
    part: Part,
    settings: LaunchSettings,
    names: Mapping[int, str] | None = None,
    run_as: str | None = None,
) -> Launch:
    """The message for this part of the task's present attempt. `names`: see `environment`; `run_as`: the account that
    an agent which is root shall become."""
    log_path = placed_log(task) if task.earlier else task.log_path
    is_in_folder = log_path == f"{settings.log_folder}/{task.id}.log"
    message = Launch(
        op="launch",
        launch_id=part.launch_id,
        argv=argv(task, settings.conda),
        cwd=task.cwd,
        env=environment(task, part, settings.task_env, names),
        log_path=log_path,
        log_new=_is_first(task) and is_in_folder,
        grace_s=settings.grace_s,
        log_bytes=settings.log_bytes,
        time_limit_s=task.time_limit_s,
        roots=list(settings.roots),
    )
    if run_as is not None:
        message["run_as"] = run_as
        message["run_as_allowed"] = list(settings.run_as_allowed)
        message["log_folder"] = settings.log_folder if is_in_folder else ""
    return message


def _is_first(task: Task) -> bool:
    """Can no attempt of this task have written anything yet? What earlier ones wrote is continued."""
    return task.attempt == 1 + len(task.unstarted)


def argv(task: Task, conda: str) -> list[str]:
    """The command, in its environment, as bash's arguments."""
    prelude = activation(task.env, conda) + (task.setup + "\n" if task.setup else "")
    if isinstance(task.command, str):
        return ["/bin/bash", "-c", prelude + task.command]
    if prelude:
        # A sourced script that is given no words sees those of who sources it, and conda's would take ours for its own.
        prelude = f'words=("$@"); set --\n{prelude}set -- "${{words[@]}}"\n'
    return ["/bin/bash", "-c", prelude + 'exec "$@"', "bash", *task.command]


def environment(
    task: Task, part: Part, task_env: dict[str, str], names: Mapping[int, str] | None = None
) -> dict[str, str]:
    """The variables of a part of an attempt; what says which GPUs it may see wins over everything the user set.
    `names`: what to call a GPU by its number, where that is not its number."""
    return {
        **task_env,
        **task.variables,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join((names or {}).get(gpu, str(gpu)) for gpu in part.gpus),
        "MUSTER_TASK_ID": str(task.id),
        "MUSTER_TASK_NAME": task.name,
        "MUSTER_ATTEMPT": str(task.attempt),
        "MUSTER_LAUNCH_ID": part.launch_id,
        "MUSTER_NODE": part.node,
    }
