"""A task that was given a place -> the `launch` message that its agent gets. Pure.

Everything runs under bash. The words of a command given as a list reach `exec "$@"` as positional parameters, so no
quote or dollar in them is ever read by a shell; a command given as text is bash code and is meant to be read by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from master.core.attempts.activation import CANNOT_START, END_OF_STAGES, SETUP_FAILED, activation, setup_lines
from master.core.tasks.arrays import Array
from master.core.tasks.attempt import Part
from master.core.tasks.task import Task
from master.core.tasks.task_log import is_placed, launch_log
from wire.agent import MARKS_STAGES, PROTOCOL, TELLS_PLACED, EarlySignal, Launch

SHARING = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
"""The variables that keep JAX and TensorFlow from taking a whole GPU's memory at once: also for a task that would share
and runs alone, for the memory that it uses then is what the next one like it gets."""
GPU_LIST = "{gpu_list}"
"""In a word of a command: the GPUs that the attempt got."""
CODE = frozenset(" \t\n\"'`()[];$\\")
"""A word with one of these may be code of some language, where the braces mean something else."""


class WayBack(msgspec.Struct, frozen=True):
    """The means by which a task submits others: its `token`, and in `variables` the address of the master, as its node
    finds it."""

    token: str
    variables: dict[str, str]

    def __repr__(self) -> str:
        return f"WayBack({self.variables})"

    __str__ = __repr__


class LaunchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The values of conf.json that go into a launch. `conda`: absolute prefix. `roots`: folders that every node must
    have. `log_folder`: of logs that nobody placed. `log_bytes`: how large a log may become; 0: as large as it likes.
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
    *,
    run_as: str | None = None,
    back: WayBack | None = None,
    hosts: Sequence[str] = (),
    array: Array | None = None,
    protocol: int = PROTOCOL,
) -> Launch:
    """The message for this part of the task's present attempt. `names`: see `environment`; `run_as`: the account that
    an agent which is root shall become; `back`: of a task that submits others; `hosts`: under which name or address the
    machine of each part is reached; `array`: what is known of that of which it is; `protocol`: the agent's."""
    is_in_folder = not is_placed(task, settings.log_folder)
    message = Launch(
        op="launch",
        launch_id=part.launch_id,
        argv=argv(task, settings.conda, visible(part, names), marks=protocol >= MARKS_STAGES),
        cwd=task.cwd,
        env={**environment(task, part, settings.task_env, names, array), **rendezvous(task, part, hosts)},
        log_path=launch_log(task, part, settings.log_folder),
        log_new=_is_first(task) and is_in_folder,
        grace_s=settings.grace_s,
        log_bytes=settings.log_bytes,
        time_limit_s=_time_left(task),
        roots=list(settings.roots),
    )
    if (early := task.signal) is not None:
        before_s = _before_the_end(early.before_s, _time_left(task))
        message["signal"] = EarlySignal(name=early.name, before_s=before_s, main_only=early.main_only)
    if hosts_of_parts := hostfile(task, hosts):
        message["hosts"] = hosts_of_parts
    if (codes := _stages(task)) and protocol >= MARKS_STAGES:
        message["stages"] = codes
    if not is_in_folder and settings.log_folder and protocol >= TELLS_PLACED:
        message["placed_instead_of"] = settings.log_folder
    if run_as is not None:
        message["run_as"] = run_as
        message["run_as_allowed"] = list(settings.run_as_allowed)
        message["log_folder"] = settings.log_folder if is_in_folder else ""
    if back is not None:
        message["token"] = back.token
        message["env"] = {**back.variables, **message["env"]}
    return message


def _time_left(task: Task) -> float | None:
    """Return the rest of its time limit, in seconds, where attempts before this one were ended to be resized."""
    return None if task.time_limit_s is None else max(1.0, task.time_limit_s - task.ran_s)


def _before_the_end(before_s: float, limit: float | None) -> float:
    """How long before its limit an attempt gets its signal: where the lab has cut the limit so far that it would be at
    once, before the program can heed it, halfway."""
    return before_s if limit is None or before_s < limit else limit / 2


def _is_first(task: Task) -> bool:
    """Can no attempt of this task have written anything yet? The log of earlier attempts is continued."""
    return task.attempt == 1 + sum(not entry.ran for entry in task.unstarted)


def argv(task: Task, conda: str, gpus: str = "", *, marks: bool = False) -> list[str]:
    """The command, in its environment, as bash's arguments. `gpus`: the list of its GPUs, for where a word says
    `GPU_LIST`. `marks`: the shell tells the end of each stage before the command, see `wire.agent.Staged`."""
    prelude = activation(task.env, conda, marks=marks) + setup_lines(task.setup, marks=marks)
    prelude += END_OF_STAGES if prelude and marks else ""
    if isinstance(task.command, str):
        return ["/bin/bash", "-c", prelude + task.command]
    if prelude:
        # A sourced script that is given no words sees those of who sources it, and conda's would take ours for its own.
        prelude = f'_muster_words=("$@"); set --\n{prelude}set -- "${{_muster_words[@]}}"\n'
    return ["/bin/bash", "-c", prelude + 'exec "$@"', "bash", *(_with_gpus(word, gpus) for word in task.command)]


def _stages(task: Task) -> list[int]:
    """Return the stages of the shell before the command, each as the exit code of a failure in it."""
    return [CANNOT_START] * bool(task.env) + [SETUP_FAILED] * bool(task.setup.strip())


def _with_gpus(word: str, gpus: str) -> str:
    """In a word that may be program code nothing is replaced."""
    return word.replace(GPU_LIST, gpus) if GPU_LIST in word and CODE.isdisjoint(word) else word


def environment(
    task: Task,
    part: Part,
    task_env: dict[str, str],
    names: Mapping[int, str] | None = None,
    array: Array | None = None,
) -> dict[str, str]:
    """The variables of a part of an attempt; what says which GPUs it may see wins over everything the user set.
    `names`: what to call a GPU by its number, where that is not its number; `array`: that of which the task is."""
    return {
        **(SHARING if task.share or part.gpu_mib is not None else {}),
        **task_env,
        "PWD": task.cwd,  # the path that was said, with its links: bash keeps it if it leads there
        **task.variables,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": visible(part, names),
        **_of_array(task, array),
        **_of_snapshot(task),
        **_of_elastic(task),
        "MUSTER_TASK_ID": str(task.id),
        "MUSTER_TASK_NAME": task.name,
        "MUSTER_ATTEMPT": str(task.attempt),
        "MUSTER_LAUNCH_ID": part.launch_id,
        "MUSTER_NODE": part.node,
    }


def visible(part: Part, names: Mapping[int, str] | None) -> str:
    """The GPUs of a part, as CUDA reads them: `2,3`."""
    return ",".join((names or {}).get(gpu, str(gpu)) for gpu in part.gpus)


PORTS = range(20_000, 32_000)
"""Where the parts of an attempt meet: below the ports that Linux gives out by itself."""


def rendezvous(task: Task, part: Part, hosts: Sequence[str]) -> dict[str, str]:
    """The variables by which the parts of an attempt find each other, as torch.distributed and MPI know them; none for
    one of a single part. The port is another one for each attempt."""
    parts = task.allocation
    if len(parts) < 2 or len(hosts) != len(parts):  # noqa: PLR2004
        return {}
    slots = _slots(task)
    return {
        "MASTER_ADDR": hosts[0],
        "MASTER_PORT": str(PORTS[int.from_bytes(parts[0].launch_id.encode()) % len(PORTS)]),
        "NODE_RANK": str(parts.index(part)),
        "NNODES": str(len(parts)),
        "WORLD_SIZE": str(sum(slots)),
        "MUSTER_HOSTS": ",".join(hosts),
        "MUSTER_HOST_SLOTS": ",".join(f"{host}:{count}" for host, count in zip(hosts, slots, strict=True)),
    }


def hostfile(task: Task, hosts: Sequence[str]) -> str:
    """The same for mpirun's `--hostfile`: a line for each machine, and as many slots as its parts have GPUs, or one for
    each part without; "" for one of a single part."""
    if len(task.allocation) < 2 or len(hosts) != len(task.allocation):  # noqa: PLR2004
        return ""
    counts: Counter[str] = Counter()
    for host, count in zip(hosts, _slots(task), strict=True):
        counts[host] += count
    return "\n".join(f"{host} slots={count}" for host, count in counts.items())


def _slots(task: Task) -> list[int]:
    return [max(1, len(one.gpus)) for one in task.allocation]


def _of_snapshot(task: Task) -> dict[str, str]:
    copy = task.snapshot
    return {} if copy is None else {"MUSTER_SNAPSHOT_OF": copy.of, "MUSTER_SNAPSHOT_COMMIT": copy.commit}


def _of_elastic(task: Task) -> dict[str, str]:
    """Return the variables of a task that is resized: whether it goes on where an attempt was ended."""
    if not task.elastic:
        return {}
    return {"MUSTER_CHECKPOINT": task.checkpoint} | ({"MUSTER_RESUME": "1"} if task.resizes else {})


def _of_array(task: Task, array: Array | None) -> dict[str, str]:
    if task.array is None:
        return {}
    place = {"MUSTER_ARRAY_ID": str(task.array.id), "MUSTER_ARRAY_INDEX": str(task.array.index)}
    if array is not None and array.least is not None:
        place |= {
            "MUSTER_ARRAY_COUNT": str(array.count),
            "MUSTER_ARRAY_MIN": str(array.least),
            "MUSTER_ARRAY_MAX": str(array.greatest),
        }
    return place | {f"MUSTER_SWEEP_{name}": value for name, value in task.sweep.items()}
